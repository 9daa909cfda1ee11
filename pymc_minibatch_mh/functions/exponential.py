"""Exponentials and logarithms, with monotone derivatives of all orders."""

import math

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import CHANGES, SLOPES, double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import (
    ALTERNATING,
    Shape,
    enclose_by_shape,
    enclose_derivatives,
    register_by_shape,
)
from pymc_minibatch_mh.functions.interval import Array, Interval

# For steps above these, subtract values: `_FAR` for exp, `_FAR_APART` (before + after) for log.
_FAR, _FAR_APART = 1.0, 0.5
_LOG_2 = float(np.log(2.0))
_LOGARITHM = (Shape(), *ALTERNATING)


@compile_by_numba()
def exp_change_at(before, after, step):
    """Difference exp(after) - exp(before)."""
    if abs(step) > _FAR:
        return math.exp(after) - math.exp(before)
    return 2.0 * math.exp(0.5 * (before + after)) * math.sinh(0.5 * step)


@compile_by_numba()
def log_change_at(before, after, step):
    """Difference log(after) - log(before)."""
    total = before + after
    if not abs(step) < _FAR_APART * total:
        return math.log(after) - math.log(before)
    return 2.0 * math.atanh(step / total)


@compile_by_numba()
def log1p_change_at(before, after, step):
    """Difference log(1 + after) - log(1 + before)."""
    total = 2.0 + (before + after)
    if not abs(step) < _FAR_APART * total:
        return math.log1p(after) - math.log1p(before)
    return 2.0 * math.atanh(step / total)


@compile_by_numba()
def log1mexp_slope_at(order, x):
    """Derivative of log(1 - exp(x)), of order 1 to 3."""
    # Adding zero converts -0.0, at x = 0, to 0.0, whose reciprocal is the limit from the left.
    rest = 1.0 / (math.expm1(-x) + 0.0)
    if order == 1:
        return -rest
    bend = rest * (rest + 1.0)
    return -bend if order == 2 else -bend * (rest + (rest + 1.0))


Log1mexpSlope, log1mexp_slope = make_operation(log1mexp_slope_at, has_order=True)
ExpChange, CHANGES[scalar.Exp] = make_operation(exp_change_at)
LogChange, CHANGES[scalar.Log] = make_operation(log_change_at)
Log1pChange, CHANGES[scalar.Log1p] = make_operation(log1p_change_at)
SLOPES[scalar.Exp] = lambda x, value: value
SLOPES[scalar.Log] = lambda x, value: scalar.reciprocal(x)
SLOPES[scalar_math.Log1mexp] = lambda x, value: log1mexp_slope(double_constant(1), x)


@enclose_derivatives.register(scalar.Exp)
def _enclose_exp(op: scalar.Exp, u: Interval, order: int) -> list[Interval]:
    return enclose_by_shape(lambda x, _: [np.exp(x)], (Shape(floor=0.0),), u, 0) * (order + 1)


@enclose_derivatives.register(scalar.Expm1)
def _enclose_expm1(op: scalar.Expm1, u: Interval, order: int) -> list[Interval]:
    value = enclose_by_shape(lambda x, _: [np.expm1(x)], (Shape(floor=-1.0),), u, 0)
    if order == 0:
        return value
    return value + enclose_by_shape(lambda x, _: [np.exp(x)], (Shape(floor=0.0),), u, 0) * order


@register_by_shape(scalar.Log1p, _LOGARITHM, least=-1.0)
def _log1p_values(x: Array, order: int) -> list[Array]:
    return [np.log1p(x), *_log_slopes(x + 1.0, order)]


@register_by_shape(scalar_math.Log1mexp, (Shape(ceiling=0.0),) * 5, most=0.0)
def _log1mexp_values(x: Array, order: int) -> list[Array]:
    """Values of log(1 - exp(x)) for x < 0; all derivatives are negative and decreasing."""
    value = np.where(x > -_LOG_2, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
    if order == 0:
        return [value]
    # Adding zero converts -0.0, at x = 0, to 0.0, whose reciprocal is the limit from the left.
    rest = 1.0 / (np.expm1(-x) + 0.0)
    growth = rest + 1.0
    slopes = [-rest, -rest * growth, -rest * growth * (rest + growth)]
    if order > 3:
        bend = rest * growth
        slopes.append(-bend * ((rest + growth) * (rest + growth) + 2.0 * bend))
    return [value, *slopes][: order + 1]


def _log_slopes(x: Array, order: int) -> list[Array]:
    if order == 0:
        return []
    r = 1.0 / x
    slopes = [r, -r * r, 2.0 * r * r * r]
    if order > 3:
        slopes.append(-6.0 * r * r * r * r)
    return slopes[:order]


@register_by_shape(scalar.Log, _LOGARITHM, least=0.0)
def _log_values(x: Array, order: int) -> list[Array]:
    return [np.log(x), *_log_slopes(x, order)]
