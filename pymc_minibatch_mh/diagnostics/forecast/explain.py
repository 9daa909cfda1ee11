"""A forecast before sampling: what subsampling makes of a model, and whether it pays."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.diagnostics.forecast.certificate import certificate
from pymc_minibatch_mh.diagnostics.forecast.explanation import Explanation
from pymc_minibatch_mh.diagnostics.forecast.nuts import nuts_forecast, nuts_untimed
from pymc_minibatch_mh.diagnostics.forecast.pilot import Pilot, fly, forecast
from pymc_minibatch_mh.diagnostics.forecast.recommend import recommend, recommend_instead
from pymc_minibatch_mh.diagnostics.forecast.records import (
    Approximate,
    Forecast,
    NutsForecast,
    NutsUntimed,
)
from pymc_minibatch_mh.diagnostics.forecast.subsampled import (
    in_coordinates,
    not_subsampled,
    of_refused_model,
    subsampled,
    variable_names,
)
from pymc_minibatch_mh.errors import (
    BoundsError,
    MinibatchError,
    ModeError,
    SettingError,
    UnsplittableModelError,
)
from pymc_minibatch_mh.model.reading.inputs import generator_of, model_of
from pymc_minibatch_mh.model.reading.split import Split, split
from pymc_minibatch_mh.progress import showing
from pymc_minibatch_mh.step import settings as check
from pymc_minibatch_mh.step.base import MinibatchStep
from pymc_minibatch_mh.step.beside import penalty_beside
from pymc_minibatch_mh.step.deterministics import large_deterministics, names_without
from pymc_minibatch_mh.step.given import model_behind
from pymc_minibatch_mh.step.penalty import PenaltyMH
from pymc_minibatch_mh.step.report import FULL_PASS_STRONG
from pymc_minibatch_mh.step.tuna import TunaMH

#: Draws below which no effective sample size is estimated.
LEAST_DRAWS = 100
#: Settings of a step that say how its model is read.
READING = ("observed", "weights", "observation_dims")


@showing("Reading the model")
def explain(
    model_or_step: pm.Model | MinibatchStep | None = None,
    *,
    vars: Sequence[Variable] | None = None,
    draws: int = 1_000,
    tune: int = 1_000,
    nuts: bool = False,
    random_seed: Any = None,
    **settings: Any,
) -> Explanation:
    """Tell what is subsampled, whether the draws are exact and what they cost, before sampling.

    The figures come from a pilot: a short chain of the step's own loop, outside
    :func:`pymc.sample`, from a draw of the Gaussian approximation. Where an exact step reads all
    rows at most of its updates, :class:`PenaltyMH` has a pilot as well. NUTS is not run: a rule
    says how many gradients of all rows an effective draw takes.

    Parameters
    ----------
    model_or_step
        A model, by default that of the context: :class:`TunaMH` is tried on it, and
        :class:`PenaltyMH` where no bounds can be derived. Or a step, which is not changed: its
        chain goes on as if it had not been explained.
    vars
        Variables that the step for a model moves; by default all continuous ones.
    draws, tune
        Draws of the pilot that are kept, 100 or more, and those of warm-up before them.
    nuts
        Whether to compile the gradient for NUTS and to time it, which can take longer than all
        else together, up to minutes. Without it nothing is said of the speed of NUTS, and of a
        step that is slow that NUTS should be timed.
    random_seed
        Seed of the pilot. The same seed gives the same figures, but for times and what is
        computed from them.
    **settings
        What all step methods take, for the step of a model: see :class:`TunaMH`.

    Returns
    -------
    Explanation
        Also of a model that cannot be subsampled, with the reason.

    Raises
    ------
    SettingError
        If a setting is invalid.
    """
    asked = _Asked(
        check.integer("draws", draws, LEAST_DRAWS),
        check.integer("tune", tune, 0),
        generator_of("random_seed", random_seed),
        check.flag("nuts", nuts),
    )
    if isinstance(model_or_step, MinibatchStep):
        if vars is not None or settings:
            raise SettingError(
                f"{next(iter(settings), 'vars')}= is a setting of the step that is explained, "
                "which was built before. Leave it out."
            )
        return _of_step(model_or_step, model_behind(model_or_step), asked)
    if not isinstance(model_or_step, pm.Model | None):
        raise SettingError(
            f"model_or_step={type(model_or_step).__name__} is neither a model nor a step of this "
            "package. Give a pm.Model, or a step such as a TunaMH()."
        )
    model = model_of(model_or_step)
    began, why_not_exact = time.perf_counter(), ""
    try:
        try:
            step: MinibatchStep = TunaMH(vars, model=model, **settings)
        except BoundsError as error:
            why_not_exact = str(error)
            step = PenaltyMH(vars, model=model, **settings)
    except (UnsplittableModelError, ModeError) as error:
        return _of_refused(model, vars, error, settings, asked)
    return _of_step(step, model, asked, time.perf_counter() - began, why_not_exact)


@dataclass(frozen=True)
class _Asked:
    """What is to be found out of a step."""

    draws: int
    tune: int
    rng: np.random.Generator
    nuts: bool

    def pilot(self, step: MinibatchStep, model: pm.Model) -> Pilot:
        return fly(step, model, self.draws, self.tune, self.rng)

    def of_nuts(
        self,
        model: pm.Model,
        point: Mapping[str, np.ndarray],
        covariance: np.ndarray | None,
    ) -> NutsForecast | NutsUntimed | None:
        if self.nuts:
            return nuts_forecast(model, point, covariance)
        return nuts_untimed(model, covariance)


def _of_step(
    step: MinibatchStep,
    model: pm.Model,
    asked: _Asked,
    seconds: float = float("nan"),
    why_not_exact: str = "",
) -> Explanation:
    parts, method, n_rows = step.target.split, type(step).__name__, step.target.source.n_rows
    pilot = asked.pilot(step, model)
    found = forecast(step, pilot, asked.tune, seconds)
    approximate = _approximate(step, model, found, asked)
    factor = step.prepared.surrogate.factor
    nuts = asked.of_nuts(model, pilot.point, factor @ factor.T)
    recommended, reason = recommend(method, n_rows, parts.size, found, nuts, approximate)
    large = large_deterministics(model, pilot.point)
    return Explanation(
        method=method,
        step=step,
        recommended=recommended,
        reason=reason,
        refused="",
        n_rows=n_rows,
        size=parts.size,
        terms=subsampled(parts, step.target.compiled.why_graph),
        others=not_subsampled(model, parts, tuple(step.program.slices.steps)),
        coordinates=in_coordinates(parts),
        taylor_order=step.target.taylor_order,
        order_reason=_why_order(step, parts),
        centre=_what_centre(step),
        certificate=certificate(step, pilot.certified, why_not_exact),
        forecast=found,
        approximate=approximate,
        nuts=nuts,
        large_deterministics=large,
        var_names=names_without(model, large),
        given_scales=_given_scales(step, model),
    )


def _given_scales(step: MinibatchStep, model: pm.Model) -> tuple[str, ...]:
    """Return the variables whose density moves are drawn by first, and all else given them."""
    drawn = step.program.proposal.scales(step.prepared)
    coordinates = step.target.split.coordinate_names
    values = {coordinates[k].partition("[")[0] for k in drawn}
    return tuple(str(rv.name) for rv, v in model.rvs_to_values.items() if v.name in values)


def _approximate(
    step: MinibatchStep, model: pm.Model, exact: Forecast, asked: _Asked
) -> Approximate | None:
    """Return what giving up exactness would gain, where exactness takes all rows."""
    if not step.guarantee.is_exact or exact.full_pass_share <= FULL_PASS_STRONG:
        return None
    other = penalty_beside(step, np.random.default_rng(asked.rng.integers(2**63)))
    found = forecast(other, asked.pilot(other, model), asked.tune, float("nan"))
    return Approximate(type(other).__name__, other, found)


def _of_refused(
    model: pm.Model,
    vars: Sequence[Variable] | None,
    error: MinibatchError,
    settings: Mapping[str, Any],
    asked: _Asked,
) -> Explanation:
    own = check.own_variables(model, vars)
    start = {**model.initial_point(), **(settings.get("initial_point") or {})}
    reading: dict[str, Any] = {name: settings[name] for name in READING if name in settings}
    nuts = asked.of_nuts(model, start, None)
    recommended, reason = recommend_instead(nuts)
    if isinstance(error, ModeError):
        parts = split(model, own, **reading)
        terms, others = subsampled(parts), not_subsampled(model, parts)
    else:
        terms, others = (), of_refused_model(model, own, **reading)
    large = large_deterministics(model, start)
    return Explanation(
        method="",
        step=None,
        recommended=recommended,
        reason=reason,
        refused=str(error),
        n_rows=sum(term.n_rows for term in terms),
        size=sum(int(np.size(start[v.name])) for v in own),
        terms=terms,
        others=others,
        coordinates=(),
        taylor_order=None,
        order_reason="",
        centre="",
        certificate=None,
        forecast=None,
        approximate=None,
        nuts=nuts,
        large_deterministics=large,
        var_names=names_without(model, large),
    )


def _why_order(step: MinibatchStep, parts: Split) -> str:
    order = step.target.taylor_order
    if step.prepared.needs.ranges:
        return "log-likelihoods themselves have ranges, so that nothing is expanded"
    if order == 2:
        return "rows are expanded to second order, which leaves the smallest remainders"
    if parts.discrete_in_rows:
        return (
            f"rows depend on the discrete variable {parts.discrete_in_rows[0]!r}, in which "
            "nothing can be expanded"
        )
    return f"set by taylor_order={order}; 'auto' would be 2"


def _what_centre(step: MinibatchStep) -> str:
    prepared, target = step.prepared, step.target
    if target.covariance is not None:
        return "the start, as centre='start' asks for"
    if not prepared.marginal:
        return "near the mode of the joint density"
    names = variable_names(target.split, prepared.marginal)
    return (
        f"near the mode of the marginal density of {names}, with all else integrated over, as the "
        "joint density of a hierarchy has none"
    )
