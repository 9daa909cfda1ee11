"""Penalty test: Metropolis acceptance of a log ratio with normal noise.

For a normal D* with the exact log ratio as mean and known variance s^2, acceptance with probability
min(1, exp(D* - s^2/2)) satisfies detailed balance. A batch of n observations only estimates s^2, so
the series of native/penalty.c replaces s^2/2. Its error is of order s^4/n^2 for normal differences
(0.085 s^4/n^2 covers quadrature for n >= 10, s <= 2), and of order s/sqrt(n) for skewed ones; the
error estimate includes both. With the full data the test is exact.

Batches without replacement from N observations have a less variable s^2, with 1 + 1/(1/(n-1) -
1/(N-1)) in place of n. The series u nevertheless uses n, because D* and s^2 are then dependent: at
n=11, N=24, s=1, E exp(D* - u) has an error of .9 % with that value in u, and .07 % with n.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.checks import check_integer
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.samplers.metropolis import Metropolis
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import UNMEASURED, BatchMethod
from pymc_minibatch_mh.steps.settings import SharedSettings, setting_field, takes_settings


class PenaltyTest(NamedTuple):
    """Kernel settings, ``mh_penalty_test``; :class:`BarkerTest` documents the shared fields."""

    LAYOUT, sample_size, decide_batch = (  # type: ignore[misc]
        "mh_penalty_test",
        "mh_penalty_sample_size",
        "mh_penalty_decide",
    )

    batch_size: int
    skewness: float
    third_moment: float
    kappa: float


def penalty_test(*, batch_size: int = 100) -> PenaltyTest:
    """Initial kernel settings of the penalty test."""
    return PenaltyTest(batch_size, **UNMEASURED)


class PenaltyMethod(BatchMethod):
    """Method of :class:`PenaltyMH`."""

    guarantee = Guarantee(
        Promise.APPROXIMATE,
        "distance of the batch's noise from the normal distribution, and the error of estimating "
        "its variance from the batch",
    )
    follows_noise = True


@dataclass(frozen=True, kw_only=True)
class PenaltySettings(SharedSettings):
    """Settings of :class:`PenaltyMH`.

    Parameters
    ----------
    batch_size : int
        Size of the smallest batch.
    """

    batch_size: int = setting_field(partial(check_integer, least=2), default=100)


class PenaltyMH(MinibatchStep):
    """Minibatch Metropolis–Hastings with a penalty for the noise of the batch.

    Guarantee: *approximate*. The statistic ``error_estimate`` estimates the error of each
    acceptance probability, which comes from noise that is not quite normal and from its estimated
    variance. The page "Approximate methods" says which errors remain.

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

    @takes_settings(PenaltySettings)
    def __init__(self, settings: PenaltySettings) -> None:
        test = penalty_test(batch_size=settings.batch_size)
        self._prepare(settings, PenaltyMethod(test))


def penalty_beside(step: MinibatchStep, rng: np.random.Generator) -> PenaltyMH:
    """A :class:`PenaltyMH` with a new chain, on the observations and plan of another step."""
    method = PenaltyMethod(penalty_test())
    plan = replace(step.plan, requirements=method.requirements).without_unasked().completed()
    other = object.__new__(PenaltyMH)
    # The other step's cached key must not be copied, because the new step's key differs.
    other.__dict__.update({name: v for name, v in step.__dict__.items() if name != "key"})
    other._method_key = PenaltySettings().key
    program = step.program
    assert isinstance(program.sampler, Metropolis)
    sampler = replace(program.sampler, method=method)
    settings = program.updates_per_draw, (), program.moves_without_rows
    other.program = SamplerSpec(plan, sampler, *settings)
    other.chain = Chain(other.program, rng, other.adapts)
    return other
