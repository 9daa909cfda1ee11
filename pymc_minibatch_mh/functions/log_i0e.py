"""The function log(exp(-x) I_0(x)) of positive numbers, the constant of von Mises' distribution.

Its derivatives are cumulants of cos t - 1 with t of the density proportional to exp(x cos t), so
that no Bessel functions cancel. For large x it is -log(2 π x)/2 plus a series in 1/x: the logarithm
of Abramowitz and Stegun (1964), 9.7.1.
"""

import math

import numpy as np

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import NEVER_POSITIVE, Shape, register_by_shape
from pymc_minibatch_mh.functions.interval import Array

# Threshold of the series and its number of terms; below it the trapezoidal rule on (0, π).
_FAR, _TERMS, _POINTS = 30.0, 24, 32
_LESS = np.cos(np.pi * np.arange(_POINTS + 1) / _POINTS) - 1.0
_WEIGHTS = np.where((np.arange(_POINTS + 1) % _POINTS) == 0, 0.5, 1.0) / _POINTS
# Absolute error of computed derivatives of order 3 and 4 near 0.
_ROUNDED = 4e-15


def _coefficients() -> np.ndarray:
    """Coefficients of the logarithm of 1 + 1/(8 x) + 9/(128 x²) + ... in powers of 1/x."""
    series, logs = np.ones(_TERMS), np.zeros(_TERMS)
    for k in range(1, _TERMS):
        series[k] = series[k - 1] * (2.0 * k - 1.0) ** 2 / (8.0 * k)
        logs[k] = series[k] - sum(j * logs[j] * series[k - j] for j in range(1, k)) / k
    return logs


_COEFFICIENTS = _coefficients()


@compile_by_numba()
def _slope_far(order, x):
    total, factor = 0.0, 1.0
    for j in range(order):
        factor *= -(j + 1.0)
    # The factor of the power k of 1/x in a derivative is (-1)^n k (k + 1) ... (k + n - 1).
    for k in range(1, _COEFFICIENTS.size):
        total += factor * _COEFFICIENTS[k] * x ** (-k - order)
        factor *= (k + order) / k
    if order == 0:
        return total - 0.5 * (math.log(2.0 * math.pi) + math.log(x))
    last = -0.5
    for j in range(1, order):
        last *= -j
    return total + last * x**-order


@compile_by_numba()
def log_i0e_slope_at(order, x):
    """Derivative of log(exp(-x) I_0(x)) for x >= 0, of order 0 to 4."""
    if x > _FAR:
        return _slope_far(order, x)
    less, mean = 0.0, 0.0
    for k in range(_LESS.size):
        less += _WEIGHTS[k] * math.expm1(x * _LESS[k])
        mean += _WEIGHTS[k] * math.exp(x * _LESS[k]) * _LESS[k]
    mean /= 1.0 + less
    if order < 2:
        return math.log1p(less) if order == 0 else mean
    second, moment = 0.0, 0.0
    for k in range(_LESS.size):
        share, away = _WEIGHTS[k] * math.exp(x * _LESS[k]) / (1.0 + less), _LESS[k] - mean
        second += share * away**2
        moment += share * away**order
    return moment - 3.0 * second * second if order == 4 else moment


@compile_by_numba()
def log_i0e_at(x):
    """Function log(exp(-x) I_0(x)) for x >= 0."""
    return log_i0e_slope_at(0, x)


LogI0eSlope, log_i0e_slope = make_operation(log_i0e_slope_at, has_order=True)
LogI0e, log_i0e = make_operation(log_i0e_at, lambda x, value: log_i0e_slope(double_constant(1), x))
# For h = log(exp(-x) I_0(x)), h and h'' fall and h' rises; h''' has a valley, and h'''' a peak.
_SHAPES = (
    NEVER_POSITIVE,
    Shape(floor=-1.0, ceiling=0.0),
    Shape(floor=0.0, ceiling=0.5),
    Shape(
        valleys=((1.028885460765185, -0.2244616867465533),),
        ceiling=0.0,
        slack=lambda x: _ROUNDED / (1.0 + x) ** 3,
    ),
    Shape(
        peaks=((1.777662206541911, 0.1185188724469465),),
        slack=lambda x: _ROUNDED / (1.0 + x) ** 4,
    ),
)


@compile_by_numba()
def _write_slopes(x, out):
    for k in range(out.shape[0]):
        for i in range(x.size):
            out[k, i] = log_i0e_slope_at(k, x[i])


@register_by_shape(LogI0e, _SHAPES, least=0.0)
def _log_i0e_values(x: Array, order: int) -> list[Array]:
    out = np.empty((order + 1, np.size(x)))
    _write_slopes(np.ravel(x), out)
    return list(out.reshape(order + 1, *np.shape(x)))
