"""Poisson-minibatch tests: Metropolis–Hastings with a Poisson number of evaluated observations.

Notation: remainders r_i of the observations, changes dU_i = -β[r_i(θ') - r_i(θ)], bounds |dU_i| <=
c_i M(θ, θ') with M symmetric, C = Σ c_i, and λ_c the log ratio of prior, control variates and
proposal. Each observation has an intensity φ_i(θ→θ') >= 0 with an upper bound φ̄_i, the thinning
bound, and φ_i(θ→θ') - φ_i(θ'→θ) = dU_i:

    form         φ_i(θ→θ')                          φ̄_i
    best         φ̄_i + min(0, dU_i)                 c_i M (1 + χ C M)
    paper        χ c_i C M² + (dU_i + c_i M)/2      c_i M (1 + χ C M)
    factorized   max(0, dU_i)                       c_i M                   (χ = 0)

Draw B ~ Poisson(R), R = Σ φ̄_i = C M (1 + χ C M), and B observations with replacement, each with
probability c_i/C. Keep each with probability φ_i/φ̄_i: the counts s_i of kept observations are then
independent Poisson(φ_i(θ→θ')). Accept with

    min(1, exp(λ_c) Π_i [φ_i(θ'→θ)/φ_i(θ→θ')]^s_i)

or, with delayed acceptance, min(1, exp(λ_c)) before any observation is evaluated, times min(1,
Π...). *best* at χ = 0 is MH-SS; *paper* is TunaMH as published (:mod:`published.tuna_paper`);
*factorized* is SMH, where every kept observation rejects. *best* has the largest φ below the
thinning bound: it evaluates as many observations as *paper*, and accepts at least as often.

Guarantee
---------
Exact given valid bounds: the kernel is reversible for the posterior at every χ. With π ∝ π_c exp(-Σ
U_i) and proposal density q, a transition from θ to θ' with counts s has the density

    min{π(θ) q(θ'|θ) Π e^{-φ_i(θ→θ')} φ_i(θ→θ')^s_i,
        π_c(θ') q(θ|θ') e^{-ΣU_i(θ)} Π e^{-φ_i(θ→θ')} φ_i(θ'→θ)^s_i} / Π s_i!

and -U_i(θ) - φ_i(θ→θ') = -U_i(θ') - φ_i(θ'→θ) turns the second entry into the first with θ and θ'
exchanged; with delayed acceptance each stage balances its own factor of the posterior.

With many coordinates, c_i M is far above the largest change of an observation in a proposal. Drawn
observations are then *candidates*. Before evaluation each is kept with probability (separable
bound)/(c_i M), and its separable bound replaces c_i M
(:mod:`pymc_minibatch_mh.native.whitened_copy`).

Influential observations, which almost every update would draw, are always included: their change
joins λ_c in the last decision, and C is the sum over the others.

The full data may decide a pair instead, if this choice is symmetric in θ and θ' and independent of
the drawn observations. Clipping a change to ± its bound is odd in the change, so the clipped test
still balances the pair, but for another ratio if a bound does not hold.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.checks import check_flag, check_positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.bound_sources import GivenBounds, bound_source
from pymc_minibatch_mh.plan.efficiency import best_chi
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise, WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    check_bounds,
    check_violation,
    number_check,
    or_auto,
    setting_field,
    takes_settings,
)

BEST, PAPER, FACTORIZED = range(3)
FORMS = {"best": BEST, "paper": PAPER, "factorized": FACTORIZED}


class PoissonTest(NamedTuple):
    """Kernel settings of the test, ``mh_poisson_test``."""

    LAYOUT, decide = "mh_poisson_test", "mh_decide_poisson"  # type: ignore[misc]

    #: BEST, PAPER or FACTORIZED: form of the intensities, as in the module's docstring.
    form: int
    #: χ, the increase of all intensities in units of c_i C M².
    chi: float
    #: 1: delayed acceptance, whose first stage evaluates no observation. 0: one decision.
    delayed: int
    #: Expected draws R above which the full data are evaluated instead; frozen after warm-up.
    max_rate: float
    #: 1: clip and mark a change beyond its bound. 0: stop the chain.
    tolerates: int
    #: κ >= 1, the factor of separable bounds where they thin candidates.
    ceiling_factor: float = 1.0
    #: Factor >= 1 of the rates at which candidates of groups are drawn.
    rate_factor: float = 1.0


def poisson_test(
    form: str = "best",
    chi: float = 0.0,
    *,
    delayed_acceptance: bool = False,
    max_rate: float = math.inf,
    tolerate: bool = False,
) -> PoissonTest:
    """Initial kernel settings of the Poisson test."""
    delayed = int(delayed_acceptance)
    return PoissonTest(FORMS[form], float(chi), delayed, float(max_rate), int(tolerate))


#: Maximum χ, and initial κ, before observations have been evaluated.
MAX_INITIAL_CHI, INITIAL_RATE_FACTOR = 1.0, 4.0
#: Minimum number of candidates per evaluated observation, if their rates can be raised.
CANDIDATES_PER_ROW = 3.0
#: Minimum number of evaluated observations for an estimate of their ratios |dU_i|/(c_i M).
MIN_ROWS = 50
#: Maximum expected observations of typical proposals at the starting χ, relative to the limit
#: above which the full data decide; below 1, because some proposals are larger.
MAX_START_SHARE = 0.5


def largest_chi(size: float, max_rate: float) -> float:
    """Largest χ with at most `max_rate` expected observations for a proposal of `size` C M.

    It is 0 if the full data decide at every χ, and infinite for a proposal without observations.
    """
    if not 0.0 < size < max_rate:
        return math.inf if size == 0.0 else 0.0
    return (max_rate / size - 1.0) / size


def starting_chi(sizes: Sequence[float], max_rate: float) -> float:
    """Starting χ, small enough that typical proposals do not need the full data."""
    return float(
        min([MAX_INITIAL_CHI, *(largest_chi(size, MAX_START_SHARE * max_rate) for size in sizes)])
    )


def chi_for_gap(ratio: float) -> float:
    """χ that keeps at least the fraction κ = `ratio` of Metropolis–Hastings' spectral gap.

    χ = 4/((1 - κ) log(1/κ)), proven by Zhang et al. (2020, appendix F) for "paper" without delayed
    acceptance; it also holds for "best", which accepts at least as often. The guarantee is very
    loose: in estimates, far smaller χ keep that fraction.
    """
    if not 0.0 < ratio < 1.0:
        raise SettingError(
            f"spectral_gap_ratio={ratio} is outside (0, 1): no finite chi keeps the whole gap. "
            "Use a number such as 0.5, or set chi."
        )
    return 4.0 / ((1.0 - ratio) * math.log(1.0 / ratio))


def chi_from(
    totals: np.ndarray, seconds: float, max_rate: float, updates_per_draw: int
) -> float | None:
    """Most efficient χ, estimated from counts of a chain's updates; None if there are too few.

    `totals` is one record of COUNTS, `seconds` is the cost of a drawn observation and `max_rate`
    the expected number of observations above which the full data decide.
    """
    if not (totals["n_sizes"] > 0.0 and totals["n_ratios"] > MIN_ROWS):
        return None
    size = totals["sizes"] / totals["n_sizes"]
    ratio = min(totals["squared_ratios"] / totals["n_ratios"], 1.0)
    cost = seconds / (costs.UPDATE + costs.LOOP / updates_per_draw)
    return best_chi([size], ratio, cost, max_rate)


def rate_factor_from(
    totals: np.ndarray, record: PoissonTest, updates_per_draw: int, size: int, *, by_groups: bool
) -> PoissonTest | None:
    """Most efficient factor κ of thinning bounds, from counts of updates; None if they are too few.

    κ multiplies the evaluated observations and divides the noise variance of the log ratio, as χ
    does, while the number of candidates stays constant. Rates of groups are raised where κ times
    the thinning bounds would often exceed them. `size` is the number of coordinates.
    """
    if not (totals["n_sizes"] > 0.0 and totals["n_ratios"] * record.ceiling_factor > MIN_ROWS):
        return None
    candidates, rows = (totals[each] / totals["n_sizes"] for each in ("sizes", "n_ratios"))
    candidates /= record.rate_factor
    ratio = min(totals["squared_ratios"] / totals["n_ratios"], 1.0)
    update = costs.UPDATE + costs.PAIR * size**2 + costs.LOOP / updates_per_draw
    update += candidates * costs.CANDIDATE
    row = costs.OBSERVATION + by_groups * CANDIDATES_PER_ROW * costs.CANDIDATE
    factor = 1.0 + best_chi([rows], ratio, row / update) * float(rows)
    raised = max(CANDIDATES_PER_ROW * factor * rows / candidates, 1.0) if by_groups else 1.0
    return record._replace(chi=0.0, ceiling_factor=factor, rate_factor=float(raised))


@dataclass(frozen=True, eq=False)
class PoissonMethod(Method):
    """Poisson-minibatch test; None for `chi`: chosen in warm-up; None for `bounds`: derived."""

    form: str
    chi: float | None
    delayed_acceptance: bool
    bounds: GivenBounds | None = field(repr=False)
    tolerates_violations: bool

    guarantee = Guarantee(Promise.EXACT_GIVEN_BOUNDS)
    draws_by_bounds = True

    @property
    def requirements(self) -> Requirements:
        """Derived or custom bounds."""
        return Requirements(bounds=bound_source(self.bounds))

    @property
    def refuses_elements(self) -> str:
        """Reason against effects accepted one at a time: custom bounds, or a fixed χ; else ""."""
        if self.bounds is not None:
            return "custom bounds= say nothing about parts of an observation"
        return f"chi={self.chi:g} raises all rates alike" if self.chi else ""

    @property
    def learns_rates(self) -> bool:
        """Whether warm-up may raise the rates at which observations are drawn."""
        return self.chi is None

    def record(self, plan: Plan) -> PoissonTest:
        """Settings with a starting χ at which typical proposals do not need the full data."""
        test = poisson_test(
            self.form,
            self.chi or 0.0,
            delayed_acceptance=self.delayed_acceptance,
            max_rate=self.most_drawn(plan),
            tolerate=self.tolerates_violations,
        )
        if self._raises_ceilings(plan):
            raised = INITIAL_RATE_FACTOR if plan.draws_by_groups else 1.0
            return test._replace(ceiling_factor=INITIAL_RATE_FACTOR, rate_factor=raised)
        if self.chi is not None:
            return test
        return test._replace(chi=starting_chi(plan.typical_sizes, test.max_rate))

    def _raises_ceilings(self, plan: Plan) -> bool:
        """Whether warm-up chooses κ instead of χ, because separable bounds thin candidates."""
        return plan.bytes_of_copy > 0 and not self.chi and self.form != "factorized"

    def require_subsampling(self, plan: Plan) -> None:
        """Raise SettingError if χ alone makes the Poisson means of trial proposals too large."""
        super().require_subsampling(plan)
        sizes, limit = plan.typical_sizes, self.most_drawn(plan)
        if not self.chi or not sizes or max(sizes) > limit:
            return
        if min(size * (1.0 + self.chi * size) for size in sizes) > limit:
            raise SettingError(
                f"chi={self.chi:g} makes the Poisson means of all trial proposals exceed "
                f"{limit:,.0f}, so every update would evaluate all observations. Use chi='auto', "
                "or a smaller number."
            )

    def adapted(self, record: PoissonTest, counts: WarmUpCounts, plan: Plan) -> PoissonTest:
        """Choose χ or κ from the sizes of proposals and the ratios of changes to bounds."""
        totals, updates_per_draw = counts.total, counts.updates_per_draw
        if self._raises_ceilings(plan):
            size, by_groups = plan.reference.size, plan.draws_by_groups
            adapted = rate_factor_from(totals, record, updates_per_draw, size, by_groups=by_groups)
            return record if adapted is None else adapted
        if self.chi is not None:
            return record
        chi = chi_from(totals, plan.seconds_of_row, record.max_rate, updates_per_draw)
        return record if chi is None else record._replace(chi=chi)


_NO_CHI = "is not a number of 0 or more. Give one, or 'auto' to have it chosen."


@dataclass(frozen=True, kw_only=True)
class BoundedSettings(SharedSettings):
    """Settings of Poisson tests.

    Parameters
    ----------
    delayed_acceptance : bool
        Whether the quadratic approximation is tested first, and observations are evaluated only if
        it accepts.
    bounds : Bounds or function, optional
        Custom bounds, or a function that returns them for the centre of the expansion
        (variable's name -> array).
    on_violation : {"raise", "warn"}
        Whether an observation that exceeds its bound ends sampling, or marks the trace.
    """

    delayed_acceptance: bool = setting_field(check_flag, default=False)
    bounds: GivenBounds | None = setting_field(check_bounds, default=None, key=None)
    on_violation: str = setting_field(check_violation, default="raise")

    def method(self, form: str, chi: float | None) -> PoissonMethod:
        """Poisson test with these settings; warm-up chooses χ if it is None."""
        tolerates = self.on_violation == "warn"
        return PoissonMethod(form, chi, self.delayed_acceptance, self.bounds, tolerates)


@dataclass(frozen=True, kw_only=True)
class TunaSettings(BoundedSettings):
    """Settings of :class:`TunaMH`.

    Parameters
    ----------
    chi : float or "auto"
        χ >= 0: larger values evaluate more observations and accept more often. "auto" chooses χ
        in warm-up.
    spectral_gap_ratio : float in (0, 1), optional
        Guaranteed share of the spectral gap of Metropolis–Hastings; replaces `chi`.
    """

    chi: float | str = setting_field(
        or_auto(number_check(0.0, sys.float_info.max, _NO_CHI)), default="auto"
    )
    spectral_gap_ratio: float | None = setting_field(default=None)

    @property
    def used_chi(self) -> float | None:
        """χ; None if warm-up chooses it."""
        if self.spectral_gap_ratio is not None:
            return chi_for_gap(check_positive("spectral_gap_ratio", self.spectral_gap_ratio))
        return None if isinstance(self.chi, str) else self.chi

    def __post_init__(self) -> None:
        """Raise SettingError if both `chi` and `spectral_gap_ratio` are set."""
        super().__post_init__()
        if self.spectral_gap_ratio is not None and self.chi != "auto":
            raise SettingError(
                f"chi={self.chi!r} and spectral_gap_ratio={self.spectral_gap_ratio!r} both set χ. "
                "Give one."
            )


class TunaMH(MinibatchStep):
    """Exact Metropolis–Hastings that evaluates a Poisson number of observations.

    Guarantee: *exact given valid bounds*. Bounds of all observations are derived from the model,
    and every evaluated observation is checked against its bound. The full data decide a proposal
    that leaves the region of the bounds, or needs more than `full_pass_above` observations
    (statistic ``full_pass``). See the page "Bounds and exactness".

    Raises
    ------
    BoundsError
        If an observation has no bound, or no rule bounds an operation of the model.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Zhang, Cooper, De Sa (2020), "Asymptotically optimal exact minibatch Metropolis-Hastings",
    NeurIPS, doi:10.48550/arXiv.2006.11677.
    """

    name = "tuna_mh"

    @takes_settings(TunaSettings)
    def __init__(self, settings: TunaSettings) -> None:
        self._prepare(settings, settings.method("best", settings.used_chi))


class FactorizedMH(MinibatchStep):
    """Exact Metropolis–Hastings in which every drawn observation can reject.

    Guarantee: *exact given valid bounds*. :class:`TunaMH` accepts more often. With control variates
    this is scalable Metropolis–Hastings (SMH) of the reference; with ``taylor_order=0`` it is
    truncated factorised Metropolis–Hastings (TFMH).

    Raises
    ------
    BoundsError
        If an observation has no bound, or no rule bounds an operation of the model.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Cornish, Vanetti, Bouchard-Côté, Deligiannidis, Doucet (2019), "Scalable Metropolis-Hastings
    for exact Bayesian inference with large datasets", ICML, doi:10.48550/arXiv.1901.09881.
    """

    name = "factorized_mh"

    @takes_settings(BoundedSettings)
    def __init__(self, settings: BoundedSettings) -> None:
        self._prepare(settings, settings.method("factorized", chi=0.0))


class ScalableSubsamplingMH(MinibatchStep):
    """Exact Metropolis–Hastings with the fewest observations that the bounds allow (MH-SS).

    Guarantee: *exact given valid bounds*. This is :class:`TunaMH` with χ = 0: it evaluates the
    fewest observations, and accepts slightly less often than with a larger χ.

    Raises
    ------
    BoundsError
        If an observation has no bound, or no rule bounds an operation of the model.
    BoundViolationError
        While sampling, if an observation exceeds its bound.

    References
    ----------
    Prado, Nemeth, Sherlock (2024), "Metropolis-Hastings with scalable subsampling",
    doi:10.48550/arXiv.2407.19602.
    """

    name = "scalable_subsampling_mh"

    @takes_settings(BoundedSettings)
    def __init__(self, settings: BoundedSettings) -> None:
        self._prepare(settings, settings.method("best", chi=0.0))
