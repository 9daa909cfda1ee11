"""The difference log Γ(x + y) - log Γ(x + z), without the cancellation for large x."""

import math

import numpy as np
from scipy import special

from pymc_minibatch_mh._jit import compile_by_numba
from pymc_minibatch_mh.functions.base import double_constant, make_operation
from pymc_minibatch_mh.functions.enclosures import enclose_derivatives, without_bounds_where
from pymc_minibatch_mh.functions.gamma import ASYMPTOTIC, BERNOULLI, polygamma_values
from pymc_minibatch_mh.functions.interval import RELATIVE, TINY, Array, Interval


@compile_by_numba()
def gamma_ratio_at(x, y, z):
    """Difference log Γ(x + y) - log Γ(x + z), to full relative precision for large x."""
    p, q, gap = x + y, x + z, y - z
    if not min(p, q) > ASYMPTOTIC or abs(gap) > 0.5 * min(p, q):
        return math.lgamma(p) - math.lgamma(q)
    one, other = 1.0 / p, 1.0 / q
    tails = 0.0
    for k in range(BERNOULLI.size):
        n = 2.0 * k + 2.0
        tails += BERNOULLI[k] / (n * (n - 1.0)) * (one ** (2 * k + 1) - other ** (2 * k + 1))
    return (q - 0.5) * math.log1p(gap / q) + gap * math.log(p) - gap + tails


@compile_by_numba()
def gamma_ratio_slope_at(order, x, y, z):
    """Derivative of :func:`gamma_ratio_at` in x, of order 1 to 3; NaN unless x + y, x + z > 0.

    Recurrence and asymptotic series treat both terms together to avoid cancellation. The series
    has the terms D_k = p^-k - q^-k, which follow from D_(k+1) = D_k / p + D_1 / q^k.
    """
    p, q, gap = x + y, x + z, y - z
    if not min(p, q) > 0.0:
        return np.nan
    total = 0.0
    while min(p, q) < ASYMPTOTIC:
        one, other = 1.0 / p, 1.0 / q
        powers = 1.0 if order == 1 else one + other
        if order == 3:
            powers = 2.0 * (one * powers + other * other)
        total += gap * one * other * powers
        p += 1.0
        q += 1.0
    one, other = 1.0 / p, 1.0 / q
    first = -gap * one * other
    apart, power, leading = first, other, math.log1p(gap / q)
    for _ in range(order - 1):
        leading = -apart
        apart, power = one * apart + first * power, other * power
    total += leading - (apart if order == 3 else 0.5 * apart)
    for k in range(BERNOULLI.size):
        n = 2.0 * k + 2.0
        rising = 1.0 / n if order == 1 else 1.0 if order == 2 else n + 1.0
        apart, power = one * apart + first * power, other * power
        total -= BERNOULLI[k] * rising * apart
        apart, power = one * apart + first * power, other * power
    # The signs of the polygamma functions alternate: reverse the sign for order 2.
    return -total if order == 2 else total


GammaRatioSlope, gamma_ratio_slope = make_operation(gamma_ratio_slope_at, has_order=True)
GammaRatio, gamma_ratio = make_operation(
    gamma_ratio_at, lambda x, y, z, value: gamma_ratio_slope(double_constant(1), x, y, z)
)


@enclose_derivatives.register(GammaRatio)
def _enclose_gamma_ratio(op: object, u: Interval, order: int, y: Array, z: Array) -> list[Interval]:
    """Enclose log Γ(u + y) - log Γ(u + z) and its derivatives in u, which are all monotone.

    ψ(x + y) - ψ(x + z) is completely monotone for y >= z, as an average of ψ' over shifts.
    """
    with np.errstate(all="ignore"):
        ends = [_log_gamma_values(end, y, z, order) for end in (u.lo, u.hi)]
        enclosures = []
        for (low, low_slack), (high, high_slack) in zip(*ends, strict=True):
            slack = np.maximum(low_slack, high_slack)
            enclosures.append(Interval.rounded(np.minimum(low, high), np.maximum(low, high), slack))
    return without_bounds_where(~(u.lo + np.minimum(y, z) > 0.0), enclosures)


def _log_gamma_values(x: Array, y: Array, z: Array, order: int) -> list[tuple[Array, Array]]:
    pairs = []
    for shift in (y, z):
        at = np.asarray(x + shift)
        pairs.append([special.gammaln(at), special.psi(at), *polygamma_values(at, 1, order - 1)])
    # Two values cancel, so that their rounding errors dominate. Fourth derivatives get no absolute
    # slack, which a later factor x⁴ would enlarge: as sums of terms of one sign, they need none.
    return [
        (one - other, RELATIVE * (np.abs(one) + np.abs(other)) + (1e-14 if n < 4 else TINY))
        for n, (one, other) in enumerate(
            zip(*(values[: order + 1] for values in pairs), strict=True)
        )
    ]
