"""Passes over all rows: chunked, on all cores or where the rows are, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from pymc_minibatch_mh.compiled.compiled_model import PlacedRows, Prior
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.storage import BLOCK_ROWS, StoredRows
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.looks import merge_moments
from pymc_minibatch_mh.kernels.row_sums import skewness_of_prior
from pymc_minibatch_mh.progress import counting
from pymc_minibatch_mh.reference.heavy import Largest
from pymc_minibatch_mh.reference.row_sums import (
    BoundedMove,
    Move,
    Moves,
    RowSums,
    bend_at,
    change_in,
    derivatives_at,
    differences_in,
    moments_in,
    ratio_in,
    values_at,
)
from pymc_minibatch_mh.threads import in_threads

READING = "Reading all rows"
#: Rows for which it is not worth to begin another chunk.
LEAST = 32_768
#: Some rows: consecutive ones, whose numbers are not made before they are used, or any.
Chunk = slice | np.ndarray


def chunks_of(
    n_rows: int, step: int, start: int = 0, cuts: Sequence[int] = (), whole: int = 1
) -> list[slice]:
    """Return all rows from `start` on, at most `step` consecutive ones at a time.

    At `cuts` begin rows that lie elsewhere than those before: no chunk has rows of both, unless few
    of either. Chunks begin at a multiple of `whole` after `start`, which divides `step`.
    """
    ends, least = [start], min(LEAST, step)
    for cut in (start + (place - start) // whole * whole for place in cuts if place > start):
        if cut - ends[-1] >= least and n_rows - cut >= least:
            ends.append(cut)
    ends.append(n_rows)
    return [
        slice(first, min(first + step, end))
        for begin, end in pairwise(ends)
        for first in range(begin, end, step)
    ]


class RowWork(Protocol):
    """A computation on rows, pickled to where stored rows are."""

    def of_rows(self, rows: np.ndarray, asked: Any) -> Any:
        """Answer a question on rows by their numbers, which are read here."""

    def of_read(self, read: ArrayRows, asked: Any) -> Any:
        """Answer a question on rows that were read, in whatever process."""


def over_rows(
    work: RowWork, source: ArrayRows, asked: Sequence[tuple[Chunk, Any]], label: str = READING
) -> Iterator[Any]:
    """Yield the answers of `work` to questions on chunks of rows, where the rows are."""
    if isinstance(source, StoredRows) and source.has_workers:
        yield from _counted(source.computed(work, *zip(*asked, strict=True)), len(asked), label)
        return

    def here(one: tuple[Chunk, Any]) -> Any:
        chunk, what = one
        if isinstance(chunk, slice):
            chunk = np.arange(chunk.start, chunk.stop, dtype=np.int64)
        return work.of_rows(chunk, what)

    yield from on_all_cores(here, asked, label)


def on_all_cores(
    work: Callable[[Any], Any], chunks: Sequence[Any], label: str = READING
) -> Iterator[Any]:
    """Yield the results of `work` on each chunk, in their order."""
    if len(chunks) == 1:
        yield work(chunks[0])
        return
    with closing(in_threads(work, chunks)) as results:
        yield from _counted(results, len(chunks), label)


def _counted(results: Iterator[Any], count: int, label: str) -> Iterator[Any]:
    """Yield results and report their number, unless there is only one."""
    if count == 1:
        yield from results
        return
    with counting(label, count) as advance:
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

    @classmethod
    def of(cls, n: int, mean: float, second: float, third: float, absolute: float) -> "MoveMoments":
        """Return those of n, mean, central sums of order 2 and 3, and Σ|d|³."""
        variance = second / max(n - 1, 1)
        scale = variance**1.5 or 1.0
        return cls(variance, third / n / scale, absolute / n / scale)


class FullData:
    """Full passes over the rows of a split model, which are compiled, and over its prior part."""

    #: Coordinates that are logarithms of variables that may be zero.
    logs = np.empty(0, dtype=np.int64)

    def __init__(self, rows: PlacedRows, prior: Prior, source: ArrayRows) -> None:
        self._prior = prior
        self._source = source
        self.sums = RowSums(rows, source)
        #: Whether a pass with Hessian reads each row once, whatever the number of coordinates.
        self.cheap_hessian = rows.cheap_hessian
        #: Where rows in memory lie.
        self.space = self.sums.space
        self.n_rows = source.n_rows

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
        for own_sums, own_products in self._over(partial(derivatives_at, theta, hessian), rows):
            sums += own_sums
            products += own_products
        return Derivatives(float(sums[0]), sums[1:], 0.5 * (products + products.T))

    def values(self, theta: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the log-likelihood of each of `rows`, by default of all."""
        return np.concatenate(list(self._over(partial(values_at, theta), rows)))

    def first_not_finite(self, theta: np.ndarray, start: int = 0) -> int:
        """Return the first row from `start` on without a finite log-likelihood; there is one."""
        # Numbers of all rows are not held at once: there may be more of them than memory.
        for chunk in chunks_of(self.n_rows, SOUGHT_ROWS, start):
            rows = np.arange(chunk.start, chunk.stop, dtype=np.int64)
            finite = np.isfinite(self.values(theta, rows))
            if not finite.all():
                return chunk.start + int(np.argmin(finite))
        return self.n_rows - 1

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part."""
        return Derivatives(*self._prior.derivatives(theta, self._source.others, hessian=hessian))

    def skewness(
        self, theta: np.ndarray, factor: np.ndarray, rows: np.ndarray | None
    ) -> np.ndarray:
        """Return the average gradient of rows over N(θ, L Lᵀ), L the `factor`, less that at θ."""
        if self.sums.skewness is not None:
            return np.sum(list(self._over(partial(bend_at, theta, factor), rows)), axis=0)

        def gradient(place: np.ndarray) -> np.ndarray:
            return self.likelihood(place, hessian=False, rows=rows).gradient

        middle = gradient(theta)
        # Points at one standard deviation either way average a quadratic gradient exactly.
        pairs = [0.5 * (gradient(theta + c) + gradient(theta - c)) - middle for c in factor.T]
        return np.sum(pairs, axis=0)

    def skewness_of_prior(self, theta: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Return the same of the prior part, times Lᵀ."""
        out = np.empty(theta.size)
        skewness_of_prior(address_of(self.log_prior), theta, factor, self.space.context, out)
        return out

    def moves(
        self,
        order: int,
        moves: Moves,
        centre: np.ndarray,
        left_out: np.ndarray = NO_ROWS,
        largest: Largest | None = None,
    ) -> list[MoveMoments]:
        """Return moments over rows of the differences that each of some moves makes.

        Rows that are left out, in order, do not count; `largest` collects those that change most.
        """
        chunks, asked = self._all_rows, []
        for chunk in chunks:
            inside = slice(*np.searchsorted(left_out, (chunk.start, chunk.stop)))
            places = left_out[inside] - chunk.start
            asked.append((chunk, partial(moments_in, order, moves, centre, places, largest)))
        totals = [(0, 0.0, 0.0, 0.0, 0.0)] * len(moves)
        found = over_rows(self.sums, self._source, asked)
        for chunk, (moments, changes) in zip(chunks, found, strict=True):
            # A chunk of which no row counts has no mean.
            totals = [
                (*merge_moments(*one[:4], *own[:4]), one[4] + own[4]) if own[0] else one
                for one, own in zip(totals, moments, strict=True)
            ]
            if largest is not None:
                largest.add(changes._replace(rows=chunk.start + changes.rows))
        return [MoveMoments.of(*total) for total in totals]

    def differences(
        self, order: int, moves: Moves, centre: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Return the differences of a few rows, in order, in each move: shape (moves, rows)."""
        found = self._over(partial(differences_in, order, moves, centre), rows)
        return np.concatenate(list(found), axis=1)

    def change(self, order: int, move: Move) -> float:
        """Return by how much the remainders of all rows change in a move."""
        return sum(self._over(partial(change_in, order, move)))

    def largest_ratio(self, move: BoundedMove, c: np.ndarray) -> tuple[float, int]:
        """Return the largest |dU_i| / (c_i M) of rows in memory in a move, and its row."""
        return max(self._over(partial(ratio_in, move, c)))

    def _over(self, asked: Callable, rows: np.ndarray | None = None) -> Iterator[Any]:
        """Yield the answers on chunks of some rows, by default of all."""
        chunks: Sequence[Chunk] = self._all_rows
        if rows is not None:
            chunks = np.array_split(rows, max(1, len(rows) // CHUNK))
        return over_rows(self.sums, self._source, [(chunk, asked) for chunk in chunks])

    @property
    def _all_rows(self) -> list[slice]:
        if not isinstance(self._source, StoredRows):
            return chunks_of(self.n_rows, CHUNK)
        return chunks_of(self.n_rows, BLOCK_ROWS, cuts=self._source.cuts)
