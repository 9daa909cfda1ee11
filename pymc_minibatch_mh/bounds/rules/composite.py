"""Functions that simplification makes out of several operations."""

from math import factorial

import numpy as np
from scipy import special

from pymc_minibatch_mh.bounds.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.bounds.rules.base import (
    NEVER_NEGATIVE,
    NEVER_POSITIVE,
    by_shape,
    derivatives,
    outside,
)
from pymc_minibatch_mh.bounds.rules.error import log_erfc_derivatives
from pymc_minibatch_mh.bounds.rules.gamma import above_psi
from pymc_minibatch_mh.likelihood.composite import Log1pRatio, LogErfc

# Up to here the integral is summed by Gauss and Legendre's rule, whose error is below rounding;
# beyond, closed forms no longer cancel.
_NEAR, _LEAST = 4.0, -0.25
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS
_ALTERNATING = (NEVER_NEGATIVE, NEVER_POSITIVE, NEVER_NEGATIVE, NEVER_POSITIVE)


@derivatives.register(LogErfc)
def _log_erfc(op: LogErfc, u: Interval, order: int) -> list[Interval]:
    return log_erfc_derivatives(u, order)


@derivatives.register(Log1pRatio)
def _log1p_ratio(op: Log1pRatio, u: Interval, order: int) -> list[Interval]:
    """Enclose log(1 + x)/x, completely monotone as the integral of 1/(1 + x t) over (0, 1)."""
    enclosures = by_shape(_log1p_ratio_values, _ALTERNATING, u, order)
    return outside(u.lo < _LEAST, enclosures)


def _log1p_ratio_values(x: Array, order: int) -> list[Array]:
    near = np.where(x <= _NEAR, x, 0.0)
    far = np.where(x > _NEAR, x, 1.0)
    values: list[Array] = []
    below = np.log1p(far) / far
    for k in range(order + 1):
        sign = (-1.0) ** k * factorial(k)
        powers = _NODES**k * _WEIGHTS
        close = sign * (powers / (1.0 + near[..., None] * _NODES) ** (k + 1)).sum(axis=-1)
        if k > 0:
            # x φ = log(1 + x), differentiated k times.
            below = ((-1.0) ** (k - 1) * factorial(k - 1) / (1.0 + far) ** k - k * below) / far
        distant = np.where(np.isposinf(x), 0.0, below)
        values.append(np.where(x <= _NEAR, close, distant))
    return values


def gamma_ratio_derivatives(u: Interval, y: Array, z: Array, order: int) -> list[Interval]:
    """Enclose log Γ(u + y) - log Γ(u + z) and its derivatives in u.

    ψ(x + y) - ψ(x + z) is completely monotone for y >= z, and its negative otherwise: ψ' is, and
    so are averages of it over shifts. Every derivative is therefore monotone, and its range lies
    between its values at the ends.
    """
    with np.errstate(all="ignore"):
        ends = [_log_gamma_values(end, y, z, order) for end in (u.lo, u.hi)]
        enclosures = []
        for (low, low_slack), (high, high_slack) in zip(*ends, strict=True):
            slack = np.maximum(low_slack, high_slack)
            enclosures.append(Interval.rounded(np.minimum(low, high), np.maximum(low, high), slack))
    return outside(~(u.lo + np.minimum(y, z) > 0.0), enclosures)


def _log_gamma_values(x: Array, y: Array, z: Array, order: int) -> list[tuple[Array, Array]]:
    pairs = []
    for shift in (y, z):
        at = np.asarray(x + shift)
        pairs.append([special.gammaln(at), special.psi(at), *above_psi(at, 1, 2)])
    # Two values cancel: their rounding errors stay.
    return [
        (one - other, RELATIVE * (np.abs(one) + np.abs(other)) + 1e-14)
        for one, other in zip(*(values[: order + 1] for values in pairs), strict=True)
    ]
