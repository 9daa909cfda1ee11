"""A forecast before sampling: whether subsampling pays for a model, and whether draws are exact."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from scipy.special import chdtrc

from pymc_minibatch_mh.checks import check_flag, check_integer
from pymc_minibatch_mh.diagnostics.forecast import (
    NUTPIE,
    NUTS,
    Approximate,
    Forecast,
    NutsForecast,
    PilotSettings,
    alternative_sampler,
    covariance_for_nuts,
    forecast_nuts,
    forecast_penalty,
    forecast_step,
    recommend_sampler,
)
from pymc_minibatch_mh.diagnostics.model_summary import (
    NotSubsampled,
    Reparametrized,
    SubsampledTerm,
    not_subsampled,
    reparametrized_variables,
    subsampled_terms,
    try_each_observed,
)
from pymc_minibatch_mh.diagnostics.sheet import Fact, Sheet, format_figure, sheet_section
from pymc_minibatch_mh.errors import (
    BoundsError,
    MinibatchError,
    ModeError,
    SettingError,
    UnsupportedModelError,
)
from pymc_minibatch_mh.model.bambi import is_bambi_model
from pymc_minibatch_mh.model.factorization import Factorization, factorize
from pymc_minibatch_mh.model.inputs import as_generator, resolve_model
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.native.moves import CONSTANT, DIRECTIONAL, ENDS, GIVEN, JOINT, KINKED, SHARP
from pymc_minibatch_mh.plan.method import Promise
from pymc_minibatch_mh.progress import show_progress
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind
from pymc_minibatch_mh.steps.deterministics import (
    LargeDeterministic,
    large_deterministics,
    names_without_large,
)
from pymc_minibatch_mh.steps.penalty import PenaltyMH
from pymc_minibatch_mh.steps.report import FULL_PASS_STRONG
from pymc_minibatch_mh.steps.tuna import TunaMH

#: Minimum number of draws of pilots for an effective sample size.
MIN_DRAWS = 100
#: Settings of a step that describe the model's observations.
READING = ("observed", "weights", "observation_dims")
NO_NUTS = "cannot sample this model, or has no gradient"
#: Descriptions of the kinds of bounds.
KINDS = {
    DIRECTIONAL: "summed over directions",
    JOINT: "over the joint length of the arguments",
    SHARP: "sharp, one argument a row",
    GIVEN: "with a metric of the user's own",
    ENDS: "of a group's remainder at either end",
    KINKED: "of rows that meet kinks, at either end",
    CONSTANT: "of a group's remainders at both ends together",
}


@dataclasses.dataclass(frozen=True)
class Certificate:
    """Whether the draws are exact, and by which bounds."""

    #: Guarantee of the method (given valid bounds, if it needs any) and the error that it controls.
    guarantee: str
    #: Whether proved bounds make the draws exact, and the reason, such as a BoundsError.
    certified: bool
    reason: str
    #: Sums C of the bounds over all observations, with their regions.
    tables: tuple[str, ...]
    #: Smallest C without the influential observations; NaN without bounds.
    drawn: float
    #: Number of influential observations, which every update evaluates.
    n_heavy: int = 0

    def describe(self) -> str:
        """Whether draws are exact, and why."""
        promise, _, _ = self.guarantee.partition(";")
        return f"{'yes' if self.certified else promise}: {self.reason}"

    def lines(self) -> list[tuple[str, str]]:
        """Labels and values of the lines of a sheet."""
        lines = [("guarantee", self.guarantee)]
        lines += [("proved bounds" if self.certified else "no proved bounds", self.reason)]
        lines += [(f"table {k}", table) for k, table in enumerate(self.tables, 1)]
        others = "batches are drawn from all others"
        if self.tables:
            others = f"C = {format_figure(self.drawn)} of all others"
        always = f"{self.n_heavy:,} are evaluated in every update; {others}"
        return [*lines, ("influential", always if self.n_heavy else "")]


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class Explanation:
    """A forecast of subsampling, made before sampling.

    Printed in a terminal or shown in a notebook, it has six lines. ``found.details`` is a sheet of
    all facts, which unfolds in a notebook.

    Parameters
    ----------
    method, step
        Name of the step method, and the step, ready for ``sample(found.step)``; empty and None for
        an unsupported model.
    recommended, reason
        Recommended sampler, and the reason with figures.
    refused
        Reason why the model cannot be subsampled; empty if it can.
    n_rows, size
        Number N of subsampled observations, and d of dimensions.
    terms, others
        Likelihood terms that are subsampled; variables and potentials that are not, and why.
    coordinates
        Variables that the chain samples through other variables, in which observations are linear,
        and reasons against that.
    taylor_order, order_reason, centre
        Order of the control variates, its reason, and the point around which they are built.
    certificate, forecast
        Exactness and figures of the step; None for an unsupported model.
    approximate
        An approximate step and its forecast, if more than half of the updates of the exact step
        evaluate all observations; else None.
    nuts
        Forecast of NUTS, without its speed for ``nuts=False``; None if NUTS cannot sample the
        model.
    large_deterministics, var_names
        Deterministics that :func:`pymc.sample` would evaluate and store at every draw; all other
        variables, for ``var_names=``.
    effects
        How the effects of groups are sampled, and why; empty without such effects.
    given_scales
        Hyperparameters that the proposal draws first, and all others conditionally on them.
    tails
        Where bounds end, the largest skewness, and variables whose tail proposals lack.
    """

    method: str = ""
    step: MinibatchStep | None = None
    recommended: str
    reason: str
    refused: str = ""
    n_rows: int
    size: int
    #: Number and kind of what an update draws: observations, or groups of them.
    drawn_from: tuple[int, str] = (0, "observations")
    terms: tuple[SubsampledTerm, ...]
    others: tuple[NotSubsampled, ...]
    coordinates: tuple[Reparametrized, ...] = ()
    taylor_order: int | None = None
    order_reason: str = ""
    centre: str = ""
    certificate: Certificate | None = None
    forecast: Forecast | None = None
    approximate: Approximate | None = None
    nuts: NutsForecast | None
    large_deterministics: tuple[LargeDeterministic, ...]
    var_names: tuple[str, ...]
    effects: str = ""
    given_scales: tuple[str, ...] = ()
    skewness: float | None = None
    tails: tuple[tuple[str, str], ...] = ()

    @property
    def details(self) -> Sheet:
        """All facts, as a sheet for terminals and notebooks."""
        size = ("", f"N = {self.n_rows:,} observations, d = {self.size:,} dimensions")
        moved = [
            (one.name, one.refused or f"sampled through {one.words}, and stored as itself")
            for one in self.coordinates
        ]
        large = [
            (one.name, f"{one.priced} for 1,000 draws of a chain")
            for one in self.large_deterministics
        ]
        if large:
            large.append(("leave out with", f"pm.sample(..., var_names={list(self.var_names)})"))
        nuts = [("not possible", NO_NUTS)] if self.nuts is None else self.nuts.lines()
        facts = [
            *sheet_section(
                "Subsampled", [line for term in self.terms for line in term.lines()] + [size]
            ),
            *sheet_section("Not subsampled", [(other.name, other.reason) for other in self.others]),
            *sheet_section("Reparametrisation", moved),
            *sheet_section("Group effects", [("are", self.effects)]),
            *self._facts_of_step(),
            *sheet_section("NUTS", nuts),
            *sheet_section("Evaluated and stored at every draw", large),
        ]
        return Sheet(tuple(facts))

    def _facts_of_step(self) -> list[Fact]:
        if self.certificate is None or self.forecast is None:
            return []
        order = ("order", f"{self.taylor_order}: {self.order_reason}")
        facts = [
            *sheet_section("Control variates", [order, ("centre", self.centre)]),
            *sheet_section("Exactness", self.certificate.lines()),
            *sheet_section("Proposal", self._lines_of_proposal()),
            *sheet_section("Tails", list(self.tails)),
            *sheet_section(f"Forecast of {self.method}", self.forecast.lines()),
        ]
        if (other := self.approximate) is not None:
            near = ("approximate", "its draws are near the posterior; see approximate.step")
            facts += sheet_section(f"Forecast of {other.method}", [near, *other.forecast.lines()])
        return facts

    def _lines_of_proposal(self) -> list[tuple[str, str]]:
        drawn = f"all else is drawn as normal given {', '.join(self.given_scales)}"
        lines = [("hyperparameters", drawn)] if self.given_scales else []
        if self.skewness is not None:
            skewed = (
                f"a map of third order follows that of the posterior, |S| = {self.skewness:.2g}"
            )
            lines.append(("skewness", skewed))
        return lines

    def __str__(self) -> str:
        """The six lines of the summary, as text."""
        return str(self._summary_lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """HTML for notebooks: the six-line summary, and details that can be unfolded."""
        unfolds = f"<details><summary>Details</summary>{self.details._repr_html_()}</details>"
        return self._summary_lines()._repr_html_() + unfolds

    def _summary_lines(self) -> Sheet:
        full = [f"{other.name!r}: {other.reason}" for other in self.others if other.in_full]
        full += [
            f"{one.name!r}: {one.priced} for 1,000 draws; leave it out by var_names=found.var_names"
            for one in self.large_deterministics
        ]
        sampler = NUTPIE if self.recommended == NUTS else self.recommended
        lines = [("recommended", f"{sampler}: {self.reason}"), ("not subsampled", self.refused)]
        n_units, units = self.drawn_from
        if self.certificate is not None and self.forecast is not None:
            lines += [
                ("exact", self.certificate.describe()),
                (f"{units} a draw", self.forecast.describe_rows(n_units or self.n_rows)),
                ("1,000 effective draws", self.forecast.describe_seconds()),
            ]
            full = full or ["nothing"]
        nuts = NO_NUTS if self.nuts is None else self.nuts.describe()
        lines += [("evaluated in full", "; ".join(full)), ("NUTS", nuts)]
        return Sheet(tuple(sheet_section("", lines)))


@show_progress("Reading the model")
def explain(
    model_or_step: pm.Model | MinibatchStep | None = None,
    *,
    vars: Sequence[Variable] | None = None,
    draws: int = 1_000,
    tune: int = 1_000,
    nuts: bool = True,
    random_seed: Any = None,
    **settings: Any,
) -> Explanation:
    """Forecast before sampling: the sampler to take, its speed, and whether draws are exact.

    It takes seconds once functions are compiled. The figures come from four pilots: short chains of
    the step's own loop, outside :func:`pymc.sample`, from draws of the Gaussian approximation. The
    spread between them gives the errors.
    Where more than half of the updates of an exact step evaluate all observations, pilots of
    :class:`PenaltyMH` run as well. NUTS does not run: one gradient is timed, and a rule says how
    many gradients an effective draw takes.

    Parameters
    ----------
    model_or_step
        A model, by default the model of the context: :class:`TunaMH` is tried on it, and
        :class:`PenaltyMH` if no bounds can be derived. Alternatively a step, which is not changed:
        its chain continues as if it had not been explained.
    vars
        Variables that the step for a model updates; by default all continuous variables.
    draws
        Total number of draws of the four pilots, 100 or more.
    tune
        Draws of warm-up of each pilot.
    nuts
        Whether to compile the gradient for NUTS and to time it. The first time this takes as long
        as :func:`pymc.sample` needs to compile it: seconds, for large graphs a minute. If False,
        NUTS is left out of the comparison.
    random_seed
        Seed of the pilots. The same seed gives the same figures, except for times. Further draws,
        which count observations, double in number until a time limit. If draws take milliseconds,
        the last pilots are left out. In these cases figures can change within their error.
    **settings
        Settings of all step methods, for the step of a model: see :class:`TunaMH`.

    Returns
    -------
    Explanation
        Also of a model that cannot be subsampled, with the reason.

    Raises
    ------
    SettingError
        If a setting is invalid.

    Examples
    --------
    >>> found = explain(model)
    >>> found.method, found.certificate.certified
    ('TunaMH', True)
    """
    pilots = PilotSettings(
        check_integer("draws", draws, MIN_DRAWS),
        check_integer("tune", tune, 0),
        as_generator("random_seed", random_seed),
    )
    nuts = check_flag("nuts", nuts)
    if isinstance(model_or_step, MinibatchStep):
        if vars is not None or settings:
            raise SettingError(
                f"{next(iter(settings), 'vars')}= is a setting of the step that is explained, "
                "which was built before. Leave it out."
            )
        return _explain_step(model_or_step, model_behind(model_or_step), pilots, nuts)
    if not (isinstance(model_or_step, pm.Model | None) or is_bambi_model(model_or_step)):
        raise SettingError(
            f"model_or_step={type(model_or_step).__name__} is neither a model nor a step of this "
            "package. Give a pm.Model, or a step such as a TunaMH()."
        )
    model = resolve_model(model_or_step)
    began, why_not_exact = time.perf_counter(), ""
    try:
        try:
            step: MinibatchStep = TunaMH(vars, model=model, **settings)
        except BoundsError as error:
            why_not_exact = str(error)
            step = PenaltyMH(vars, model=model, **settings)
    except (UnsupportedModelError, ModeError) as error:
        return _explain_refusal(model, check.step_variables(model, vars), error, settings, nuts)
    return _explain_step(step, model, pilots, nuts, time.perf_counter() - began, why_not_exact)


def _explain_step(
    step: MinibatchStep,
    model: pm.Model,
    pilots: PilotSettings,
    timed: bool,
    seconds: float = nan,
    why_not_exact: str = "",
) -> Explanation:
    target, method = step.plan.described, type(step).__name__
    parts, n_rows = target.factorization, target.source.n_rows
    forecast, run = forecast_step(step, model, pilots, seconds)
    approximate = None
    if forecast.full_pass_share > FULL_PASS_STRONG:
        approximate = forecast_penalty(step, model, pilots)
    nuts = forecast_nuts(model, run.point, covariance_for_nuts(step), timed)
    recommended, reason = recommend_sampler(method, n_rows, parts.size, forecast, nuts, approximate)
    large = large_deterministics(model, run.point)
    return Explanation(
        method=method,
        step=step,
        recommended=recommended,
        reason=reason,
        n_rows=n_rows,
        size=parts.size,
        drawn_from=(step.plan.n_rows, step.plan.units),
        terms=subsampled_terms(parts, target.compiled.why_graph),
        others=not_subsampled(model, parts, tuple(step.program.slices.steps)),
        coordinates=reparametrized_variables(step.target.factorization),
        taylor_order=target.taylor_order,
        order_reason=_explain_order(step, parts),
        centre=step.plan.describe_centre(),
        certificate=certify_step(step, run.certified, why_not_exact),
        forecast=forecast,
        approximate=approximate,
        nuts=nuts,
        large_deterministics=large,
        var_names=names_without_large(model, large),
        effects=step.plan.reason,
        given_scales=_hyperparameters_first(step, model),
        skewness=step.program.sampler.skewness(step.plan),
        tails=_explain_tails(step),
    )


def _explain_refusal(
    model: pm.Model,
    variables: list[Variable],
    error: MinibatchError,
    settings: Mapping[str, Any],
    timed: bool,
) -> Explanation:
    start = {**model.initial_point(), **(settings.get("initial_point") or {})}
    reading: dict[str, Any] = {name: settings[name] for name in READING if name in settings}
    nuts = forecast_nuts(model, start, None, timed)
    if isinstance(error, ModeError):
        parts = factorize(model, variables, **reading)
        terms, others = subsampled_terms(parts), not_subsampled(model, parts)
    else:
        terms, others = (), try_each_observed(model, variables, **reading)
    large = large_deterministics(model, start)
    return Explanation(
        recommended=alternative_sampler(nuts),
        reason="the model cannot be subsampled",
        refused=str(error),
        n_rows=sum(term.n_rows for term in terms),
        size=sum(int(np.size(start[v.name])) for v in variables),
        terms=terms,
        others=others,
        nuts=nuts,
        large_deterministics=large,
        var_names=names_without_large(model, large),
    )


def certify_step(step: MinibatchStep, certified: bool, why_not_exact: str) -> Certificate:
    """Exactness of a step, from its pilots (`certified`) or a BoundsError (`why_not_exact`)."""
    tables, heavy, lines = step.tables, step.plan.n_rows - step.plan.n_drawn, []
    drawn, source = nan, step.plan.requirements.bounds
    if tables is not None:
        known = tables.headers[:, 0] >= 0.0
        for radius, kind, total in tables.headers[known]:
            near = f"within {radius:.2f} posterior sds of the centre"
            region = near if np.isfinite(radius) else "everywhere"
            meaning = source.meaning if source and source.meaning else KINDS[int(kind)]
            lines.append(f"C = Σ c_i = {format_figure(total)} {region}; {meaning}")
        drawn = float(tables.heads_of_drawn[known, TOTAL].min())
        if step.program.method.draws_by_bounds:
            heavy = tables.heavy.size
    reason = why_not_exact or _explain_guarantee(step, certified)
    return Certificate(str(step.guarantee), certified, reason, tuple(lines), drawn, heavy)


def _explain_guarantee(step: MinibatchStep, certified: bool) -> str:
    method = type(step).__name__
    if step.guarantee.promise is Promise.APPROXIMATE:
        return f"{method} is approximate; TunaMH() is exact where it can derive bounds"
    if step.guarantee.promise is Promise.EXACT:
        return f"{method} is exact without bounds"
    if step.tables is not None and not step.tables.verified:
        return "the bounds are your own: draws are exact if they hold, which nobody has proved"
    if not certified:
        return "bounds were proved, but an observation exceeded its own"
    return "bounds of all observations are proved, and held in the pilots"


def _explain_tails(step: MinibatchStep) -> tuple[tuple[str, str], ...]:
    """Where bounds end, the largest skewness, and variables whose tail proposals lack."""
    plan, tables, lines = step.plan, step.tables, []
    if tables is not None:
        radius = float(tables.headers[:, 0].max())
        mass = float(chdtrc(plan.reference.centre.size, radius**2)) if radius > 0.0 else 1.0
        far = (
            f"{radius:.2f} posterior sds from the centre; a normal posterior has {mass:.1g} beyond"
        )
        lines.append(("bounds end", far if np.isfinite(radius) else "nowhere"))
    for name, skewness in plan.largest_skewness:
        lines.append(("largest skewness", f"{skewness:.2g}, along {name!r}"))
    for name, left in plan.heavy_tails.items():
        lines.append((name, f"a tail that proposals lack: {left:.0%} of their efficiency is left"))
    return tuple(lines)


def _hyperparameters_first(step: MinibatchStep, model: pm.Model) -> tuple[str, ...]:
    """Hyperparameters that the proposal draws first; all others are drawn given these."""
    drawn = step.program.sampler.scales(step.plan)
    coordinates = step.target.factorization.coordinate_names
    values = {coordinates[k].partition("[")[0] for k in drawn}
    return tuple(str(rv.name) for rv, v in model.rvs_to_values.items() if v.name in values)


def _explain_order(step: MinibatchStep, parts: Factorization) -> str:
    order = step.target.taylor_order
    source = step.plan.requirements.bounds
    if source is not None and source.order_reason:
        return source.order_reason
    if order == 3 and step.target.chooses_order:
        return "a cubic approximation leaves far fewer observations to evaluate, by forecast"
    if order == 2:
        return "a quadratic approximation of each observation leaves the smallest remainders"
    if parts.discrete_in_rows:
        return (
            f"rows depend on the discrete variable {parts.discrete_in_rows[0]!r}, in which "
            "nothing can be expanded"
        )
    return f"set by taylor_order={order}; 'auto' would be 2"
