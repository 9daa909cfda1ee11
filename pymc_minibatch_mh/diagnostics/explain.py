"""A forecast before sampling: whether subsampling pays for a model."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.checks import flag, integer
from pymc_minibatch_mh.data.arrays import Column
from pymc_minibatch_mh.diagnostics.explanation import (
    Approximate,
    Certificate,
    Explanation,
    Forecast,
    InCoordinates,
    NotSubsampled,
    SubsampledTerm,
    figure,
)
from pymc_minibatch_mh.diagnostics.pilot import Pilot, fly, forecast
from pymc_minibatch_mh.diagnostics.recommend import (
    covariance_for_nuts,
    nuts_forecast,
    recommend,
    recommend_instead,
)
from pymc_minibatch_mh.errors import (
    BoundsError,
    MinibatchError,
    ModeError,
    SettingError,
    UnsupportedModelError,
)
from pymc_minibatch_mh.expressions.graph import (
    Apply,
    Constant,
    Data,
    Expr,
    Gather,
    Lookup,
    Monomial,
)
from pymc_minibatch_mh.model.bambi import is_bambi_model
from pymc_minibatch_mh.model.factorization import Factorization, factorize
from pymc_minibatch_mh.model.independence import Likelihood
from pymc_minibatch_mh.model.inputs import generator_of, likelihoods_of, model_of
from pymc_minibatch_mh.model.layout import Block
from pymc_minibatch_mh.model.terms import MIN_ROWS, number_of_rows, potentials_in_full
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.native.moves import CONSTANT, DIRECTIONAL, GIVEN, JOINT, SHARP
from pymc_minibatch_mh.plan.method import Promise
from pymc_minibatch_mh.progress import showing
from pymc_minibatch_mh.steps import settings as check
from pymc_minibatch_mh.steps.base import MinibatchStep, model_behind
from pymc_minibatch_mh.steps.deterministics import large_deterministics, names_without
from pymc_minibatch_mh.steps.penalty import PenaltyMH, penalty_beside
from pymc_minibatch_mh.steps.report import FULL_PASS_STRONG
from pymc_minibatch_mh.steps.tuna import TunaMH
from pymc_minibatch_mh.structure.predictors import LinearForm
from pymc_minibatch_mh.structure.row_function import RowFunction, row_functions

KINDS = {
    DIRECTIONAL: "summed over directions",
    JOINT: "over the joint length of the arguments",
    SHARP: "sharp, one argument a row",
    GIVEN: "with a metric of the user's own",
    CONSTANT: "the widths of the ranges of all log-likelihoods",
}


def certificate(step: MinibatchStep, certified: bool, why_not_exact: str) -> Certificate:
    """Return the exactness of a step, whose pilot was `certified` to its end.

    `why_not_exact` is the message of the :class:`BoundsError` that stood against an exact step.
    """
    tables, heavy, found = step.tables, step.plan.n_rows - step.plan.n_drawn, []
    drawn = float("nan")
    if tables is not None:
        for radius, kind, total in tables.headers[tables.headers[:, 0] >= 0.0]:
            near = f"within {radius:.2f} posterior sds of the centre"
            region = near if np.isfinite(radius) else "everywhere"
            found.append(f"C = Σ c_i = {figure(total)} {region}; {KINDS[int(kind)]}")
        drawn = float(tables.heads_of_drawn[tables.headers[:, 0] >= 0.0, TOTAL].min())
        if step.program.method.draws_by_bounds:
            heavy = tables.heavy.size
    return Certificate(
        guarantee=str(step.guarantee),
        certified=certified,
        reason=why_not_exact or _reason(step, certified),
        tables=tuple(found),
        drawn=drawn,
        n_heavy=heavy,
    )


def _reason(step: MinibatchStep, certified: bool) -> str:
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


def _form(form: LinearForm, function: RowFunction, factorization: Factorization) -> str:
    """Return an argument of a row as ``x × slope``, ``effect[group]`` or ``sigma_log__``."""
    groups: dict[tuple[str, str], list[Monomial]] = {}
    for term in form.terms:
        data = " × ".join(_data(expr, function, entries=False) for expr in term.monomial)
        first = term.place.first if isinstance(term.place, Gather) else term.place
        groups.setdefault((data, _name_at(first, factorization)), []).append(term)
    words = ""
    for (data, block), terms in groups.items():
        negative = len(terms) == 1 and terms[0].factor < 0.0
        text = f"{f'{data} × ' if data else ''}{block} ({len(terms)} terms)"
        if len(terms) == 1:
            text = _single(terms[0], function, factorization)
        if words:
            words += f" {'-' if negative else '+'} {text}"
        else:
            words = f"-{text}" if negative else text
    return words


def _single(term: Monomial, function: RowFunction, factorization: Factorization) -> str:
    factors = [] if abs(term.factor) == 1.0 else [f"{abs(term.factor):g}"]
    factors += [_data(expr, function, entries=True) for expr in term.monomial]
    if isinstance(term.place, Gather):
        index = _data(term.place.index, function, entries=True)
        coordinate = f"{_name_at(term.place.first, factorization)}[{index}]"
    else:
        entry = factorization.coordinate_names[term.place].removeprefix(
            _block_at(term.place, factorization).name
        )
        coordinate = _name_at(term.place, factorization) + entry
    return " × ".join([*factors, coordinate])


def _block_at(place: int, factorization: Factorization) -> Block:
    return next(block for block in factorization.blocks if place < block.stop)


def _name_at(place: int, factorization: Factorization) -> str:
    """Return the name of the block at a place, or of its stand-in in the chain."""
    words = (f"({one.label})" for one in factorization.maps if place in one.indices)
    return next(words, _block_at(place, factorization).name)


#: Beginning of the names of data arrays without one.
UNNAMED = "a data array of"


def _data(expr: Expr, function: RowFunction, entries: bool) -> str:
    """Return the source of a data expression."""
    if isinstance(expr, Data):
        entry = str(list(expr.entry)) if entries and expr.entry else ""
        name = function.columns[expr.column].name
        # Bambi names no design matrix: its columns are told apart by their numbers.
        return ("data" if name.startswith(UNNAMED) else name) + entry
    if isinstance(expr, Constant):
        return f"{expr.value:g}"
    if isinstance(expr, Lookup):
        return f"a table[{_data(expr.index, function, entries)}]"
    if isinstance(expr, Apply):
        if isinstance(expr.op, scalar.Cast):
            return _data(expr.inputs[0], function, entries)
        return f"f({', '.join(_sources(expr, function, entries))})"
    return "row number"


def _sources(expr: Expr, function: RowFunction, entries: bool) -> list[str]:
    """List the data that an expression is a function of, each once, without constants.

    A categorical column that is coded by the model has one such expression for every category, all
    of the same data.
    """
    if isinstance(expr, Apply):
        inside = (_sources(operand, function, entries) for operand in expr.inputs)
        return list(dict.fromkeys(chain.from_iterable(inside)))
    return [] if isinstance(expr, Constant) else [_data(expr, function, entries)]


PRIOR = "a prior, which has no observations"


def subsampled(parts: Factorization, why_graph: str = "") -> tuple[SubsampledTerm, ...]:
    """Return the subsampled terms; `why_graph`: why rows are computed as a graph, if they are."""
    return tuple(_term(parts, term, why_graph) for term in parts.terms)


def _term(parts: Factorization, term: Likelihood, why_graph: str) -> SubsampledTerm:
    arguments: tuple[str, ...] = ()
    not_apart = f"computed as a graph of all parameters, because {why_graph}" if why_graph else ""
    try:
        # One term at a time, so that one which cannot be taken apart does not hide the others.
        (function,) = row_functions(dataclasses.replace(parts, terms=(term,)))
        arguments = tuple(_form(form, function, parts) for form in function.arguments)
    except BoundsError as error:
        not_apart = str(error)
    arrays = tuple(_array(column) for column, _ in term.batches)
    return SubsampledTerm(term.name, term.n_rows, arguments, not_apart, arrays)


def _array(column: Column) -> str:
    dtype, shape = column.values.dtype, column.row_shape
    entries = str(list(shape)) if shape else ""
    return f"{column.name}: {dtype}{entries}, {dtype.itemsize * prod(shape):,} bytes a row"


def reparametrizations(parts: Factorization) -> tuple[InCoordinates, ...]:
    """List the reparametrised variables, and those that could not be, with the reason."""
    mapped = [InCoordinates(one.name, one.label) for one in parts.maps]
    refused = [InCoordinates(name, "", why) for name, why in parts.refused]
    return (*dict.fromkeys(mapped), *refused)


def not_subsampled(
    model: pm.Model, parts: Factorization, directions: Sequence[np.ndarray] = ()
) -> tuple[NotSubsampled, ...]:
    """List the parts of a subsampled model that are evaluated in full, with the reason.

    Along some `directions` of the position its variables are also moved without rows.
    """
    chosen = set(likelihoods_of(parts.terms))
    found = [
        NotSubsampled(str(rv.name), _why_in_full(number_of_rows(model, rv)), in_full=True)
        for rv in model.observed_RVs
        if rv.name not in chosen
    ]
    reasons = _reasons_of_variables(parts)
    for name, why in _moved_without_rows(parts, directions).items():
        reasons[name] = f"{reasons.get(name, PRIOR)}; {why}"
    return (*found, *_without_rows(model, reasons))


def of_refused_model(
    model: pm.Model, vars: list[Variable], **reading: Any
) -> tuple[NotSubsampled, ...]:
    """Return why nothing is subsampled, with each observed variable tried on its own."""
    tried = {**reading, "weights": None}
    found = []
    for rv in model.observed_RVs:
        name, count = str(rv.name), number_of_rows(model, rv)
        reason = _why_in_full(count)
        if count >= MIN_ROWS:
            try:
                factorize(model, vars, **{**tried, "observed": [name]})
                reason = f"could be subsampled without the others: observed=[{name!r}]"
            except UnsupportedModelError as error:
                reason = str(error)
        found.append(NotSubsampled(name, reason))
    return (*found, *_without_rows(model, {}))


def _why_in_full(count: int) -> str:
    why = f"fewer than {MIN_ROWS:,}" if count < MIN_ROWS else "but not named in observed="
    return f"{count:,} observations, {why}: evaluated in full at every update"


def _without_rows(model: pm.Model, of_others: dict[str, str]) -> list[NotSubsampled]:
    found = [
        NotSubsampled(str(rv.name), of_others.get(str(model.rvs_to_values[rv].name), PRIOR))
        for rv in model.free_RVs
    ]
    reading = potentials_in_full(model)
    for name in (str(potential.name) for potential in model.potentials):
        reason = reading.get(name, "a potential of the parameters alone")
        found.append(NotSubsampled(name, reason, in_full=name in reading))
    return found


def _reasons_of_variables(parts: Factorization) -> dict[str, str]:
    """Return why variables of other steps are not moved: name of the value variable -> why."""
    discrete = parts.discrete_in_rows
    reasons = {}
    for block in (*parts.blocks, *parts.others):
        if block.name in discrete:
            why = "discrete, and observations depend on it: another step moves it, pilots hold it"
        elif block in parts.others:
            why = "no observation depends on it: another step moves it, pilots hold it"
        elif block.stop <= parts.first:
            why = "observations depend on it, but another step moves it: pilots hold it"
        else:
            continue
        reasons[block.name] = f"{PRIOR}; {why}"
    return reasons


def _moved_without_rows(parts: Factorization, directions: Sequence[np.ndarray]) -> dict[str, str]:
    """Return how variables move without rows: name of the value variable -> in words."""
    found = {}
    for direction in directions:
        moved = [b.name for b in parts.blocks if direction[b.start : b.stop].any()]
        for name in moved:
            others = " and ".join(repr(other) for other in moved if other != name)
            if np.count_nonzero(direction) == 1:
                found[name] = "no row depends on it, so that it is also moved without rows"
            elif others:
                found.setdefault(name, f"also moved without rows, together with {others}")
            else:
                found.setdefault(name, "also moved without rows, all of it alike")
    return found


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
    many an effective draw takes.

    Parameters
    ----------
    model_or_step
        A model, by default that of the context: :class:`TunaMH` is tried on it, and
        :class:`PenaltyMH` where no bounds can be derived. Or a step, which is not changed: its
        chain goes on as if it had not been explained.
    vars
        Variables that the step for a model moves; by default all continuous ones.
    draws
        Draws that four pilots keep together, 100 or more.
    tune
        Draws of warm-up of each pilot.
    nuts
        Whether to compile the gradient for NUTS and to time it. The first time this takes as long
        as :func:`pymc.sample` needs to compile it: seconds, for large graphs a minute. If False,
        NUTS is left out of the comparison.
    random_seed
        Seed of the pilots. The same seed gives the same figures, except for times. The clock ends
        the further draws that count observations, in steps of two, and leaves out the last pilots
        of a model whose draws take milliseconds: there, figures change within their error.
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
    asked = _Asked(
        integer("draws", draws, LEAST_DRAWS),
        integer("tune", tune, 0),
        generator_of("random_seed", random_seed),
        flag("nuts", nuts),
    )
    if isinstance(model_or_step, MinibatchStep):
        if vars is not None or settings:
            raise SettingError(
                f"{next(iter(settings), 'vars')}= is a setting of the step that is explained, "
                "which was built before. Leave it out."
            )
        return _of_step(model_or_step, model_behind(model_or_step), asked)
    if not (isinstance(model_or_step, pm.Model | None) or is_bambi_model(model_or_step)):
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
    except (UnsupportedModelError, ModeError) as error:
        return _of_refused(model, vars, error, settings, asked)
    return _of_step(step, model, asked, time.perf_counter() - began, why_not_exact)


class _Asked(NamedTuple):
    """Settings of the pilots, and whether NUTS is timed."""

    draws: int
    tune: int
    rng: np.random.Generator
    nuts: bool

    def pilots(self, step: MinibatchStep, model: pm.Model) -> Pilot:
        return fly(step, model, self.draws, self.tune, self.rng)


def _of_step(
    step: MinibatchStep,
    model: pm.Model,
    asked: _Asked,
    seconds: float = float("nan"),
    why_not_exact: str = "",
) -> Explanation:
    target, method = step.target, type(step).__name__
    parts, n_rows = target.factorization, target.source.n_rows
    pilot = asked.pilots(step, model)
    found = forecast(step, pilot, asked.tune, seconds)
    approximate = _approximate(step, model, found, asked)
    nuts = nuts_forecast(model, pilot.point, covariance_for_nuts(step), asked.nuts)
    recommended, reason = recommend(method, n_rows, parts.size, found, nuts, approximate)
    large = large_deterministics(model, pilot.point)
    return Explanation(
        method=method,
        step=step,
        recommended=recommended,
        reason=reason,
        n_rows=n_rows,
        size=parts.size,
        terms=subsampled(parts, target.compiled.why_graph),
        others=not_subsampled(model, parts, tuple(step.program.slices.steps)),
        coordinates=reparametrizations(parts),
        taylor_order=target.taylor_order,
        order_reason=_why_order(step, parts),
        centre=_words_of_centre(step),
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
    drawn = step.program.sampler.scales(step.plan)
    coordinates = step.target.factorization.coordinate_names
    values = {coordinates[k].partition("[")[0] for k in drawn}
    return tuple(str(rv.name) for rv, v in model.rvs_to_values.items() if v.name in values)


def _approximate(
    step: MinibatchStep, model: pm.Model, exact: Forecast, asked: _Asked
) -> Approximate | None:
    """Return the forecast without exactness, where exactness takes all rows."""
    if step.plan.elements is not None:
        return None
    if not step.guarantee.is_exact or exact.full_pass_share <= FULL_PASS_STRONG:
        return None
    other = penalty_beside(step, np.random.default_rng(asked.rng.integers(2**63)))
    found = forecast(other, asked.pilots(other, model), asked.tune, float("nan"))
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
    nuts = nuts_forecast(model, start, None, asked.nuts)
    recommended, reason = recommend_instead(nuts)
    if isinstance(error, ModeError):
        parts = factorize(model, own, **reading)
        terms, others = subsampled(parts), not_subsampled(model, parts)
    else:
        terms, others = (), of_refused_model(model, own, **reading)
    large = large_deterministics(model, start)
    return Explanation(
        recommended=recommended,
        reason=reason,
        refused=str(error),
        n_rows=sum(term.n_rows for term in terms),
        size=sum(int(np.size(start[v.name])) for v in own),
        terms=terms,
        others=others,
        nuts=nuts,
        large_deterministics=large,
        var_names=names_without(model, large),
    )


def _why_order(step: MinibatchStep, parts: Factorization) -> str:
    order = step.target.taylor_order
    if step.plan.requirements.ranges:
        return "log-likelihoods themselves have ranges, so nothing is expanded"
    if order == 2:
        return "a quadratic approximation of each observation leaves the smallest remainders"
    if parts.discrete_in_rows:
        return (
            f"rows depend on the discrete variable {parts.discrete_in_rows[0]!r}, in which "
            "nothing can be expanded"
        )
    return f"set by taylor_order={order}; 'auto' would be 2"


def _words_of_centre(step: MinibatchStep) -> str:
    plan, parts = step.plan, step.target.factorization
    if step.target.covariance is not None:
        return "the start, as centre='start' asks for"
    if plan.elements is not None:
        return plan.elements.told()
    if not plan.marginal:
        return "near the mode of the joint density"
    names = [
        repr(name)
        for block, name in zip(parts.blocks, parts.natural, strict=True)
        if any(block.start <= k < block.stop for k in plan.marginal)
    ]
    listed = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return (
        f"near the mode of the marginal density of {listed}, with all else integrated over, as the "
        "joint density of a hierarchy has none"
    )
