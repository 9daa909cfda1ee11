"""Arithmetic with intervals of real numbers, rounded outward.

An infinite end says that there is no bound; no end is ever NaN.

NumPy takes two dozen passes over its arrays for a product, and the library one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_minibatch_mh.native.library import function

type Array = NDArray[np.float64]
type Mask = NDArray[np.bool_]
# Thousands of times the rounding errors of one operation and of NumPy's and SciPy's functions,
# and still far too little to matter in a bound.
RELATIVE = 1e-12
# More than underflow can lose.
TINY = 1e-300
#: Rounding error where terms of size one cancel.
CANCELLATION = 1e-15
_LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True, eq=False)
class Interval:
    """Closed intervals, elementwise, that broadcast like arrays: ends ``lo <= hi`` of one shape."""

    # Lets `array * interval` arrive here instead of being spread over the elements of the array.
    __array_ufunc__ = None

    lo: Array
    hi: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "lo", np.asarray(self.lo, dtype=np.float64))
        object.__setattr__(self, "hi", np.asarray(self.hi, dtype=np.float64))

    @staticmethod
    def point(x: ArrayLike) -> Interval:
        """Return the intervals that hold one number each; NaN becomes everything."""
        x = np.asarray(x, dtype=np.float64)
        unknown = np.isnan(x)
        if unknown.any():
            return Interval(np.where(unknown, -np.inf, x), np.where(unknown, np.inf, x))
        return Interval(x, x)

    @staticmethod
    def rounded(lo: ArrayLike, hi: ArrayLike, slack: ArrayLike = TINY) -> Interval:
        """Return computed ends moved outward by 1e-12 of their size and by an absolute slack.

        A NaN end leaves everything; a lower end of +inf, an overflow, becomes the largest number.
        """
        lo, hi = np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64)
        with np.errstate(all="ignore"):
            low = np.minimum(lo, _LARGEST)
            high = np.maximum(hi, -_LARGEST)
            low = low - _step(low, slack)
            high = high + _step(high, slack)
        if np.isnan(low).any() or np.isnan(high).any():
            unknown = np.isnan(low) | np.isnan(high)
            low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        return Interval(low, high)

    @staticmethod
    def everything(shape: tuple[int, ...] = ()) -> Interval:
        """Return intervals without bounds."""
        return Interval(np.broadcast_to(-np.inf, shape), np.broadcast_to(np.inf, shape))

    @staticmethod
    def where(condition: ArrayLike, chosen: Interval, other: Interval) -> Interval:
        """Return `chosen` where the condition holds and `other` elsewhere."""
        return Interval(
            np.where(condition, chosen.lo, other.lo), np.where(condition, chosen.hi, other.hi)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the ends."""
        return self.lo.shape

    @property
    def magnitude(self) -> Array:
        """The largest absolute value."""
        return np.maximum(-self.lo, self.hi)

    @property
    def width(self) -> Array:
        """The distance between the ends."""
        with np.errstate(all="ignore"):
            return np.fmax(self.hi - self.lo, 0.0)

    def hull(self, other: Interval) -> Interval:
        """Return the smallest intervals that hold both."""
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))

    def take(self, places: NDArray[np.int64]) -> Interval:
        """Return some of the intervals; one that stands for all stays as it is."""
        if not self.shape:
            return self
        if self._is_point:
            return Interval.point(self.lo.take(places))
        return Interval(self.lo.take(places), self.hi.take(places))

    def with_positive_zeros(self) -> Interval:
        """Return the intervals without negative zeros, whose reciprocals would be -inf."""
        lo = self.lo + 0.0
        return Interval(lo, lo if self._is_point else self.hi + 0.0)

    def clipped(self, floor: float, ceiling: float = np.inf) -> Interval:
        """Return the parts of the intervals between two bounds."""
        lo = np.maximum(self.lo, floor) if floor > -np.inf else self.lo
        return Interval(lo, np.minimum(self.hi, ceiling) if ceiling < np.inf else self.hi)

    def filled(self, value: float) -> Interval:
        """Return intervals that hold one number alone, shaped as these."""
        return Interval.point(np.broadcast_to(value, self.shape))

    def __neg__(self) -> Interval:
        if self._is_point:
            return Interval.point(-self.lo)
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Interval | ArrayLike) -> Interval:
        return _combined("mh_add_intervals", self, _interval(other))

    __radd__ = __add__

    def __sub__(self, other: Interval | ArrayLike) -> Interval:
        other = _interval(other)
        return _combined("mh_add_intervals", self, Interval(-other.hi, -other.lo))

    def __rsub__(self, other: ArrayLike) -> Interval:
        return _interval(other) - self

    def __mul__(self, other: Interval | ArrayLike) -> Interval:
        other = _interval(other)
        if self._is_sign or other._is_sign:
            sign, factor = (self, other) if self._is_sign else (other, self)
            return factor if sign.lo > 0.0 else -factor
        return _combined("mh_multiply_intervals", self, other)

    __rmul__ = __mul__

    @property
    def _is_point(self) -> bool:
        return self.lo is self.hi

    @property
    def _is_sign(self) -> bool:
        return self._is_point and self.lo.ndim == 0 and abs(self.lo) == 1.0


def _interval(value: Interval | ArrayLike) -> Interval:
    return value if isinstance(value, Interval) else Interval.point(value)


def _step(end: Array, slack: ArrayLike) -> Array:
    step = np.abs(end)
    step *= RELATIVE
    return step + np.asarray(slack)


def _combined(name: str, one: Interval, other: Interval) -> Interval:
    """Return the results of a function of the library on pairs of intervals, or of one and all."""
    a, b, c, d = one.lo, one.hi, other.lo, other.hi
    shape = a.shape or c.shape
    if a.shape != c.shape and a.shape and c.shape:
        a, b, c, d = np.broadcast_arrays(a, b, c, d)
        shape = a.shape
    size = a.size if a.ndim else c.size
    lo, hi = np.empty(size), np.empty(size)
    function(name)(_flat(a), _flat(b), a.size, _flat(c), _flat(d), c.size, size, lo, hi)
    return _made(lo, hi) if len(shape) == 1 else _made(lo.reshape(shape), hi.reshape(shape))


def _flat(ends: Array) -> Array:
    if ends.ndim == 1 and ends.flags.c_contiguous:
        return ends
    return np.ascontiguousarray(ends).reshape(-1)


def _made(lo: Array, hi: Array) -> Interval:
    """Return an interval of ends that are float64 as they must be."""
    made = object.__new__(Interval)
    object.__setattr__(made, "lo", lo)
    object.__setattr__(made, "hi", hi)
    return made
