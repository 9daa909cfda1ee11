"""Confidence sampler: concentration bounds on growing batches.

The uniform u is drawn first, so Metropolis compares a mean over all observations with a threshold.
A look at n observations, drawn without replacement, decides if the distance between their mean and
the threshold exceeds an empirical Bernstein bound (formulas in native/confidence.c). Otherwise the
next look has gamma times as many observations, up to the full data, which decide as soon as a look
would exceed `full_pass_above`. The bound takes the sd s from the batch, and the range R = 2 M max
c_i from the derived table that covers the proposal; the full data decide if no table does.

For the same u, an update decides differently from full-data Metropolis with probability at most
Σ_{k>=2} δ_k < δ/p, at every pair of positions, if all differences l_i lie within R. Every evaluated
observation is checked.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.checks import check_integer, check_positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.bound_sources import DerivedBounds
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import SharedSettings, setting_field, takes_settings


class ConfidenceTest(NamedTuple):
    """Kernel settings of the test, ``mh_confidence_test``."""

    LAYOUT, decide = "mh_confidence_test", "mh_decide_by_confidence"  # type: ignore[misc]

    #: Batch size at the first look, and factor by which it grows at each further look.
    batch_size: int
    gamma: float
    #: Constants p and δ of the levels δ_k.
    p: float
    delta: float
    #: 1: scan all observations at every update (:mod:`published.confidence_scan`). 0: no scan.
    scans: int
    #: Largest c_i of each table, shape (T,); empty with a scan.
    largest: np.ndarray


def confidence_test(
    batch_size: int = 100, gamma: float = 2.0, p: float = 2.0, delta: float = 0.01
) -> ConfidenceTest:
    """Initial kernel settings of the confidence test."""
    return ConfidenceTest(batch_size, gamma, p, delta, 0, np.empty(0))


@dataclass(frozen=True, eq=False)
class ConfidenceMethod(Method):
    """Method of :class:`ConfidenceMH`; a plan adds the largest bounds to its settings."""

    settings: ConfidenceTest

    # The acceptance probability depends on the deciding look, which the uniform number selects.
    returns_probability = False
    #: Condition under which the guarantee holds.
    condition: ClassVar[str] = "given valid bounds"

    @property
    def guarantee(self) -> Guarantee:
        """Approximate draws; names the controlled error and the condition for its control."""
        return Guarantee(
            Promise.APPROXIMATE,
            f"probability delta that a decision differs from the full data's, {self.condition}, "
            "not the bias of the posterior",
        )

    @property
    def requirements(self) -> Requirements:
        """Derived bounds, and data in memory."""
        return Requirements(bounds=DerivedBounds(), in_memory=True)

    def record(self, plan: Plan) -> ConfidenceTest:
        """Settings with the largest bound of each table, of rows that have one."""
        if not isinstance(plan.tables, Tables):
            return self.settings
        c = plan.tables.c
        largest = c.max(axis=1, where=np.isfinite(c), initial=0.0)
        return self.settings._replace(largest=largest.astype(np.float64))


@dataclass(frozen=True, kw_only=True)
class ConfidenceSettings(SharedSettings):
    """Settings of :class:`ConfidenceMH`.

    Parameters
    ----------
    batch_size : int
        Observations of the first look.
    gamma : float above 1
        Factor by which batches grow from look to look.
    p : float above 1
        Power in the levels of the looks, δ_k = (p - 1) δ/(p k^p), k = 2, 3, ...
    delta : float in (0, 1)
        δ.
    """

    batch_size: int = setting_field(partial(check_integer, least=2), default=100)
    gamma: float = setting_field(check_positive, default=2.0)
    p: float = setting_field(check_positive, default=2.0)
    delta: float = setting_field(check_positive, default=0.01)

    @property
    def test(self) -> ConfidenceTest:
        """Initial kernel settings."""
        return confidence_test(self.batch_size, self.gamma, self.p, self.delta)

    def __post_init__(self) -> None:
        """Raise SettingError if `gamma`, `p` or `delta` is out of range."""
        super().__post_init__()
        if not self.gamma > 1.0:
            raise SettingError(
                f"gamma={self.gamma} is not above 1, so batches would not grow. Use 2.0."
            )
        if not self.p > 1.0:
            raise SettingError(
                f"p={self.p} is not a power above 1: the errors of all looks would add up to more "
                "than delta. Use 2.0."
            )
        if not self.delta < 1.0:
            raise SettingError(
                f"delta={self.delta} is not a probability between 0 and 1. Use 0.01, or less for "
                "fewer wrong decisions and more rows."
            )


class ConfidenceMH(MinibatchStep):
    """Metropolis–Hastings decided by concentration bounds on growing batches.

    Guarantee: *approximate*. `delta` is the probability of a decision that differs from the
    full-data decision, at every pair of positions, given valid bounds. It does not control the bias
    of the posterior: see the page "Approximate methods". The statistic ``error_estimate`` is the
    part of `delta` that an update has spent.

    Raises
    ------
    BoundsError
        If an observation has no bound.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Bardenet, Doucet, Holmes (2014), "Towards scaling up Markov chain Monte Carlo: an adaptive
    subsampling approach", ICML.
    """

    name = "confidence_mh"

    @takes_settings(ConfidenceSettings)
    def __init__(self, settings: ConfidenceSettings) -> None:
        self._prepare(settings, ConfidenceMethod(settings.test))
