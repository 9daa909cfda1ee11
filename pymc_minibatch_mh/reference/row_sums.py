"""What passes ask of some rows in memory: small values, which are sent to where rows are read."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_minibatch_mh.compiled.form_rows import StoredFormRows
from pymc_minibatch_mh.compiled.graphs import PlacedRows
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.storage import StoredRows, consecutive
from pymc_minibatch_mh.kernels import row_sums as repeat
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.looks import add_moments, merge_moments
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.row_sums import (
    add_bend,
    add_derivatives,
    largest_ratio,
    moments_of_move,
    row_values,
)
from pymc_minibatch_mh.reference.heavy import Changes, Largest

#: The position, the new one and the centre of the expansion.
Move = tuple[np.ndarray, np.ndarray, np.ndarray]


class BoundedMove(NamedTuple):
    """A move, and the bounds of what rows change by in it.

    Parameters
    ----------
    order
        Of the expansion.
    ends
        The position, the new one and the centre of the expansion.
    table, m
        Table of the bounds that serves the move, and its M; -1 where none does.
    inverse_temperature
        β.
    """

    order: int
    ends: Move
    table: int
    m: float
    inverse_temperature: float

    @property
    def position(self) -> np.ndarray:
        """Where it begins."""
        return self.ends[0]

    @property
    def new(self) -> np.ndarray:
        """Where it ends."""
        return self.ends[1]


class Place(NamedTuple):
    """Where some rows are in memory, and their numbers there."""

    space: RowSpace
    rows: np.ndarray


class Asked(Protocol):
    """What is asked of some rows."""

    def compiled(self, sums: "RowSums") -> Callable:
        """Return the compiled function that it takes."""

    def of(self, address: int, place: Place) -> Any:
        """Return what the compiled function finds."""


class RowSums:
    """Finds sums over some rows of a split model.

    A pickle has the expressions of stored rows and none of the rows: another process compiles them
    anew, for rows that it has read.

    Parameters
    ----------
    rows
        The model's compiled rows, where they lie.
    source
        The rows themselves.
    """

    def __init__(self, rows: PlacedRows, source: ArrayRows) -> None:
        self._rows = rows
        self._source = source
        self._differences: dict[int, Callable] = {}
        self.space = RowSpace(source.term_starts, rows.context)

    def __reduce__(self) -> tuple:
        return _of_no_rows, (self._rows,)

    @cached_property
    def derivatives(self) -> Callable:
        """Compiled value, gradient and Hessian of rows (``DERIVATIVES``)."""
        return self._rows.row_derivatives()

    @cached_property
    def bend(self) -> Callable | None:
        """Compiled averages of third derivatives (``BEND``), None where there are none."""
        return self._rows.bend()

    def evaluate(self, order: int) -> Callable:
        """Return the compiled differences of remainders of an order (``EVALUATE``)."""
        if order not in self._differences:
            self._differences[order] = self._rows.evaluate(order)
        return self._differences[order]

    @contextmanager
    def reading(self, rows: np.ndarray) -> Iterator[Place]:
        """Hold some rows in memory: yield where they lie."""
        if not isinstance(self._source, StoredRows):
            yield Place(self.space, rows)
        else:
            with self.placed(self._source.read(consecutive(rows))) as place:
                yield place

    def of_rows(self, rows: np.ndarray, asked: Asked) -> Any:
        """Return what is asked of rows by their numbers, which are read here."""
        # Rows are placed with what was compiled before.
        address = address_of(asked.compiled(self))
        with self.reading(rows) as place:
            return asked.of(address, place)

    def of_read(self, read: ArrayRows, asked: Asked) -> Any:
        """Return what is asked of rows that were read, in whatever process."""
        address = address_of(asked.compiled(self))
        with self.placed(read) as place:
            return asked.of(address, place)

    @contextmanager
    def placed(self, read: ArrayRows) -> Iterator[Place]:
        """Place rows that were read, with what was compiled before: yield where they lie."""
        assert isinstance(self._rows, StoredFormRows)
        # What was read and placed lives as long as this frame.
        placed = self._rows.on(read)
        yield Place(RowSpace(read.term_starts, placed.context), np.arange(read.n_rows))


def _of_no_rows(rows: StoredFormRows) -> RowSums:
    return RowSums(rows, ArrayRows((), [0]))


class DerivativesAt(NamedTuple):
    """Ask for the summed value, gradient and Hessian at a position."""

    theta: np.ndarray
    hessian: bool

    def compiled(self, sums: RowSums) -> Callable:
        """Return the derivatives of rows."""
        return sums.derivatives

    def of(self, address: int, place: Place) -> tuple[np.ndarray, np.ndarray]:
        """Return value and gradient, shape (1 + d,), and the Hessian: (d, d) or (0, 0)."""
        size = self.theta.size
        sums, products = np.zeros(1 + size), np.zeros((size, size) if self.hessian else (0, 0))
        add_derivatives(address, self.theta, *place, sums, products)
        return sums, products


class ValuesAt(NamedTuple):
    """Ask for the log-likelihood of each row at a position."""

    theta: np.ndarray

    def compiled(self, sums: RowSums) -> Callable:
        """Return the derivatives of rows."""
        return sums.derivatives

    def of(self, address: int, place: Place) -> np.ndarray:
        """Return them, shape (n,)."""
        out = np.empty(place.rows.size)
        row_values(address, self.theta, *place, out)
        return out


class BendAt(NamedTuple):
    """Ask for averages of third derivatives over N(θ, L Lᵀ)."""

    theta: np.ndarray
    factor: np.ndarray

    def compiled(self, sums: RowSums) -> Callable:
        """Return the averages, which there have to be."""
        assert sums.bend is not None
        return sums.bend

    def of(self, address: int, place: Place) -> np.ndarray:
        """Return their sum, shape (d,)."""
        out = np.zeros(self.theta.size)
        add_bend(address, self.theta, self.factor, *place, out)
        return out


class DifferencesIn(NamedTuple):
    """Ask for the differences of each row in some moves.

    Parameters
    ----------
    order
        Of the expansion.
    moves
        The position and the new one of each.
    centre
        The centre of the expansion.
    """

    order: int
    moves: Sequence[tuple[np.ndarray, np.ndarray]]
    centre: np.ndarray

    def compiled(self, sums: RowSums) -> Callable:
        """Return the differences of remainders."""
        return sums.evaluate(self.order)

    def of(self, address: int, place: Place) -> np.ndarray:
        """Return them, shape (moves, n)."""
        return self.with_moments(address, place)[1]

    def with_moments(self, address: int, place: Place) -> tuple[list[tuple], np.ndarray]:
        """Return n, mean, central sums of order 2 and 3 and Σ|d|³ of each move, and them."""
        found = np.empty((len(self.moves), place.rows.size))
        moments = [
            moments_of_move(address, (*ends, self.centre), *place, differences)
            for ends, differences in zip(self.moves, found, strict=True)
        ]
        return moments, found


class MomentsIn(NamedTuple):
    """Ask for moments of the differences in some moves.

    Parameters
    ----------
    differences
        The moves.
    left_out : ndarray of int64
        Places of rows that do not count, among those asked about.
    largest
        Finds the rows that change most, where these are asked for.
    """

    differences: DifferencesIn
    left_out: np.ndarray
    largest: Largest | None

    def compiled(self, sums: RowSums) -> Callable:
        """Return the differences of remainders."""
        return self.differences.compiled(sums)

    def of(self, address: int, place: Place) -> tuple[list[tuple], Changes | None]:
        """Return the moments of each move, and the largest changes by places of their rows."""
        places = np.delete(np.arange(place.rows.size), self.left_out)
        counted = Place(place.space, place.rows[places])
        moments, found = self.differences.with_moments(address, counted)
        return moments, None if self.largest is None else self.largest.of_chunk(places, found)


class ChangeIn(NamedTuple):
    """Ask for the sum of the differences in a move."""

    order: int
    move: Move

    def compiled(self, sums: RowSums) -> Callable:
        """Return the differences of remainders."""
        return sums.evaluate(self.order)

    def of(self, address: int, place: Place) -> float:
        """Return the sum."""
        differences = np.empty(place.rows.size)
        moments_of_move(address, self.move, *place, differences)
        return float(differences.sum())


class RatioIn(NamedTuple):
    """Ask for the largest |dU_i| / (c_i M) in a move.

    Parameters
    ----------
    move
        The move.
    c : ndarray of float32
        c_i by the rows' numbers in memory.
    """

    move: BoundedMove
    c: np.ndarray

    def compiled(self, sums: RowSums) -> Callable:
        """Return the differences of remainders."""
        return sums.evaluate(self.move.order)

    def of(self, address: int, place: Place) -> tuple[float, int]:
        """Return it, and the number in memory of the row that has it."""
        _, ends, _, m, beta = self.move
        return largest_ratio(address, ends, *place, self.c, m, beta)


class Spread(NamedTuple):
    """How the differences of some rows spread.

    Parameters
    ----------
    known
        Sum of the differences of the heavy rows.
    moments
        n, mean and central sums of order 2 and 3 of those of the others.
    top : ndarray
        The smallest and the largest of these.
    ratio, row
        Largest |dU_i|/(c_i M), and its row; NaN and -1 without bounds.
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
        ratio, row = self.ratio, self.row
        if other.ratio > ratio:
            ratio, row = other.ratio, other.row
        return Spread(self.known + other.known, moments, top, ratio, row)


