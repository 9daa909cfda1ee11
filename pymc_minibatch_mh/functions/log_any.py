"""The function log(1 - exp(-exp(x))): log-probability that a Poisson count is positive."""

import math

import numpy as np
from scipy import special

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import NEVER_POSITIVE, Shape, register_by_shape
from pymc_minibatch_mh.functions.interval import Array

# Below `_LOST`, exp(x) is negligible compared to 1; above `_ALONE`, 1 compared to exp(x).
_LOST, _ALONE = -37.0, 37.0
# Maximum exp(x); the derivatives underflow above.
_MAX_SIZE = 700.0


@compile_by_numba()
def log_any_at(x):
    """Function log(1 - exp(-exp(x)))."""
    if x < _LOST:
        return x
    size = math.exp(min(x, _ALONE))
    return math.log(-math.expm1(-size)) if size < 1.0 else math.log1p(-math.exp(-size))


# Power series are used for slopes if exp(x) < _SMALL, values if x < _NEGLIGIBLE; maximum exp(x).
_SMALL, _NEGLIGIBLE, _MAX_EXPONENT = 1.0, -20.0, 800.0
_EVEN = np.arange(2, 27, 2)
_BERNOULLI = special.bernoulli(26)[_EVEN] / special.factorial(_EVEN)
# SciPy's Bernoulli numbers have errors up to 2e-12: too much for a fourth derivative, whose terms
# have factors n³. These follow from the zeta function: Abramowitz and Stegun (1964), 23.2.16.
_PRECISE = -2.0 * (-1.0) ** (_EVEN // 2) * special.zeta(_EVEN) / (2.0 * np.pi) ** _EVEN


@compile_by_numba()
def log_any_slope_at(order, x):
    """Derivative of :func:`log_any_at`, of order 1 to 3: the first is w/(exp(w) - 1)."""
    size = math.exp(min(x, _ALONE))
    if order == 1:
        return 1.0 if x < _LOST else size / math.expm1(size) if size < _MAX_SIZE else 0.0
    if size < _SMALL:
        total, square = 0.0, size * size
        for k in range(_PRECISE.size - 1, -1, -1):
            n = 2.0 * k + 2.0
            total = square * (total + (n if order == 2 else n * n) * _PRECISE[k])
        return total - 0.5 * size
    if not size < _MAX_SIZE:
        return 0.0
    slope = size / math.expm1(size)
    rest = 1.0 - size - slope
    return slope * rest if order == 2 else slope * (rest * rest - size - slope * rest)


LogAnySlope, log_any_slope = make_operation(log_any_slope_at, has_order=True)
LogAny, log_any = make_operation(log_any_at, lambda x, value: log_any_slope(double_constant(1), x))
# Function h = log(1 - exp(-exp(x))): h' decreases from 1 to 0; h'' has a valley, h''' a valley and
# a peak, h'''' a valley on either side of a peak.
_LOG_ANY = (
    NEVER_POSITIVE,
    Shape(floor=0.0, ceiling=1.0),
    Shape(valleys=((0.62082965456557214, -0.41253161891314144),), ceiling=0.0),
    Shape(
        valleys=((-0.19894156695829578, -0.19556248033726987),),
        peaks=((1.4266906535862953, 0.42605476914548281),),
        slack=lambda x: 1e-14 * np.exp(3.0 * x - np.exp(x)),
    ),
    Shape(
        valleys=(
            (-0.940063227174712, -0.09563169680468608),
            (1.8540543276938444, -0.6614133842560068),
        ),
        peaks=((0.9116429906269853, 0.6981966057224938),),
        slack=lambda x: 1e-14 * np.exp(4.0 * x - np.exp(x)),
    ),
)


@register_by_shape(LogAny, _LOG_ANY)
def _log_any_values(x: Array, order: int) -> list[Array]:
    """Values and derivatives of h(x) = log(1 - exp(-w)), w = exp(x): h' = w / (exp(w) - 1)."""
    w = np.minimum(np.exp(x), _MAX_EXPONENT)
    near = np.where(x < _NEGLIGIBLE, x - 0.5 * w, np.log(-np.expm1(-w)))
    values = [np.where(w > 0.5, np.log1p(-np.exp(-w)), near)]
    small, large = np.where(w < _SMALL, w, 0.0), np.where(w < _SMALL, _SMALL, w)
    decay = np.exp(-large)
    slope = large * decay / -np.expm1(-large)
    rest = 1.0 - large - slope
    closed = [slope, slope * rest, slope * (rest * rest - large - slope * rest)]
    if order > 3:
        closed.append(third_slope(slope, rest, large, 1.0))
    for k in range(order):
        # h' = Σ B_n w^n / n!, and w d/dw gives the next derivative.
        numbers = _BERNOULLI if k < 3 else _PRECISE
        even = (_EVEN.astype(float) ** k * numbers * small[..., None] ** _EVEN).sum(axis=-1)
        series = (1.0 if k == 0 else 0.0) - 0.5 * small + even
        values.append(np.where(w < _SMALL, series, closed[k]))
    return values


def third_slope(s: Array, r: Array, p: Array, d: Array | float) -> Array:
    """Third derivative s''', for s' = s r, r' = -p - s r and p' = p d."""
    return s * (r * (r * r - 3.0 * p - 4.0 * s * r + s * s) + p * (s - d))
