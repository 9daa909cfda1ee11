"""The function log(erfc(x)), whose derivatives neither cancel nor overflow."""

import math

import numpy as np
from scipy import special

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import NEVER_POSITIVE, Shape, register_by_shape
from pymc_minibatch_mh.functions.erf import (
    LEFT,
    RIGHT,
    SLOPE_AT_ZERO,
    TAIL_START,
    tail_ratios,
    tail_ratios_at,
)
from pymc_minibatch_mh.functions.interval import Array

_ROOT_PI = math.sqrt(math.pi)
# Threshold of the continued fraction of erfc, and its number of terms.
_FROM_TAIL, _TERMS = 5.0, 40


@compile_by_numba()
def _inverse_tail(x):
    """Reciprocal of x √π exp(x²) erfc(x), for x > 5: Abramowitz and Stegun (1964), 7.1.14."""
    fraction = 1.0
    for k in range(_TERMS, 0, -1):
        fraction = 1.0 + 0.5 * k / (x * x * fraction)
    return fraction


@compile_by_numba()
def log_erfc_at(x):
    """Function log(erfc(x))."""
    if x < _FROM_TAIL:
        return math.log1p(-math.erf(x)) if x < 0.5 else math.log(math.erfc(x))
    return -x * x - math.log(x * _ROOT_PI) - math.log(_inverse_tail(x))


@compile_by_numba()
def erfc_slope_at(order, x):
    """Derivative of log(erfc(x)), of order 1 to 3."""
    if x < _FROM_TAIL:
        m = 2.0 / _ROOT_PI * math.exp(-x * x) / math.erfc(x)
        if order == 1 or m == 0.0:
            return -m
        excess = m - 2.0 * x
        return -m * excess if order == 2 else -m * (excess * excess + m * excess - 2.0)
    if order == 1:
        return -2.0 * x * _inverse_tail(x)
    # In the tail `excess` and the sum in brackets cancel: use formulas in the ratios instead.
    r1, r2, r3 = tail_ratios_at(x, _TERMS)
    second = -4.0 * (x * r1) * _inverse_tail(x)
    return second if order == 2 else 8.0 * second * r1 * r2 * (3.0 * r3 - 2.0 * r2)


ErfcSlope, erfc_slope = make_operation(erfc_slope_at, has_order=True)
LogErfc, log_erfc = make_operation(log_erfc_at, lambda x, value: erfc_slope(double_constant(1), x))
# h = log erfc and h', h'' decrease. h''' <= 0 has a single minimum and tends to 0 on both sides, so
# that h'''' has a valley and then a peak.
_LOG_ERFC = (
    Shape(),
    NEVER_POSITIVE,
    Shape(floor=-2.0, ceiling=0.0),
    Shape(valleys=((-0.7087821591714643, -0.8364191295437436),), ceiling=0.0),
    Shape(
        valleys=((-1.4646224544284427, -0.7558273404833842),),
        peaks=((0.021095555664165308, 0.45934519582034417),),
        slack=lambda x: np.where(x > TAIL_START, 0.0, 1e-13 * np.exp(-(np.minimum(x, 0.0) ** 2))),
    ),
)


@register_by_shape(LogErfc, _LOG_ERFC)
def _log_erfc_values(x: Array, order: int) -> list[Array]:
    scaled = special.erfcx(x)
    value = np.where(x > 0.5, np.log(scaled) - x * x, np.log1p(-special.erf(x)))
    hazard = SLOPE_AT_ZERO / scaled
    if order < 2:
        return [value, -hazard][: order + 1]
    tail, x, m = x > TAIL_START, np.clip(x, LEFT, RIGHT), np.minimum(hazard, 2.0 * RIGHT)
    ratios = tail_ratios(x, tail, max(order, 3))
    r1, r2, r3 = ratios[:3]
    excess = np.where(tail, 2.0 * r1, m - 2.0 * x)
    # m' = m excess. In the tail, m'' is computed from the ratios, because the sum in brackets
    # cancels. Multiplying m by a ratio first delays underflow.
    small = 16.0 * (m * r1) * (r1 * r2 * (3.0 * r3 - 2.0 * r2))
    bend = np.where(tail, small, m * (excess * excess + m * excess - 2.0))
    slopes = [-hazard, -m * excess, -bend]
    if order > 3:
        near = excess * (excess * excess + 4.0 * m * excess + m * m - 6.0) - 2.0 * m
        slopes.append(-m * np.where(tail, _fourth_in_tail(ratios), near))
    return [value, *slopes][: order + 1]


def _fourth_in_tail(ratios: Array) -> Array:
    """Ratio -h'''' / m for h = log erfc, where h''' = -16 m r1² r2 c with c = 3 r3 - 2 r2.

    It follows from m' = 2 m r1 and r_n' = 2 r_n (n r_n - (n + 1) r_(n+1)).
    """
    r1, r2, r3, r4 = ratios
    c = 3.0 * r3 - 2.0 * r2
    slope_of_c = 6.0 * r3 * (3.0 * r3 - 4.0 * r4) + 4.0 * r2 * c
    return 16.0 * r1 * r1 * r2 * (c * (6.0 * r1 - 4.0 * r2 - 6.0 * r3) + slope_of_c)
