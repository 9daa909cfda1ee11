"""Modified Bessel functions of the first kind, unscaled and scaled by exp(-|x|)."""

import math

import numpy as np
from pymc.distributions.dist_math import I1e, i0e_scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import SLOPES, double_constant, make_operation

# Asymptotic series: threshold `_FAR` and number of terms. Below the threshold, the trapezoidal rule
# on (0, π) with `_POINTS` intervals. Both are accurate to the last digits.
_FAR, _TERMS, _POINTS = 30.0, 24, 32
# Maximum |x|: exp(|x|) overflows beyond it.
_LARGE = 720.0


@compile_by_numba()
def i0e_slope_of_positive(order, x):
    """Derivative of exp(-x) I_0(x) for x >= 0, of any order.

    It is the mean of (cos t - 1)^order exp(x (cos t - 1)) over (0, π), without cancellation:
    Abramowitz and Stegun (1964), 9.6.16 and, for large x, 9.7.1.
    """
    total = 0.0
    if x < _FAR:
        for k in range(_POINTS + 1):
            less = math.cos(math.pi * k / _POINTS) - 1.0
            weight = 0.5 if k == 0 or k == _POINTS else 1.0
            total += weight * less**order * math.exp(x * less)
        return total / _POINTS
    term = 1.0 / math.sqrt(x) / math.sqrt(2.0 * math.pi)
    for j in range(order):
        term *= -(j + 0.5) / x
    for k in range(_TERMS):
        total += term
        odd, power = 2.0 * k + 1.0, k + 0.5
        term *= odd * odd / (8.0 * (k + 1.0)) * ((power + order) / power) / x
    return total


@compile_by_numba()
def i0e_slope_at(order, x):
    """Derivative of exp(-|x|) I_0(x); from the right at zero."""
    slope = i0e_slope_of_positive(order, abs(x))
    return -slope if x < 0.0 and order % 2 == 1 else slope


@compile_by_numba()
def i1e_slope_at(order, x):
    """Derivative of exp(-|x|) I_1(x); from the right at zero."""
    size = abs(x)
    slope = i0e_slope_of_positive(order, size) + i0e_slope_of_positive(order + 1, size)
    return -slope if x < 0.0 and order % 2 == 0 else slope


@compile_by_numba()
def i0_slope_at(order, x):
    """Derivative of I_0(x), the mean of cos(t)^order exp(x cos t)."""
    size = abs(x)
    if size > _LARGE:
        slope = np.inf
    else:
        slope, binomial = 0.0, 1.0
        for k in range(order + 1):
            slope += binomial * i0e_slope_of_positive(k, size)
            binomial *= (order - k) / (k + 1.0)
        slope *= math.exp(0.5 * size)
        slope *= math.exp(0.5 * size)
    return -slope if x < 0.0 and order % 2 == 1 else slope


I0e = type(i0e_scalar)
I0eSlope, i0e_slope = make_operation(i0e_slope_at, has_order=True)
I1eSlope, i1e_slope = make_operation(i1e_slope_at, has_order=True)
I0Slope, i0_slope = make_operation(i0_slope_at, has_order=True)
SLOPES[I0e] = lambda x, value: i0e_slope(double_constant(1), x)
SLOPES[I1e] = lambda x, value: i1e_slope(double_constant(1), x)
SLOPES[scalar_math.I0] = lambda x, value: i0_slope(double_constant(1), x)
SLOPES[scalar_math.I1] = lambda x, value: i0_slope(double_constant(2), x)
