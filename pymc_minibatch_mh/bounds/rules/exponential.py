"""Exponentials and logarithms; all of their derivatives are monotone."""

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.bounds.rules.base import (
    INCREASING_OR_DECREASING,
    NEVER_NEGATIVE,
    NEVER_POSITIVE,
    Shape,
    by_shape,
    derivatives,
    outside,
    positive_zero,
)

_LOGARITHM = (INCREASING_OR_DECREASING, *(NEVER_NEGATIVE, NEVER_POSITIVE) * 2)
_LOG_2 = float(np.log(2.0))
_LOG_10 = float(np.log(10.0))


@derivatives.register(scalar.Exp)
def _exp(op: scalar.Exp, u: Interval, order: int) -> list[Interval]:
    return by_shape(lambda x, _: [np.exp(x)], (NEVER_NEGATIVE,), u, 0) * (order + 1)


@derivatives.register(scalar.Expm1)
def _expm1(op: scalar.Expm1, u: Interval, order: int) -> list[Interval]:
    value = by_shape(lambda x, _: [np.expm1(x)], (Shape(floor=-1.0),), u, 0)
    if order == 0:
        return value
    return value + by_shape(lambda x, _: [np.exp(x)], (NEVER_NEGATIVE,), u, 0) * order


@derivatives.register(scalar.Exp2)
def _exp2(op: scalar.Exp2, u: Interval, order: int) -> list[Interval]:
    def values(x: Array, order: int) -> list[Array]:
        # A quarter, because 2^x may overflow where its derivatives do not.
        quarter = np.exp2(x - 2.0)
        return [quarter * (4.0 * _LOG_2**n) for n in range(order + 1)]

    return by_shape(values, (NEVER_NEGATIVE,) * 5, u, order)


@derivatives.register(scalar.Log)
def _log(op: scalar.Log, u: Interval, order: int) -> list[Interval]:
    return _logarithm(np.log, 1.0, u, order)


@derivatives.register(scalar.Log2)
def _log2(op: scalar.Log2, u: Interval, order: int) -> list[Interval]:
    return _logarithm(np.log2, 1.0 / _LOG_2, u, order)


@derivatives.register(scalar.Log10)
def _log10(op: scalar.Log10, u: Interval, order: int) -> list[Interval]:
    return _logarithm(np.log10, 1.0 / _LOG_10, u, order)


@derivatives.register(scalar.Log1p)
def _log1p(op: scalar.Log1p, u: Interval, order: int) -> list[Interval]:
    def values(x: Array, order: int) -> list[Array]:
        return [np.log1p(x), *_slopes_of_log(x + 1.0, 1.0, order)]

    return outside(u.lo < -1.0, by_shape(values, _LOGARITHM, u, order))


@derivatives.register(scalar_math.Log1mexp)
def _log1mexp(op: scalar_math.Log1mexp, u: Interval, order: int) -> list[Interval]:
    """Enclose log(1 - exp(x)) for x < 0: all derivatives are negative and decrease."""
    shapes = (NEVER_POSITIVE,) * 5
    return outside(u.hi > 0.0, by_shape(_log1mexp_values, shapes, u, order))


def _log1mexp_values(x: Array, order: int) -> list[Array]:
    value = np.where(x > -_LOG_2, np.log(-np.expm1(x)), np.log1p(-np.exp(x)))
    if order == 0:
        return [value]
    # Adding zero turns the -0.0 of x = 0 into the 0.0 whose reciprocal is the limit from the left.
    rest = 1.0 / (np.expm1(-x) + 0.0)
    growth = rest + 1.0
    slopes = [-rest, -rest * growth, -rest * growth * (rest + growth)]
    if order > 3:
        bend = rest * growth
        slopes.append(-bend * ((rest + growth) * (rest + growth) + 2.0 * bend))
    return [value, *slopes][: order + 1]


def _logarithm(log: np.ufunc, scale: float, u: Interval, order: int) -> list[Interval]:
    def values(x: Array, order: int) -> list[Array]:
        return [log(x), *_slopes_of_log(x, scale, order)]

    u = positive_zero(u)
    return outside(u.lo < 0.0, by_shape(values, _LOGARITHM, u, order))


def _slopes_of_log(x: Array, scale: float, order: int) -> list[Array]:
    """Return the derivatives of `scale` log(x)."""
    if order == 0:
        return []
    r = 1.0 / x
    slope = scale / x
    slopes = [slope, -slope * r, 2.0 * slope * r * r]
    if order > 3:
        slopes.append(-6.0 * slope * r * r * r)
    return slopes[:order]
