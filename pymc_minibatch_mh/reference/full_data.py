"""Full-data evaluations: in chunks, on all cores or where data are stored, in bounded memory.

An evaluation maps a function over blocks of rows. Partials of these functions are sent to stored
data; their last arguments are compiled rows in memory, and row numbers within these.
"""

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.compiled.gradient_differences import hessian_by_differences
from pymc_minibatch_mh.compiled.model import PlacedRows
from pymc_minibatch_mh.compiled.prior import MAX_ENTRIES, Prior
from pymc_minibatch_mh.data import ArrayRows, RowBlock
from pymc_minibatch_mh.data.source import BLOCK_ROWS
from pymc_minibatch_mh.native import row_sums as kernels
from pymc_minibatch_mh.native.bound_tables import NO_ROWS
from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import FunctionAt, function
from pymc_minibatch_mh.native.looks import merge_moments, moments_of
from pymc_minibatch_mh.progress import count_parts
from pymc_minibatch_mh.reference.influential import Changes, Largest
from pymc_minibatch_mh.threads import map_in_threads

#: Position, proposed position and centre of the expansion.
Move = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Pairs of a position and a proposed position.
Moves = Sequence[tuple[np.ndarray, np.ndarray]]


class BoundedMove(NamedTuple):
    """Proposal with order of remainders, index of its table of bounds (-1 for none), M and β."""

    order: int
    ends: Move
    table: int
    m: float
    inverse_temperature: float


def _call_on_placed(
    call: Callable[[PlacedRows, np.ndarray], Any],
    rows: PlacedRows,
    block: ArrayRows,
    numbers: np.ndarray,
) -> Any:
    """Call a function with the compiled rows of a block, which stay alive during the call."""
    placed = rows.on_block(block)
    return call(placed, numbers)


