"""Functions that simplification makes out of several operations."""

import numpy as np
from scipy import special

from pymc_minibatch_mh.bounds.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.bounds.rules.base import derivatives, outside
from pymc_minibatch_mh.bounds.rules.error import log_erfc_derivatives
from pymc_minibatch_mh.bounds.rules.gamma import above_psi
from pymc_minibatch_mh.likelihood.composite import LogErfc


@derivatives.register(LogErfc)
def _log_erfc(op: LogErfc, u: Interval, order: int) -> list[Interval]:
    return log_erfc_derivatives(u, order)


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
