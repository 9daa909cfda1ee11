"""What all rows say of a move: how their differences spread, found chunk by chunk."""

import math
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.expansion.row_sums import BoundedMove, RowSums
from pymc_minibatch_mh.kernels import repeat
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moments import add_moments, merge_moments
from pymc_minibatch_mh.kernels.posterior import RowSpace


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
