"""Enclosures of functions and their derivatives, from rules and from the shapes of functions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, singledispatch
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.functions.interval import TINY, Array, Interval, Mask
from pymc_minibatch_mh.native.library import function

#: Function that returns values and derivatives up to an order, at points.
Values = Callable[[Array, int], list[Array]]


class NoRuleError(Exception):
    """A scalar operation without a rule; the attribute `op` refers to it."""

    def __init__(self, op: object):
        super().__init__(f"no enclosure of the derivatives of {op} is known")
        self.op = op


@singledispatch
def enclose_derivatives(op: object, u: Interval, order: int, *data: Array) -> list[Interval]:
    """Enclose g(u), g'(u), ... of a scalar operation g, up to an order from 0 to 4, shaped as `u`.

    Enclosures are exact ranges up to outward rounding. They are unbounded if `u` leaves the domain
    in which g is smooth. All operands except the first are data. NoRuleError without a rule.
    """
    raise NoRuleError(op)


class _ShapeRecord(NamedTuple):
    """Valleys and peaks, shape (n, 2), and bounds of all values: ``mh_shape``."""

    valleys: Array
    peaks: Array
    limits: Array


@dataclass(frozen=True)
class Shape:
    """Extrema and exact bounds of a function of one argument.

    All local minima and maxima are pairs (argument, value); the function is monotone in between.
    Outward rounding does not cross `floor` and `ceiling`, exact bounds of all values. `slack` is
    the absolute error of computed values whose relative error is not small.
    """

    valleys: tuple[tuple[float, float], ...] = ()
    peaks: tuple[tuple[float, float], ...] = ()
    floor: float = -np.inf
    ceiling: float = np.inf
    slack: float | Callable[[Array], Array] = TINY

    @staticmethod
    def odd_function(
        peak: tuple[float, float], valley: tuple[float, float], slack: Callable[[Array], Array]
    ) -> "Shape":
        """Shape of an odd function with one peak and one valley for positive arguments."""
        (top, high), (bottom, low) = peak, valley
        return Shape(peaks=(peak, (-bottom, -low)), valleys=(valley, (-top, -high)), slack=slack)

    @cached_property
    def _record(self) -> "_ShapeRecord":
        valleys, peaks = (np.array(x, float).reshape(-1, 2) for x in (self.valleys, self.peaks))
        return _ShapeRecord(valleys, peaks, np.array([self.floor, self.ceiling]))

    def range_over(self, u: Interval, at_lo: Array, at_hi: Array) -> Interval:
        """Range over `u`, from the values at its ends."""
        slack: Array | float
        if callable(self.slack):
            slack = np.maximum(self.slack(u.lo), self.slack(u.hi)) + TINY
        else:
            slack = self.slack
        shape = np.shape(at_lo)
        ends = [np.ascontiguousarray(x).reshape(-1) for x in (u.lo, u.hi, at_lo, at_hi)]
        around = np.ascontiguousarray(slack, dtype=np.float64).reshape(-1)
        lo, hi = np.empty((2, ends[0].size))
        function("mh_ranges_over")(*ends, around, around.size, lo.size, self._record, lo, hi)
        return Interval(lo.reshape(shape), hi.reshape(shape))


NEVER_NEGATIVE = Shape(floor=0.0)
NEVER_POSITIVE = Shape(ceiling=0.0)
#: Shapes of a completely monotone function and its derivatives.
ALTERNATING = (NEVER_NEGATIVE, NEVER_POSITIVE, NEVER_NEGATIVE, NEVER_POSITIVE, NEVER_NEGATIVE)


def enclose_by_shape(
    values: Values, shapes: Sequence[Shape], u: Interval, order: int
) -> list[Interval]:
    """Enclose derivatives of known shapes, from a function that returns their values at points.

    Values at an infinite end, or at an end of the domain, must be the limits there.
    """
    with np.errstate(all="ignore"):
        at_lo = values(u.lo, order)
        at_hi = at_lo if u.lo is u.hi else values(u.hi, order)
        return [
            shape.range_over(u, low, high)
            for shape, low, high in zip(shapes[: order + 1], at_lo, at_hi, strict=True)
        ]


def register_by_shape(
    op: type, shapes: Sequence[Shape], least: float = -np.inf, most: float = np.inf
) -> Callable[[Values], Values]:
    """Register the values and shapes of an operation on the domain from `least` to `most`."""

    def register_enclosure(values: Values) -> Values:
        def enclose_operation(op: object, u: Interval, order: int) -> list[Interval]:
            inside = u.with_positive_zeros() if least == 0.0 else u
            leaves = (u.lo < least) | (u.hi > most)
            return without_bounds_where(leaves, enclose_by_shape(values, shapes, inside, order))

        enclose_derivatives.register(op, enclose_operation)
        return values

    return register_enclosure


def without_bounds_where(condition: Mask, enclosures: list[Interval]) -> list[Interval]:
    """Remove the bounds of enclosures for arguments outside of the domain."""
    if not condition.any():
        return enclosures
    everything = Interval.whole_line()
    return [Interval.where(condition, everything, enclosure) for enclosure in enclosures]