def derivatives_at(
    theta: np.ndarray, hessian: bool, rows: PlacedRows, numbers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Value and gradient summed over rows, shape (1 + d,), and Hessian, (d, d) or (0, 0)."""
    size = theta.size
    total, products = np.zeros(1 + size), np.zeros((size, size) if hessian else (0, 0))
    inputs = theta, numbers, numbers.size, int(hessian), total, products
    function("mh_add_derivatives")(rows.space(derivatives=True), *inputs)
    return total, products


def values_at(theta: np.ndarray, rows: PlacedRows, numbers: np.ndarray) -> np.ndarray:
    """Log-likelihood of each row, shape (n,)."""
    out = np.empty(numbers.size)
    space = rows.space(derivatives=True)
    function("mh_row_values")(space, theta, numbers, numbers.size, out)
    return out


def bend_at(
    theta: np.ndarray, factor: np.ndarray, rows: PlacedRows, numbers: np.ndarray
) -> np.ndarray:
    """½ Σ f_abc (L Lᵀ)_bc summed over rows, with third derivatives f_abc, shape (d,)."""
    out = np.zeros(theta.size)
    space = rows.space(skewness=True)
    function("mh_add_skewness")(space, theta, factor, numbers, numbers.size, out)
    return out


def thirds_at(theta: np.ndarray, rows: PlacedRows, numbers: np.ndarray) -> np.ndarray:
    """Third derivatives summed over rows, shape (d, d, d); 0 unless coordinates ascend."""
    out = np.zeros((theta.size,) * 3)
    function("mh_add_thirds")(rows.space(skewness=True), theta, numbers, numbers.size, out)
    return out


def _tilt_of(
    gradient: Callable[[np.ndarray], np.ndarray], theta: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Average of a gradient over N(θ, L Lᵀ) minus its value at θ; exact if it is quadratic."""
    middle = gradient(theta)
    pairs = [0.5 * (gradient(theta + c) + gradient(theta - c)) - middle for c in factor.T]
    return np.sum(pairs, axis=0)


def differences_in(
    order: int, moves: Moves, centre: np.ndarray, rows: PlacedRows, numbers: np.ndarray
) -> np.ndarray:
    """Differences of each row's remainder in each proposal, shape (proposals, n)."""
    return _measure_moves(moves, centre, rows.space(order), numbers)[1]


def change_in(order: int, move: Move, rows: PlacedRows, numbers: np.ndarray) -> float:
    """Sum over rows of the remainder differences in a proposal."""
    return float(differences_in(order, [move[:2]], move[2], rows, numbers)[0].sum())


def _measure_moves(
    moves: Moves, centre: np.ndarray, space: RowSpace, rows: np.ndarray
) -> tuple[list[tuple], np.ndarray]:
    """Moments n, mean, Σ(d - mean)², Σ(d - mean)³ and Σ|d|³ per proposal, and differences."""
    found = np.empty((len(moves), rows.size))
    moments = [
        kernels.moments_of_move(space, (*ends, centre), rows, differences)
        for ends, differences in zip(moves, found, strict=True)
    ]
    return moments, found


def moments_in(
    order: int,
    moves: Moves,
    centre: np.ndarray,
    left_out: np.ndarray,
    largest: Largest | None,
    rows: PlacedRows,
    numbers: np.ndarray,
) -> tuple[list[tuple], Changes | None]:
    """Moments per proposal without the rows at indices `left_out`, and the largest changes."""
    places = np.delete(np.arange(numbers.size), left_out)
    moments, found = _measure_moves(moves, centre, rows.space(order), numbers[places])
    return moments, None if largest is None else largest.of_chunk(places, found)


def ratio_in(
    move: BoundedMove, c: np.ndarray, first: int, rows: PlacedRows, numbers: np.ndarray
) -> tuple[float, int]:
    """Largest ratio |dU_i| / (c_i M) in a proposal, and its row, of the rows from `first` on."""
    differences, scales = np.empty((2, numbers.size))
    kernels.differences_of(rows.space(move.order), move.ends, numbers, differences, scales)
    beta = move.inverse_temperature
    ratio, place = kernels.largest_of(differences, scales, c, move.m, beta)
    return ratio, first + place


class Spread(NamedTuple):
    """Summary of the differences of some rows.

    `known` is the sum over influential rows; `moments` (n, mean, central sums of order 2 and 3) and
    extremes `top` belong to all others. `ratio` is max |dU_i|/(c_i M), at `row`; NaN if no bounds.
    """

    known: float
    moments: tuple
    top: np.ndarray
    ratio: float
    row: int

    def merged_with(self, other: "Spread", n_top: int) -> "Spread":
        """Merged spread of two sets of rows, with `n_top` extremes at either end."""
        moments = self.moments
        if other.moments[0]:
            moments = merge_moments(moments, other.moments)
        top = extremes(np.concatenate([self.top, other.top]), n_top)
        worst = (other if other.ratio > self.ratio else self)[3:]
        return Spread(self.known + other.known, moments, top, *worst)


class SpreadIn(NamedTuple):
    """Request for a :class:`Spread` of rows from `first` on; rows `heavy` are influential."""

    move: BoundedMove
    first: int
    heavy: np.ndarray
    n_top: int

    def of(self, space: RowSpace, rows: np.ndarray, c: np.ndarray | None) -> Spread:
        """Spread of rows, given their row numbers in memory and their bounds c."""
        differences, scales = np.empty((2, rows.size))
        kernels.differences_of(space, self.move.ends, rows, differences, scales)
        ratio, row = math.nan, -1
        if c is not None:
            m, beta = self.move.m, self.move.inverse_temperature
            ratio, place = kernels.largest_of(differences, scales, c, m, beta)
            row = self.first + place
        between = np.searchsorted(self.heavy, (self.first, self.first + rows.size))
        inside = self.heavy[slice(*between)] - self.first
        known, drawn = float(differences[inside].sum()), np.delete(differences, inside)
        return Spread(known, moments_of(drawn), extremes(drawn, self.n_top), ratio, row)


def extremes(values: np.ndarray, count: int) -> np.ndarray:
    """The `count` smallest and the `count` largest values."""
    if values.size <= 2 * count:
        return values
    parted = np.partition(values, (count - 1, values.size - count))
    return np.concatenate([parted[:count], parted[-count:]])


READING = "Evaluating all observations"
#: Minimum number of rows on both sides of a cut between two places of storage.
LEAST = 32_768
#: Row numbers, as an array or as a slice that is expanded when it is used.
Chunk = slice | np.ndarray


def chunks_of(
    n_rows: int, step: int, start: int = 0, cuts: Sequence[int] = (), whole: int = 1
) -> list[slice]:
    """Chunks of at most `step` rows from `start` on, beginning at multiples of `whole`.

    Chunks end at `cuts`, where the storage of rows changes, unless a chunk would be small.
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


def over_rows(
    work: Any, source: ArrayRows, blocks: Sequence[RowBlock], label: str = READING
) -> Iterator[Any]:
    """Results of calls on blocks of rows, where these are stored, with a progress line."""
    return _count_results(source.map_blocks(work, blocks), len(blocks), label)


def on_all_cores(
    work: Callable[[Any], Any], chunks: Sequence[Any], label: str = READING
) -> Iterator[Any]:
    """Results of `work` on chunks, in their order, with a progress line."""
    return _count_results(map_in_threads(work, chunks), len(chunks), label)


def _count_results(results: Generator[Any], count: int, label: str) -> Iterator[Any]:
    """Yield the results; show a progress line if there are several."""
    if count == 1:
        yield from results
        return
    with count_parts(label, count) as advance, closing(results) as found:
        for result in found:
            advance()
            yield result


#: Number of rows per task; fixed, so that sums do not depend on the number of cores.
CHUNK = 65_536
#: Number of rows per step of the search for a row with non-finite values.
SOUGHT_ROWS = 2**20


@dataclass(frozen=True)
class Derivatives:
    """Value, gradient and Hessian of a log-density; the Hessian is empty unless requested."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @property
    def has_hessian(self) -> bool:
        """Whether the Hessian was requested."""
        return self.hessian.size > 0


@dataclass(frozen=True)
class MoveMoments:
    """Moments over rows of their differences in one proposal."""

    variance: float
    skewness: float
    third_absolute: float

    @classmethod
    def of(cls, n: int, mean: float, second: float, third: float, absolute: float) -> "MoveMoments":
        """Moments from n, mean, central sums of order 2 and 3, and Σ|d|³."""
        variance = second / max(n - 1, 1)
        scale = variance**1.5 or 1.0
        return cls(variance, third / n / scale, absolute / n / scale)


class FullData:
    """Full-data evaluations of a factorized model, and derivatives of its prior."""

    #: Coordinates that are logarithms of variables bounded below by 0.
    logs = np.empty(0, dtype=np.int64)

    def __init__(self, rows: PlacedRows, prior: Prior, source: ArrayRows) -> None:
        self._prior, self._source, self.rows = prior, source, rows
        #: Whether a Hessian evaluates each row once, for any number of coordinates.
        self.cheap_hessian, self.n_rows = rows.cheap_hessian, source.n_rows

    @property
    def parts(self) -> tuple[PlacedRows, Prior, ArrayRows]:
        """Rows, prior and source, of which another object with the same data is made."""
        return self.rows, self._prior, self._source

    @cached_property
    def log_prior(self) -> FunctionAt:
        """Compiled log-density of the prior, for compiled loops (``mh_log_prior``)."""
        return self._prior.compiled()

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Derivatives of the summed log-likelihood of `rows`, by default of all."""
        if not (hessian and self.rows.without_second):
            return self._derivatives(theta, hessian, rows)

        def gradient_at(position: np.ndarray) -> np.ndarray:
            return self._derivatives(position, False, rows).gradient

        first = self._derivatives(theta, False, rows)
        return replace(first, hessian=hessian_by_differences(gradient_at, theta))

    def _derivatives(
        self, theta: np.ndarray, hessian: bool, rows: np.ndarray | None
    ) -> Derivatives:
        """Derivatives of the summed log-likelihood by the rows' compiled functions."""
        sums = np.zeros(1 + theta.size)
        products = np.zeros((theta.size, theta.size) if hessian else (0, 0))
        for own_sums, own_products in self._on_rows(partial(derivatives_at, theta, hessian), rows):
            sums += own_sums
            products += own_products
        return Derivatives(float(sums[0]), sums[1:], 0.5 * (products + products.T))

    def thirds(self, theta: np.ndarray) -> np.ndarray:
        """Third derivatives of the summed log-likelihood, if each row has one linear predictor.

        Shape (d, d, d); 0 unless coordinates ascend.
        """
        self.rows.space(skewness=True)
        total = np.zeros((theta.size,) * 3)
        for chunk in self._on_rows(partial(thirds_at, theta)):
            total += chunk
        return total

    def values(self, theta: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Log-likelihood of each of `rows`, by default of all."""
        return np.concatenate(list(self._on_rows(partial(values_at, theta), rows)))

    def first_not_finite(self, theta: np.ndarray, start: int = 0) -> int:
        """First row from `start` on with a non-finite log-likelihood, or else the last row."""
        # In chunks, because arrays for all rows may not fit into memory.
        for chunk in chunks_of(self.n_rows, SOUGHT_ROWS, start):
            rows = np.arange(chunk.start, chunk.stop, dtype=np.int64)
            finite = np.isfinite(self.values(theta, rows))
            if not finite.all():
                return chunk.start + int(np.argmin(finite))
        return self.n_rows - 1

    def undefined_at(self, theta: np.ndarray) -> str:
        """Text about the first row with a non-finite gradient or Hessian, or about the prior."""

        def is_defined(rows: np.ndarray) -> bool:
            found = self.likelihood(theta, hessian=True, rows=rows)
            return bool(np.isfinite(found.gradient).all() and np.isfinite(found.hessian).all())

        for chunk in chunks_of(self.n_rows, SOUGHT_ROWS):
            rows = np.arange(chunk.start, chunk.stop, dtype=np.int64)
            if not is_defined(rows):
                while rows.size > 1:
                    first, second = np.array_split(rows, 2)
                    rows = second if is_defined(first) else first
                return self._undefined_row(int(rows[0]), theta)
        return "in the prior part"

    def _undefined_row(self, number: int, theta: np.ndarray) -> str:
        """Text about a row with non-finite derivatives, and about the operation responsible."""
        starts = self._source.term_starts
        term = int(np.searchsorted(starts, number, side="right")) - 1
        where = self.rows.describe_undefined(term, number - int(starts[term]), theta)
        return where + self._source.place(number)

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Derivatives of the prior."""
        return Derivatives(*self._prior.derivatives(theta, self._source.others, hessian=hessian))

    def skewness(
        self, theta: np.ndarray, factor: np.ndarray, rows: np.ndarray | None
    ) -> np.ndarray:
        """Average gradient of rows over N(θ, L Lᵀ), L the `factor`, minus the gradient at θ."""
        if self.rows.has_skewness:
            self.rows.space(skewness=True)
            return np.sum(list(self._on_rows(partial(bend_at, theta, factor), rows)), axis=0)

        def gradient_at(place: np.ndarray) -> np.ndarray:
            return self.likelihood(place, hessian=False, rows=rows).gradient

        return _tilt_of(gradient_at, theta, factor)

    def skewness_of_prior(self, theta: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Lᵀ times (average gradient of the prior over N(θ, L Lᵀ) minus the gradient at θ)."""
        if theta.size > MAX_ENTRIES:
            # Differences of gradients: third derivatives of all pairs would take minutes.
            bent = _tilt_of(lambda place: self.prior(place, hessian=False).gradient, theta, factor)
            return factor.T @ bent
        out = np.empty(theta.size)
        shape = theta, factor, theta.size
        function("mh_skewness_of_prior")(self.log_prior, self.rows.context, *shape, out)
        return out

    def moves(
        self,
        order: int,
        moves: Moves,
        centre: np.ndarray,
        left_out: np.ndarray = NO_ROWS,
        largest: Largest | None = None,
    ) -> list[MoveMoments]:
        """Moments of the differences in each proposal, without the sorted rows `left_out`.

        `largest` collects the rows with the largest changes.
        """
        chunks, asked = self._all_rows, []
        self.rows.space(order=order)
        for chunk in chunks:
            inside = slice(*np.searchsorted(left_out, (chunk.start, chunk.stop)))
            places = left_out[inside] - chunk.start
            call = partial(moments_in, order, moves, centre, places, largest)
            asked.append((chunk, partial(_call_on_placed, call)))
        totals = [(0, 0.0, 0.0, 0.0, 0.0)] * len(moves)
        found = over_rows(self.rows, self._source, asked)
        for chunk, (moments, changes) in zip(chunks, found, strict=True):
            # A chunk whose rows are all left out has no mean, and is skipped.
            totals = [
                (*merge_moments(one[:4], own[:4]), one[4] + own[4]) if own[0] else one
                for one, own in zip(totals, moments, strict=True)
            ]
            if largest is not None:
                largest.add(changes._replace(rows=chunk.start + changes.rows))
        return [MoveMoments.of(*total) for total in totals]

    def differences(
        self, order: int, moves: Moves, centre: np.ndarray, rows: np.ndarray
    ) -> np.ndarray:
        """Differences of a few rows in each proposal, shape (proposals, rows)."""
        found = self._on_rows(partial(differences_in, order, moves, centre), rows, order=order)
        return np.concatenate(list(found), axis=1)

    def change(self, order: int, move: Move) -> float:
        """Change of the summed remainders of all rows in a proposal."""
        return sum(self._on_rows(partial(change_in, order, move), order=order))

    def largest_ratio(self, move: BoundedMove, c: np.ndarray) -> tuple[float, int]:
        """Largest ratio |dU_i| / (c_i M) of rows in memory in a proposal, and its row."""
        self.rows.space(move.order)
        calls = [
            (rows, partial(_call_on_placed, partial(ratio_in, move, c[rows], rows.start)))
            for rows in self._all_rows
        ]
        return max(over_rows(self.rows, self._source, calls))

    def _on_rows(
        self, asked: Callable, rows: np.ndarray | None = None, *, order: int | None = None
    ) -> Iterator[Any]:
        """Results of a function on chunks of `rows` (default: all observations)."""
        # Compile row functions here once, instead of in every thread.
        self.rows.space(order=order, derivatives=order is None)
        chunks: Sequence[Chunk] = self._all_rows
        if rows is not None:
            chunks = np.array_split(rows, max(1, len(rows) // CHUNK))
        call = partial(_call_on_placed, asked)
        return over_rows(self.rows, self._source, [(chunk, call) for chunk in chunks])

    @property
    def _all_rows(self) -> list[slice]:
        step = CHUNK if self._source.in_memory else BLOCK_ROWS
        step = max(1, int(step / self.rows.evaluations))
        return chunks_of(self.n_rows, step, cuts=self._source.cuts)
