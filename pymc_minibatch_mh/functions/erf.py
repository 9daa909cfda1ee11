"""The error function, its complement, and the complement scaled by exp(x²)."""

import math

import numpy as np
from pytensor.scalar import math as scalar_math
from scipy import special

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import SLOPES, double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import (
    ALTERNATING,
    Shape,
    enclose_by_shape,
    enclose_derivatives,
    register_by_shape,
)
from pymc_minibatch_mh.functions.interval import CANCELLATION, Array, Interval, Mask

#: Slope of erf at zero.
SLOPE_AT_ZERO = 2.0 / math.sqrt(math.pi)
_HALF, _SECOND = math.sqrt(0.5), SLOPE_AT_ZERO * math.sqrt(2.0) * math.exp(-0.5)
_TURN, _THIRD = math.sqrt(1.5), 4.0 * SLOPE_AT_ZERO * math.exp(-1.5)
_SLOPES_OF_ERF = (
    Shape(peaks=((0.0, SLOPE_AT_ZERO),), floor=0.0),
    Shape(peaks=((-_HALF, _SECOND),), valleys=((_HALF, -_SECOND),)),
    Shape(
        valleys=((0.0, -2.0 * SLOPE_AT_ZERO),),
        peaks=((-_TURN, _THIRD), (_TURN, _THIRD)),
        slack=lambda x: 4.0 * CANCELLATION * np.exp(-x * x),
    ),
    # The fourth derivative, 12x - 8x³ times the first, has its extrema at 4x⁴ - 12x² + 3 = 0.
    Shape.odd_function(
        peak=(0.5246476232752904, 4.404702716006555),
        valley=(1.6506801238857844, -1.196497885653117),
        slack=lambda x: 20.0 * CANCELLATION * np.exp(-x * x),
    ),
)
# Threshold above which closed forms cancel, and depth of the continued fraction used there.
TAIL_START, _DEPTH = 1.5, 70
# Below LEFT, exp(-x²) underflows. Above RIGHT, decaying terms are below the allowed rounding.
LEFT, RIGHT = -40.0, 1e150


@compile_by_numba()
def erf_slope_at(order, x):
    """Derivative of erf(x), of order 1 to 3."""
    slope = SLOPE_AT_ZERO * math.exp(-x * x)
    if order == 1 or slope == 0.0:
        return slope
    return -2.0 * x * slope if order == 2 else (4.0 * x * x - 2.0) * slope


@compile_by_numba()
def tail_ratios_at(x, depth):
    """Ratios r_1, r_2 and r_3 of :func:`tail_ratios`, by `depth` terms of a continued fraction."""
    first = second = third = 0.0
    for n in range(depth, 0, -1):
        first, second, third = 0.5 / (x + (n + 1.0) * first), first, second
    return first, second, third


@compile_by_numba()
def erfcx_slope_at(order, x):
    """Derivative of exp(x²) erfc(x), of order 1 to 3."""
    if x > TAIL_START:
        r1, r2, r3 = tail_ratios_at(x, _DEPTH)
        # The value is 2 / √π times r_0 = 0.5 / (x + r1).
        first = -SLOPE_AT_ZERO * r1 / (x + r1)
        return first if order == 1 else -4.0 * r2 * first * (1.0 if order == 2 else -6.0 * r3)
    value = math.exp(x * x) * math.erfc(x)
    first = 2.0 * x * value - SLOPE_AT_ZERO
    second = 2.0 * value + 2.0 * x * first
    return first if order == 1 else second if order == 2 else 4.0 * first + 2.0 * x * second


ErfSlope, erf_slope = make_operation(erf_slope_at, has_order=True, is_plain=True)
ErfcxSlope, erfcx_slope = make_operation(erfcx_slope_at, has_order=True)
SLOPES[scalar_math.Erf] = lambda x, value: erf_slope(double_constant(1), x)
SLOPES[scalar_math.Erfc] = lambda x, value: -erf_slope(double_constant(1), x)
SLOPES[scalar_math.Erfcx] = lambda x, value: erfcx_slope(double_constant(1), x)
# Slope of an inverse function: exp(x) divided by the normal density at the value.
SLOPES[scalar_math.NdtriExp] = lambda x, value: (
    double_constant(math.sqrt(0.5 * math.pi))
    * scalar_math.erfcx(double_constant(-math.sqrt(0.5)) * value)
)


@register_by_shape(scalar_math.Erf, (Shape(floor=-1.0, ceiling=1.0), *_SLOPES_OF_ERF))
def _erf_values(x: Array, order: int) -> list[Array]:
    value, slope, x = special.erf(x), SLOPE_AT_ZERO * np.exp(-x * x), np.clip(x, LEFT, -LEFT)
    slopes = [slope, -2.0 * x * slope, (4.0 * x * x - 2.0) * slope]
    if order > 3:
        slopes.append((12.0 - 8.0 * x * x) * x * slope)
    return [value, *slopes][: order + 1]


@enclose_derivatives.register(scalar_math.Erfc)
def _enclose_erfc(op: scalar_math.Erfc, u: Interval, order: int) -> list[Interval]:
    value = enclose_by_shape(lambda x, _: [special.erfc(x)], (Shape(floor=0.0, ceiling=2.0),), u, 0)
    return value + [-slope for slope in enclose_derivatives(scalar_math.erf, u, order)[1:]]


@register_by_shape(scalar_math.Erfcx, ALTERNATING)
def _erfcx_values(x: Array, order: int) -> list[Array]:
    """Values of exp(x²) erfc(x), with monotone derivatives that alternate in sign and tend to 0."""
    value = special.erfcx(x)
    if order == 0:
        return [value]
    tail, x = x > TAIL_START, np.minimum(x, RIGHT)
    r1, r2, r3, *r4 = tail_ratios(x, tail, max(order, 3))
    first = np.where(tail, -2.0 * r1 * value, 2.0 * x * value - SLOPE_AT_ZERO)
    second = np.where(tail, -4.0 * r2 * first, 2.0 * value + 2.0 * x * first)
    third = np.where(tail, -6.0 * r3 * second, 4.0 * first + 2.0 * x * second)
    slopes = [first, second, third]
    if order > 3:
        slopes.append(np.where(tail, -8.0 * r4[0] * third, 6.0 * second + 2.0 * x * third))
    return [value, *slopes][: order + 1]


def tail_ratios(x: Array, tail: Mask, count: int) -> Array:
    """First `count` ratios r_n = I_n / I_(n-1) of repeated integrals of erfc, for large x.

    They solve r_n = 1 / (2x + 2(n + 1) r_(n+1)), a continued fraction: Abramowitz and Stegun
    (1964), 7.2.5. All terms are positive, so that nothing cancels.
    """
    ratios = np.full((count, *np.shape(x)), np.nan)
    x = np.asarray(x)[tail]
    if x.size == 0:
        return ratios
    r = (np.sqrt(x * x + 2.0 * (_DEPTH + 1)) - x) / (2.0 * (_DEPTH + 1))
    for n in range(_DEPTH - 1, 0, -1):
        r = 0.5 / (x + (n + 1) * r)
        if n <= count:
            ratios[n - 1, tail] = r
    return ratios
