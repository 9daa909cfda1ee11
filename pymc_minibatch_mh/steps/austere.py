"""The austere test: a sequential t-test of the Metropolis decision on growing batches.

The uniform is drawn first. Metropolis accepts iff the exact log ratio exceeds log(uniform); each
look tests that with t = (D* - log uniform)/s and n - 1 degrees of freedom, which is the paper's
statistic on the mean difference against mu_0 = (log uniform - cheap part)/N. It stops when the
tail beyond |t| is below epsilon and reads `batch_size` more rows otherwise. With another boundary
than 0.5, early looks have a smaller tail, as in the paper's supplement: that of the normal limit
G_0 (n/N)^(0.5 - boundary).

A batch that misses rare rows stops early and wrongly. A batch of equal differences, up to
rounding, is undecided, unless all rows were equal in every move that was measured on all rows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Unpack

from pytensor.graph.basic import Variable
from scipy.special import ndtri

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.checks import integer, is_number
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.looks import look_until_decided
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import (
    UNMEASURED,
    BatchMethod,
    normal_cdf,
    student_tail,
)
from pymc_minibatch_mh.steps.settings import SharedSettings


class AustereTest(NamedTuple):
    """Settings of the test in a chain: see :class:`BarkerTest` for those that all have."""

    batch_size: int
    skewness: float
    #: 0 if differences were equal in every move that was measured.
    third_moment: float
    kappa: float
    #: Tail probability below which a look decides; 0 for all rows at once.
    epsilon: float
    #: α and G_0 of the limits G_0 (n/N)^(0.5 - α) of the looks.
    boundary: float
    limit: float


AustereTest.decide = look_until_decided  # type: ignore[attr-defined]


# The mean of equal differences is off by an ulp, which leaves them a deviation of that size.
_ROUNDING = 1e-12


def austere_test(
    epsilon: float = 0.05, *, batch_size: int = 100, boundary: float = 0.5
) -> AustereTest:
    """Check the settings of :class:`AustereMH`, and return the record of a chain."""
    if not is_number(epsilon) or not 0.0 <= epsilon <= 0.5:
        raise SettingError(
            f"epsilon={epsilon!r} is not a tail probability in [0, 0.5]. Use 0.05, a smaller "
            "value for less bias and larger batches, or 0 to evaluate all observations."
        )
    if not is_number(boundary) or not 0.5 <= boundary <= 1.0:
        raise SettingError(
            f"boundary={boundary!r} is not in [0.5, 1]. Use 0.5 for the same limit at every look, "
            "or more for wider limits at early looks."
        )
    return AustereTest(
        batch_size=integer("batch_size", batch_size, 2),
        **UNMEASURED,
        epsilon=float(epsilon),
        boundary=float(boundary),
        limit=abs(float(ndtri(epsilon))),
    )


@role_of(AustereTest, "sample_size")
@compiled(inlined=True)
def sample_size(noise, n, total, test):
    """Return `batch_size` rows more than `n`, all at epsilon 0; the noise is not used."""
    return min(total, n + test.batch_size) if test.epsilon > 0.0 else total


@compiled(inlined=True)
def level(n, total, test):
    """Return the tail probability below which a look at `n` rows decides."""
    if test.boundary == 0.5:
        return test.epsilon
    return normal_cdf(-test.limit * (n / total) ** (0.5 - test.boundary))


@role_of(AustereTest, "decide_batch")
@compiled(inlined=True)
def decide_batch(log_ratio, variance, skewness, n, total, uniform, test):
    """Decide on a proposal, or ask for more rows: see :func:`roles.decide_batch`.

    The error estimate is the tail probability beyond |t| at this look, which the level is compared
    with; 0 with all rows read.
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
        # Of the batch alone, rows that are equal say nothing of rare ones that are not.
        equal = test.kappa == 0.0 and test.third_moment == 0.0
        return (verdict, probability, 0.0) if equal else (-1.0, probability, 0.5)
    tail = student_tail(abs(log_ratio - threshold) / deviation, n - 1.0)
    if tail < level(n, total, test):
        return verdict, probability, tail
    return -1.0, probability, tail


@dataclass(frozen=True, eq=False)
class AustereMethod(BatchMethod):
    """The austere test, as a step runs it."""

    @property
    def guarantee(self) -> Guarantee:
        """Exact where all rows decide."""
        if self.reads_all_rows:
            return Guarantee(Promise.EXACT)
        return Guarantee(
            Promise.APPROXIMATE,
            "probability epsilon of a wrong answer at each look, not the bias of the posterior",
        )

    @property
    def reads_all_rows(self) -> bool:  # type: ignore[override]
        """At epsilon 0."""
        return bool(self.settings.epsilon == 0.0)

    @property
    def returns_probability(self) -> bool:  # type: ignore[override]
        """Where all rows decide. Else the uniform number has chosen the look that decided."""
        return self.reads_all_rows


class AustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test on growing batches.

    Guarantee: *approximate*. `epsilon` controls the error of a t-test at one look, not the error of
    the acceptance probability or of the posterior: see the page "Approximate methods". With
    ``epsilon=0`` the full data decide, as in Metropolis–Hastings, which is *exact*.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    batch_size : int
        Observations that each look adds.
    epsilon : float in [0, 0.5]
        Tail probability below which a look decides. At 0 the full data decide, at 0.5 the first
        look.
    boundary : float in [0.5, 1]
        α in the limits G_0 π^(0.5 - α) of the looks' statistics, with π the share of evaluated
        observations and G_0 the normal quantile of 1 - `epsilon`. At 0.5 all looks have the level
        `epsilon`; above, early looks have a smaller one.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    SettingError
        If a setting is invalid, or if more than one in 10,000 updates is forecast to evaluate all
        stored observations.

    References
    ----------
    Korattikara, Chen, Welling (2014), "Austerity in MCMC land: cutting the Metropolis-Hastings
    budget", ICML, doi:10.48550/arXiv.1304.5299.
    """

    name = "austere_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 500,
        epsilon: float = 0.05,
        boundary: float = 0.5,
        **settings: Unpack[SharedSettings],
    ) -> None:
        test = austere_test(epsilon, batch_size=batch_size, boundary=boundary)
        self._prepare(vars, AustereMethod(test), **settings)
