"""The function log(1 + x) / x, with value one at zero."""

import math

import numpy as np

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import ALTERNATING, register_by_shape
from pymc_minibatch_mh.functions.interval import Array

# Threshold below which closed forms cancel, and number of terms of the power series used there.
MAX_SERIES_ARGUMENT, N_POWERS = 0.3, 36
# Range for Gauss-Legendre quadrature, with errors below rounding; closed forms are accurate beyond.
_MAX_QUADRATURE, _MIN_QUADRATURE = 4.0, -0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


@compile_by_numba()
def _log1p_ratio_near(order, x):
    total = 0.0
    for k in range(N_POWERS, order - 1, -1):
        falling = 1.0
        for i in range(order):
            falling *= k - i
        total = total * x + (falling if k % 2 == 0 else -falling) / (k + 1.0)
    return total


@compile_by_numba()
def log1p_ratio_slope_at(order, x):
    """Derivative of log(1 + x)/x, of order 0 to 3."""
    if abs(x) < MAX_SERIES_ARGUMENT:
        return _log1p_ratio_near(order, x)
    inverse = 1.0 / (1.0 + x)
    value = math.log1p(x) / x
    # This function r satisfies x r' + r = 1/(1 + x): differentiation gives a recurrence.
    right, times = inverse, 1.0
    for _ in range(order):
        value = (right - times * value) / x
        right *= -times * inverse
        times += 1.0
    return value


@compile_by_numba()
def log1p_ratio_at(x):
    """Function log(1 + x)/x, with value one at zero."""
    return log1p_ratio_slope_at(0, x)


Log1pRatioSlope, log1p_ratio_slope = make_operation(log1p_ratio_slope_at, has_order=True)
Log1pRatio, log1p_ratio = make_operation(
    log1p_ratio_at, lambda x, value: log1p_ratio_slope(double_constant(1), x)
)


@compile_by_numba()
def _integrals_of_inverse_powers(x, nodes, weights, order, out):
    """Write derivatives of log(1 + x)/x up to `order`, shape (order + 1, n).

    The function is the integral of 1/(1 + x t) over t in (0, 1), by a quadrature's nodes and
    weights.
    """
    out[:] = 0.0
    for i in range(x.size):
        for j in range(nodes.size):
            ratio = 1.0 / (1.0 + x[i] * nodes[j])
            term = weights[j] * ratio
            for k in range(order + 1):
                out[k, i] += term
                term *= -(k + 1.0) * nodes[j] * ratio


@register_by_shape(Log1pRatio, ALTERNATING, least=_MIN_QUADRATURE)
def _log1p_ratio_values(x: Array, order: int) -> list[Array]:
    """Values of log(1 + x)/x, completely monotone as the integral of 1/(1 + x t) over (0, 1)."""
    near = np.where(x <= _MAX_QUADRATURE, x, 0.0)
    far = np.where(x > _MAX_QUADRATURE, x, 1.0)
    values: list[Array] = []
    below = np.log1p(far) / far
    close = np.empty((order + 1, near.size))
    _integrals_of_inverse_powers(near.reshape(-1), _NODES, _WEIGHTS, order, close)
    for k in range(order + 1):
        if k > 0:
            # Recurrence from the equation x φ = log(1 + x), differentiated k times.
            below = ((-1.0) ** (k - 1) * math.factorial(k - 1) / (1.0 + far) ** k - k * below) / far
        distant = np.where(np.isposinf(x), 0.0, below)
        values.append(np.where(x <= _MAX_QUADRATURE, close[k].reshape(x.shape), distant))
    return values
