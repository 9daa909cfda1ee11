"""Poisson-minibatch tests: Metropolis–Hastings that reads a Poisson number of rows.

Rows' remainders r_i, their changes dU_i = -β[r_i(θ') - r_i(θ)], bounds |dU_i| <= c_i M(θ, θ')
with M symmetric, C = Σ c_i, and λ_c the log ratio of the cheap part and the proposals. Every row
has an intensity φ_i(θ→θ') >= 0 below a ceiling φ̄_i, with φ_i(θ→θ') - φ_i(θ'→θ) = dU_i:

    form         φ_i(θ→θ')                          φ̄_i
    best         φ̄_i + min(0, dU_i)                 c_i M (1 + χ C M)
    paper        χ c_i C M² + (dU_i + c_i M)/2      c_i M (1 + χ C M)
    factorized   max(0, dU_i)                       c_i M                   (χ = 0)

Draw B ~ Poisson(R), R = Σ φ̄_i = C M (1 + χ C M), and B rows with repetition, row i with
probability c_i/C; keep each with probability φ_i/φ̄_i, which makes the times s_i that row i is
kept independent Poisson(φ_i(θ→θ')); accept with

    min(1, exp(λ_c) Π_i [φ_i(θ'→θ)/φ_i(θ→θ')]^s_i)

or, with delayed acceptance, min(1, exp(λ_c)) before any row is read, times min(1, Π...).
*best* at χ = 0 is MH-SS; *paper* is TunaMH as published, *factorized* SMH, where every kept row
rejects. *best* has the largest φ below the ceiling: it reads as many rows as *paper*, and accepts
at least as often.

Guarantee
---------
Exact given valid bounds: reversible for the target, whatever χ. With π ∝ π_c exp(-Σ U_i) and
q the proposal, moving from θ to θ' with counts s has the density

    min{π(θ) q(θ'|θ) Π e^{-φ_i(θ→θ')} φ_i(θ→θ')^s_i,
        π_c(θ') q(θ|θ') e^{-ΣU_i(θ)} Π e^{-φ_i(θ→θ')} φ_i(θ'→θ)^s_i} / Π s_i!

and -U_i(θ) - φ_i(θ→θ') = -U_i(θ') - φ_i(θ'→θ) turns the second entry into the first with θ and
θ' exchanged; with delayed acceptance each stage balances its own factor of the target.

With many coordinates c_i M is far above what a row can change in a move: rows that are drawn are
then *candidates*, kept with probability (own ceiling)/(c_i M) before they are read, and their own
ceilings take the place of c_i M (:mod:`pymc_minibatch_mh.native.whitened_copy`).

Rows that would be drawn nearly always are *heavy*, and fixed: every update reads them, their change
counts with λ_c in the last decision, and C is that of the others.

A pair may be decided by all rows instead, if that choice is symmetric in θ and θ' and knows
no row that was drawn. Clipping a change to ± its bound is odd, hence the test still balances the
pair, but for another ratio wherever a bound does not hold.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.checks import choice, flag, positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.bound_sources import GivenBounds, bound_source
from pymc_minibatch_mh.plan.efficiency import best_chi
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise, WarmUpCounts
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.reference.influential import COST_OF_A_CANDIDATE
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    check_bounds,
    check_violation,
    number,
    or_auto,
    setting,
    takes,
)

BEST, PAPER, FACTORIZED = range(3)
FORMS = {"best": BEST, "paper": PAPER, "factorized": FACTORIZED}


class PoissonTest(NamedTuple):
    """Settings of the test in a chain: ``mh_poisson_test``."""

    LAYOUT, decide = "mh_poisson_test", "mh_decide_poisson"  # type: ignore[misc]

    #: BEST, PAPER or FACTORIZED: the intensities, see the module.
    form: int
    #: χ, by which every row's intensity is raised, in units of c_i C M².
    chi: float
    #: 1: the cheap part decides first, without reading a row. 0: one decision.
    delayed: int
    #: Expected rows R above which a pair is decided by all rows; frozen after warm-up.
    max_rate: float
    #: 1: a change beyond its bound is clipped and marked. 0: it stops the chain.
    tolerates: int
    #: κ >= 1, by which own ceilings of rows are raised where candidates are dropped by them.
    ceiling_factor: float = 1.0


def poisson_test(
    form: str = "best",
    chi: float = 0.0,
    *,
    delayed_acceptance: bool = False,
    max_rate: float = math.inf,
    tolerate: bool = False,
) -> PoissonTest:
    """Return the record of a chain."""
    delayed = int(delayed_acceptance)
    return PoissonTest(FORMS[form], float(chi), delayed, float(max_rate), int(tolerate))


#: Seconds that a row takes where the data fit a cache, and where they do not; that an update
#: takes without its rows, and PyMC's loop around a draw.
CACHED_ROW, ROW, UPDATE, LOOP = 0.2e-6, 0.5e-6, 1.2e-6, 17e-6
#: Size of data in bytes up to which a cache holds them.
CACHE = 2**24
#: Largest χ before rows have been seen.
USUAL_CHI = 1.0
#: κ before rows have been seen, and seconds that a candidate takes.
USUAL_FACTOR, CANDIDATE = 4.0, COST_OF_A_CANDIDATE * ROW
#: Rows to see before their ratios are believed.
ENOUGH_ROWS = 50
#: Share of a pass over all rows that typical moves read at most with the χ of a start: some
#: moves are larger.
START_SHARE = 0.5


def largest_chi(size: float, max_rate: float) -> float:
    """Return the χ at which a move of `size` C M is expected to read `max_rate` rows.

    It is 0 where the move reads all rows whatever χ is, and infinite for one that reads none.
    """
    if not 0.0 < size < max_rate:
        return math.inf if size == 0.0 else 0.0
    return (max_rate / size - 1.0) / size


def starting_chi(sizes: Sequence[float], max_rate: float) -> float:
    """Return the χ of a start: one at which moves of some sizes do not read all rows."""
    return float(min([USUAL_CHI, *(largest_chi(size, START_SHARE * max_rate) for size in sizes)]))


def chi_for_gap(ratio: float) -> float:
    """Return the χ that keeps the share κ, `ratio`, of the spectral gap of Metropolis–Hastings.

    χ = 4/((1 - κ) log(1/κ)), proven by Zhang et al. (2020, appendix F) for "paper" without delayed
    acceptance; it holds for "best", which accepts at least as often. Very loose: as an estimate,
    far smaller χ keep that share.
    """
    if not 0.0 < ratio < 1.0:
        raise SettingError(
            f"spectral_gap_ratio={ratio} is outside (0, 1): no finite chi keeps the whole gap. "
            "Use a number such as 0.5, or set chi."
        )
    return 4.0 / ((1.0 - ratio) * math.log(1.0 / ratio))


def chi_from(
    totals: np.ndarray, n_bytes: int, max_rate: float, updates_per_draw: int
) -> float | None:
    """Choose χ from the counts of a chain's updates; None where too little was seen.

    `totals` are one record of COUNTS, `n_bytes` is the size of the data and `max_rate` the expected
    rows above which all rows decide.
    """
    if not (totals["n_sizes"] > 0.0 and totals["n_ratios"] > ENOUGH_ROWS):
        return None
    size = totals["sizes"] / totals["n_sizes"]
    ratio = min(totals["squared_ratios"] / totals["n_ratios"], 1.0)
    row = CACHED_ROW if n_bytes < CACHE else ROW
    cost = row / (UPDATE + LOOP / updates_per_draw)
    return best_chi([size], ratio, cost, max_rate)


def ceiling_factor_from(totals: np.ndarray, factor: float, updates_per_draw: int) -> float | None:
    """Choose κ from the counts of a chain's updates; None where too little was seen.

    With κ times the rows of κ = 1 the noise of the log ratio is a κ-th, as with χ, while the number
    of candidates stays.
    """
    if not (totals["n_sizes"] > 0.0 and totals["n_ratios"] * factor > ENOUGH_ROWS):
        return None
    candidates, rows = (totals[each] / totals["n_sizes"] for each in ("sizes", "n_ratios"))
    ratio = min(totals["squared_ratios"] / totals["n_ratios"], 1.0)
    update = UPDATE + LOOP / updates_per_draw + candidates * CANDIDATE
    return 1.0 + best_chi([rows], ratio, ROW / update) * float(rows)


@dataclass(frozen=True, eq=False)
class PoissonMethod(Method):
    """A Poisson-minibatch test; χ is None to be chosen in warm-up, bounds to be derived."""

    form: str
    chi: float | None
    delayed_acceptance: bool
    bounds: GivenBounds | None = field(repr=False)
    tolerates_violations: bool

    guarantee = Guarantee(Promise.EXACT_GIVEN_BOUNDS)
    draws_by_bounds = True

    @property
    def requirements(self) -> Requirements:
        """Bounds, derived from the model unless the user gave some."""
        return Requirements(bounds=bound_source(self.bounds))

    @property
    def refuses_elements(self) -> str:
        """Why elements cannot be accepted by themselves: bounds of a user's, or χ for all rows."""
        if self.bounds is not None:
            return "custom bounds= say nothing about parts of an observation"
        return f"chi={self.chi:g} raises all rates alike" if self.chi else ""

    @property
    def learns_rates(self) -> bool:
        """Whether warm-up may raise the rates of rows."""
        return self.chi is None

    def record(self, plan: Plan) -> PoissonTest:
        """Return the settings; an automatic χ starts where typical moves do not read all rows."""
        found = poisson_test(
            self.form,
            self.chi or 0.0,
            delayed_acceptance=self.delayed_acceptance,
            max_rate=self.most_drawn(plan),
            tolerate=self.tolerates_violations,
        )
        if self._raises_ceilings(plan):
            return found._replace(ceiling_factor=USUAL_FACTOR)
        if self.chi is not None:
            return found
        return found._replace(chi=starting_chi(plan.typical_sizes, found.max_rate))

    def _raises_ceilings(self, plan: Plan) -> bool:
        """Whether warm-up chooses κ instead of χ, as candidates are dropped by own ceilings."""
        return plan.bytes_of_copy > 0 and not self.chi and self.form != "factorized"

    def require_subsampling(self, plan: Plan) -> None:
        """Refuse a χ that alone makes the Poisson means of all typical moves too large."""
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
        """Choose χ from the sizes of moves and the ratios of rows that were seen."""
        totals, updates_per_draw = counts.total, counts.updates_per_draw
        if self._raises_ceilings(plan):
            factor = ceiling_factor_from(totals, record.ceiling_factor, updates_per_draw)
            return record if factor is None else record._replace(chi=0.0, ceiling_factor=factor)
        if self.chi is not None:
            return record
        chi = chi_from(totals, plan.target.source.nbytes, record.max_rate, updates_per_draw)
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

    delayed_acceptance: bool = setting(flag, default=False)
    bounds: GivenBounds | None = setting(check_bounds, default=None, key=None)
    on_violation: str = setting(check_violation, default="raise")

    def method(self, form: str, chi: float | None) -> PoissonMethod:
        """Poisson test with these settings; χ is None to be chosen in warm-up."""
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
    form : {"best", "paper"}
        Poisson intensities: the largest that the bounds allow, or the published ones, which accept
        less often.
    spectral_gap_ratio : float in (0, 1), optional
        Guaranteed share of the spectral gap of Metropolis–Hastings; replaces `chi`.
    """

    chi: float | str = setting(or_auto(number(0.0, sys.float_info.max, _NO_CHI)), default="auto")
    form: str = setting(partial(choice, known=("best", "paper")), default="best")
    spectral_gap_ratio: float | None = setting(default=None)

    @property
    def used_chi(self) -> float | None:
        """χ; None to be chosen in warm-up."""
        if self.spectral_gap_ratio is not None:
            return chi_for_gap(positive("spectral_gap_ratio", self.spectral_gap_ratio))
        return None if isinstance(self.chi, str) else self.chi

    def __post_init__(self) -> None:
        """Refuse two settings of χ."""
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

    @takes(TunaSettings)
    def __init__(self, settings: TunaSettings) -> None:
        self._prepare(settings, settings.method(settings.form, settings.used_chi))


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

    @takes(BoundedSettings)
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

    @takes(BoundedSettings)
    def __init__(self, settings: BoundedSettings) -> None:
        self._prepare(settings, settings.method("best", chi=0.0))
