"""Choice of the step for ``sample(model)``: an exact one if it is fast enough, with the reason."""

import logging
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pymc as pm

from pymc_minibatch_mh.costs import MIN_GRADIENT
from pymc_minibatch_mh.diagnostics.forecast import (
    EFFECTIVE,
    NUTPIE,
    Forecast,
    PilotSettings,
    covariance_for_nuts,
    forecast_nuts,
    forecast_penalty,
    forecast_step,
    recommend_sampler,
)
from pymc_minibatch_mh.diagnostics.sheet import format_duration, format_figure
from pymc_minibatch_mh.errors import (
    BoundsError,
    ModeError,
    NotWorthwhileError,
    SettingError,
    UnsupportedModelError,
)
from pymc_minibatch_mh.progress import show_progress
from pymc_minibatch_mh.sampling.checkpoint import Checkpoint
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.deterministics import without_warnings
from pymc_minibatch_mh.steps.penalty import PenaltyMH
from pymc_minibatch_mh.steps.tuna import TunaMH

_log = logging.getLogger("pymc")

#: Pilot for the choice: draws, draws of warm-up, and seed, separate from the run's generator.
DRAWS, TUNE, SEED = 400, 500, 20_170_808
#: Share of observations per update above which an exact step is compared with an approximate one.
MAX_EXACT_SHARE = 0.1
#: Recommended line of code if nutpie cannot sample the model.
PYMC_LINE = "pm.sample()"


@dataclass(frozen=True)
class Choice:
    """A step for a model, its forecast, and the reason against an exact step, if any."""

    step: MinibatchStep
    forecast: Forecast
    why_not_exact: str

    @property
    def share(self) -> float:
        """Share of the observations that an update evaluates."""
        return self.forecast.rows_per_update / self.step.plan.n_rows

    def in_words(self, tune: int, threads: int) -> str:
        """One line: step, guarantee, observations per draw, and seconds to an ESS of 1,000.

        The forecast includes `tune` draws of warm-up and divides draws among `threads`.
        """
        found, plan = self.forecast, self.step.plan
        guarantee = "exact" if self.step.guarantee.is_exact else "approximate, error estimated"
        rows = format_figure(float(f"{found.rows_per_update * found.updates_per_draw:.2g}"))
        # A chain without accepted proposals is slow; its exact speed is unknown.
        speed = max(found.ess_per_second_in_blocks, 1e-9)
        seconds = tune * found.ess / (found.draws * speed) + EFFECTIVE / (speed * threads)
        # Effects are drawn by all threads, for stored draws only.
        stored = EFFECTIVE * found.draws / max(found.ess, 1e-9)
        seconds += plan.seconds_of_effects * (stored * (1.0 - 1.0 / threads) - tune)
        seconds = max(seconds, 0.1)  # Minimum time of a call, even with the fastest draws.
        return (
            f"{type(self.step).__name__} ({guarantee}): {rows} of {plan.n_rows:,} {plan.units} a "
            f"draw, {EFFECTIVE:,} effective draws in about {format_duration(seconds)}"
        )


@show_progress("Choosing a step for this model")
def choose_step(model: pm.Model) -> Choice:
    """Choose TunaMH for a model, or PenaltyMH if exactness is impossible or expensive.

    Both share one preparation of the model. NotWorthwhileError if NUTS is forecast to be faster,
    UnsupportedModelError or ModeError if the model fits no step; each names the line to type.
    """
    _require_continuous(model)
    try:
        with without_warnings(model):
            step, why_not_exact = _build_step(model)
    except (UnsupportedModelError, ModeError) as error:
        raise type(error)(
            f"{error} Instead of sample(), type {_recommended_line(model)}."
        ) from error
    settings = PilotSettings(DRAWS, TUNE, np.random.default_rng(SEED))
    forecast, pilots = forecast_step(step, model, settings, step.seconds)
    choice = Choice(step, forecast, why_not_exact)
    if choice.share > MAX_EXACT_SHARE:
        choice = _cheaper_choice(choice, model, settings)
    _require_worthwhile(choice, model, pilots.point)
    if choice.why_not_exact:
        _log.info("PenaltyMH instead of TunaMH: %s", choice.why_not_exact)
    return choice


def rebuild_step(resume: Any, model: pm.Model) -> MinibatchStep:
    """Step of a run in a folder, built anew; SettingError if `resume` is a trace."""
    if not isinstance(resume, str | PathLike):
        raise SettingError(
            "resume= of a trace goes with the step that drew it, which remembers where its chains "
            "ended. Use sample(step, resume=...), or checkpoint= with a folder."
        )
    taken = {one.__name__: one for one in (TunaMH, PenaltyMH)}
    method = Checkpoint.open(resume).run["key"]["method"]
    if method not in taken:
        raise SettingError(
            f"resume={str(resume)!r} is a run of {method}. Pass that step instead of the model."
        )
    return taken[method](model=model)


def _require_continuous(model: pm.Model) -> None:
    for rv in model.free_RVs:
        if rv.type.dtype not in ("float32", "float64"):
            raise UnsupportedModelError(
                f"{str(rv.name)!r} is discrete, and sample() moves all unknowns by one step. Use "
                "pm.sample(step=TunaMH()) inside of the model: PyMC moves discrete unknowns by "
                "steps of its own beside it (a compound step)."
            )


def _build_step(model: pm.Model) -> tuple[MinibatchStep, str]:
    try:
        return TunaMH(model=model), ""
    except BoundsError as error:
        return PenaltyMH(model=model), str(error)


def _recommended_line(model: pm.Model) -> str:
    possible = forecast_nuts(model, model.initial_point(), None, timed=False)
    return PYMC_LINE if possible is None else NUTPIE


def _cheaper_choice(exact: Choice, model: pm.Model, settings: PilotSettings) -> Choice:
    """PenaltyMH on the same preparation if its forecast is better, else the exact step."""
    other = forecast_penalty(exact.step, model, settings, exact.step.seconds)
    if other is None:
        return exact
    why = f"TunaMH, which is exact, would evaluate {exact.share:.0%} of the observations a draw."
    approximate = Choice(other.step, other.forecast, why)
    fast = other.forecast.ess_per_second_in_blocks > exact.forecast.ess_per_second_in_blocks
    return approximate if fast and approximate.share < exact.share else exact


def _require_worthwhile(choice: Choice, model: pm.Model, point: dict[str, np.ndarray]) -> None:
    """Raise a NotWorthwhileError if NUTS is forecast to be faster, or if the step hardly moves.

    The gradient is compiled and timed only if NUTS could be faster in the best case.
    """
    step, name = choice.step, type(choice.step).__name__
    n_rows, size = step.plan.described.source.n_rows, step.target.factorization.size
    own = replace(choice.forecast, ess_per_second=choice.forecast.ess_per_second_in_blocks)
    covariance = covariance_for_nuts(step)
    best = forecast_nuts(model, point, covariance, timed=False)
    best = best and best.with_gradient(n_rows * MIN_GRADIENT)
    recommended, reason = recommend_sampler(name, n_rows, size, own, best)
    if recommended != name and best is not None:
        timed = forecast_nuts(model, point, covariance)
        recommended, reason = recommend_sampler(name, n_rows, size, own, timed)
    if recommended != name:
        raise NotWorthwhileError(
            f"{step.target.factorization.terms[0].name!r}: {reason}. Type "
            f"{_recommended_line(model)} "
            f"instead, or sample({name}()) to sample with it nevertheless."
        )
