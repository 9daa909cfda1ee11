"""Passes over all rows: chunked, on all cores or where the rows are, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from pymc_minibatch_mh.compiled.compiled_model import GraphPrior, ScalarPrior
from pymc_minibatch_mh.compiled.graphs import PlacedRows
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.storage import BLOCK_ROWS, StoredRows
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.looks import merge_moments
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.row_sums import bend_of_prior
from pymc_minibatch_mh.progress import counting
from pymc_minibatch_mh.reference.heavy import Largest
from pymc_minibatch_mh.reference.row_sums import (
    Asked,
    BendAt,
    BoundedMove,
    ChangeIn,
    DerivativesAt,
    DifferencesIn,
    MomentsIn,
    Move,
    RatioIn,
    RowSums,
    ValuesAt,
)
from pymc_minibatch_mh.threads import in_threads

READING = "Reading all rows"
#: Rows for which it is not worth to begin another chunk.
LEAST = 32_768


@dataclass(frozen=True)
class Consecutive:
    """The rows from `first` to before `last`, whose numbers are not made before they are used."""

    first: int
    last: int

    @property
    def numbers(self) -> np.ndarray:
        """Their numbers, int64."""
        return np.arange(self.first, self.last, dtype=np.int64)


#: Some rows.
Chunk = Consecutive | np.ndarray


def chunks_of(
    n_rows: int, step: int, start: int = 0, cuts: Sequence[int] = (), whole: int = 1
) -> list[Consecutive]:
    """Return all rows from `start` on, some consecutive ones at a time.

    Parameters
    ----------
    n_rows
        Number of all rows.
    step
        Most rows at a time.
    start
        First row.
    cuts
        Where rows begin that lie elsewhere than those before: no chunk has rows of both, unless
        few of either.
    whole
        Chunks begin at a multiple of this after `start`, which divides `step`.
    """
    ends, least = [start], min(LEAST, step)
    for cut in (start + (place - start) // whole * whole for place in cuts if place > start):
        if cut - ends[-1] >= least and n_rows - cut >= least:
            ends.append(cut)
    ends.append(n_rows)
    return [
        Consecutive(first, min(first + step, end))
        for begin, end in pairwise(ends)
        for first in range(begin, end, step)
    ]


class RowWork(Protocol):
    """What finds something of rows; it is pickled to where stored rows are."""

    def of_rows(self, rows: np.ndarray, asked: Any) -> Any:
        """Return what is asked of rows by their numbers, which are read here."""

    def of_read(self, read: ArrayRows, asked: Any) -> Any:
        """Return what is asked of rows that were read, in whatever process."""


def over_rows(
    work: RowWork, source: ArrayRows, asked: Sequence[tuple[Chunk, Any]], label: str = READING
) -> Iterator[Any]:
    """Yield what `work` finds of chunks of rows, in their order, where the rows are.

    Parameters
    ----------
    work
        What finds it.
    source
        The rows.
    asked
        Chunks, and what is asked of each; the rows of a chunk in their order.
    label
        What is said while it takes long.
    """
    if not (isinstance(source, StoredRows) and source.has_workers):
        yield from on_all_cores(lambda one: work.of_rows(_numbers(one[0]), one[1]), asked, label)
        return
    parts = [slice(x.first, x.last) if isinstance(x, Consecutive) else x for x, _ in asked]
    results = source.computed(work, parts, [what for _, what in asked])
    if len(asked) == 1:
        yield from results
        return
    with counting(label, len(asked)) as advance:
        for found in results:
            advance()
            yield found


def _numbers(chunk: Chunk) -> np.ndarray:
    return chunk.numbers if isinstance(chunk, Consecutive) else chunk


def on_all_cores(
    work: Callable[[Any], Any], chunks: Sequence[Any], label: str = READING
) -> Iterator[Any]:
    """Yield what `work` returns for each chunk, in their order."""
    if len(chunks) == 1:
        yield work(chunks[0])
        return
    with counting(label, len(chunks)) as advance, closing(in_threads(work, chunks)) as results:
        for result in results:
            advance()
            yield result


#: Rows that one task sums; fixed, so that sums do not depend on the number of cores.
CHUNK = 65_536
#: Rows among which one that is not finite is sought at a time.
SOUGHT_ROWS = 2**20


@dataclass(frozen=True)
class Derivatives:
    """Value, gradient and Hessian of a log-density; the Hessian is empty unless asked for."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @property
    def has_hessian(self) -> bool:
        """Whether the Hessian was asked for."""
        return self.hessian.size > 0


