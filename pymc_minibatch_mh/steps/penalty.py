"""The penalty test: Metropolis acceptance of a log ratio with normal noise.

With D* normal about the exact log ratio and of known variance s^2, accepting with
min(1, exp(D* - s^2/2)) satisfies detailed balance. A batch of n rows only gives an estimate of
s^2, so the test accepts with

    p = min(1, exp(D* - u)),    u = s^2/2 + s^4/(4(n+1)) + s^6/(3(n+1)(n+3)).

The series is asymptotic in s^2/n and wants s^2 < n/4. It leaves an error of order s^4/n^2 for
normal rows (0.085 s^4/n^2 covers quadrature for n >= 10, s <= 2), and skewness one of order
s/sqrt(n): see `error_estimate`. With all rows read the test is exact Metropolis.

A batch without replacement from N rows has a less variable s^2, with 1 + 1/(1/(n-1) - 1/(N-1))
in the place of n. Using that in u is nevertheless wrong, since D* is then no longer independent
of s^2: E exp(D* - u) is .9 % off at n=11, N=24, s=1 with it and .07 % with n.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Unpack

import numpy as np
from pytensor.graph.basic import Variable

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import Program
from pymc_minibatch_mh.checks import integer
from pymc_minibatch_mh.kernels.looks import look_until_decided
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import (
    AIM,
    UNMEASURED,
    BatchMethod,
    rows_for_variance,
)
from pymc_minibatch_mh.steps.settings import SharedSettings


class PenaltyTest(NamedTuple):
    """Settings of the test in a chain: see :class:`BarkerTest` for those that all have."""

    batch_size: int
    skewness: float
    third_moment: float
    kappa: float


PenaltyTest.decide = look_until_decided  # type: ignore[attr-defined]


#: Standard deviation of the log ratio that batches are kept below. Up to 1.349 the test accepts at
#: least as often as Barker's at every log ratio; its acceptance falls like exp(-MAX_SD²/8).
MAX_SD = 1.2
# sup of the standard normal density, and of |z| times it.
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)
_SLOPE = math.exp(-0.5) * _DENSITY


def penalty_test(*, batch_size: int = 100) -> PenaltyTest:
    """Check the setting of :class:`PenaltyMH`, and return the record of a chain."""
    return PenaltyTest(integer("batch_size", batch_size, 2), **UNMEASURED)


@compiled(inlined=True)
def penalty(variance, n):
    """Return u of a variance that was estimated from n rows."""
    second = variance * variance / (4.0 * (n + 1.0))
    third = variance**3 / (3.0 * (n + 1.0) * (n + 3.0))
    return variance / 2.0 + second + third


@compiled(inlined=True)
def error_estimate(variance, skewness, n, total, test):
    """Estimate the distance to an acceptance probability that satisfies detailed balance.

    The leading Edgeworth term of a skewed batch of n of all `total` rows, with f = n/total and a
    the acceptance at known variance as a function of the exact log ratio: |g| s³ ((1-2f) a''' -
    3(1-f) a'') / (6 √(n(1-f))), g the larger of the batch's and the measured skewness (NaN counts
    as 0), maximised over the log ratio by a''' = a'' + z φ(z)/s², |z φ(z)| <= 0.242 and |a''| <=
    0.399/s; plus 0.085 s⁴/n². 0 with all rows read.
    """
    if n >= total:
        return 0.0
    f = n / total
    skew = abs(skewness) if abs(skewness) > test.skewness else test.skewness
    shape = (2.0 - f) * _DENSITY * variance + abs(1.0 - 2.0 * f) * _SLOPE * math.sqrt(variance)
    error = skew * shape / (6.0 * math.sqrt(n * (1.0 - f)))
    return min(1.0, error + 0.085 * (variance / n) ** 2)


@role_of(PenaltyTest, "sample_size")
@compiled(inlined=True)
def sample_size(noise, n, total, test):
    """Return the rows of the one batch, ceil(1/(1/total + 0.7 MAX_SD²/V)) or `batch_size`.

    V has to be symmetric in the two positions, or the test is biased.
    """
    rows = rows_for_variance(noise, total, AIM * MAX_SD**2)
    return min(total, max(rows, test.batch_size))


@role_of(PenaltyTest, "decide_batch")
@compiled(inlined=True)
def decide_batch(log_ratio, variance, skewness, n, total, uniform, test):
    """Decide on a proposal: see :func:`roles.decide_batch`. The error estimate has the skewness."""
    if not log_ratio > -math.inf:
        return 0.0, 0.0, 0.0
    if n >= total or log_ratio == math.inf:
        probability = math.exp(min(0.0, log_ratio))
        return (1.0 if uniform < probability else 0.0), probability, 0.0
    probability = math.exp(min(0.0, log_ratio - penalty(variance, n)))
    error = error_estimate(variance, skewness, n, total, test)
    return (1.0 if uniform < probability else 0.0), probability, error


class PenaltyMethod(BatchMethod):
    """The penalty test, as a step runs it."""

    guarantee = Guarantee(
        Promise.APPROXIMATE,
        "distance of the batch's noise from the normal distribution, and the error of estimating "
        "its variance from the batch",
    )


class PenaltyMH(MinibatchStep):
    """Minibatch Metropolis–Hastings with a penalty for the noise of the batch.

    Guarantee: *approximate*. The statistic ``error_estimate`` estimates the error of each
    acceptance probability, which comes from noise that is not quite normal and from its estimated
    variance. The page "Approximate methods" says which errors remain.

    Parameters
    ----------
    vars : list of variables, optional
        Variables to update; by default all continuous ones. Other steps update the rest.
    batch_size : int
        Size of the smallest batch.
    **settings
        Settings of all step methods: see :class:`SharedSettings`.

    Raises
    ------
    SettingError
        If a setting is invalid, or if more than one in 10,000 updates is forecast to evaluate all
        stored observations.

    References
    ----------
    Ceperley, Dewing (1999), "The penalty method for random walks with uncertain energies",
    Journal of Chemical Physics 110, doi:10.1063/1.478034.
    """

    name = "penalty_minibatch_mh"

    def __init__(
        self,
        vars: Sequence[Variable] | None = None,
        *,
        batch_size: int = 100,
        **settings: Unpack[SharedSettings],
    ) -> None:
        self._prepare(vars, PenaltyMethod(penalty_test(batch_size=batch_size)), **settings)


def penalty_beside(step: MinibatchStep, rng: np.random.Generator) -> PenaltyMH:
    """Return a :class:`PenaltyMH` with a chain of its own on the rows and sums of another step."""
    method = PenaltyMethod(penalty_test())
    plan = replace(
        step.plan, requirements=method.requirements, tables=None, violation=None
    ).completed()
    other = object.__new__(PenaltyMH)
    # States of the other step have another key.
    other.__dict__.update({name: v for name, v in step.__dict__.items() if name != "key"})
    own = step.program
    settings = own.proposal, own.updates_per_draw, (), own.moves_without_rows
    other.program = Program(plan, method, *settings)
    other.chain = Chain(other.program, rng, other.adapts)
    return other
