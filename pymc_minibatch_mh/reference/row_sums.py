"""Sums over some rows: functions whose partials are sent to where rows are read.

Their last arguments are the compiled rows, :class:`RowSums`, and rows by their numbers, or read.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.compiled.compiled_model import PlacedRows
from pymc_minibatch_mh.compiled.form_rows import StoredFormRows
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.storage import StoredRows, consecutive
from pymc_minibatch_mh.kernels import row_sums as kernels
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.looks import add_moments, merge_moments
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.reference.heavy import Changes, Largest

#: The position, the new one and the centre of the expansion.
Move = tuple[np.ndarray, np.ndarray, np.ndarray]
#: The position and the new one of each of some moves.
Moves = Sequence[tuple[np.ndarray, np.ndarray]]


class BoundedMove(NamedTuple):
    """A move of an order, and the table of bounds that serves it with its M; -1 where none does."""

    order: int
    ends: Move
    table: int
    m: float
    inverse_temperature: float


class RowSums:
    """The rows of a split model as compiled functions, for rows wherever they are read.

    A pickle has the expressions of stored rows, which another process compiles, and no rows.
    """

    def __init__(self, rows: PlacedRows, source: ArrayRows) -> None:
        self._rows = rows
        self._source = source
        self._differences: dict[int, Callable] = {}
        self.space = RowSpace(source.term_starts, rows.context)

    def __reduce__(self) -> tuple:
        return RowSums, (self._rows, ArrayRows((), [0]))

    @cached_property
    def derivatives(self) -> Callable:
        """Compiled value, gradient and Hessian of rows (``DERIVATIVES``)."""
        return self._rows.row_derivatives()

    @cached_property
    def skewness(self) -> Callable | None:
        """Compiled averages of third derivatives (``SKEWNESS``), None where there are none."""
        return self._rows.skewness()

    def evaluate(self, order: int) -> Callable:
        """Return the compiled differences of remainders of an order (``EVALUATE``)."""
        if order not in self._differences:
            self._differences[order] = self._rows.evaluate(order)
        return self._differences[order]

    def of_rows(self, rows: np.ndarray | ArrayRows, asked: Callable) -> Any:
        """Answer a question on rows by their numbers, or on rows that were read."""
        return asked(self, rows)

    of_read = of_rows

    @contextmanager
    def bound_to(self, rows: np.ndarray | ArrayRows) -> Iterator[tuple[RowSpace, np.ndarray]]:
        """Yield where rows lie in memory and their numbers there, after compiling.

        Rows that are read and placed here live as long as this frame.
        """
        if isinstance(rows, np.ndarray):
            if not isinstance(self._source, StoredRows):
                yield self.space, rows
                return
            rows = self._source.read(consecutive(rows))
        assert isinstance(self._rows, StoredFormRows)
        placed = self._rows.on(rows)
        yield RowSpace(rows.term_starts, placed.context), np.arange(rows.n_rows)


def derivatives_at(
    theta: np.ndarray, hessian: bool, sums: RowSums, rows: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the summed value and gradient, shape (1 + d,), and Hessian: (d, d) or (0, 0)."""
    size, address = theta.size, address_of(sums.derivatives)
    total, products = np.zeros(1 + size), np.zeros((size, size) if hessian else (0, 0))
    with sums.bound_to(rows) as place:
        kernels.add_derivatives(address, theta, *place, total, products)
    return total, products


def values_at(theta: np.ndarray, sums: RowSums, rows: Any) -> np.ndarray:
    """Return the log-likelihood of each row, shape (n,)."""
    address = address_of(sums.derivatives)
    with sums.bound_to(rows) as place:
        out = np.empty(place[1].size)
        kernels.row_values(address, theta, *place, out)
    return out


def bend_at(theta: np.ndarray, factor: np.ndarray, sums: RowSums, rows: Any) -> np.ndarray:
    """Return the sum of averages of third derivatives over N(θ, L Lᵀ), shape (d,)."""
    assert sums.skewness is not None
    address, out = address_of(sums.skewness), np.zeros(theta.size)
    with sums.bound_to(rows) as place:
        kernels.add_skewness(address, theta, factor, *place, out)
    return out


def differences_in(
    order: int, moves: Moves, centre: np.ndarray, sums: RowSums, rows: Any
) -> np.ndarray:
    """Return the differences of each row in each of some moves, shape (moves, n)."""
    address = address_of(sums.evaluate(order))
    with sums.bound_to(rows) as place:
        return _measured(address, moves, centre, place)[1]


