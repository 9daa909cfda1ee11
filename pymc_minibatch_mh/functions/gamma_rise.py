"""The function R(x; y, z) = log Γ(1/x + y) - log Γ(1/x + z) + (y - z) log x, smooth at x = 0.

It is zero at x = 0. For a natural number y - z it is Σ log(1 + j x) over j from z to y - 1. By
Stirling's series (Abramowitz and Stegun, 1964, 6.1.40) it is E(y) - E(z), with finite terms:

    E(s) = s [g(s x) - 1] + (s - 1/2) log(1 + s x) + Σ_k B_2k / (2k (2k - 1)) r^(2k - 1),

with g(u) = log(1 + u)/u and r = x / (1 + s x). Bounds exist in two cases: for a whole number y - z,
as in counts, where R is a sum of logarithms, and for y = 1/2 and z = 0, as in Student's t.
"""

import math

import numpy as np

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, in_python, make_operation
from pymc_minibatch_mh.functions.enclosures import enclose_derivatives, without_bounds_where
from pymc_minibatch_mh.functions.gamma import ASYMPTOTIC
from pymc_minibatch_mh.functions.interval import TINY, Array, Interval
from pymc_minibatch_mh.functions.log1p_ratio import (
    MAX_SERIES_ARGUMENT,
    N_POWERS,
    log1p_ratio_at,
    log1p_ratio_slope_at,
)

# Coefficients B_2k / (2k (2k - 1)) of r, r³, r⁵, ... in Stirling's series.
_STIRLING = np.array(
    [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400]
)
# Maximum number of terms for a direct sum.
_MAX_DIRECT_TERMS = 24.0


@compile_by_numba()
def _series_shift(x, y, z):
    """Common shift of y and z that makes the series precise."""
    return max(0.0, math.ceil(ASYMPTOTIC - 1.0 / x - min(y, z))) if x > 0.0 else 0.0


@compile_by_numba()
def _log1p_ratio_minus_one(x):
    """Difference log(1 + x)/x - 1, to full relative precision."""
    if x > MAX_SERIES_ARGUMENT:
        return log1p_ratio_at(x) - 1.0
    total = 0.0
    for k in range(N_POWERS, 0, -1):
        total = (1.0 / (k + 1.0) - total) * x
    return -total


@compile_by_numba()
def _stirling_part(s, x):
    """Function E(s) of x as defined at the top of this file: R(x; y, z) = E(y) - E(z)."""
    r = x / (1.0 + s * x)
    square, tail = r * r, 0.0
    for k in range(_STIRLING.size - 1, -1, -1):
        tail = tail * square + _STIRLING[k]
    return s * _log1p_ratio_minus_one(s * x) + (s - 0.5) * math.log1p(s * x) + r * tail


@compile_by_numba(inlined=True)
def _is_short(y, z):
    """Whether R is a sum of few logarithms."""
    steps = abs(y - z)
    return steps <= _MAX_DIRECT_TERMS and steps == math.floor(steps) and min(y, z) >= 0.0


@compile_by_numba()
def gamma_rise_at(x, y, z):
    """Function R(x; y, z) for x >= 0, NaN for x < 0."""
    if not x >= 0.0:
        return np.nan
    if _is_short(y, z):
        total = 0.0
        for i in range(int(abs(y - z))):
            total += math.log1p((min(y, z) + i) * x)
        return total if y >= z else -total
    shift, apart = _series_shift(x, y, z), 0.0
    for i in range(int(shift)):
        apart += math.log1p((y + i) * x) - math.log1p((z + i) * x)
    return _stirling_part(y + shift, x) - _stirling_part(z + shift, x) - apart


@compile_by_numba(inlined=True)
def _log_slope(order, s, e):
    """Derivative of log(1 + s x) in x, from e = 1/(1 + s x)."""
    share = s * e
    return share if order == 1 else -share * share if order == 2 else 2.0 * share * share * share


@compile_by_numba()
def _stirling_part_slope(order, s, x):
    """Derivative of E(s) in x, of order 1 to 3."""
    e = 1.0 / (1.0 + s * x)
    r = x * e
    total = s ** (order + 1) * log1p_ratio_slope_at(order, s * x) + (s - 0.5) * _log_slope(
        order, s, e
    )
    power = 1.0
    for k in range(_STIRLING.size):
        m = 2.0 * k + 1.0
        # Derivative of r^m: `power` is r^(m - 1), and r has the derivatives e², -2 s e³, 6 s² e⁴.
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


@compile_by_numba()
def gamma_rise_slope_at(order, x, y, z):
    """Derivative of :func:`gamma_rise_at` in x, of order 1 to 3."""
    if not x >= 0.0:
        return np.nan
    if _is_short(y, z):
        total = 0.0
        for i in range(int(abs(y - z))):
            one = min(y, z) + i
            total += _log_slope(order, one, 1.0 / (1.0 + one * x))
        return total if y >= z else -total
    shift, apart = _series_shift(x, y, z), 0.0
    for i in range(int(shift)):
        one, other = y + i, z + i
        apart += _log_slope(order, one, 1.0 / (1.0 + one * x))
        apart -= _log_slope(order, other, 1.0 / (1.0 + other * x))
    return (
        _stirling_part_slope(order, y + shift, x)
        - _stirling_part_slope(order, z + shift, x)
        - apart
    )


