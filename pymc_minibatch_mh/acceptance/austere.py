"""The austere test: a sequential t-test of the Metropolis decision on growing batches.

The uniform is drawn first. Metropolis accepts iff the exact log ratio exceeds log(uniform); each
look tests that with t = (D* - log uniform)/s and n - 1 degrees of freedom, which is the paper's
statistic on the mean difference against mu_0 = (log uniform - cheap part)/N. It stops when the
tail beyond |t| is below epsilon and reads `batch_size` more rows otherwise.

Guarantee
---------
Approximate: epsilon controls the error of one look, not of the chain, and only for batches whose
mean is about normal. A batch that misses rare rows stops early and wrongly. A batch of equal
differences, up to rounding, is undecided. With all rows read the decision is exact Metropolis.

Settings
--------
A float64 vector: the slots of `batches` (of which this test only reads `BATCH_SIZE`), then
`EPSILON`.

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", ICML, doi:10.48550/arXiv.1304.5299.
"""

import math

import numpy as np
from numpy.typing import NDArray

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.acceptance.batches import (
    BATCH_SIZE,
    COMMON_SLOTS,
    GAUSSIAN_THIRD_MOMENT,
    common_settings,
)
from pymc_minibatch_mh.acceptance.special import student_tail
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.signatures import DECIDE_SIGNATURE, PLAN_SIGNATURE

#: Tail probability below which a look decides.
EPSILON = COMMON_SLOTS
#: Number of slots.
SLOTS = COMMON_SLOTS + 1

# The mean of equal differences is off by an ulp, which leaves them a deviation of that size.
_ROUNDING = 1e-12


def settings(epsilon: float = 0.05, *, batch_size: int = 100) -> NDArray[np.float64]:
    """Validate and pack the settings of the test.

    Parameters
    ----------
    epsilon
        Tail probability below which a look decides, in (0, 0.5).
    batch_size
        Rows of every look.

    Returns
    -------
    ndarray
        Layout as in the module's docstring, shape (4,).

    Raises
    ------
    SettingError
        If a setting is out of range.
    """
    if not 0.0 < epsilon < 0.5:
        raise SettingError(
            f"epsilon={epsilon} is not a tail probability in (0, 0.5). Use 0.05, or less for a "
            "smaller bias and more rows."
        )
    packed = np.empty(SLOTS)
    packed[:COMMON_SLOTS] = common_settings(batch_size, 0.0, GAUSSIAN_THIRD_MOMENT)
    packed[EPSILON] = epsilon
    return packed


@compiled(PLAN_SIGNATURE)
def plan(spread, n, total, settings):
    """Return `batch_size` rows more than `n`, at most `total`; the spread is not used."""
    return min(total, n + int(settings[BATCH_SIZE]))


@compiled(DECIDE_SIGNATURE)
def decide(log_ratio, variance, skewness, n, total, uniform, settings):
    """Decide on a proposal, or ask for more rows.

    Parameters
    ----------
    log_ratio, variance
        Estimated log ratio D*, and the estimate s^2 of its variance (divisor n - 1, with the
        finite-population factor 1 - n/total).
    skewness
        Not used.
    n, total
        Rows read, and all rows. With all of them the test is exact.
    uniform
        Uniform draw in [0, 1), the same at every look.
    settings
        See the module.

    Returns
    -------
    tuple of float
        Verdict (1 accept, 0 reject, -1 read more), min(1, exp(D*)), and the tail probability
        beyond |t| at this look: what epsilon is compared with, 0 with all rows read. A log ratio
        of NaN or -inf rejects, +inf accepts.
    """
    if not log_ratio > -math.inf:
        return 0.0, 0.0, 0.0
    probability = math.exp(min(0.0, log_ratio))
    threshold = math.log(uniform) if uniform > 0.0 else -math.inf
    verdict = 1.0 if log_ratio > threshold else 0.0
    if n >= total or log_ratio == math.inf:
        return verdict, probability, 0.0
    deviation = math.sqrt(variance)
    if not deviation > _ROUNDING * max(1.0, abs(log_ratio)):
        return -1.0, probability, 0.5
    tail = student_tail(abs(log_ratio - threshold) / deviation, n - 1.0)
    if tail < settings[EPSILON]:
        return verdict, probability, tail
    return -1.0, probability, tail