@dataclass(frozen=True)
class MoveMoments:
    """Moments over rows of the differences that one move makes."""

    variance: float
    skewness: float
    third_absolute: float


def _merged(one: tuple, other: tuple) -> tuple:
    """Merge n, mean, central sums of order 2 and 3 and Σ|d|³ of two sets of rows."""
    if not other[0]:
        return one
    return (*merge_moments(*one[:4], *other[:4]), one[4] + other[4])


def _moments(n: int, mean: float, second: float, third: float, absolute: float) -> MoveMoments:
    variance = second / max(n - 1, 1)
    scale = variance**1.5 or 1.0
    return MoveMoments(variance, third / n / scale, absolute / n / scale)


class Passes:
    """Full passes over the rows of a split model.

    Parameters
    ----------
    rows
        The model's compiled rows, where they lie.
    prior
        The prior part.
    source
        The rows themselves.
    """

    def __init__(
        self, rows: PlacedRows, prior: ScalarPrior | GraphPrior, source: ArrayRows
    ) -> None:
        self._prior = prior
        self._source = source
        self._cheap_hessian = rows.cheap_hessian
        self.sums = RowSums(rows, source)
        self.n_rows = source.n_rows

    @property
    def cheap_hessian(self) -> bool:
        """Whether a pass with Hessian reads each row once, whatever the number of coordinates."""
        return self._cheap_hessian

    @property
    def space(self) -> RowSpace:
        """Where rows in memory lie."""
        return self.sums.space

    @property
    def logs(self) -> np.ndarray:
        """Coordinates that are logarithms of what may be zero; none."""
        return np.empty(0, dtype=np.int64)

    @cached_property
    def log_prior(self) -> Callable:
        """Compiled log-density of the prior part (``LOGP``)."""
        return self._prior.compiled()

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood of `rows`, by default of all."""
        sums = np.zeros(1 + theta.size)
        products = np.zeros((theta.size, theta.size) if hessian else (0, 0))
        for own_sums, own_products in self._over(DerivativesAt(theta, hessian), rows):
            sums += own_sums
            products += own_products
        return Derivatives(float(sums[0]), sums[1:], 0.5 * (products + products.T))

    def values(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of every row, shape (N,)."""
        return np.concatenate(list(self._over(ValuesAt(theta))))

    def first_not_finite(self, theta: np.ndarray, start: int = 0) -> int:
        """Return the first row from `start` on without a finite log-likelihood; there is one."""

        def is_finite(first: int, last: int) -> bool:
            rows = np.arange(first, last, dtype=np.int64)
            return bool(np.isfinite(self.likelihood(theta, hessian=False, rows=rows).value))

        # Numbers of all rows are not held at once: there may be more of them than memory.
        chunks = chunks_of(self.n_rows, SOUGHT_ROWS, start)
        wrong = (chunk for chunk in chunks if not is_finite(chunk.first, chunk.last))
        chunk = next(wrong, chunks[-1])
        low, high = chunk.first, chunk.last
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_finite(low, middle) else (low, middle)
        return low

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part."""
        return Derivatives(*self._prior.derivatives(theta, self._source.others, hessian=hessian))

    def bend(self, theta: np.ndarray, factor: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Return by how much the average gradient of rows over N(θ, L Lᵀ) differs from that at θ.

        Parameters
        ----------
        theta : ndarray, shape (d,)
            θ.
        factor : ndarray, shape (d, d)
            L, lower triangular.
        rows
            Row numbers, by default all.
        """
        if self.sums.bend is None:
            return self._averaged_bend(theta, factor, rows)
        return np.sum(list(self._over(BendAt(theta, factor), rows)), axis=0)

    def _averaged_bend(
        self, theta: np.ndarray, factor: np.ndarray, rows: np.ndarray | None
    ) -> np.ndarray:
        def gradient(place: np.ndarray) -> np.ndarray:
            return self.likelihood(place, hessian=False, rows=rows).gradient

        middle = gradient(theta)
        # Points at one standard deviation either way average a quadratic gradient exactly.
        pairs = [0.5 * (gradient(theta + c) + gradient(theta - c)) - middle for c in factor.T]
        return np.sum(pairs, axis=0)

    def bend_of_prior(self, theta: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Return the same of the prior part, times Lᵀ."""
        out = np.empty(theta.size)
        bend_of_prior(address_of(self.log_prior), theta, factor, self.space.context, out)
        return out

    def moves(
        self,
        order: int,
        moves: Sequence[tuple[np.ndarray, np.ndarray]],
        centre: np.ndarray,
        left_out: np.ndarray = NO_ROWS,
        largest: Largest | None = None,
    ) -> list[MoveMoments]:
        """Return moments over rows of the differences that each of some moves makes.

        Parameters
        ----------
        order
            Of the expansion.
        moves
            The position and the new one of each.
        centre
            The centre of the expansion.
        left_out
            Rows that do not count, in order.
        largest
            Where the rows that change most are to be collected.
        """
        differences = DifferencesIn(order, moves, centre)

        def without(chunk: Consecutive) -> MomentsIn:
            inside = slice(*np.searchsorted(left_out, (chunk.first, chunk.last)))
            return MomentsIn(differences, left_out[inside] - chunk.first, largest)

        chunks = self._all_rows
        asked = [(chunk, without(chunk)) for chunk in chunks]
        totals = [(0, 0.0, 0.0, 0.0, 0.0)] * len(moves)
        found = over_rows(self.sums, self._source, asked)
        for chunk, (moments, changes) in zip(chunks, found, strict=True):
            totals = [_merged(*pair) for pair in zip(totals, moments, strict=True)]
            if largest is not None:
                largest.add(changes._replace(rows=chunk.first + changes.rows))
        return [_moments(*total) for total in totals]

    def differences(
        self,
        order: int,
        moves: Sequence[tuple[np.ndarray, np.ndarray]],
        centre: np.ndarray,
        rows: np.ndarray,
    ) -> np.ndarray:
        """Return the differences of a few rows, in order, in each move: shape (moves, rows)."""
        found = self._over(DifferencesIn(order, moves, centre), rows)
        return np.concatenate(list(found), axis=1)

    def change(self, order: int, move: Move) -> float:
        """Return by how much the remainders of all rows change in a move.

        Parameters
        ----------
        order
            Of the expansion.
        move
            The position, the new one and the centre of the expansion.
        """
        return sum(self._over(ChangeIn(order, move)))

    def largest_ratio(self, move: BoundedMove, c: np.ndarray) -> tuple[float, int]:
        """Return the largest |dU_i| / (c_i M) of rows in memory in a move, and the row that has it.

        Parameters
        ----------
        move
            The move.
        c : ndarray of float32
            c_i of all rows.
        """
        return max(self._over(RatioIn(move, c)))

    def _over(self, asked: Asked, rows: np.ndarray | None = None) -> Iterator[Any]:
        """Yield what is asked of chunks of some rows, by default of all."""
        chunks: Sequence[Chunk] = self._all_rows
        if rows is not None:
            chunks = np.array_split(rows, max(1, len(rows) // CHUNK))
        return over_rows(self.sums, self._source, [(chunk, asked) for chunk in chunks])

    @property
    def _all_rows(self) -> list[Consecutive]:
        if not isinstance(self._source, StoredRows):
            return chunks_of(self.n_rows, CHUNK)
        return chunks_of(self.n_rows, BLOCK_ROWS, cuts=self._source.cuts)
