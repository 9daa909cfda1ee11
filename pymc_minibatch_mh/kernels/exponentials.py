"""Logarithms and error functions of exponentials, in forms that neither cancel nor overflow."""

import math

import numpy as np

from pymc_minibatch_mh._jit import compiled

_ROOT_PI = math.sqrt(math.pi)
# From here on the continued fraction of the complementary error function takes few terms.
_FAR, _TERMS = 5.0, 40
# exp(x) is lost beside one below the first, and beside x above the second.
_LOST, _ALONE = -37.0, 37.0
# Up to here the power series of log(1 + x)/x takes few terms, and closed forms cancel.
_NEAR, _POWERS = 0.3, 36


@compiled()
def _tail(x):
    """Return x √π exp(x²) erfc(x) inverted, for x > 5: Abramowitz and Stegun (1964), 7.1.14."""
    fraction = 1.0
    for k in range(_TERMS, 0, -1):
        fraction = 1.0 + 0.5 * k / (x * x * fraction)
    return fraction


@compiled()
def log_erfc(x):
    """Return log(erfc(x))."""
    if x < _FAR:
        return math.log1p(-math.erf(x)) if x < 0.5 else math.log(math.erfc(x))
    return -x * x - math.log(x * _ROOT_PI) - math.log(_tail(x))


@compiled()
def erfc_slope(x):
    """Return the derivative of log(erfc(x))."""
    if x < _FAR:
        return -2.0 / _ROOT_PI * math.exp(-x * x) / math.erfc(x)
    return -2.0 * x * _tail(x)


@compiled()
def log_any(x):
    """Return log(1 - exp(-exp(x)))."""
    if x < _LOST:
        return x
    size = math.exp(min(x, _ALONE))
    return math.log(-math.expm1(-size)) if size < 1.0 else math.log1p(-math.exp(-size))


@compiled()
def log_any_slope(x):
    """Return the derivative of :func:`log_any`: w/(exp(w) - 1), w = exp(x)."""
    if x < _LOST:
        return 1.0
    size = math.exp(min(x, _ALONE))
    return size / math.expm1(size) if size < 700.0 else 0.0


@compiled()
def log_softplus(x):
    """Return log(log(1 + exp(x)))."""
    if x < _LOST:
        return x
    return math.log(x if x > _ALONE else math.log1p(math.exp(x)))


@compiled()
def log_add_exp(x, y):
    """Return log(exp(x) + exp(y)), any of which may be -inf."""
    large, small = max(x, y), min(x, y)
    if not small > -np.inf:
        return large
    return large + math.log1p(math.exp(small - large))


@compiled()
def _log1p_ratio_near(order, x):
    total = 0.0
    for k in range(_POWERS, order - 1, -1):
        falling = 1.0
        for i in range(order):
            falling *= k - i
        total = total * x + (falling if k % 2 == 0 else -falling) / (k + 1.0)
    return total


@compiled()
def log1p_ratio_slope(order, x):
    """Return a derivative of log(1 + x)/x, of order 0 to 3."""
    if abs(x) < _NEAR:
        return _log1p_ratio_near(order, x)
    inverse = 1.0 / (1.0 + x)
    value = math.log1p(x) / x
    # x r' + r = 1/(1 + x), and the derivatives of that.
    right, times = inverse, 1.0
    for _ in range(order):
        value = (right - times * value) / x
        right *= -times * inverse
        times += 1.0
    return value


@compiled()
def log1p_ratio(x):
    """Return log(1 + x)/x, one at zero."""
    return log1p_ratio_slope(0, x)