def change_in(order: int, move: Move, sums: RowSums, rows: Any) -> float:
    """Return the sum of the differences in a move."""
    return float(differences_in(order, [move[:2]], move[2], sums, rows)[0].sum())


def _measured(
    address: int, moves: Moves, centre: np.ndarray, place: tuple[RowSpace, np.ndarray]
) -> tuple[list[tuple], np.ndarray]:
    """Return n, mean, central sums of order 2 and 3 and Σ|d|³ of each move, and differences."""
    found = np.empty((len(moves), place[1].size))
    moments = [
        kernels.moments_of_move(address, (*ends, centre), *place, differences)
        for ends, differences in zip(moves, found, strict=True)
    ]
    return moments, found


def moments_in(
    order: int,
    moves: Moves,
    centre: np.ndarray,
    left_out: np.ndarray,
    largest: Largest | None,
    sums: RowSums,
    rows: Any,
) -> tuple[list[tuple], Changes | None]:
    """Return the moments of each move but for the rows at some places, and the largest changes."""
    address = address_of(sums.evaluate(order))
    with sums.bound_to(rows) as (space, numbers):
        places = np.delete(np.arange(numbers.size), left_out)
        moments, found = _measured(address, moves, centre, (space, numbers[places]))
    return moments, None if largest is None else largest.of_chunk(places, found)


def ratio_in(move: BoundedMove, c: np.ndarray, sums: RowSums, rows: Any) -> tuple[float, int]:
    """Return the largest |dU_i| / (c_i M) in a move and its row; c is by numbers in memory."""
    address, beta = address_of(sums.evaluate(move.order)), move.inverse_temperature
    with sums.bound_to(rows) as (space, numbers):
        differences, scales = np.empty((2, numbers.size))
        kernels.differences_of(address, move.ends, space, numbers, differences, scales)
    ratio, place = kernels.largest_of(differences, scales, c[numbers], move.m, beta)
    return ratio, int(numbers[place])


class Spread(NamedTuple):
    """How the differences of some rows spread.

    `known` is the sum over the heavy rows; n, mean and central sums of order 2 and 3, and the
    extremes are of the others. `ratio` is the largest |dU_i|/(c_i M), NaN without bounds.
    """

    known: float
    moments: tuple
    top: np.ndarray
    ratio: float
    row: int

    def merged(self, other: "Spread", n_top: int) -> "Spread":
        """Return that of these rows and others, with `n_top` extremes at either end."""
        moments = self.moments
        if other.moments[0]:
            moments = merge_moments(*moments, *other.moments)
        top = extremes(np.concatenate([self.top, other.top]), n_top)
        worst = (other if other.ratio > self.ratio else self)[3:]
        return Spread(self.known + other.known, moments, top, *worst)


class SpreadIn(NamedTuple):
    """Ask how the differences of consecutive rows from `first` on spread in a move.

    Every update reads the rows `heavy`; of the differences `n_top` at either end are kept.
    """

    move: BoundedMove
    first: int
    heavy: np.ndarray
    n_top: int

    def found(self, sums: RowSums, read: ArrayRows, c: np.ndarray | None) -> Spread:
        """Return it of rows that were read, and their bounds."""
        address = address_of(sums.evaluate(self.move.order))
        with sums.bound_to(read) as (space, numbers):
            return self.of(address, space, numbers, c)

    def of(self, address: int, space: RowSpace, rows: np.ndarray, c: np.ndarray | None) -> Spread:
        """Return it of rows by their numbers in memory, and their bounds."""
        differences, scales = np.empty((2, rows.size))
        kernels.differences_of(address, self.move.ends, space, rows, differences, scales)
        ratio, row = math.nan, -1
        if c is not None:
            m, beta = self.move.m, self.move.inverse_temperature
            ratio, place = kernels.largest_of(differences, scales, c, m, beta)
            row = self.first + place
        between = np.searchsorted(self.heavy, (self.first, self.first + rows.size))
        inside = self.heavy[slice(*between)] - self.first
        known, drawn = float(differences[inside].sum()), np.delete(differences, inside)
        moments = add_moments(0, 0.0, 0.0, 0.0, drawn, drawn.size)
        return Spread(known, moments, extremes(drawn, self.n_top), ratio, row)


def extremes(values: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` smallest and the `count` largest values."""
    if values.size <= 2 * count:
        return values
    parted = np.partition(values, (count - 1, values.size - count))
    return np.concatenate([parted[:count], parted[-count:]])
