"""Ratios of gamma functions near infinity, as functions of the reciprocal of their argument.

R(x; y, z) = log Γ(1/x + y) - log Γ(1/x + z) + (y - z) log x, which is zero at x = 0 and smooth
there. For y - z a natural number it is Σ log(1 + j x) over j from z to y - 1. By Stirling's series
(Abramowitz and Stegun, 1964, 6.1.40) it is E(y) - E(z), in which nothing is infinite:

    E(s) = s [g(s x) - 1] + (s - 1/2) log(1 + s x) + Σ_k B_2k / (2k (2k - 1)) r^(2k - 1),

with g(u) = log(1 + u)/u and r = x / (1 + s x).
"""

import math

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.exponentials import log1p_ratio, log1p_ratio_slope

# Factors of r, r³, r⁵, ... and from where on the series is used.
_STIRLING = np.array(
    [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400]
)
_ASYMPTOTIC = 20.0
# Up to here the power series of log(1 + x)/x takes few terms.
_NEAR, _POWERS = 0.3, 36
# A sum of so few terms is taken term by term.
_FEW = 24.0


@compiled()
def _shift(x, y, z):
    """Return by how much y and z are enlarged, so that the series is precise."""
    return max(0.0, math.ceil(_ASYMPTOTIC - 1.0 / x - min(y, z))) if x > 0.0 else 0.0


@compiled()
def _lack(x):
    """Return log(1 + x)/x - 1, to the precision of itself."""
    if x > _NEAR:
        return log1p_ratio(x) - 1.0
    total = 0.0
    for k in range(_POWERS, 0, -1):
        total = (1.0 / (k + 1.0) - total) * x
    return -total


@compiled()
def _end(s, x):
    """Return E(s)."""
    r = x / (1.0 + s * x)
    square, tail = r * r, 0.0
    for k in range(_STIRLING.size - 1, -1, -1):
        tail = tail * square + _STIRLING[k]
    return s * _lack(s * x) + (s - 0.5) * math.log1p(s * x) + r * tail


@compiled(inlined=True)
def _is_short(y, z):
    """Return whether R is a sum of few logarithms."""
    steps = abs(y - z)
    return steps <= _FEW and steps == math.floor(steps) and min(y, z) >= 0.0


@compiled()
def gamma_rise(x, y, z):
    """Return R(x; y, z) for x >= 0, NaN below."""
    if not x >= 0.0:
        return np.nan
    if _is_short(y, z):
        total = 0.0
        for i in range(int(abs(y - z))):
            total += math.log1p((min(y, z) + i) * x)
        return total if y >= z else -total
    shift, apart = _shift(x, y, z), 0.0
    for i in range(int(shift)):
        apart += math.log1p((y + i) * x) - math.log1p((z + i) * x)
    return _end(y + shift, x) - _end(z + shift, x) - apart


@compiled(inlined=True)
def _log_slope(order, s, e):
    """Return the derivative of log(1 + s x), by e = 1/(1 + s x)."""
    share = s * e
    return share if order == 1 else -share * share if order == 2 else 2.0 * share * share * share


@compiled()
def _end_slope(order, s, x):
    """Return the derivative of E(s) in x, of order 1 to 3."""
    e = 1.0 / (1.0 + s * x)
    r = x * e
    total = s ** (order + 1) * log1p_ratio_slope(order, s * x) + (s - 0.5) * _log_slope(order, s, e)
    power = 1.0
    for k in range(_STIRLING.size):
        m = 2.0 * k + 1.0
        # Of r^m, with `power` r^(m - 1). The derivatives of r are e², -2 s e³ and 6 s² e⁴.
        below = power / r if k > 0 and r > 0.0 else 0.0
        if order == 1:
            part = m * power * e**2
        elif order == 2:
            part = m * e**3 * ((m - 1.0) * below * e - 2.0 * s * power)
        else:
            again = (below / r if r > 0.0 else 0.0) if k > 1 else (1.0 if k == 1 else 0.0)
            part = (m - 1.0) * (m - 2.0) * again * e**2 - 6.0 * (m - 1.0) * s * below * e
            part = m * e**4 * (part + 6.0 * s * s * power)
        total += _STIRLING[k] * part
        power *= r * r
    return total


@compiled()
def gamma_rise_slope(order, x, y, z):
    """Return the derivative of :func:`gamma_rise` in x, of order 1 to 3."""
    if not x >= 0.0:
        return np.nan
    if _is_short(y, z):
        total = 0.0
        for i in range(int(abs(y - z))):
            one = min(y, z) + i
            total += _log_slope(order, one, 1.0 / (1.0 + one * x))
        return total if y >= z else -total
    shift, apart = _shift(x, y, z), 0.0
    for i in range(int(shift)):
        one, other = y + i, z + i
        apart += _log_slope(order, one, 1.0 / (1.0 + one * x))
        apart -= _log_slope(order, other, 1.0 / (1.0 + other * x))
    return _end_slope(order, y + shift, x) - _end_slope(order, z + shift, x) - apart
