"""Rows that a batch would hardly ever contain, though the log ratio of a move needs them.

Most batches have none of a group of twenty rows in a hundred thousand, so that their noise looks
small and is not, and the few that have one overrate it thousands of times. Such rows are better
read at every update. They are found in moves between points of the posterior, before sampling.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.costs import INCLUDED_OBSERVATION, OBSERVATION
from pymc_minibatch_mh.native.bound_tables import NO_ROWS

#: By how much expected rows have to fall to make up for a second way of reading rows.
WORTHWHILE = 0.8
#: Rows of the smallest batch, and the variance of the log ratio that batches are sized for: about
#: those of the tests by default.
FEWEST_ROWS, NOISE = 100, 1.0
#: Error of the acceptance probability that the skewness of a batch may cause.
ERROR = 0.01
#: Largest share of all rows, and largest number, of those that every update reads.
MOST_SHARE, MOST_ROWS = 0.02, 10_000


class Changes(NamedTuple):
    """How much the n `rows` that are known one by one change in K moves, and sums over others.

    `sizes`, shape (K, n), are β |r_i(θ') - r_i(θ)|; `squares` and `cubes`, shape (K,), the sums of
    the squares and cubes over all other rows.
    """

    rows: np.ndarray
    sizes: np.ndarray
    squares: np.ndarray
    cubes: np.ndarray


class Largest:
    """The rows that change most, collected chunk by chunk."""

    def __init__(self, n_rows: int, inverse_temperature: float) -> None:
        self._n_rows = n_rows
        self._most = min(int(np.ceil(MOST_SHARE * n_rows)), MOST_ROWS)
        self._beta = inverse_temperature
        self._found: Changes | None = None

    def of_chunk(self, rows: np.ndarray, differences: np.ndarray) -> Changes:
        """Return the largest changes of a chunk, `differences` of shape (K, n)."""
        nothing = np.zeros(len(differences))
        return self._largest(Changes(rows, self._sizes(differences), nothing, nothing))

    def add(self, chunk: Changes) -> None:
        """Merge the result of another chunk."""
        known = self._found
        if known is not None:
            chunk = Changes(
                np.concatenate([known.rows, chunk.rows]),
                np.concatenate([known.sizes, chunk.sizes], axis=1),
                known.squares + chunk.squares,
                known.cubes + chunk.cubes,
            )
        self._found = self._largest(chunk)

    @property
    def rows(self) -> np.ndarray:
        """The rows that are known one by one, in order."""
        assert self._found is not None
        return np.sort(self._found.rows)

    def look_again(self, differences: np.ndarray, noise: np.ndarray, further: np.ndarray) -> None:
        """Add moves for which only the known rows, in order, were evaluated: (J, n) `differences`.

        A group can go unnoticed in four moves that hardly change its effect. The sums over all
        other rows are in proportion to the predicted noise of the moves, before and `further`.
        """
        assert self._found is not None
        found, order = self._found, np.argsort(self._found.rows)
        known = noise > 0.0
        squares = (found.squares[known] / noise[known]).mean() if known.any() else 0.0
        cubes = (found.cubes[known] / noise[known] ** 1.5).mean() if known.any() else 0.0
        self._found = Changes(
            found.rows[order],
            np.concatenate([found.sizes[:, order], self._sizes(differences)]),
            np.concatenate([found.squares, squares * further]),
            np.concatenate([found.cubes, cubes * further**1.5]),
        )

    def heavy(self, counted: np.ndarray) -> np.ndarray:
        """Return the rows that every update better reads, in order; none where that saves little.

        Their number makes the cost of an update least: theirs, and that of a batch of the others,
        on average over the moves that are `counted`, which lead to no row without a density.
        """
        if self._found is None or not counted.any():
            return NO_ROWS
        found = self._found
        order = np.argsort(-_scores(found.sizes), kind="stable")
        sizes = found.sizes[counted][:, order]
        squares = _without_first(sizes**2, found.squares[counted])
        cubes = _without_first(sizes**3, found.cubes[counted])
        batch = batch_rows(squares, cubes, self._n_rows).mean(axis=0)
        price = INCLUDED_OBSERVATION / OBSERVATION
        count = int(np.argmin(price * np.arange(batch.size) + batch))
        if count + batch[count] > WORTHWHILE * batch[0]:
            return NO_ROWS
        return np.sort(found.rows[order[:count]])

    def _sizes(self, differences: np.ndarray) -> np.ndarray:
        # A row without a density takes part in no move: the update is rejected.
        return self._beta * np.abs(np.where(np.isfinite(differences), differences, 0.0))

    def _largest(self, changes: Changes) -> Changes:
        excess = changes.rows.size - self._most
        if excess <= 0:
            return changes
        order = np.argpartition(_scores(changes.sizes), excess)
        others, kept = changes.sizes[:, order[:excess]], order[excess:]
        return Changes(
            changes.rows[kept],
            changes.sizes[:, kept],
            changes.squares + (others**2).sum(axis=1),
            changes.cubes + (others**3).sum(axis=1),
        )


def batch_rows(squares: np.ndarray, cubes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return how many rows a batch needs for a noise of the log ratio that is small and normal.

    Of Σx² and Σ|x|³ over all N rows' changes, a batch of b rows has the variance N Σx²/b, and an
    error of the acceptance probability by skewness of up to N² Σ|x|³/(24 b²).
    """
    skew = np.sqrt(cubes / (24.0 * ERROR))
    # Without replacement: as N is reached, nothing is left to chance.
    needed = n_rows * np.maximum(squares / (NOISE + squares), skew / (1.0 + skew))
    return np.maximum(needed, min(FEWEST_ROWS, n_rows))


def _scores(sizes: np.ndarray) -> np.ndarray:
    """Score rows by Σ|change|^1.5, their share of the batch size."""
    return (sizes * np.sqrt(sizes)).sum(axis=0)


def _without_first(values: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Return the sums over all but the first 0, 1, ... values, added up from the small ones on."""
    backwards = np.concatenate([rest[:, None], values[:, ::-1]], axis=1)
    return np.cumsum(backwards, axis=1)[:, ::-1]
