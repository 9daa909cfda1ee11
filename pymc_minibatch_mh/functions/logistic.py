"""The logistic function, its integral log(1 + exp(x)), and the hyperbolic tangent."""

import math

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import CHANGES, SLOPES, double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import (
    Shape,
    enclose_by_shape,
    enclose_derivatives,
    register_by_shape,
)
from pymc_minibatch_mh.functions.interval import CANCELLATION, Array, Interval

# Step size above which changes are computed by subtracting function values.
_FAR = 1.0


@compile_by_numba()
def softplus_at(x):
    """Function log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@compile_by_numba(inlined=True)
def quick_softplus_at(x):
    """Function log(1 + exp(x)) without branches."""
    return softplus_at(x)


@compile_by_numba()
def softplus_change_at(before, after, step):
    """Difference log(1 + exp(after)) - log(1 + exp(before))."""
    if abs(step) > _FAR:
        return softplus_at(after) - softplus_at(before)
    half = math.sinh(0.5 * step)
    cosh = math.sqrt(1.0 + half * half)
    return 2.0 * math.atanh(half / (math.exp(-0.5 * (before + after)) + cosh))


@compile_by_numba()
def tanh_slope_at(order, x):
    """Derivative of tanh(x), of order 1 to 3, precise in both tails."""
    decay = math.exp(-2.0 * abs(x))
    slope = 4.0 * decay / ((1.0 + decay) * (1.0 + decay))
    if order == 1:
        return slope
    return -2.0 * slope * math.tanh(x) if order == 2 else slope * (4.0 - 6.0 * slope)


TanhSlope, tanh_slope = make_operation(tanh_slope_at, has_order=True, is_plain=True)
# PyTensor's own kernel has four branches, and takes three times as long at mixed signs.
QuickSoftplus, quick_softplus = make_operation(
    quick_softplus_at, lambda x, value: scalar_math.sigmoid(x)
)
SoftplusChange, CHANGES[scalar_math.Softplus] = make_operation(softplus_change_at)
SLOPES[scalar_math.Softplus] = lambda x, value: scalar_math.sigmoid(x)
SLOPES[scalar_math.Sigmoid] = lambda x, value: value * scalar_math.sigmoid(-x)
SLOPES[scalar.Tanh] = lambda x, value: tanh_slope(double_constant(1), x)
# With p = σ(1 - σ), the third derivative has its extrema at σ'''' = 0, where p = 1/12, and the
# fourth at the zeros of the fifth, p (1 - 30p + 120p²).
_STEEPEST = math.log(2.0 + math.sqrt(3.0))
_TURN_OF_SLOPE = math.log(5.0 + math.sqrt(24.0))
_SIGMOID = (
    Shape(floor=0.0, ceiling=1.0),
    Shape(peaks=((0.0, 0.25),), floor=0.0),
    Shape(
        peaks=((-_STEEPEST, math.sqrt(3.0) / 18.0),), valleys=((_STEEPEST, -math.sqrt(3.0) / 18.0),)
    ),
    Shape(
        valleys=((0.0, -0.125),),
        peaks=((-_TURN_OF_SLOPE, 1.0 / 24.0), (_TURN_OF_SLOPE, 1.0 / 24.0)),
        slack=lambda x: CANCELLATION * np.exp(-np.abs(x)),
    ),
    Shape.odd_function(
        peak=(0.8426329481293766, 0.12768392196780176),
        valley=(3.1443184061549303, -0.019065223250383904),
        slack=lambda x: 4.0 * CANCELLATION * np.exp(-np.abs(x)),
    ),
)


@enclose_derivatives.register(scalar_math.Softplus)
def _enclose_softplus(op: scalar_math.Softplus, u: Interval, order: int) -> list[Interval]:
    value = enclose_by_shape(_softplus_values, (Shape(floor=0.0),), u, 0)
    return value + (enclose_by_shape(_sigmoid_values, _SIGMOID, u, order - 1) if order > 0 else [])


@enclose_derivatives.register(scalar.Tanh)
def _enclose_tanh(op: scalar.Tanh, u: Interval, order: int) -> list[Interval]:
    """Enclose tanh x = 2 σ(2x) - 1; multiplication by powers of two is exact."""
    value = enclose_by_shape(lambda x, _: [np.tanh(x)], (Shape(floor=-1.0, ceiling=1.0),), u, 0)
    if order == 0:
        return value
    with np.errstate(over="ignore"):
        lo = 2.0 * u.lo
        twice = Interval(lo, lo if u.lo is u.hi else 2.0 * u.hi)
    slopes = enclose_by_shape(_sigmoid_values, _SIGMOID, twice, order)[1:]
    return value + [
        Interval(2.0**n * slope.lo, 2.0**n * slope.hi) for n, slope in enumerate(slopes, start=2)
    ]


def _softplus_values(x: Array, order: int) -> list[Array]:
    return [np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))]


@register_by_shape(scalar_math.Sigmoid, _SIGMOID)
def _sigmoid_values(x: Array, order: int) -> list[Array]:
    """Derivatives of the logistic function in a form that is precise in both tails."""
    decay = np.exp(-np.abs(x))
    heavy = 1.0 / (1.0 + decay)
    light = decay * heavy
    values = [np.where(x < 0.0, light, heavy)]
    if order > 0:
        slope = light * heavy
        values.append(slope)
    if order > 1:
        values.append(-slope * np.tanh(0.5 * x))
    if order > 2:
        values.append(slope * (1.0 - 6.0 * slope))
    if order > 3:
        values.append(slope * (12.0 * slope - 1.0) * np.tanh(0.5 * x))
    return values
