"""Exponentials and logarithms; all of their derivatives are monotone."""

import math

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp
from scipy import special

from pymc_minibatch_mh.bounds.interval import Array, Interval, Mask
from pymc_minibatch_mh.bounds.rules.base import (
    ALTERNATING,
    CANCELLATION,
    INCREASING_OR_DECREASING,
    NEVER_NEGATIVE,
    NEVER_POSITIVE,
    Shape,
    by_shape,
    derivatives,
    odd,
    outside,
    positive_zero,
    shaped,
)
from pymc_minibatch_mh.likelihood.operations import LogErfc

_LOGARITHM = (INCREASING_OR_DECREASING, *(NEVER_NEGATIVE, NEVER_POSITIVE) * 2)
_LOG_2 = float(np.log(2.0))
#: Each logarithm, and the multiple of the natural one that it is.
_LOGARITHMS = {
    scalar.Log: (np.log, 1.0),
    scalar.Log2: (np.log2, 1.0 / _LOG_2),
    scalar.Log10: (np.log10, 1.0 / float(np.log(10.0))),
}


@derivatives.register(scalar.Exp)
def _exp(op: scalar.Exp, u: Interval, order: int) -> list[Interval]:
    return by_shape(lambda x, _: [np.exp(x)], (NEVER_NEGATIVE,), u, 0) * (order + 1)


@derivatives.register(scalar.Expm1)
def _expm1(op: scalar.Expm1, u: Interval, order: int) -> list[Interval]:
    value = by_shape(lambda x, _: [np.expm1(x)], (Shape(floor=-1.0),), u, 0)
    if order == 0:
        return value
    return value + by_shape(lambda x, _: [np.exp(x)], (NEVER_NEGATIVE,), u, 0) * order


@shaped(scalar.Exp2, (NEVER_NEGATIVE,) * 5)
def _exp2(x: Array, order: int) -> list[Array]:
    # A quarter, because 2^x may overflow where its derivatives do not.
    quarter = np.exp2(x - 2.0)
    return [quarter * (4.0 * _LOG_2**n) for n in range(order + 1)]


@shaped(scalar.Log1p, _LOGARITHM, lambda u: u.lo < -1.0)
def _log1p(x: Array, order: int) -> list[Array]:
    return [np.log1p(x), *_slopes_of_log(x + 1.0, 1.0, order)]


@shaped(scalar_math.Log1mexp, (NEVER_POSITIVE,) * 5, lambda u: u.hi > 0.0)
def _log1mexp_values(x: Array, order: int) -> list[Array]:
    """Return log(1 - exp(x)) for x < 0, of which all derivatives are negative and decrease."""
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


@derivatives.register(scalar.Log)
@derivatives.register(scalar.Log2)
@derivatives.register(scalar.Log10)
def _logarithm(op: ScalarOp, u: Interval, order: int) -> list[Interval]:
    log, scale = _LOGARITHMS[type(op)]

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


_DENSITY = 2.0 / math.sqrt(math.pi)
_HALF, _SECOND = math.sqrt(0.5), _DENSITY * math.sqrt(2.0) * math.exp(-0.5)
_TURN, _THIRD = math.sqrt(1.5), 4.0 * _DENSITY * math.exp(-1.5)
_SLOPES_OF_ERF = (
    Shape(peaks=((0.0, _DENSITY),), floor=0.0),
    Shape(peaks=((-_HALF, _SECOND),), valleys=((_HALF, -_SECOND),)),
    Shape(
        valleys=((0.0, -2.0 * _DENSITY),),
        peaks=((-_TURN, _THIRD), (_TURN, _THIRD)),
        slack=lambda x: 4.0 * CANCELLATION * np.exp(-x * x),
    ),
    # (12x - 8x³) times the density turns at 4x⁴ - 12x² + 3 = 0.
    odd(
        peak=(0.5246476232752904, 4.404702716006555),
        valley=(1.6506801238857844, -1.196497885653117),
        slack=lambda x: 20.0 * CANCELLATION * np.exp(-x * x),
    ),
)
# From here on, closed forms cancel and the continued fraction of this depth has converged.
_TAIL, _DEPTH = 1.5, 70
# h = log erfc and h', h'' decrease. h''' <= 0 has one minimum and tends to 0 on both sides, so that
# h'''' has a valley and then a peak.
_LOG_ERFC = (
    INCREASING_OR_DECREASING,
    NEVER_POSITIVE,
    Shape(floor=-2.0, ceiling=0.0),
    Shape(valleys=((-0.7087821591714643, -0.8364191295437436),), ceiling=0.0),
    Shape(
        valleys=((-1.4646224544284427, -0.7558273404833842),),
        peaks=((0.021095555664165308, 0.45934519582034417),),
        slack=lambda x: np.where(x > _TAIL, 0.0, 1e-13 * np.exp(-(np.minimum(x, 0.0) ** 2))),
    ),
)
# Where exp(-x²) underflows, and where what decays is smaller than the least slack.
_LEFT, _RIGHT = -40.0, 1e150


