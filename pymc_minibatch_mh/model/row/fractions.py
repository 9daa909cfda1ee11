"""Shapes with a shift or an interval, as linear fractions (a + b K) / (c + d K) of a power K of κ.

In κ = exp(-v/power), a shape with a shift, m + exp(v), is (1 + m K) / K with K = κ^power, and a
shape in an interval, low + (high - low) σ(v), is (high + low K) / (1 + K). Sums with numbers,
reciprocals and logarithms of such fractions are others, of which none has a difference.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.model.row import arithmetic
from pymc_minibatch_mh.model.row.cells import Cell, Cells, Place
from pymc_minibatch_mh.model.row.operations import sum_of
from pymc_minibatch_mh.model.row.patterns import (
    factors_of,
    is_a,
    number,
    scaled_core,
    summands,
    without,
)

#: Coefficients of 1 and of K.
Linear = tuple[float, float]


@dataclass(frozen=True)
class Fraction:
    """A linear fraction of K = κ^power, whose coefficients are not negative.

    Parameters
    ----------
    place
        Where κ lies in the position.
    power
        A positive number.
    above, below
        Coefficients of 1 and of K in the numerator and in the denominator.
    """

    place: Place
    power: float
    above: Linear
    below: Linear

    @classmethod
    def exponential(cls, place: Place, power: float, size: float) -> "Fraction":
        """Return κ^power times a positive number, for a power of any sign but zero."""
        if power > 0.0:
            return cls(place, power, (0.0, size), (1.0, 0.0))
        return cls(place, -power, (size, 0.0), (0.0, 1.0))

    @property
    def is_valid(self) -> bool:
        """Whether no coefficient is negative, so that the fraction is positive."""
        return min(*self.above, *self.below) >= 0.0 and max(self.above) > 0.0

    @property
    def inverted(self) -> "Fraction":
        """The reciprocal."""
        return Fraction(self.place, self.power, self.below, self.above)

    @property
    def share(self) -> "Fraction":
        """The fraction x as x / (1 + x)."""
        return Fraction(self.place, self.power, self.above, self.plus(1.0).above)

    def times(self, factor: float) -> "Fraction":
        """Return a multiple."""
        a, b = self.above
        return Fraction(self.place, self.power, (factor * a, factor * b), self.below)

    def plus(self, number: float) -> "Fraction":
        """Return the sum with a number."""
        (a, b), (c, d) = self.above, self.below
        return Fraction(self.place, self.power, (a + number * c, b + number * d), self.below)

    def parts_of(self, other: "Fraction") -> tuple[float, float] | None:
        """Return k and m, of another fraction that is k times this one plus m."""
        (a, b), (c, d) = self.above, self.below
        determinant = a * d - b * c
        alike = (other.place, other.power, other.below) == (self.place, self.power, self.below)
        if not alike or determinant == 0.0:
            return None
        p, q = other.above
        return (p * d - q * c) / determinant, (a * q - b * p) / determinant


def logarithm(linear: Linear) -> tuple[float, float, float]:
    """Return p, q and r of log(a + b K) = p log K + q + log(1 + r K)."""
    a, b = linear
    return (0.0, math.log(a), b / a) if a > 0.0 else (1.0, math.log(b), 0.0)


class Fractions:
    """Recognises cells, written in log κ, that are linear fractions of a power of κ.

    Parameters
    ----------
    cells
        Where they were made.
    power
        Returns κ, c and r of a cell that is c log κ + r, else None.
    """

    def __init__(
        self, cells: Cells, power: Callable[[Cell], tuple[Place, float, Cell] | None]
    ) -> None:
        self._cells = cells
        self._power = power

    def of(self, cell: Cell) -> Fraction | None:
        """Return a cell as a fraction, if that is what it is."""
        found: Fraction | None = None
        if is_a(cell, scalar.Exp):
            found = self._exponential(cell.inputs[0])
        elif is_a(cell, scalar_math.Sigmoid):
            odds = self._exponential(cell.inputs[0])
            found = None if odds is None else odds.share
        elif is_a(cell, scalar.Reciprocal):
            inner = self.of(cell.inputs[0])
            found = None if inner is None else inner.inverted
        elif is_a(cell, scalar.Mul):
            core, factor = scaled_core(self._cells, cell)
            scale, inner = number(factor), None if core is cell else self.of(core)
            found = None if inner is None or scale is None else inner.times(scale)
        elif is_a(cell, scalar.Add):
            numbers = [x for part in cell.inputs if (x := number(part)) is not None]
            others = [part for part in cell.inputs if number(part) is None]
            inner = self.of(others[0]) if len(others) == 1 else None
            found = None if inner is None else inner.plus(sum_of(numbers))
        return found if found is not None and found.is_valid else None

    def of_log(self, cell: Cell) -> Fraction | None:
        """Return the fraction that a cell is the logarithm of."""
        if is_a(cell, scalar.Log):
            return self.of(cell.inputs[0])
        found: Fraction | None = None
        if is_a(cell, scalar.Log1p):
            found = self.of(cell.inputs[0])
        elif is_a(cell, scalar_math.Softplus):
            found = self._exponential(cell.inputs[0])
        return None if found is None else found.plus(1.0)

    def in_log(self, cell: Cell) -> tuple[Cell, Fraction] | None:
        """Return w and m of log(1 + w/m), for a fraction m."""
        cells = self._cells
        if is_a(cell, scalar.Log1p):
            factors = factors_of(cell.inputs[0])
            for factor in (x for x in factors if is_a(x, scalar.Reciprocal)):
                shape = self.of(factor.inputs[0])
                if shape is not None:
                    return arithmetic.multiply(cells, *without(factors, factor)), shape
        if is_a(cell, scalar_math.Softplus):
            parts = summands(cell.inputs[0])
            for part in parts:
                core, sign = scaled_core(cells, part)
                found = self.of_log(core) if number(sign) == -1.0 else None
                if found is not None:
                    w = arithmetic.add(cells, *without(parts, part))
                    return arithmetic.exp(cells, w), found
        return None

    def _exponential(self, x: Cell) -> Fraction | None:
        """Return exp(x), if it is a number times a power of κ."""
        known = self._power(x)
        offset = None if known is None else number(known[2])
        if known is None or offset is None:
            return None
        return Fraction.exponential(known[0], known[1], math.exp(offset))
