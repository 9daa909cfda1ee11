"""Trigonometric and hyperbolic functions and their inverses."""

import math

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import SLOPES, double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import (
    Shape,
    enclose_by_shape,
    enclose_derivatives,
    register_by_shape,
)
from pymc_minibatch_mh.functions.interval import CANCELLATION, Array, Interval, Mask


@compile_by_numba()
def arctan_slope_at(order, x):
    """Derivative of arctan(x), of order 1 to 3."""
    w = 1.0 / (1.0 + x * x)
    return w if order == 1 else -2.0 * (x * w) * w if order == 2 else (6.0 - 8.0 * w) * w * w


@compile_by_numba()
def arcsinh_slope_at(order, x):
    """Derivative of arcsinh(x), of order 1 to 3."""
    s = 1.0 / math.hypot(1.0, x)
    return s if order == 1 else -(x * s) * s * s if order == 2 else (2.0 - 3.0 * s * s) * s * s * s


@compile_by_numba()
def arccosh_slope_at(order, x):
    """Derivative of arccosh(x), of order 1 to 3."""
    s = 1.0 / math.sqrt(x - 1.0) / math.sqrt(x + 1.0)
    return s if order == 1 else -(x * s) * s * s if order == 2 else (2.0 + 3.0 * s * s) * s * s * s


ArctanSlope, arctan_slope = make_operation(arctan_slope_at, has_order=True, is_plain=True)
ArcsinhSlope, arcsinh_slope = make_operation(arcsinh_slope_at, has_order=True, is_plain=True)
ArccoshSlope, arccosh_slope = make_operation(arccosh_slope_at, has_order=True)
SLOPES[scalar.ArcTan] = lambda x, value: arctan_slope(double_constant(1), x)
SLOPES[scalar.ArcSinh] = lambda x, value: arcsinh_slope(double_constant(1), x)
SLOPES[scalar.ArcCosh] = lambda x, value: arccosh_slope(double_constant(1), x)
# Maximum |x|: beyond it decaying terms are below the minimum slack, and factors would overflow.
_FAR = 1e150
_THIRD = math.sqrt(1.0 / 3.0)
_ARCTAN = (
    Shape(),
    Shape(peaks=((0.0, 1.0),), floor=0.0, ceiling=1.0),
    Shape(peaks=((-_THIRD, 9.0 * _THIRD / 8.0),), valleys=((_THIRD, -9.0 * _THIRD / 8.0),)),
    Shape(
        valleys=((0.0, -2.0),),
        peaks=((-1.0, 0.5), (1.0, 0.5)),
        slack=lambda x: 10.0 * CANCELLATION / (1.0 + np.clip(x, -_FAR, _FAR) ** 2) ** 2,
    ),
    # The fourth derivative 24 x (1 - x²) / (1 + x²)⁴ has its extrema at 5x⁴ - 10x² + 1 = 0.
    Shape.odd_function(
        peak=(0.32491969623290634, 4.668559284155213),
        valley=(1.3763819204711736, -0.4209637280433613),
        slack=lambda x: 30.0 * CANCELLATION / np.hypot(1.0, np.clip(x, -_FAR, _FAR)) ** 5,
    ),
)


@register_by_shape(scalar.ArcTan, _ARCTAN)
def _arctan_values(x: Array, order: int) -> list[Array]:
    value, w, x = np.arctan(x), 1.0 / (1.0 + x * x), np.clip(x, -_FAR, _FAR)
    slopes = [w, -2.0 * x * w * w, (6.0 - 8.0 * w) * w * w]
    if order > 3:
        slopes.append(24.0 * x * w * w * w * (2.0 * w - 1.0))
    return [value, *slopes][: order + 1]


@enclose_derivatives.register(scalar.Sin)
@enclose_derivatives.register(scalar.Cos)
def _enclose_sinusoid(op: ScalarOp, u: Interval, order: int) -> list[Interval]:
    """Enclose sine or cosine: each derivative is shifted by a quarter of a turn."""
    quarters = int(isinstance(op, scalar.Cos))
    waves: dict[bool, Interval] = {}
    enclosures = []
    for n in range(quarters, quarters + order + 1):
        cosine = n % 2 == 1
        if cosine not in waves:
            waves[cosine] = _range_of_wave(np.cos if cosine else np.sin, 0.0 if cosine else 0.5, u)
        enclosures.append(-waves[cosine] if n % 4 >= 2 else waves[cosine])
    return enclosures