@derivatives.register(scalar_math.Erf)
def _erf(op: scalar_math.Erf, u: Interval, order: int) -> list[Interval]:
    value = by_shape(lambda x, _: [special.erf(x)], (Shape(floor=-1.0, ceiling=1.0),), u, 0)
    return value + _slopes_of_erf(u, order)


@derivatives.register(scalar_math.Erfc)
def _erfc(op: scalar_math.Erfc, u: Interval, order: int) -> list[Interval]:
    value = by_shape(lambda x, _: [special.erfc(x)], (Shape(floor=0.0, ceiling=2.0),), u, 0)
    return value + [-slope for slope in _slopes_of_erf(u, order)]


def _slopes_of_erf(u: Interval, order: int) -> list[Interval]:
    def values(x: Array, order: int) -> list[Array]:
        slope, x = _DENSITY * np.exp(-x * x), np.clip(x, _LEFT, -_LEFT)
        slopes = [slope, -2.0 * x * slope, (4.0 * x * x - 2.0) * slope]
        if order > 2:
            slopes.append((12.0 - 8.0 * x * x) * x * slope)
        return slopes[: order + 1]

    return by_shape(values, _SLOPES_OF_ERF, u, order - 1) if order > 0 else []


@shaped(scalar_math.Erfcx, ALTERNATING)
def _erfcx_values(x: Array, order: int) -> list[Array]:
    """Return exp(x²) erfc(x), whose derivatives tend to 0 monotonically, signs alternating."""
    value = special.erfcx(x)
    if order == 0:
        return [value]
    tail, x = x > _TAIL, np.minimum(x, _RIGHT)
    r1, r2, r3, *r4 = _tail_ratios(x, tail, max(order, 3))
    first = np.where(tail, -2.0 * r1 * value, 2.0 * x * value - _DENSITY)
    second = np.where(tail, -4.0 * r2 * first, 2.0 * value + 2.0 * x * first)
    third = np.where(tail, -6.0 * r3 * second, 4.0 * first + 2.0 * x * second)
    slopes = [first, second, third]
    if order > 3:
        slopes.append(np.where(tail, -8.0 * r4[0] * third, 6.0 * second + 2.0 * x * third))
    return [value, *slopes][: order + 1]


@shaped(LogErfc, _LOG_ERFC)
def _log_erfc_values(x: Array, order: int) -> list[Array]:
    scaled = special.erfcx(x)
    value = np.where(x > 0.5, np.log(scaled) - x * x, np.log1p(-special.erf(x)))
    hazard = _DENSITY / scaled
    if order < 2:
        return [value, -hazard][: order + 1]
    tail, x, m = x > _TAIL, np.clip(x, _LEFT, _RIGHT), np.minimum(hazard, 2.0 * _RIGHT)
    ratios = _tail_ratios(x, tail, max(order, 3))
    r1, r2, r3 = ratios[:3]
    excess = np.where(tail, 2.0 * r1, m - 2.0 * x)
    # m' = m excess; in the tail, the sum in brackets is a small difference of the ratios.
    bend = np.where(
        tail, 16.0 * r1 * r1 * r2 * (3.0 * r3 - 2.0 * r2), excess * excess + m * excess - 2.0
    )
    slopes = [-hazard, -m * excess, -m * bend]
    if order > 3:
        near = excess * (excess * excess + 4.0 * m * excess + m * m - 6.0) - 2.0 * m
        slopes.append(-m * np.where(tail, _fourth_in_tail(ratios), near))
    return [value, *slopes][: order + 1]


