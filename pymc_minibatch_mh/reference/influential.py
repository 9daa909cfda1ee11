"""Influential rows, which every update evaluates because batches hardly ever contain them.

Most batches contain none of twenty important rows in a hundred thousand, so their noise looks
small; a batch with one of them gives it thousandfold weight. Typical proposals identify such rows
before sampling.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.costs import INCLUDED_OBSERVATION, OBSERVATION
from pymc_minibatch_mh.native.bound_tables import NO_ROWS

#: Maximum expected number of evaluated rows with influential rows, relative to the number without.
WORTHWHILE = 0.8
#: Assumed minimum batch size and variance of the log ratio: close to the defaults of the tests.
FEWEST_ROWS, NOISE = 100, 1.0
#: Maximum error of the acceptance probability due to the skewness of a batch.
ERROR = 0.01
#: Maximum number of influential rows: as a fraction of all rows, and absolute.
MAX_SHARE, MAX_ROWS = 0.02, 10_000


class Changes(NamedTuple):
    """Changes of n retained `rows` in K proposals, and sums over the remaining rows.

    `sizes`, shape (K, n), are β |r_i(θ') - r_i(θ)|; `squares` and `cubes`, shape (K,), are sums of
    squares and cubes over all other rows.
    """

    rows: np.ndarray
    sizes: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray


class Largest:
    """Rows with the largest changes, collected chunk by chunk."""

    def __init__(self, n_rows: int, inverse_temperature: float) -> None:
        self._n_rows = n_rows
        self._most = min(int(np.ceil(MAX_SHARE * n_rows)), MAX_ROWS)
        self._beta = inverse_temperature
        self._found: Changes | None = None

    def of_chunk(self, rows: np.ndarray, differences: np.ndarray) -> Changes:
        """Largest changes of a chunk, from `differences` of shape (K, n)."""
        nothing = np.zeros(len(differences))
        return self._keep_largest(Changes(rows, self._change_sizes(differences), nothing, nothing))

    def add(self, chunk: Changes) -> None:
        """Merge the largest changes of another chunk."""
        known = self._found
        if known is not None:
            chunk = Changes(
                np.concatenate([known.rows, chunk.rows]),
                np.concatenate([known.sizes, chunk.sizes], axis=1),
                known.squares + chunk.squares,
                known.cubes + chunk.cubes,
            )
        self._found = self._keep_largest(chunk)

    @property
    def rows(self) -> np.ndarray:
        """Row numbers of the retained rows, sorted."""
        assert self._found is not None
        return np.sort(self._found.rows)

    def look_again(self, differences: np.ndarray, noise: np.ndarray, further: np.ndarray) -> None:
        """Add `differences` of the retained rows in J further proposals, shape (J, n).

        Four proposals can miss a group whose effect they hardly change. Sums over all other rows
        are extrapolated in proportion to the predicted `noise` of old and `further` proposals.
        """
        assert self._found is not None
        found, order = self._found, np.argsort(self._found.rows)
        known = noise > 0.0
        squares = (found.squares[known] / noise[known]).mean() if known.any() else 0.0
        cubes = (found.cubes[known] / noise[known] ** 1.5).mean() if known.any() else 0.0
        self._found = Changes(
            found.rows[order],
            np.concatenate([found.sizes[:, order], self._change_sizes(differences)]),
            np.concatenate([found.squares, squares * further]),
            np.concatenate([found.cubes, cubes * further**1.5]),
        )

    def heavy(self, counted: np.ndarray) -> np.ndarray:
        """Influential rows, sorted; none if including them saves little.

        Their number minimises the mean cost of an update, with a batch of the other rows, over the
        `counted` proposals, in which the differences of all rows are finite.
        """
        if self._found is None or not counted.any():
            return NO_ROWS
        found = self._found
        order = np.argsort(-_row_scores(found.sizes), kind="stable")
        sizes = found.sizes[counted][:, order]
        squares = _without_first(sizes**2, found.squares[counted])
        cubes = _without_first(sizes**3, found.cubes[counted])
        batch = batch_rows(squares, cubes, self._n_rows).mean(axis=0)
        price = INCLUDED_OBSERVATION / OBSERVATION
        count = int(np.argmin(price * np.arange(batch.size) + batch))
        if count + batch[count] > WORTHWHILE * batch[0]:
            return NO_ROWS
        return np.sort(found.rows[order[:count]])

    def _change_sizes(self, differences: np.ndarray) -> np.ndarray:
        # A row whose density is zero rejects the proposal, so its change counts as 0.
        return self._beta * np.abs(np.where(np.isfinite(differences), differences, 0.0))

    def _keep_largest(self, changes: Changes) -> Changes:
        excess = changes.rows.size - self._most
        if excess <= 0:
            return changes
        order = np.argpartition(_row_scores(changes.sizes), excess)
        others, kept = changes.sizes[:, order[:excess]], order[excess:]
        return Changes(
            changes.rows[kept],
            changes.sizes[:, kept],
            changes.squares + (others**2).sum(axis=1),
            changes.cubes + (others**3).sum(axis=1),
        )


def batch_rows(squares: np.ndarray, cubes: np.ndarray, n_rows: int) -> np.ndarray:
    """Batch size at which the noise in the log ratio is small and nearly normal.

    With Σx² and Σ|x|³ over the changes of all N rows, a batch of b rows has variance N Σx²/b, and
    its skewness changes the acceptance probability by at most N² Σ|x|³/(24 b²).
    """
    skew = np.sqrt(cubes / (24.0 * ERROR))
    # Sampling is without replacement, so that a batch has at most N rows.
    needed = n_rows * np.maximum(squares / (NOISE + squares), skew / (1.0 + skew))
    return np.maximum(needed, min(FEWEST_ROWS, n_rows))


def _row_scores(sizes: np.ndarray) -> np.ndarray:
    """Scores Σ|change|^1.5 of rows over proposals, which measure their effect on batch sizes."""
    return (sizes * np.sqrt(sizes)).sum(axis=0)


def _without_first(values: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Sums of `rest` and the values from index 0, 1, ... on, accumulated from the last value."""
    backwards = np.concatenate([rest[:, None], values[:, ::-1]], axis=1)
    return np.cumsum(backwards, axis=1)[:, ::-1]
