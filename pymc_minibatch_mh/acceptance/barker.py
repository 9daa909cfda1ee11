"""Barker's test on a minibatch: approximate, with an estimate of the error of each decision.

Accept iff D* + X_nc + X_corr > 0, where D* is the log ratio estimated from b rows, X_nc is
N(0, sigma^2 - s^2), s^2 is the estimated variance of D*, and X_corr follows the tabulated law
C_sigma. The two auxiliary variables are integrated out, so one uniform decides:

    p = sum_j m_j Phi((D* + c_j) / sqrt(sigma^2 - s^2)),    accept iff uniform < p.

Guarantee
---------
Approximate. Were D* normal with variance s^2, the acceptance probability would be Barker's up to
the certified error of C_sigma; the error estimate says how far a batch is from that. With all
rows read the test is exact. With `batch_rule="predict"` the size of a batch depends on nothing
that the batch shows; `batch_rule="grow"` is the published rule, whose stopping biases D*.

Settings
--------
A float64 vector: the slots of `batches`, then `SIGMA`, `GROW`, `NOVAK`, `MAX_ERROR`,
`TABLE_ERROR`, `COUNT` = K; then from `ATOMS` on K atoms of C_sigma in ascending order, their K
masses, and K + 1 tail sums, of which the j-th is the mass of atom j and of all later ones.

References
----------
Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for
Metropolis-Hastings", UAI, doi:10.48550/arXiv.1610.06848. Barker (1965), "Monte Carlo
calculations of the radial distribution functions for a proton-electron plasma", Australian
Journal of Physics 18, doi:10.1071/PH650119.
"""

import math

import numpy as np
from numba import float64, int64
from numpy.typing import NDArray

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.acceptance.batches import (
    AIM,
    BATCH_SIZE,
    COMMON_SLOTS,
    GAUSSIAN_THIRD_MOMENT,
    SKEWNESS,
    THIRD_MOMENT,
    common_settings,
    require_positive,
    rows_for_variance,
)
from pymc_minibatch_mh.acceptance.special import logistic, normal_cdf
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.signatures import DECIDE_SIGNATURE, PLAN_SIGNATURE, VECTOR
from pymc_minibatch_mh.tables.correction import correction_table

#: Standard deviation that the noise of the log ratio is topped up to.
SIGMA = COMMON_SLOTS
#: 1 for `batch_rule="grow"`, 0 for "predict".
GROW = COMMON_SLOTS + 1
#: 1 for `error_bound="novak"`, 0 for "edgeworth".
NOVAK = COMMON_SLOTS + 2
#: Error that a batch is sized for; infinite for none.
MAX_ERROR = COMMON_SLOTS + 3
#: Certified error of C_sigma.
TABLE_ERROR = COMMON_SLOTS + 4
#: Number of atoms of C_sigma.
COUNT = COMMON_SLOTS + 5
#: First of the atoms.
ATOMS = COMMON_SLOTS + 6

# Beyond, Phi is 0 or 1 in double precision.
_REACH = 8.3
# sup |S''| of the logistic function S.
_CURVATURE = 1.0 / (6.0 * math.sqrt(3.0))


def settings(
    sigma: float = 1.2,
    *,
    batch_size: int = 100,
    batch_rule: str = "predict",
    error_bound: str = "edgeworth",
    max_error: float = math.inf,
    skewness: float = 0.0,
    third_moment: float = GAUSSIAN_THIRD_MOMENT,
) -> NDArray[np.float64]:
    """Validate and pack the settings of the test.

    Parameters
    ----------
    sigma
        Standard deviation that the noise is topped up to, in (0.5, 1.7]. Rows go like
        1/sigma^2; the error of the table is 5.4e-8 at 1.0 and 1.6e-5 at 1.2.
    batch_size
        Rows of the smallest batch; with "grow" also of every further look.
    batch_rule
        "predict" sizes one batch from the predicted spread, for a variance of 0.7 sigma^2;
        "grow" reads on until s < sigma, as published.
    error_bound
        "edgeworth" or "novak", see `error_estimate`.
    max_error
        "predict" takes the smallest batch with at most this predicted error, "grow" reads on
        until the estimate is below it. Infinite for no such condition.
    skewness, third_moment
        Audited |skewness| and E|X|^3 of the standardised differences.

    Returns
    -------
    ndarray
        Layout as in the module's docstring, shape (9 + 3K + 1,).

    Raises
    ------
    SettingError
        If a setting is out of range.
    """
    _require_choice("batch_rule", batch_rule, ("predict", "grow"))
    _require_choice("error_bound", error_bound, ("edgeworth", "novak"))
    require_positive("max_error", max_error, or_infinite=True)
    table = correction_table(sigma)
    if max_error <= table.error:
        raise SettingError(
            f"max_error={max_error} is below {table.error:.2g}, the error of the correction "
            f"distribution at sigma={sigma}, so every update would read all rows. Raise "
            "max_error or lower sigma."
        )
    head = [*common_settings(batch_size, skewness, third_moment), table.sigma]
    head += [batch_rule == "grow", error_bound == "novak", max_error, table.error]
    tails = np.append(np.cumsum(table.masses[::-1])[::-1], 0.0)
    return np.concatenate([head, [table.atoms.size], table.atoms, table.masses, tails])


def _require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SettingError(f"{name}={value!r} is unknown. Use one of {', '.join(choices)}.")