def _range_of_wave(function: np.ufunc, peak: float, u: Interval) -> Interval:
    """Range of a function of period 2π with its maximum at `peak` π."""
    with np.errstate(all="ignore"):
        at_lo, at_hi = function(u.lo), function(u.hi)
        lo, hi = np.minimum(at_lo, at_hi), np.maximum(at_lo, at_hi)
        hi = np.where(_contains_multiple(u, peak), 1.0, hi)
        lo = np.where(_contains_multiple(u, peak + 1.0), -1.0, lo)
        return Interval.rounded(lo, hi).clipped_to(-1.0, 1.0)


def _contains_multiple(u: Interval, where: float) -> Mask:
    """Whether an interval may contain π (where + 2k) for an integer k."""
    first = 0.5 * (u.lo / math.pi - where)
    last = 0.5 * (u.hi / math.pi - where)
    # Widen by the rounding error; if it exceeds one turn, the result is true, which is safe.
    first = first - CANCELLATION * np.abs(first)
    last = last + CANCELLATION * np.abs(last)
    return ~(np.ceil(first) > np.floor(last))


_HALF = math.sqrt(0.5)
# arcsinh'' has its extrema at x² = 1/2, where 1 + x² = 3/2, and arcsinh''' at x² = 3/2.
_PEAK = _HALF * (2.0 / 3.0) ** 1.5
_ARCSINH = (
    Shape(),
    Shape(peaks=((0.0, 1.0),), floor=0.0, ceiling=1.0),
    Shape(peaks=((-_HALF, _PEAK),), valleys=((_HALF, -_PEAK),)),
    Shape(
        valleys=((0.0, -1.0),),
        peaks=((-math.sqrt(1.5), 2.0 * 0.4**2.5), (math.sqrt(1.5), 2.0 * 0.4**2.5)),
        slack=lambda x: 10.0 * CANCELLATION / np.hypot(1.0, np.clip(x, -_FAR, _FAR)) ** 3,
    ),
    # The fourth derivative (9x - 6x³) (1 + x²)^(-7/2) has its extrema at 8x⁴ - 24x² + 3 = 0.
    Shape.odd_function(
        peak=(0.36151570676401423, 1.9322876581800938),
        valley=(1.6939027108316804, -0.12213058179616695),
        slack=lambda x: 30.0 * CANCELLATION / np.hypot(1.0, np.clip(x, -_FAR, _FAR)) ** 4,
    ),
)
_COSH = Shape(valleys=((0.0, 1.0),), floor=1.0)


@register_by_shape(scalar.ArcSinh, _ARCSINH)
def _arcsinh_values(x: Array, order: int) -> list[Array]:
    value, s, x = np.arcsinh(x), 1.0 / np.hypot(1.0, x), np.clip(x, -_FAR, _FAR)
    slopes = [s, -x * s * s * s, (2.0 - 3.0 * s * s) * s * s * s]
    if order > 3:
        slopes.append(x * s * s * s * s * s * (15.0 * s * s - 6.0))
    return [value, *slopes][: order + 1]


@enclose_derivatives.register(scalar.Sinh)
@enclose_derivatives.register(scalar.Cosh)
def _enclose_hyperbolic(op: ScalarOp, u: Interval, order: int) -> list[Interval]:
    """Enclose sinh or cosh: derivatives alternate between the two functions."""
    functions = ((np.sinh, Shape()), (np.cosh, _COSH))
    first_two = functions if isinstance(op, scalar.Sinh) else functions[::-1]

    def values_at(x: Array, order: int) -> list[Array]:
        return [function(x) for function, _ in first_two[: order + 1]]

    pair = enclose_by_shape(values_at, [shape for _, shape in first_two], u, min(order, 1))
    return (pair * 3)[: order + 1]
