"""The penalty test: Metropolis acceptance of a log ratio with normal noise.

With D* normal about the exact log ratio and of known variance s^2, accepting with
min(1, exp(D* - s^2/2)) satisfies detailed balance. A batch of n rows only gives an estimate of
s^2, so the test accepts with

    p = min(1, exp(D* - u)),    u = s^2/2 + s^4/(4(n+1)) + s^6/(3(n+1)(n+3)).

Guarantee
---------
Approximate. Exact detailed balance needs normal noise of known variance; the series u leaves an
error of order s^4/n^2 for normal rows (0.085 s^4/n^2 covers quadrature for n >= 10, s <= 2), and
skewness one of order s/sqrt(n): see `error_estimate`. The series is asymptotic in s^2/n and
wants s^2 < n/4. With all rows read the test is exact Metropolis. The size of a batch depends on
nothing that the batch shows.

A batch without replacement from N rows has a less variable s^2, with 1 + 1/(1/(n-1) - 1/(N-1))
in the place of n. Using that in u is nevertheless wrong, since D* is then no longer independent
of s^2: E exp(D* - u) is .9 % off at n=11, N=24, s=1 with it and .07 % with n.

Settings
--------
A float64 vector: the slots of `batches`, then `MAX_SD`.

References
----------
Ceperley, Dewing (1999), "The penalty method for random walks with uncertain energies", Journal
of Chemical Physics 110, doi:10.1063/1.478034.
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
    common_settings,
    rows_for_variance,
)
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.signatures import DECIDE_SIGNATURE, PLAN_SIGNATURE, VECTOR

#: Standard deviation of the log ratio that batches are kept below.
MAX_SD = COMMON_SLOTS
#: Number of slots.
SLOTS = COMMON_SLOTS + 1

_LARGEST_SD = 2.0
# sup of the standard normal density, and of |z| times it.
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_SLOPE = math.exp(-0.5) * _DENSITY


def settings(
    max_sd: float = 1.2,
    *,
    batch_size: int = 100,
    skewness: float = 0.0,
    third_moment: float = GAUSSIAN_THIRD_MOMENT,
) -> NDArray[np.float64]:
    """Validate and pack the settings of the test.

    Parameters
    ----------
    max_sd
        Standard deviation of the log ratio that batches are kept below, in (0, 2]. Up to 1.349
        the test accepts at least as often as Barker's at every log ratio.
    batch_size
        Rows of the smallest batch.
    skewness, third_moment
        Audited |skewness| and E|X|^3 of the standardised differences.

    Returns
    -------
    ndarray
        Layout as in the module's docstring, shape (4,).

    Raises
    ------
    SettingError
        If a setting is out of range.
    """
    if not 0.0 < max_sd <= _LARGEST_SD:
        raise SettingError(
            f"max_sd={max_sd} is outside (0, {_LARGEST_SD}]: the acceptance of the penalty test "
            "falls like exp(-max_sd^2/8). Use 1.2 or less."
        )
    packed = np.empty(SLOTS)
    packed[:COMMON_SLOTS] = common_settings(batch_size, skewness, third_moment)
    packed[MAX_SD] = max_sd
    return packed


@compiled(float64(float64, int64))
def penalty(variance, n):
    """Return u, what an estimated variance `variance` from `n` rows takes off the log ratio."""
    second = variance * variance / (4.0 * (n + 1.0))
    third = variance**3 / (3.0 * (n + 1.0) * (n + 3.0))
    return variance / 2.0 + second + third


@compiled(float64(float64, float64, int64, int64, VECTOR))
def error_estimate(variance, skewness, n, total, settings):
    """Estimate the distance to an acceptance probability that satisfies detailed balance.

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
        At most 1, and 0 with all rows read. The leading Edgeworth term of a skewed batch, with
        a the acceptance at known variance as a function of the exact log ratio:
        |g| s^3 ((1-2f) a''' - 3(1-f) a'') / (6 sqrt(n(1-f))), g the larger of the batch's and
        the audited skewness, maximised over the log ratio by a''' = a'' + z phi(z)/s^2,
        |z phi(z)| <= 0.242 and |a''| <= 0.399/s; plus 0.085 s^4/n^2.
    """
    if n >= total:
        return 0.0
    f = n / total
    skew = abs(skewness) if abs(skewness) > settings[SKEWNESS] else settings[SKEWNESS]
    shape = (2.0 - f) * _DENSITY * variance + abs(1.0 - 2.0 * f) * _SLOPE * math.sqrt(variance)
    error = skew * shape / (6.0 * math.sqrt(n * (1.0 - f)))
    return min(1.0, error + 0.085 * (variance / n) ** 2)


@compiled(PLAN_SIGNATURE)
def plan(spread, n, total, settings):
    """Return the rows of the one batch: ceil(1/(1/total + 0.7 max_sd^2/V)) or `batch_size`.

    Parameters
    ----------
    spread
        V, with V(1/b - 1/total) the predicted variance of the log ratio from b rows; symmetric
        in the two positions, or the test is biased.
    n, total
        Rows read so far (not used), and all rows.
    settings
        See the module.

    Returns
    -------
    int
        At least `batch_size` and at most `total`.
    """
    rows = rows_for_variance(spread, total, AIM * settings[MAX_SD] ** 2)
    return min(total, max(rows, int(settings[BATCH_SIZE])))


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
        Verdict (1 accept, 0 reject), acceptance probability, error estimate. A log ratio of NaN
        or -inf rejects, +inf accepts.
    """
    if not log_ratio > -math.inf:
        return 0.0, 0.0, 0.0
    if n >= total or log_ratio == math.inf:
        probability = math.exp(min(0.0, log_ratio))
        return (1.0 if uniform < probability else 0.0), probability, 0.0
    probability = math.exp(min(0.0, log_ratio - penalty(variance, n)))
    error = error_estimate(variance, skewness, n, total, settings)
    return (1.0 if uniform < probability else 0.0), probability, error