def _fourth_in_tail(ratios: Array) -> Array:
    """Return -h'''' / m of h = log erfc, where h''' = -16 m r1² r2 c with c = 3 r3 - 2 r2.

    It follows from m' = 2 m r1 and r_n' = 2 r_n (n r_n - (n + 1) r_(n+1)).
    """
    r1, r2, r3, r4 = ratios
    c = 3.0 * r3 - 2.0 * r2
    slope_of_c = 6.0 * r3 * (3.0 * r3 - 4.0 * r4) + 4.0 * r2 * c
    return 16.0 * r1 * r1 * r2 * (c * (6.0 * r1 - 4.0 * r2 - 6.0 * r3) + slope_of_c)


def _tail_ratios(x: Array, tail: Mask, count: int) -> Array:
    """Return the first ratios r_n = I_n / I_(n-1) of repeated integrals of erfc, where x is large.

    They solve r_n = 1 / (2x + 2(n + 1) r_(n+1)), a continued fraction: Abramowitz and Stegun
    (1964), 7.2.5. All terms are positive, so that nothing cancels.
    """
    ratios = np.full((count, *np.shape(x)), np.nan)
    x = np.asarray(x)[tail]
    if x.size == 0:
        return ratios
    r = (np.sqrt(x * x + 2.0 * (_DEPTH + 1)) - x) / (2.0 * (_DEPTH + 1))
    for n in range(_DEPTH - 1, 0, -1):
        r = 0.5 / (x + (n + 1) * r)
        if n <= count:
            ratios[n - 1, tail] = r
    return ratios


# With p = σ(1 - σ), the third derivative turns at σ'''' = 0, where p = 1/12, and the fourth where
# the fifth is zero, which is p (1 - 30p + 120p²).
_STEEPEST = math.log(2.0 + math.sqrt(3.0))
_TURN_OF_SLOPE = math.log(5.0 + math.sqrt(24.0))
_SIGMOID = (
    Shape(floor=0.0, ceiling=1.0),
    Shape(peaks=((0.0, 0.25),), floor=0.0),
    Shape(
        peaks=((-_STEEPEST, math.sqrt(3.0) / 18.0),), valleys=((_STEEPEST, -math.sqrt(3.0) / 18.0),)
    ),
    Shape(
        valleys=((0.0, -0.125),),
        peaks=((-_TURN_OF_SLOPE, 1.0 / 24.0), (_TURN_OF_SLOPE, 1.0 / 24.0)),
        slack=lambda x: CANCELLATION * np.exp(-np.abs(x)),
    ),
    odd(
        peak=(0.8426329481293766, 0.12768392196780176),
        valley=(3.1443184061549303, -0.019065223250383904),
        slack=lambda x: 4.0 * CANCELLATION * np.exp(-np.abs(x)),
    ),
)


@derivatives.register(scalar_math.Softplus)
def _softplus(op: scalar_math.Softplus, u: Interval, order: int) -> list[Interval]:
    value = by_shape(_softplus_values, (NEVER_NEGATIVE,), u, 0)
    return value + (by_shape(_sigmoid_values, _SIGMOID, u, order - 1) if order > 0 else [])


@derivatives.register(scalar.Tanh)
def _tanh(op: scalar.Tanh, u: Interval, order: int) -> list[Interval]:
    """Enclose tanh x = 2 σ(2x) - 1; multiplying by powers of two is exact."""
    value = by_shape(lambda x, _: [np.tanh(x)], (Shape(floor=-1.0, ceiling=1.0),), u, 0)
    if order == 0:
        return value
    with np.errstate(over="ignore"):
        lo = 2.0 * u.lo
        twice = Interval(lo, lo if u.lo is u.hi else 2.0 * u.hi)
    slopes = by_shape(_sigmoid_values, _SIGMOID, twice, order)[1:]
    return value + [
        Interval(2.0**n * slope.lo, 2.0**n * slope.hi) for n, slope in enumerate(slopes, start=2)
    ]


def _softplus_values(x: Array, order: int) -> list[Array]:
    return [np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))]


@shaped(scalar_math.Sigmoid, _SIGMOID)
def _sigmoid_values(x: Array, order: int) -> list[Array]:
    """Return derivatives in a form that is precise in both tails."""
    decay = np.exp(-np.abs(x))
    heavy = 1.0 / (1.0 + decay)
    light = decay * heavy
    values = [np.where(x < 0.0, light, heavy)]
    if order > 0:
        slope = light * heavy
        values.append(slope)
    if order > 1:
        values.append(-slope * np.tanh(0.5 * x))
    if order > 2:
        values.append(slope * (1.0 - 6.0 * slope))
    if order > 3:
        values.append(slope * (12.0 * slope - 1.0) * np.tanh(0.5 * x))
    return values