GammaRiseSlope, gamma_rise_slope = make_operation(gamma_rise_slope_at, has_order=True)
GammaRise, gamma_rise = make_operation(
    gamma_rise_at, lambda x, y, z, value: gamma_rise_slope(double_constant(1), x, y, z)
)
#: Maximum number of entries of a table of sums; R has no bound if it needs a larger one.
MAX_TABLE_ENTRIES = 20_000_000
# Ranges of the second to fourth derivative from the integral R⁽ⁿ⁾(x) = -∫ sⁿ⁻¹ φ⁽ⁿ⁾(x s) exp(-s) ds
# over s > 0, where φ is the logistic function of t/2 for y = 1/2 and z = 0.
_HALF_RANGES = {2: (0.0, 0.0240563), 3: (-1.0 / 96.0, 1.0 / 32.0), 4: (-0.0479, 0.0072)}
_RELATIVE_ERROR = 1e-13


@enclose_derivatives.register(GammaRise)
def _enclose_gamma_rise(op: object, u: Interval, order: int, y: Array, z: Array) -> list[Interval]:
    """Enclose R and its derivatives in x over `u`; negative x have no bound."""
    low = np.asarray(np.minimum(y, z), dtype=np.float64)
    steps = np.abs(np.asarray(y, dtype=np.float64) - z)
    whole = (steps == np.floor(steps)) & (low >= 0.0)
    half = (steps == 0.5) & (low == 0.0)
    inside = Interval(np.maximum(u.lo, 0.0), np.maximum(u.hi, 0.0))
    found = _enclose_whole_number(inside, low, np.where(whole, steps, 0.0), order)
    if half.any():
        of_half = _enclose_half(inside, order)
        found = [Interval.where(half, x, other) for x, other in zip(of_half, found, strict=True)]
    sign = np.where(np.asarray(y) >= z, 1.0, -1.0)
    # Swapping y and z reverses the sign of R.
    found = [Interval.where(sign > 0.0, x, -x) for x in found]
    return without_bounds_where((u.lo < 0.0) | ~(whole | half), found)


def _enclose_whole_number(u: Interval, low: Array, steps: Array, order: int) -> list[Interval]:
    """Enclose Σ log(1 + j x) for `steps` values j = low, low + 1, ...: derivatives are monotone."""
    shape = np.broadcast_shapes(u.shape, low.shape, steps.shape)
    if not np.isfinite(u.hi).all():
        return [Interval.whole_line(shape) for _ in range(order + 1)]
    x = np.unique(np.concatenate([u.lo.ravel(), u.hi.ravel()]))
    first, most = np.unique(low), int(steps.max(initial=0.0))
    if x.size * first.size * (most + 1) > MAX_TABLE_ENTRIES:
        return [Interval.whole_line(shape) for _ in range(order + 1)]
    j = first[:, None] + np.arange(most)
    where = np.searchsorted(first, low), steps.astype(np.int64)
    ends = [np.searchsorted(x, end) for end in (u.lo, u.hi)]
    enclosures = []
    for n in range(order + 1):
        terms = _logarithm_slope(j, x[:, None, None], n)
        sums = np.zeros((x.size, first.size, most + 1))
        np.cumsum(terms, axis=2, out=sums[:, :, 1:])
        one, other = (sums[np.broadcast_arrays(end, *where)[0], *where] for end in ends)
        # A sum of terms of the same sign keeps their relative error.
        rounded = Interval.rounded(np.minimum(one, other), np.maximum(one, other), TINY)
        enclosures.append(rounded)
    return enclosures


def _logarithm_slope(j: Array, x: Array, n: int) -> Array:
    if n == 0:
        return np.log1p(j * x)
    share = j / (1.0 + j * x)
    return (-1.0) ** (n - 1) * float(np.prod(np.arange(1, n))) * share**n


def _enclose_half(u: Interval, order: int) -> list[Interval]:
    """Enclose R for y = 1/2 and z = 0: it decreases, and its slope increases."""
    enclosures = [
        Interval.rounded(low, high, _RELATIVE_ERROR)
        for low, high in (
            (_rise_values(u.hi, 0), _rise_values(u.lo, 0)),
            (_rise_values(u.lo, 1), _rise_values(u.hi, 1)),
        )
    ]
    for n in range(2, order + 1):
        floor, ceiling = (np.full(u.shape, end) for end in _HALF_RANGES[n])
        if n == 2:
            here, (below, above) = _rise_values(u.lo, 2), _HALF_RANGES[3]
            near = Interval.rounded(here + below * u.width, here + above * u.width, _RELATIVE_ERROR)
            floor, ceiling = np.maximum(floor, near.lo), np.minimum(ceiling, near.hi)
        enclosures.append(Interval(floor, ceiling))
    return enclosures[: order + 1]


def _rise_values(x: Array, n: int) -> Array:
    """Value or derivative of R at points; NaN at infinite points, which have no bound."""
    kernel, *order = (gamma_rise_slope_at, n) if n else (gamma_rise_at,)
    points, where = np.unique(x, return_inverse=True)
    # Few points are different, and need no compilation.
    python = in_python(kernel)
    values = [python(*order, point, 0.5, 0.0) if np.isfinite(point) else np.nan for point in points]
    return np.array(values)[where].reshape(x.shape)
