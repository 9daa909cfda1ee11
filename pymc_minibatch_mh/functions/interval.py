"""Interval arithmetic for real numbers, rounded outward.

An infinite end means that there is no bound; ends are never NaN. Products are computed by the
C library, because NumPy takes two dozen passes over the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_minibatch_mh.native.library import function

type Array = NDArray[np.float64]
type Mask = NDArray[np.bool_]
# Relative slack: thousands of times the rounding error of an operation or of a function of NumPy
# and SciPy, but negligible in a bound.
RELATIVE = 1e-12
# Absolute slack: more than the error of underflow.
TINY = 1e-300
#: Rounding error for the cancellation of terms of size one.
CANCELLATION = 1e-15
_MAX_FLOAT = np.finfo(np.float64).max


@dataclass(frozen=True, eq=False)
class Interval:
    """Arrays of closed intervals with NumPy's broadcasting: ends ``lo <= hi`` of equal shape."""

    # Without ufuncs, `array * interval` calls `Interval.__rmul__`, without a loop over the array.
    __array_ufunc__ = None

    lo: Array
    hi: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "lo", np.asarray(self.lo, dtype=np.float64))
        object.__setattr__(self, "hi", np.asarray(self.hi, dtype=np.float64))

    @staticmethod
    def point(x: ArrayLike) -> Interval:
        """Intervals [x, x]; NaN becomes the unbounded interval."""
        x = np.asarray(x, dtype=np.float64)
        unknown = np.isnan(x)
        if unknown.any():
            return Interval(np.where(unknown, -np.inf, x), np.where(unknown, np.inf, x))
        return Interval(x, x)

    @staticmethod
    def rounded(lo: ArrayLike, hi: ArrayLike, slack: ArrayLike = TINY) -> Interval:
        """Computed ends moved outward by 1e-12 of their size and by an absolute slack.

        A NaN end gives the unbounded interval; a lower end of +inf, an overflow, becomes the
        largest number.
        """
        lo, hi = np.asarray(lo, dtype=np.float64), np.asarray(hi, dtype=np.float64)
        with np.errstate(all="ignore"):
            low = np.minimum(lo, _MAX_FLOAT)
            high = np.maximum(hi, -_MAX_FLOAT)
            low = low - _outward_step(low, slack)
            high = high + _outward_step(high, slack)
        if np.isnan(low).any() or np.isnan(high).any():
            unknown = np.isnan(low) | np.isnan(high)
            low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
        return Interval(low, high)

    @staticmethod
    def whole_line(shape: tuple[int, ...] = ()) -> Interval:
        """Unbounded intervals."""
        return Interval(np.broadcast_to(-np.inf, shape), np.broadcast_to(np.inf, shape))

    @staticmethod
    def where(condition: ArrayLike, chosen: Interval, other: Interval) -> Interval:
        """Intervals of `chosen` where the condition is true, and of `other` elsewhere."""
        return Interval(
            np.where(condition, chosen.lo, other.lo), np.where(condition, chosen.hi, other.hi)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the ends."""
        return self.lo.shape

    @property
    def magnitude(self) -> Array:
        """Maximum absolute value."""
        return np.maximum(-self.lo, self.hi)

    @property
    def width(self) -> Array:
        """Distance between the ends."""
        with np.errstate(all="ignore"):
            return np.fmax(self.hi - self.lo, 0.0)

    def hull(self, other: Interval) -> Interval:
        """Smallest intervals that contain both."""
        return Interval(np.minimum(self.lo, other.lo), np.maximum(self.hi, other.hi))

    def take(self, places: NDArray[np.int64]) -> Interval:
        """Selected intervals; a scalar interval, which broadcasts, is returned unchanged."""
        if not self.shape:
            return self
        if self._is_point:
            return Interval.point(self.lo.take(places))
        return Interval(self.lo.take(places), self.hi.take(places))

    def with_positive_zeros(self) -> Interval:
        """Intervals without negative zeros, whose reciprocals would be -inf."""
        lo = self.lo + 0.0
        return Interval(lo, lo if self._is_point else self.hi + 0.0)

    def clipped_to(self, floor: float, ceiling: float = np.inf) -> Interval:
        """Intersections of the intervals with two bounds."""
        lo = np.maximum(self.lo, floor) if floor > -np.inf else self.lo
        return Interval(lo, np.minimum(self.hi, ceiling) if ceiling < np.inf else self.hi)

    def filled_with(self, value: float) -> Interval:
        """Degenerate intervals of a single number, in the same shape."""
        return Interval.point(np.broadcast_to(value, self.shape))

    def __neg__(self) -> Interval:
        if self._is_point:
            return Interval.point(-self.lo)
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Interval | ArrayLike) -> Interval:
        return _combine_intervals("mh_add_intervals", self, _as_interval(other))

    __radd__ = __add__

    def __sub__(self, other: Interval | ArrayLike) -> Interval:
        other = _as_interval(other)
        return _combine_intervals("mh_add_intervals", self, Interval(-other.hi, -other.lo))

    def __rsub__(self, other: ArrayLike) -> Interval:
        return _as_interval(other) - self

    def __mul__(self, other: Interval | ArrayLike) -> Interval:
        other = _as_interval(other)
        if self._is_sign or other._is_sign:
            sign, factor = (self, other) if self._is_sign else (other, self)
            return factor if sign.lo > 0.0 else -factor
        return _combine_intervals("mh_multiply_intervals", self, other)

    __rmul__ = __mul__

    @property
    def _is_point(self) -> bool:
        return self.lo is self.hi

    @property
    def _is_sign(self) -> bool:
        return self._is_point and self.lo.ndim == 0 and abs(self.lo) == 1.0


def _as_interval(value: Interval | ArrayLike) -> Interval:
    return value if isinstance(value, Interval) else Interval.point(value)


def _outward_step(end: Array, slack: ArrayLike) -> Array:
    step = np.abs(end)
    step *= RELATIVE
    return step + np.asarray(slack)


def _combine_intervals(name: str, one: Interval, other: Interval) -> Interval:
    """Results of a C function on pairs of intervals, with broadcasting of single ones."""
    a, b, c, d = one.lo, one.hi, other.lo, other.hi
    shape = a.shape or c.shape
    if a.shape != c.shape and a.shape and c.shape:
        a, b, c, d = np.broadcast_arrays(a, b, c, d)
        shape = a.shape
    size = a.size if a.ndim else c.size
    lo, hi = np.empty(size), np.empty(size)
    function(name)(
        _flat_ends(a), _flat_ends(b), a.size, _flat_ends(c), _flat_ends(d), c.size, size, lo, hi
    )
    return _unchecked_interval(lo.reshape(shape), hi.reshape(shape))


def _flat_ends(ends: Array) -> Array:
    if ends.ndim == 1 and ends.flags.c_contiguous:
        return ends
    return np.ascontiguousarray(ends).reshape(-1)


def _unchecked_interval(lo: Array, hi: Array) -> Interval:
    """Interval with ends that are known to be valid float64 arrays."""
    made = object.__new__(Interval)
    object.__setattr__(made, "lo", lo)
    object.__setattr__(made, "hi", hi)
    return made
