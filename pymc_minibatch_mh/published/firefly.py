"""Firefly Monte Carlo: Metropolis–Hastings with the evaluated observations as part of the state.

Each observation has a lower bound B_i(θ) of its likelihood L_i(θ) = exp[β ℓ_i(θ)], and is bright or
dark. The chain samples positions and sets of bright observations, with the density

    π₀(θ) Π_dark B_i(θ) Π_bright [L_i(θ) - B_i(θ)]

whose sum over all sets is π₀ Π L_i, the posterior. Given θ, observations are bright independently,
each with the odds o_i = (L_i - B_i)/B_i. A proposal of θ needs the bright observations only, if the
product of all B_i is known without evaluations. Let t_i be the expansion of ℓ_i around the centre
θ̂, T the sum of all t_i, r_i the remainder, c_i its bound and m(θ) = M(θ̂, θ). Then

    log B_i(θ) = β t_i(θ) - c_i m(θ) + const,    Σ log B_i = β T(θ) - C m(θ) + const,
    log(L_i/B_i) = β [r_i(θ) - r_i(θ̂)] + c_i m(θ) >= 0,

so every likelihood with derived bounds has such a lower bound. The table of c_i and m depends on θ
alone, because B_i has to be a function of θ. Logistic and Student-t observations also have
quadratic lower bounds (:mod:`published.lower_bounds`), whose sum replaces β T, with a constant m.

An update first updates the set of bright observations, then accepts or rejects the proposal of θ
with the log ratio

    λ_c - C [m(θ') - m(θ)] + Σ_bright [log o_i(θ') - log o_i(θ)],

where λ_c is the log ratio of prior, control variates and proposal. Each dark observation is
proposed to become bright with probability q, and accepted with probability min(1, o_i/q); each
bright one is proposed to become dark, and accepted with probability min(1, q/o_i). These updates
satisfy detailed balance for every pair of bright sets. Dark observations without a proposal cost
nothing.

If θ or θ' lies outside all tables there is no bound. Such a pair is symmetric in θ and θ' and does
not depend on the bright set, so the full data decide it, with the sets summed out. After an
accepted proposal, the bright set is drawn from its distribution given θ' when it is next needed, as
at the start of a chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.checks import check_choice, check_positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.inputs import resolve_model
from pymc_minibatch_mh.native.statistics import Feature
from pymc_minibatch_mh.plan.bound_sources import GivenBounds, bound_source
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.proposals.base import Proposal
from pymc_minibatch_mh.published.lower_bounds import (
    AT_CENTRE,
    Touching,
    lower_bounds,
    require_lower_bounds,
)
from pymc_minibatch_mh.samplers.base import Likelihood, Records
from pymc_minibatch_mh.samplers.metropolis import Metropolis
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    check_bounds,
    check_violation,
    setting_field,
    step_variables,
    takes_settings,
)

#: Placeholder for the number of bright observations before they are drawn.
NOT_DRAWN = -1


class Brightness(NamedTuple):
    """Set of bright observations."""

    #: Probability that a dark observation is proposed to become bright.
    q: float
    #: All row numbers, shape (N,) of int32, the bright ones first; updated in place.
    rows: np.ndarray
    #: Number of bright observations, or NOT_DRAWN, shape (1,) of int64.
    n_bright: np.ndarray
    #: Position at which the set was drawn, shape (d,).
    at: np.ndarray


def unknown_brightness(q: float, n_rows: int, size: int) -> Brightness:
    """Initial set for a chain of `size` coordinates, before any bright observation is drawn."""
    return Brightness(q, np.arange(n_rows, dtype=np.int32), np.array([NOT_DRAWN]), np.zeros(size))


#: Points of tangency by `bound`, None for derived bounds; 1.5 is the published ξ for logistic
#: regression.
TANGENT_POINTS: dict[str, Touching | None] = {"derived": None, "map": AT_CENTRE, "untuned": 1.5}


class FireflyTest(NamedTuple):
    """Settings and state of the test in a chain, run by ``native/firefly.c``."""

    LAYOUT, decide = "mh_firefly_test", "mh_decide_by_bright_rows"  # type: ignore[misc]

    brightness: Brightness
    #: 1: every decision draws a new bright set, for measurements of single decisions.
    forgets: int
    #: 1: clip and mark a difference beyond its bound. 0: stop the chain.
    tolerates: int


@dataclass(frozen=True, eq=False)
class FireflyMethod(Method):
    """Firefly Monte Carlo; `touching` is the point of tangency of quadratic bounds, or None."""

    q: float
    touching: Touching | None
    bounds: GivenBounds | None = field(repr=False)
    tolerates_violations: bool
    #: Bounds of groups grow from table to table, and bright groups trap a chain outside of one.
    takes_groups = False

    @property
    def guarantee(self) -> Guarantee:
        """Exact: without conditions for quadratic lower bounds, otherwise given valid bounds."""
        given_bounds = self.touching is None
        return Guarantee(Promise.EXACT_GIVEN_BOUNDS if given_bounds else Promise.EXACT)

    @property
    def requirements(self) -> Requirements:
        """Quadratic lower bounds, derived bounds, or custom bounds."""
        if self.touching is not None:
            precondition = partial(require_lower_bounds, self.touching)
            return Requirements(precondition=precondition, in_memory=True)
        return Requirements(bounds=bound_source(self.bounds), in_memory=True)

    def record(self, plan: Plan) -> FireflyTest:
        """Initial settings, before any bright observation is drawn."""
        size = plan.reference.centre.size
        brightness = unknown_brightness(self.q, plan.n_rows, size)
        return FireflyTest(brightness, 0, int(self.tolerates_violations))


@dataclass(frozen=True, eq=False)
class FireflySampler(Metropolis):
    """Metropolis–Hastings on positions and sets of bright observations."""

    method: FireflyMethod

    @property
    def moves_without_rows(self) -> bool:
        """False: lower bounds depend on the whole position, so slice updates would change them."""
        return False

    def with_independent_tests(self, records: Records) -> Records:
        """Records that draw a new bright set for each decision, for independent decisions."""
        return records._replace(test=records.test._replace(forgets=1))

    def likelihood(self, plan: Plan) -> Likelihood:
        """Observations with their expansions and bounds, or with quadratic lower bounds."""
        if self.method.touching is None:
            return super().likelihood(plan)
        below = lower_bounds(plan.target, plan.reference, self.method.touching)
        return Likelihood(below.space, below.reference, below.tables, below)

    def features(self, plan: Plan) -> set[Feature]:
        """Statistics to record: bright observations, and checks of the lower bounds."""
        return super().features(plan) | {"bright rows", "bounds"}


def _check_share(name: str, value: Any) -> float:
    if not check_positive(name, value) <= 1.0:
        raise SettingError(
            f"{name}={value} is not a probability above 0 and up to 1. Use 0.1, or about the share "
            "of the rows that are bright."
        )
    return float(value)


@dataclass(frozen=True, kw_only=True)
class FireflySettings(SharedSettings):
    """Settings of :class:`FireflyMH`.

    Parameters
    ----------
    vars : list of variables, optional
        All variables of the model, because brightness depends on all of them.
    q : float in (0, 1]
        Probability that an update proposes to brighten a dark observation. The best value is about
        the share of bright observations.
    bound : {"derived", "map", "untuned"}
        Lower bounds. "derived" takes the expansion at the mode and derived bounds, for all models.
        The others are the published quadratic bounds for logistic, binomial and Student-t
        likelihoods of known scale, which touch each likelihood at the mode ("map") or far from it
        ("untuned"). With "map" about one observation per parameter is bright.
    bounds, on_violation
        As in :class:`TunaMH`, for ``bound="derived"``.
    """

    q: float = setting_field(_check_share, default=0.1)
    bound: str = setting_field(
        partial(check_choice, known=tuple(TANGENT_POINTS)), default="derived"
    )
    bounds: GivenBounds | None = setting_field(check_bounds, default=None, key=None)
    on_violation: str = setting_field(check_violation, default="raise")

    def __post_init__(self) -> None:
        """Raise SettingError for settings that quadratic bounds or bright sets rule out."""
        super().__post_init__()
        if self.bound != "derived" and (self.bounds is not None or self.on_violation != "raise"):
            raise SettingError(
                f"bound={self.bound!r} takes neither bounds= nor on_violation=, because its lower "
                "bounds are known to hold. Leave them out, or use bound='derived'."
            )
        if self.slice_moves:
            raise SettingError(
                f"moves_without_rows={self.slice_moves!r} does not go with FireflyMH, because its "
                "memory of observations depends on every coordinate. Leave it out."
            )


class FireflyMH(MinibatchStep):
    """Exact Metropolis–Hastings that evaluates the bright observations (Firefly Monte Carlo).

    Guarantee: *exact given valid bounds*. Each observation has a lower bound of its likelihood, and
    is bright or dark. An update evaluates the bright observations twice, and a share `q` of the
    dark ones. The bright set is sampled with the parameters; the statistic ``n_bright`` is its
    size. The full data decide proposals that leave the region of the bounds (statistic
    ``full_pass``). See the page "Bounds and exactness".

    Raises
    ------
    BoundsError
        If an observation has no such bound, or no rule bounds an operation of the model.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Maclaurin, Adams (2014), "Firefly Monte Carlo: exact MCMC with subsets of data", UAI,
    doi:10.48550/arXiv.1403.5693.
    """

    name = "firefly_mh"

    @takes_settings(FireflySettings)
    def __init__(self, settings: FireflySettings) -> None:
        _require_alone(resolve_model(settings.model), settings.vars)
        touching, tolerates = TANGENT_POINTS[settings.bound], settings.on_violation == "warn"
        self._prepare(settings, FireflyMethod(settings.q, touching, settings.bounds, tolerates))

    @staticmethod
    def sampler_of(plan: Plan, method: Method, proposal: Proposal) -> FireflySampler:
        """Sampler of positions and bright observations."""
        assert isinstance(method, FireflyMethod)
        return FireflySampler(method, proposal)


def _require_alone(model: pm.Model, vars: Sequence[Variable] | None) -> None:
    moved = step_variables(model, vars)
    left = [value.name for value in model.value_vars if value not in moved]
    if left:
        raise SettingError(
            f"vars= leaves {left[0]!r} to another step, but the set of bright observations "
            "depends on all variables. Use TunaMH(), which works beside other steps."
        )
