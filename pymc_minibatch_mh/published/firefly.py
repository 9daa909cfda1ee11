"""Firefly Monte Carlo: Metropolis–Hastings whose state says which rows are read.

Every row has a lower bound B_i(θ) of its likelihood L_i(θ) = exp[β ℓ_i(θ)], and is bright or dark.
The chain lives on positions and sets of bright rows, with the density

    π₀(θ) Π_dark B_i(θ) Π_bright [L_i(θ) - B_i(θ)]

whose sum over all sets is π₀ Π L_i, the posterior: given θ, rows are bright independently, each
with the odds o_i = (L_i - B_i)/B_i. A move of θ has to read bright rows only, if the product of all
B_i is known without reading any. It is: with t_i the expansion of ℓ_i around the centre θ̂, T their
sum, r_i a row's remainder, c_i its bound and m(θ) = M(θ̂, θ),

    log B_i(θ) = β t_i(θ) - c_i m(θ) + const,    Σ log B_i = β T(θ) - C m(θ) + const,
    log(L_i/B_i) = β [r_i(θ) - r_i(θ̂)] + c_i m(θ) >= 0,

so that every likelihood with derived bounds has one. Which table gives c_i and m follows from θ
alone, or B_i would be no function of θ. Logistic and Student-t rows have quadratic lower bounds as
well (:mod:`published.lower_bounds`), whose sum takes the place of β T, with a constant m.

An update first updates which rows are bright, then decides on the move of θ, with the log ratio

    λ_c - C [m(θ') - m(θ)] + Σ_bright [log o_i(θ') - log o_i(θ)],

λ_c that of the cheap part and the proposals. It proposes each dark row to become bright with
probability q, and accepts with probability min(1, o_i/q); it proposes each bright row to become
dark, and accepts with probability min(1, q/o_i). That balances every pair of sets of bright rows.
Dark rows that are not proposed are neither read nor looked at.

Where θ or θ' lies outside of all tables there is no bound. Such a pair, which is symmetric in θ
and θ' and does not depend on the rows that are bright, is decided by all rows, with the sets summed
out; if the move is accepted, the bright rows are drawn from their law given θ' when they are next
needed, as at the start of a chain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.checks import choice, positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.inputs import model_of
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
    own_variables,
    setting,
    takes,
)

#: In place of the number of bright rows: they have yet to be drawn.
UNKNOWN = -1


class Brightness(NamedTuple):
    """The set of bright rows."""

    #: Probability that a dark row is proposed to become bright.
    q: float
    #: All rows, shape (N,) of int32, the bright ones first; written to by updates.
    rows: np.ndarray
    #: How many are bright, or UNKNOWN, shape (1,) of int64.
    n_bright: np.ndarray
    #: The position that they belong to, shape (d,).
    at: np.ndarray


def unknown_brightness(q: float, n_rows: int, size: int) -> Brightness:
    """Return the record that a chain of `size` coordinates starts with: nothing is drawn yet."""
    return Brightness(q, np.arange(n_rows, dtype=np.int32), np.array([UNKNOWN]), np.zeros(size))


#: `bound` -> where quadratic lower bounds touch, None without them; 1.5 is the published ξ for
#: logistic regression.
TOUCHING: dict[str, Touching | None] = {"derived": None, "map": AT_CENTRE, "untuned": 1.5}


class FireflyTest(NamedTuple):
    """Settings and state of the test in a chain, which ``native/firefly.c`` runs."""

    LAYOUT, decide = "mh_firefly_test", "mh_decide_by_bright_rows"  # type: ignore[misc]

    brightness: Brightness
    #: 1: bright rows are drawn anew for every decision, to measure a single one.
    forgets: int
    #: 1: a row beyond its bound is taken to be on it, and marked. 0: it stops the chain.
    tolerates: int


@dataclass(frozen=True, eq=False)
class FireflyMethod(Method):
    """Firefly Monte Carlo; bounds are None to be derived.

    `touching` is where quadratic lower bounds touch; None for those made of derived bounds.
    """

    q: float
    touching: Touching | None
    bounds: GivenBounds | None = field(repr=False)
    tolerates_violations: bool

    @property
    def guarantee(self) -> Guarantee:
        """Exact; quadratic lower bounds are inequalities that hold whatever the model."""
        if self.touching is not None:
            return Guarantee(Promise.EXACT)
        return Guarantee(Promise.EXACT_GIVEN_BOUNDS)

    @property
    def requirements(self) -> Requirements:
        """Quadratic lower bounds, or bounds, derived from the model unless the user gave some."""
        if self.touching is not None:
            precondition = partial(require_lower_bounds, self.touching)
            return Requirements(precondition=precondition, in_memory=True)
        return Requirements(bounds=bound_source(self.bounds), in_memory=True)

    def record(self, plan: Plan) -> FireflyTest:
        """Return the settings, with bright rows that have yet to be drawn."""
        size = plan.reference.centre.size
        brightness = unknown_brightness(self.q, plan.n_rows, size)
        return FireflyTest(brightness, 0, int(self.tolerates_violations))


@dataclass(frozen=True, eq=False)
class FireflySampler(Metropolis):
    """Metropolis–Hastings on positions and sets of bright rows."""

    method: FireflyMethod

    @property
    def moves_without_rows(self) -> bool:
        """No other updates: lower bounds of all rows depend on the whole position."""
        return False

    def with_independent_tests(self, records: Records) -> Records:
        """Records with bright rows that are drawn anew for every decision."""
        return records._replace(test=records.test._replace(forgets=1))

    def likelihood(self, plan: Plan) -> Likelihood:
        """Observations with their expansions and bounds, or with quadratic lower bounds."""
        if self.method.touching is None:
            return super().likelihood(plan)
        below = lower_bounds(plan.target, plan.reference, self.method.touching)
        return Likelihood(below.space, below.reference, below.tables, below)

    def features(self, plan: Plan) -> set[Feature]:
        """Statistics of bright rows, whose bounds are checked."""
        return super().features(plan) | {"bright rows", "bounds"}


def _check_share(name: str, value: Any) -> float:
    if not positive(name, value) <= 1.0:
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

    q: float = setting(_check_share, default=0.1)
    bound: str = setting(partial(choice, known=tuple(TOUCHING)), default="derived")
    bounds: GivenBounds | None = setting(check_bounds, default=None, key=None)
    on_violation: str = setting(check_violation, default="raise")

    def __post_init__(self) -> None:
        """Refuse settings that quadratic lower bounds or brightness make impossible."""
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

    @takes(FireflySettings)
    def __init__(self, settings: FireflySettings) -> None:
        _require_alone(model_of(settings.model), settings.vars)
        touching, tolerates = TOUCHING[settings.bound], settings.on_violation == "warn"
        self._prepare(settings, FireflyMethod(settings.q, touching, settings.bounds, tolerates))

    @staticmethod
    def sampler_of(plan: Plan, method: Method, proposal: Proposal) -> FireflySampler:
        """Sampler of positions and bright rows."""
        assert isinstance(method, FireflyMethod)
        return FireflySampler(method, proposal)


def _require_alone(model: pm.Model, vars: Sequence[Variable] | None) -> None:
    """Refuse to leave variables to other steps, which brightness would not follow."""
    moved = own_variables(model, vars)
    left = [value.name for value in model.value_vars if value not in moved]
    if left:
        raise SettingError(
            f"vars= leaves {left[0]!r} to another step, but the set of bright observations "
            "depends on all variables. Use TunaMH(), which works beside other steps."
        )