@compiled(float64(float64, float64, VECTOR))
def acceptance_probability(log_ratio, variance, settings):
    """Return P(D* + X_nc + X_corr > 0), with X_nc = 0 where the variance exceeds sigma^2."""
    count = int(settings[COUNT])
    atoms = settings[ATOMS : ATOMS + count]
    masses = settings[ATOMS + count : ATOMS + 2 * count]
    tails = settings[ATOMS + 2 * count :]
    room = settings[SIGMA] ** 2 - variance
    noise = math.sqrt(room) if room > 0.0 else 0.0
    lower = np.searchsorted(atoms, -log_ratio - _REACH * noise)
    upper = np.searchsorted(atoms, -log_ratio + _REACH * noise, "right")
    probability = tails[upper]
    for j in range(lower, upper):
        share = normal_cdf((log_ratio + atoms[j]) / noise) if noise > 0.0 else 0.5
        probability += masses[j] * share
    return probability


@compiled(float64(float64, float64, int64, int64, VECTOR))
def error_estimate(variance, skewness, n, total, settings):
    """Estimate the error of the acceptance probability of a batch.

    Parameters
    ----------
    variance
        Variance s^2 of the estimated log ratio.
    skewness
        Skewness of the differences in the batch (NaN counts as 0).
    n, total
        Rows of the batch and of the data, f = n/total.
    settings
        See the module.

    Returns
    -------
    float
        At most 1, and 0 with all rows read. "edgeworth": the leading error of a studentised
        mean, (2-f) |g| s^3 / (48 sqrt(n(1-f))) + 0.0319 s^4/(n-1) with g the larger of the
        batch's and the audited skewness, plus |g| sigma / (4 sqrt(n)) with the rule "grow",
        whose stopping shifts D*. "novak": (6.4 m + 2)/sqrt(n), the paper's corollary 1 with
        E|X| <= 1 and m the larger of the audited E|X|^3 and |g|, which bounds it from below; a
        bound for independent rows and true moments only. Both plus the error of the table and,
        where s^2 > sigma^2, (s^2 - sigma^2) sup|S''|/2 for the noise that is not compensated.
    """
    if n >= total:
        return 0.0
    skew = abs(skewness) if abs(skewness) > settings[SKEWNESS] else settings[SKEWNESS]
    sigma = settings[SIGMA]
    error = settings[TABLE_ERROR] + max(0.0, variance - sigma * sigma) * _CURVATURE / 2.0
    if settings[NOVAK] != 0.0:
        error += (6.4 * max(settings[THIRD_MOMENT], skew) + 2.0) / math.sqrt(n)
    else:
        f = n / total
        error += (2.0 - f) * skew * variance**1.5 / (48.0 * math.sqrt(n * (1.0 - f)))
        error += 0.0319 * variance * variance / (n - 1.0)
        if settings[GROW] != 0.0:
            error += skew * sigma / (4.0 * math.sqrt(n))
    return min(error, 1.0)


@compiled(int64(float64, int64, int64, VECTOR))
def _rows_for_error(spread, n, total, settings):
    """Return the smallest batch from `n` rows on whose predicted error is small enough."""
    limit = settings[MAX_ERROR]
    low, high = n - 1, total
    if error_estimate(spread * (1.0 / n - 1.0 / total), 0.0, n, total, settings) <= limit:
        return n
    while high - low > 1:
        middle = (low + high) // 2
        variance = spread * (1.0 / middle - 1.0 / total)
        if error_estimate(variance, 0.0, middle, total, settings) <= limit:
            high = middle
        else:
            low = middle
    return high


@compiled(PLAN_SIGNATURE)
def plan(spread, n, total, settings):
    """Return the rows that the next look must have read.

    Parameters
    ----------
    spread
        V, with V(1/b - 1/total) the predicted variance of the log ratio from b rows; symmetric
        in the two positions, or the test is biased. Not used by the rule "grow".
    n, total
        Rows read so far, and all rows.
    settings
        See the module.

    Returns
    -------
    int
        "predict": b = ceil(1/(1/total + 0.7 sigma^2/V)), or more for `max_error`; "grow":
        `batch_size` more than `n`. At least `batch_size` and at most `total`.
    """
    batch_size = int(settings[BATCH_SIZE])
    if settings[GROW] != 0.0:
        return min(total, n + batch_size)
    rows = rows_for_variance(spread, total, AIM * settings[SIGMA] ** 2)
    rows = max(rows, batch_size)
    if rows >= total:
        return total
    return _rows_for_error(spread, rows, total, settings)


@compiled(DECIDE_SIGNATURE)
def decide(log_ratio, variance, skewness, n, total, uniform, settings):
    """Decide on a proposal.

    Parameters
    ----------
    log_ratio, variance
        Estimated log ratio D*, and the estimate s^2 of its variance (divisor n - 1, with the
        finite-population factor 1 - n/total).
    skewness
        Skewness of the differences in the batch, for the error estimate only.
    n, total
        Rows read, and all rows. With all of them the test is exact.
    uniform
        Uniform draw in [0, 1).
    settings
        See the module.

    Returns
    -------
    tuple of float
        Verdict (1 accept, 0 reject, -1 read more: only with the rule "grow"), acceptance
        probability, error estimate. A log ratio of NaN or -inf rejects, +inf accepts.
    """
    if not log_ratio > -math.inf:
        return 0.0, 0.0, 0.0
    if n >= total or log_ratio == math.inf:
        probability = logistic(log_ratio)
        return (1.0 if uniform < probability else 0.0), probability, 0.0
    probability = acceptance_probability(log_ratio, variance, settings)
    error = error_estimate(variance, skewness, n, total, settings)
    if settings[GROW] != 0.0 and not (
        variance < settings[SIGMA] ** 2 and error <= settings[MAX_ERROR]
    ):
        return -1.0, probability, error
    return (1.0 if uniform < probability else 0.0), probability, error
