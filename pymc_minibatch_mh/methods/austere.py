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

References
----------
Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
budget", ICML, doi:10.48550/arXiv.1304.5299.
"""

import math
from typing import NamedTuple

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.looks import look_until_decided
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.methods.batches import (
    GAUSSIAN_THIRD_MOMENT,
    BatchMethod,
    require_batches,
)
from pymc_minibatch_mh.methods.distributions import student_tail
from pymc_minibatch_mh.methods.guarantee import Guarantee, Promise


class AustereTest(NamedTuple):
    """Settings of the test in a chain.

    Parameters
    ----------
    batch_size
        Rows of the smallest batch, and of every further look.
    skewness, third_moment
        |skewness| and E|X|^3 of the standardised differences, measured on all rows; frozen after
        warm-up.
    kappa
        κ in the predicted variance V = κ M² of a move, adapted in warm-up.
    epsilon
        Tail probability below which a look decides.
    """

    batch_size: int
    skewness: float
    third_moment: float
    kappa: float
    epsilon: float


AustereTest.decide = look_until_decided  # type: ignore[attr-defined]


# The mean of equal differences is off by an ulp, which leaves them a deviation of that size.
_ROUNDING = 1e-12


def settings(epsilon: float = 0.05, *, batch_size: int = 100) -> AustereTest:
    """Check the settings of the test, and return them.

    Parameters
    ----------
    epsilon
        Tail probability below which a look decides, in (0, 0.5).
    batch_size
        Rows of every look.

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
    require_batches(batch_size, 0.0, GAUSSIAN_THIRD_MOMENT)
    return AustereTest(int(batch_size), 0.0, GAUSSIAN_THIRD_MOMENT, math.inf, float(epsilon))


@role_of(AustereTest, "plan")
@compiled(inlined=True)
def plan(noise, n, total, test):
    """Return `batch_size` rows more than `n`, at most `total`; the noise is not used."""
    return min(total, n + test.batch_size)


@role_of(AustereTest, "judge")
@compiled(inlined=True)
def judge(log_ratio, variance, skewness, n, total, uniform, test):
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
    test : AustereTest

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
    if tail < test.epsilon:
        return verdict, probability, tail
    return -1.0, probability, tail


class AustereMethod(BatchMethod):
    """The austere test, as a step runs it."""

    guarantee = Guarantee(
        Promise.APPROXIMATE,
        "probability epsilon of a wrong answer at each look, not the bias of the posterior",
    )
    walk_target = 0.234
    # Its probability is that of the look that decided, which the uniform number has chosen.
    returns_probability = False
