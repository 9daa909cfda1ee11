"""PoissonMH: a Poisson number of observations, drawn by the size of their log-likelihoods.

The tests of :mod:`pymc_minibatch_mh.steps.tuna` draw by bounds on the change in a proposal. This
test needs the range of every log-likelihood over the whole space, independent of the proposal:

    -m_i <= β [ℓ_i(θ) - ℓ_i(θ̂)] <= M_i - m_i    for every θ,    L = Σ M_i.

At a position θ each observation has the intensity

    φ_i(θ) = λ M_i/L + m_i + β [ℓ_i(θ) - ℓ_i(θ̂)],    0 <= φ_i(θ) <= φ̄_i = (1 + λ/L) M_i.

Draw B ~ Poisson(R), R = Σ φ̄_i = λ + L, and B observations with replacement, each with probability
M_i/L. Keep each with probability φ_i(θ)/φ̄_i: the counts s_i of kept observations are then
independent Poisson(φ_i(θ)). Accept with min(1, exp(λ_c) Π_i [φ_i(θ')/φ_i(θ)]^s_i), where λ_c is the
log ratio of prior and proposal. Log-likelihoods are relative to the centre θ̂: a constant per
observation cancels out of φ_i, because m_i is relative to the same value. The test has no control
variates, because the log-likelihood itself is bounded.

Guarantee
---------
Exact given valid ranges: with π ∝ π_c exp(Σ β ℓ_i), the joint density of θ and s,

    π(θ) Π e^{-φ_i(θ)} φ_i(θ)^s_i/s_i!  ∝  π_c(θ) Π φ_i(θ)^s_i/s_i!,

has no sum over all observations any more. An update draws s given θ, and then makes a
Metropolis–Hastings step in θ given s. If R exceeds the limit on drawn observations, the full data
decide every proposal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pymc_minibatch_mh.checks import check_positive
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.plan.method import Guarantee, Method, Promise
from pymc_minibatch_mh.plan.plan import Plan, Requirements
from pymc_minibatch_mh.published.ranges import CustomRanges, DerivedRanges, Ranges, UserRanges
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.settings import (
    SharedSettings,
    check_violation,
    or_auto,
    setting_field,
    takes_settings,
    user_numbers_check,
)

#: Index of the table of the M_i; the next table has the m_i.
WIDTHS = 0
#: Maximum fraction of all observations that an update with automatic λ evaluates.
MAX_EVALUATED_SHARE = 0.25


class LevelsTest(NamedTuple):
    """Settings of the test in a chain, run by ``native/poisson_mh.c``."""

    LAYOUT, decide = "mh_levels_test", "mh_decide_by_levels"  # type: ignore[misc]

    #: λ, the increase of the sum of all intensities.
    lam: float
    #: Expected number R of drawn observations above which updates evaluate the full data instead.
    max_rate: float
    #: 1: clip and mark a log-likelihood outside its range. 0: stop the chain.
    tolerates: int


def automatic_lam(total: float, n_rows: int) -> float:
    """λ = L², reduced to evaluate at most a quarter of the observations, but at least L.

    The log ratio of a proposal has a variance of at most L²/λ, which is 1 for λ = L².
    """
    most = max(MAX_EVALUATED_SHARE * n_rows - total, total)
    return min(total * total, most) or 1.0


@dataclass(frozen=True, eq=False)
class LevelsMethod(Method):
    """Method of :class:`PoissonMH`; with ``lam=None``, λ is computed from the ranges."""

    lam: float | None
    ranges: CustomRanges | None = field(repr=False)
    tolerates_violations: bool

    guarantee = Guarantee(Promise.EXACT_GIVEN_BOUNDS)
    draws_by_bounds = True
    all_rows_words = (
        "λ + L, the number of observations that an update draws, exceeds full_pass_above=, by "
        "default half of them",
        "Give narrower ranges=, a higher temperature= or a smaller lam=, or use TunaMH(), which "
        "evaluates fewer observations for shorter proposals.",
    )

    @property
    def requirements(self) -> Requirements:
        """Derived or custom ranges."""
        source = DerivedRanges() if self.ranges is None else UserRanges(self.ranges)
        return Requirements(bounds=source, in_memory=True)

    def record(self, plan: Plan) -> LevelsTest:
        """Settings of a chain, with λ computed from the ranges if it is automatic."""
        assert plan.tables is not None
        lam = self.lam
        if lam is None:
            lam = automatic_lam(float(plan.tables.headers[WIDTHS, TOTAL]), plan.n_rows)
        return LevelsTest(lam, self.most_drawn(plan), int(self.tolerates_violations))


_check_lam = partial(check_positive, or_else="Give one, or 'auto' to have it chosen.")
_check_ranges = user_numbers_check(Ranges, "ranges", "Ranges(low, high)")


@dataclass(frozen=True, kw_only=True)
class LevelsSettings(SharedSettings):
    """Settings of :class:`PoissonMH`.

    Parameters
    ----------
    lam : float or "auto"
        λ > 0: larger values evaluate more observations and accept more often. "auto" is L², as
        published, or less if that needs more than a quarter of the data, but at least L.
    ranges : Ranges or function, optional
        Custom ranges instead of derived ones, or a function that returns them for the centre
        (variable's name -> array).
    on_violation : {"raise", "warn"}
        Whether an observation outside its range ends sampling, or marks the trace.
    """

    lam: float | str = setting_field(or_auto(_check_lam), default="auto")
    ranges: CustomRanges | None = setting_field(_check_ranges, default=None, key=None)
    on_violation: str = setting_field(check_violation, default="raise")

    def order_for(self, discrete: Sequence[str]) -> int:
        """Order 0: observations are drawn by their log-likelihoods, without an expansion."""
        if self.taylor_order in (1, 2, 3):
            raise SettingError(
                f"taylor_order={self.taylor_order} leaves remainders, but PoissonMH draws "
                "observations by their log-likelihoods themselves. Leave it out, or use TunaMH()."
            )
        return 0


class PoissonMH(MinibatchStep):
    """Exact Metropolis–Hastings that draws observations by the size of their log-likelihoods.

    Guarantee: *exact given valid bounds* on each log-likelihood from below and above, for every
    value of the parameters. They are derived if priors or likelihood are bounded, for example with
    ``pm.Uniform``. Every update draws λ + L observations on average, with L the sum of the ranges'
    widths, and evaluates those that it keeps twice. The full data decide if λ + L exceeds
    `full_pass_above` (statistic ``full_pass``). :class:`TunaMH` evaluates far fewer observations.
    See the page "Bounds and exactness".

    Raises
    ------
    BoundsError
        If an observation has no range, for example with normal priors.
    BoundViolationError
        While sampling, if an observation is outside its range.

    References
    ----------
    Zhang, De Sa (2019), "Poisson-minibatching for Gibbs sampling with convergence rate guarantees",
    Advances in Neural Information Processing Systems 32.
    """

    name = "poisson_mh"

    @takes_settings(LevelsSettings)
    def __init__(self, settings: LevelsSettings) -> None:
        lam = None if isinstance(settings.lam, str) else settings.lam
        tolerates = settings.on_violation == "warn"
        self._prepare(settings, LevelsMethod(lam, settings.ranges, tolerates))
