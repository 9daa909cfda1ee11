"""Squares, roots, reciprocals and other powers with a constant exponent."""

import numpy as np
from numpy.typing import ArrayLike
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import SLOPES, double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import (
    ALTERNATING,
    Shape,
    enclose_derivatives,
    register_by_shape,
    without_bounds_where,
)
from pymc_minibatch_mh.functions.interval import Array, Interval


@compile_by_numba()
def reciprocal_slope_at(order, x):
    """Derivative of 1/x, of order 1 to 3."""
    square = x * x
    if order == 1:
        return -1.0 / square
    # Divisions are repeated: a higher power of x overflows before the quotient underflows.
    return 2.0 / square / x if order == 2 else -6.0 / square / square


ReciprocalSlope, reciprocal_slope = make_operation(
    reciprocal_slope_at, has_order=True, is_plain=True
)
SLOPES[scalar.Reciprocal] = lambda x, value: reciprocal_slope(double_constant(1), x)
_MAX_FLOAT = np.finfo(float).max


@enclose_derivatives.register(scalar.Sqr)
def _enclose_square(op: scalar.Sqr, u: Interval, order: int) -> list[Interval]:
    with np.errstate(all="ignore"):
        square = _enclose_monomial(u, u.lo * u.lo, u.hi * u.hi, 2.0, 1.0)
        double = _enclose_monomial(u, u.lo, u.hi, 1.0, 2.0)
    zero = u.filled_with(0.0)
    return [square, double, u.filled_with(2.0), zero, zero][: order + 1]


@register_by_shape(scalar.Sqrt, (Shape(floor=0.0), *ALTERNATING), least=0.0)
def _sqrt_values(x: Array, order: int) -> list[Array]:
    root, r = np.sqrt(x), 1.0 / x
    slope = 0.5 / root
    slopes = [slope, -0.5 * slope * r, 0.75 * slope * r * r]
    if order > 3:
        slopes.append(-1.875 * slope * r * r * r)
    return [root, *slopes][: order + 1]


@enclose_derivatives.register(scalar.Reciprocal)
def _enclose_reciprocal(op: scalar.Reciprocal, u: Interval, order: int) -> list[Interval]:
    u = u.with_positive_zeros()
    enclosures = []
    with np.errstate(all="ignore"):
        first, last = 1.0 / u.lo, 1.0 / u.hi
        low, high = first, last
        for n, factor in enumerate((1.0, -1.0, 2.0, -6.0, 24.0)[: order + 1], start=1):
            enclosures.append(_enclose_monomial(u, low, high, -float(n), factor))
            low, high = low * first, high * last
    return enclosures


@enclose_derivatives.register(scalar.Pow)
def _enclose_power(op: scalar.Pow, u: Interval, order: int, exponent: ArrayLike) -> list[Interval]:
    """Enclose u to constant powers that broadcast with u; fractional ones need u >= 0."""
    exponent = np.asarray(exponent, dtype=np.float64)
    u = u.with_positive_zeros()
    real = (exponent != np.floor(exponent)) & (u.lo < 0.0)
    factor, enclosures = np.ones_like(exponent), []
    with np.errstate(all="ignore"):
        for n in range(order + 1):
            e = exponent - n
            enclosures.append(_enclose_monomial(u, np.power(u.lo, e), np.power(u.hi, e), e, factor))
            factor = factor * e
    return without_bounds_where(real, enclosures)


def _enclose_monomial(
    u: Interval, at_lo: Array, at_hi: Array, e: ArrayLike, factor: ArrayLike
) -> Interval:
    """Enclose `factor` x^e for an integer e, from x^e at the ends of `u`."""
    e, factor = np.asarray(e), np.asarray(factor)
    lo, hi = _range_of_power(u, at_lo, at_hi, e)
    # Clip ends that overflowed: times a small factor, they may be finite.
    low, high = factor * np.minimum(lo, _MAX_FLOAT), factor * np.maximum(hi, -_MAX_FLOAT)
    product = Interval.rounded(np.minimum(low, high), np.maximum(low, high))
    # Values at the ends may have underflowed, so they do not determine the sign.
    even = e % 2.0 == 0.0
    pole = (u.lo == 0.0) & (u.hi == 0.0) & (e < 0.0)
    positive, negative = ((u.lo >= 0.0) & ~pole) | even, (u.hi <= 0.0) & ~pole & ~even
    above = (positive & (factor >= 0.0)) | (negative & (factor <= 0.0)) | (factor == 0.0)
    below = (positive & (factor <= 0.0)) | (negative & (factor >= 0.0)) | (factor == 0.0)
    return Interval(
        np.where(above, np.maximum(product.lo, 0.0), product.lo),
        np.where(below, np.minimum(product.hi, 0.0), product.hi),
    )


def _range_of_power(u: Interval, at_lo: Array, at_hi: Array, e: Array) -> tuple[Array, Array]:
    """Range of x^e from its values at the ends; around 0 it may have an extremum or a pole."""
    lo, hi = np.minimum(at_lo, at_hi), np.maximum(at_lo, at_hi)
    touches = (u.lo <= 0.0) & (u.hi >= 0.0)
    if not touches.any():
        return lo, hi
    even, left, right = e % 2.0 == 0.0, u.lo < 0.0, u.hi > 0.0
    turns, pole = touches & even & (e > 0.0), touches & (e < 0.0)
    falls, rises = pole & (left | ~right) & ~even, pole & (right | even)
    # If an end is the pole 0, its value may be an infinity of the wrong sign: replace it.
    lo = np.where(falls, -np.inf, np.where(turns, 0.0, lo))
    hi = np.where(rises, np.inf, np.where(falls, at_lo, hi))
    return lo, hi
