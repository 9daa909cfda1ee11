"""Austere test: a sequential t-test of the Metropolis decision on growing batches.

The uniform is drawn first. Metropolis accepts iff the exact log ratio exceeds log(uniform); each
look tests that hypothesis with the paper's statistic of the mean difference (native/austere.c). A
look decides when the tail beyond |t| is below epsilon; otherwise the batch grows by `batch_size`
observations. With a boundary above 0.5, early looks need a smaller tail, as in the paper's
supplement.

A batch without rare observations can stop early with a wrong decision. A batch of equal
differences is undecided, unless all differences were equal in every measured proposal.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from scipy.special import ndtri

from pymc_minibatch_mh.checks import check_integer
from pymc_minibatch_mh.plan.method import Guarantee, Promise
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.batches import UNMEASURED, BatchMethod
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    number_check,
    setting_field,
    takes_settings,
)


class AustereTest(NamedTuple):
    """Kernel settings, ``mh_austere_test``; :class:`BarkerTest` documents the shared fields."""

    LAYOUT, sample_size, decide_batch = (  # type: ignore[misc]
        "mh_austere_test",
        "mh_austere_sample_size",
        "mh_austere_decide",
    )

    batch_size: int
    skewness: float
    #: E|X|³ as in BarkerTest; 0 if all measured proposals had equal differences.
    third_moment: float
    kappa: float
    #: Tail probability below which a look decides; 0 evaluates all observations at once.
    epsilon: float
    #: Constants α and G_0 of the looks' limits G_0 (n/N)^(0.5 - α).
    boundary: float
    limit: float


def austere_test(
    epsilon: float = 0.05, *, batch_size: int = 100, boundary: float = 0.5
) -> AustereTest:
    """Initial kernel settings of the austere test."""
    limit = abs(float(ndtri(epsilon)))
    moments = UNMEASURED
    return AustereTest(batch_size, **moments, epsilon=epsilon, boundary=boundary, limit=limit)


@dataclass(frozen=True, eq=False)
class AustereMethod(BatchMethod):
    """Method of :class:`AustereMH`."""

    @property
    def guarantee(self) -> Guarantee:
        """Exact if every update evaluates the full data, else approximate."""
        if self.reads_all_rows:
            return Guarantee(Promise.EXACT)
        return Guarantee(
            Promise.APPROXIMATE,
            "probability epsilon of a wrong answer at each look, not the bias of the posterior",
        )

    @property
    def reads_all_rows(self) -> bool:  # type: ignore[override]
        """Whether every update evaluates the full data, because ``epsilon=0``."""
        return bool(self.settings.epsilon == 0.0)

    @property
    def returns_probability(self) -> bool:  # type: ignore[override]
        """True with the full data; False with batches, whose last look depends on the uniform."""
        return self.reads_all_rows


_NO_TAIL = (
    "is not a tail probability in [0, 0.5]. Use 0.05, a smaller value for less bias and larger "
    "batches, or 0 to evaluate all observations."
)
_NO_BOUNDARY = (
    "is not in [0.5, 1]. Use 0.5 for the same limit at every look, or more for wider limits at "
    "early looks."
)


@dataclass(frozen=True, kw_only=True)
class AustereSettings(SharedSettings):
    """Settings of :class:`AustereMH`.

    Parameters
    ----------
    batch_size : int
        Observations that each look adds.
    epsilon : float in [0, 0.5]
        Tail probability below which a look decides. At 0 the full data decide, at 0.5 the first
        look.
    boundary : float in [0.5, 1]
        α in the limits G_0 π^(0.5 - α) of the looks' statistics, with π the share of evaluated
        observations and G_0 the normal quantile of 1 - `epsilon`. At 0.5 all looks have the level
        `epsilon`; above, early looks have a smaller one.
    """

    batch_size: int = setting_field(partial(check_integer, least=2), default=500)
    epsilon: float = setting_field(number_check(0.0, 0.5, _NO_TAIL), default=0.05)
    boundary: float = setting_field(number_check(0.5, 1.0, _NO_BOUNDARY), default=0.5)


class AustereMH(MinibatchStep):
    """Metropolis–Hastings decided by a sequential t-test on growing batches.

    Guarantee: *approximate*. `epsilon` controls the error of a t-test at one look, not the error of
    the acceptance probability or of the posterior: see the page "Approximate methods". With
    ``epsilon=0`` the full data decide, as in Metropolis–Hastings, which is *exact*.

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

    @takes_settings(AustereSettings)
    def __init__(self, settings: AustereSettings) -> None:
        size, boundary = settings.batch_size, settings.boundary
        test = austere_test(settings.epsilon, batch_size=size, boundary=boundary)
        self._prepare(settings, AustereMethod(test))