class SpreadIn(NamedTuple):
    """Ask how the differences of consecutive rows spread in a move.

    Parameters
    ----------
    move
        The move.
    first
        Number of the first row.
    heavy : ndarray of int64
        Rows that every update reads.
    n_top
        How many of the smallest and of the largest differences are asked for.
    """

    move: BoundedMove
    first: int
    heavy: np.ndarray
    n_top: int

    def found(self, sums: RowSums, read: ArrayRows, c: np.ndarray | None) -> Spread:
        """Return it of rows that were read, and their bounds."""
        address = address_of(sums.evaluate(self.move.order))
        with sums.placed(read) as place:
            return self.of(address, place.space, (0, place.rows.size), c)

    def of(
        self, address: int, space: RowSpace, ends: tuple[int, int], c: np.ndarray | None
    ) -> Spread:
        """Return it of the rows between two numbers in memory, and their bounds."""
        differences, scales = np.empty((2, ends[1] - ends[0]))
        repeat.differences_of(address, self.move.ends, space, *ends, differences, scales)
        ratio, row = math.nan, -1
        if c is not None:
            m, beta = self.move.m, self.move.inverse_temperature
            ratio, place = repeat.largest_of(differences, scales, c, m, beta)
            row = self.first + place
        between = self.first, self.first + differences.size
        inside = self.heavy[slice(*np.searchsorted(self.heavy, between))] - self.first
        known, drawn = float(differences[inside].sum()), np.delete(differences, inside)
        moments = add_moments(0, 0.0, 0.0, 0.0, drawn, drawn.size)
        return Spread(known, moments, extremes(drawn, self.n_top), ratio, row)


def extremes(values: np.ndarray, count: int) -> np.ndarray:
    """Return the `count` smallest and the `count` largest values."""
    if values.size <= 2 * count:
        return values
    parted = np.partition(values, (count - 1, values.size - count))
    return np.concatenate([parted[:count], parted[-count:]])
