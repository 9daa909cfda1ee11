"""The function log(log(1 + exp(x))), nearly linear for negative x."""

import math

import numpy as np
from scipy import special

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import Shape, register_by_shape
from pymc_minibatch_mh.functions.interval import Array
from pymc_minibatch_mh.functions.log_any import third_slope
from pymc_minibatch_mh.functions.logistic import softplus_at

# Below `_LOST`, exp(x) is negligible compared to 1; above `_ALONE`, 1 compared to exp(x).
_LOST, _ALONE = -37.0, 37.0


@compile_by_numba()
def log_softplus_at(x):
    """Function log(log(1 + exp(x)))."""
    if x < _LOST:
        return x
    return math.log(x if x > _ALONE else math.log1p(math.exp(x)))


# Power series are used for slopes if exp(x) < _RARE, and for values if x < _NEGLIGIBLE.
_RARE, _NEGLIGIBLE = 0.1, -20.0
_POWERS = np.arange(25)


def _slopes_of_log_softplus() -> Array:
    """Power series of h' = w / ((1 + w) log(1 + w)), h = log(log(1 + w)), w = exp(x)."""
    divisor = np.array([1.0, *((-1.0) ** (n - 1) / (n * (n + 1)) for n in _POWERS[1:])])
    series = np.zeros(_POWERS.size)
    series[0] = 1.0
    for n in _POWERS[1:]:
        series[n] = -(divisor[1 : n + 1] * series[n - 1 :: -1][:n]).sum()
    return series


_LOG_SOFTPLUS_SLOPES = _slopes_of_log_softplus()


@compile_by_numba()
def log_softplus_slope_at(order, x):
    """Derivative of log(log(1 + exp(x))), of order 1 to 3."""
    w = math.exp(min(x, 0.0))
    if w < _RARE:
        total = 0.0
        for k in range(_LOG_SOFTPLUS_SLOPES.size - 1, -1, -1):
            total = total * w + float(k) ** (order - 1) * _LOG_SOFTPLUS_SLOPES[k]
        return total
    share, other = 1.0 / (1.0 + math.exp(-x)), 1.0 / (1.0 + math.exp(x))
    slope = share / softplus_at(x)
    if order == 1:
        return slope
    rest = other - slope
    return slope * (rest if order == 2 else rest * rest - share * other - slope * rest)


LogSoftplusSlope, log_softplus_slope = make_operation(log_softplus_slope_at, has_order=True)
LogSoftplus, log_softplus = make_operation(
    log_softplus_at, lambda x, value: log_softplus_slope(double_constant(1), x)
)
# Shapes of log(log(1 + exp(x))) and of its derivatives, in order.
_LOG_SOFTPLUS = (
    Shape(),
    Shape(floor=0.0, ceiling=1.0),
    Shape(valleys=((0.49498495166079619, -0.16709557267051663),), ceiling=0.0),
    Shape(
        valleys=((-1.0206457692211527, -0.060912710167969209),),
        peaks=((1.9400071513367114, 0.043163481020197341),),
        slack=lambda x: 1e-14 * np.exp(-np.abs(x)),
    ),
    Shape(
        valleys=(
            (-2.051349784294047, -0.025797995530825884),
            (3.068549820893062, -0.0129513197199097),
        ),
        peaks=((0.2909480685402935, 0.0614061047048247),),
        slack=lambda x: 1e-14 * np.exp(-np.abs(x)),
    ),
)


@register_by_shape(LogSoftplus, _LOG_SOFTPLUS)
def _log_softplus_values(x: Array, order: int) -> list[Array]:
    w = np.exp(np.minimum(x, 0.0))
    size = np.where(x > 0.0, x, 0.0) + np.log1p(np.exp(-np.abs(x)))
    values = [np.where(x < _NEGLIGIBLE, x - 0.5 * w, np.log(size))]
    small, size = np.where(w < _RARE, w, 0.0), np.where(w < _RARE, 1.0, size)
    share = special.expit(x)
    other = special.expit(-x)
    slope = share / size
    rest = other - slope
    closed = [slope, slope * rest, slope * (rest * rest - share * other - slope * rest)]
    if order > 3:
        closed.append(third_slope(slope, rest, share * other, other - share))
    for k in range(order):
        # The operator w d/dw = d/dx gives the next derivative.
        powers = _POWERS.astype(float) ** k * _LOG_SOFTPLUS_SLOPES
        series = (powers * small[..., None] ** _POWERS).sum(axis=-1)
        values.append(np.where(w < _RARE, series, closed[k]))
    return values
