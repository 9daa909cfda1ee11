"""Models that steps in a process share: graphs, compiled functions, sums over the rows."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.bounds.user_bounds import tell_of_unverified_bounds
from pymc_minibatch_mh.compiled.graphs import term_names
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.data import Contents
from pymc_minibatch_mh.errors import (
    BoundsError,
    FactorizationError,
    ModeError,
    SettingError,
    UnsupportedModelError,
)
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.model.weights import Weights, term_weights
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.plan.arrow import ArrowPlan
from pymc_minibatch_mh.plan.bound_sources import bounds_pass_of, functions_of, support_of
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.file import read
from pymc_minibatch_mh.plan.groups import SlowerError, integrated_plan
from pymc_minibatch_mh.plan.identity import WatchedModel, key_of_reference
from pymc_minibatch_mh.plan.parametrization import choose_parametrization
from pymc_minibatch_mh.plan.plan import (
    TOGETHER,
    EffectMoves,
    Plan,
    Requirements,
    require_possible,
    require_same_again,
)
from pymc_minibatch_mh.reference.arrow_search import find_grouped
from pymc_minibatch_mh.reference.few_rows import (
    has_kinks_between_lines,
    n_slopes,
    reference_of_few,
)
from pymc_minibatch_mh.reference.smoothing import MAX_SIZE, too_many_coordinates
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reference.third_order import (
    has_few_coefficients,
    objection_to_third_order,
    with_cubic_terms,
)
from pymc_minibatch_mh.reparametrize.inverse_shape import shape_variables
from pymc_minibatch_mh.reparametrize.non_centred import in_linear_coordinates
from pymc_minibatch_mh.reparametrize.zero_sum import in_differences
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.threads import one_thread_of_blas

_log = logging.getLogger("pymc")

#: Minimum forecast of candidates for which control variates of order 3 are considered, and maximum
#: share of these that are left at that order.
WORTH_THIRD_ORDER, MAX_SHARE_AT_THIRD_ORDER = 500.0, 0.75
#: Maximum number of coordinates that move together: derivatives are matrices of so many rows.
MAX_TOGETHER = 2_000
#: Number of observations evaluated first, to reject a start of zero density quickly.
START_ROWS = 100_000
#: Minimum number of operations in the first two derivatives of rows for a trial of their bounds.
WORTH_A_TRIAL = 200


@dataclass(frozen=True, kw_only=True)
class ReadingSettings:
    """Settings for reading a model; :class:`steps.settings.SharedSettings` describes them."""

    observed: Sequence[str] | None = None
    weights: Weights | None = None
    observation_dims: Sequence[str] = ()
    compile_kwargs: Mapping[str, Any] | None = field(default=None, metadata={"described": False})


def _preparation_request(
    model: pm.Model,
    vars: Sequence[Variable],
    point: Mapping[str, np.ndarray],
    settings: ReadingSettings,
    linear: bool,
) -> tuple | None:
    """Cache key of a step's preparation of a model; None if it cannot be compared."""
    weights = _weight_arrays(settings.weights)
    if weights is None or settings.compile_kwargs:
        return None
    named = settings.observed, settings.observation_dims, linear, model.named_vars_to_dims
    return tuple(vars), Contents.of(point.items()), Contents.of(weights), repr(named)


def _weight_arrays(weights: Any) -> list[tuple[str, np.ndarray]] | None:
    if weights is None:
        return []
    given = weights if isinstance(weights, Mapping) else {"": weights}
    arrays = [(str(name), values) for name, values in given.items()]
    numbers = (type(x) is np.ndarray and x.dtype.kind in "fiub" for _, x in arrays)
    return arrays if all(numbers) else None


@dataclass(eq=False)
class SharedModel:
    """Model prepared once, and shared by all steps that request the same preparation."""

    request: tuple | None
    watched: WatchedModel
    compiled: CompiledModel
    #: Whether the parametrisation of shape parameters was chosen: the search is slow, so made once.
    chosen: bool
    _known: dict[tuple[str, ...], Plan] = field(default_factory=dict)

    @one_thread_of_blas
    def plan_for(
        self,
        target: Target,
        requirements: Requirements,
        model: pm.Model,
        start: np.ndarray,
        given: str | PathLike | Plan | None,
        *,
        moves: EffectMoves = TOGETHER,
    ) -> Plan:
        """Prepare the quantities that a method needs, by full-data evaluations.

        `moves`: how effects are sampled; SettingError if that is required and impossible. `given`:
        file of a prepared step, or plan on the first of these rows.
        """
        key = self._key_of(target, moves)
        found = self._known.get(key) if given is None else _taken_over(given, target, model, start)
        other_moves = given is None and found is not None and found.objection_to(moves)
        if found is None or other_moves:
            found = _prepare_plan(target, requirements, model, start, moves)
            if given is None:
                # Keep the centre for other methods, even if no bounds can be derived.
                self._known = {key: found}
        if given is not None and (objection := found.objection_to(moves)):
            raise SettingError(
                "prepared= is from a step that updates the effects in "
                f"{target.factorization.terms[0].name!r} {objection}."
            )
        found = found.for_step(target, requirements)
        if requirements.given:
            # Custom bounds are not shared with other steps.
            return found.without_unasked().completed()
        found = found.completed()
        if requirements.derives_bounds and found.bounds is not None and not found.bounds.verified:
            names = term_names(target.factorization)
            tell_of_unverified_bounds(names, "the bounds of prepared")
        if given is None:
            # Arrays can be large, so a plan of another order or temperature is dropped.
            self._known = {key: found}
        return found.without_unasked()

    def _key_of(self, target: Target, moves: EffectMoves) -> tuple[str, ...]:
        """Key of the plan for a target and for a way to sample effects."""
        key = (*key_of_reference(target).values(), *map(str, moves))
        if moves.integrated == "never":
            return key
        # Methods that differ in whether effects may move one at a time share groups.
        shared = (k for k, plan in self._known.items() if plan.integrated and k[:-2] == key[:-2])
        return next(shared, key)


def _taken_over(
    given: str | PathLike | Plan, target: Target, model: pm.Model, start: np.ndarray
) -> Plan | None:
    if isinstance(given, Plan):
        return given.extended(target, start)
    target.require_finite(start)
    return read(given, target, model)


def _expand_around_mode(target: Target, model: pm.Model, start: np.ndarray) -> Plan:
    # Some rows suffice here: the search begins with few, and chains check all rows at their start.
    target.require_finite(start, START_ROWS)
    rng = np.random.default_rng(PREPARATION_SEED)
    try:
        reference, marginal = target.expand(start, rng)
    except ModeError as error:
        # Raise a more specific error if data change between reads, or a row has zero density.
        require_same_again(target)
        target.require_finite(start)
        # Products of parameters that remain in the likelihood are a likely cause.
        products = [f"{name!r} {reason}." for name, reason in target.factorization.refused]
        if not products:
            raise
        raise ModeError(" ".join([str(error), *products])) from error
    if target.chooses_order:
        target, reference = _in_best_order(target, reference)
    found = _of_equal_sums(DensePlan(target, Requirements(), reference, marginal=marginal))
    try:
        target.check(model, lambda: found.gaussian_draw(rng, 1.0))
    except FactorizationError:
        require_same_again(target)
        raise
    return found


def _of_equal_sums(plan: DensePlan) -> DensePlan:
    """Plan with expansions of rows that add up to the whole one, of order 1 if slopes jump."""
    target, rng = plan.target, np.random.default_rng(PREPARATION_SEED)
    try:
        target.require_equal_sums(plan.reference, lambda: plan.gaussian_draw(rng, 1.0))
    except UnsupportedModelError as error:
        if not target.chooses_order:
            raise
        _log.info("Control variates are of order 1: %s", error)
        hessian = np.zeros_like(plan.reference.hessian)
        reference = plan.reference._replace(order=1, hessian=hessian)
        plan = replace(plan, target=target.at_order(1), reference=reference)
        plan.target.require_equal_sums(reference, lambda: plan.gaussian_draw(rng, 1.0))
    return plan


def forecast_of_few(target: Target, start: np.ndarray) -> float:
    """Rows that an update evaluates, from the bounds of a few, before rows are compiled; else 0.

    BoundsError if very many of these have no bound. Short functions are compiled in seconds, and
    logarithms of shapes may be replaced by coordinates in which rows have bounds.
    """
    functions, parts = functions_of(target), target.factorization
    ruled_out = target.covariance is not None or target.taylor_order == 0 or parts.boundary
    if ruled_out or shape_variables(parts) or not target.source.in_memory:
        return 0.0
    if any(function.states for function in functions) or n_slopes(target) < WORTH_A_TRIAL:
        return 0.0
    reference = reference_of_few(target, start)
    return 0.0 if reference is None else bounds_pass_of(target, reference).rows_in_trial()


def _in_best_order(target: Target, reference: Reference) -> tuple[Target, Reference]:
    """Control variates of order 3 instead of 2, if a forecast of many candidates falls by that."""
    functions, size = target.row_functions, target.factorization.size
    few = target.source.in_memory and has_few_coefficients(functions)
    if not few or objection_to_third_order(functions, size):
        return target, reference
    functions, support = functions_of(target), support_of(target)
    try:
        passes = [BoundsPass(functions, reference._replace(order=k), support) for k in (2, 3)]
        second, third = (bounds.forecast() for bounds in passes)
    except BoundsError:
        return target, reference
    if not (WORTH_THIRD_ORDER <= second < np.inf and third < MAX_SHARE_AT_THIRD_ORDER * second):
        return target, reference
    target = target.at_order(3)
    return target, with_cubic_terms(reference._replace(order=3), target.full_data)


def _prepare_plan(
    target: Target,
    requirements: Requirements,
    model: pm.Model,
    start: np.ndarray,
    moves: EffectMoves,
) -> Plan:
    """Plan of a model, with effects sampled in one of the requested ways if possible."""
    size = target.factorization.size
    if target.taylor_order > 0 and size > MAX_SIZE and has_kinks_between_lines(target):
        # No centre has curvature, neither of all coordinates nor of effects alone.
        effects = dict.fromkeys(map(target.factorization.name_at, sorted(target.indexed)))
        names = ", ".join([term_names(target.factorization), *map(repr, effects)])
        raise too_many_coordinates(names, size)
    why_apart, slower = "as blocks=True asks for", None
    if moves.integrated != "never":
        try:
            return integrated_plan(target, requirements, model, start, moves)
        except (NotSeparableError, BoundsError, ModeError) as error:
            if moves.integrated == "always":
                raise SettingError(
                    f"blocks='groups' integrates effects out, but {str(error).rstrip('.')}. Leave "
                    "it out."
                ) from error
            why_apart = f"not integrated out, because {str(error).rstrip('.')}"
            slower = error.plan if isinstance(error, SlowerError) else None
            _log.info("Group effects are %s.", why_apart)
    if moves.by_elements == "never":
        return _expand_around_mode(target, model, start)
    try:
        return replace(_by_elements(target, requirements, model, start), reason=why_apart)
    except NotSeparableError as error:
        reason: Exception = error
        if moves.by_elements == "always":
            raise SettingError(
                "blocks=True needs effects that are independent given all other parameters, but "
                f"{reason}. Leave it out."
            ) from reason
    except (ModeError, BoundsError) as error:
        reason = error
        if moves.by_elements == "always":
            raise
    _log.info("Group effects are not updated one at a time, because %s.", str(reason).rstrip("."))
    return slower or _all_together(target, model, start, reason)


def _all_together(target: Target, model: pm.Model, start: np.ndarray, reason: Exception) -> Plan:
    """Plan of all coordinates, whose effects cannot move one at a time for a reason."""
    size = target.factorization.size
    if size > MAX_TOGETHER and isinstance(reason, ModeError | BoundsError):
        raise reason
    try:
        return _expand_around_mode(target, model, start)
    except ModeError as error:
        if isinstance(reason, NotSeparableError):
            raise
        cause = str(reason).rstrip(".")
        raise ModeError(
            f"{error} Group effects cannot be updated one at a time either: {cause}."
        ) from error


def _by_elements(
    target: Target, requirements: Requirements, model: pm.Model, start: np.ndarray
) -> ArrowPlan:
    """Plan with effects accepted one at a time; NotSeparableError if the model rules it out."""
    _ = target.elements
    target.require_finite(start, START_ROWS)
    found = find_grouped(target, start)
    rng = np.random.default_rng(PREPARATION_SEED)
    target.check(model, lambda: found.draw(rng, 1.0))
    return ArrowPlan.with_bounds(target, requirements, found)


#: Last preparation of every model that is still in use.
_known: WeakKeyDictionary[pm.Model, SharedModel] = WeakKeyDictionary()


def read_model(
    model: pm.Model,
    vars: Sequence[Variable],
    point: dict[str, np.ndarray],
    settings: ReadingSettings,
    requirements: Requirements,
    *,
    linear: bool = True,
    try_bounds: Callable[["SharedModel"], None] | None = None,
) -> SharedModel:
    """Read a model for a step that updates `vars`, starting at `point`, or reuse an equal request.

    `linear` allows coordinates in which observations are linear. `try_bounds` raises BoundsError
    before a new model is compiled.

    UnsupportedModelError if rows cannot be proven to be independent given the parameters;
    BoundsError if their graph has no bounds as a method requires; SettingError if settings do not
    fit the model.
    """
    request, found = _preparation_request(model, vars, point, settings, linear), _known.get(model)
    same = found is not None and request is not None and found.request == request
    if found is None or not same or not found.watched.is_unchanged:
        found = _read_shared_model(request, model, vars, point, settings, linear)
    if request is not None:
        # Keep the model even if this method does not support it: another one may use it.
        _known[model] = found
    require_possible(found.compiled, requirements)
    if not found.chosen:
        if try_bounds is not None:
            try_bounds(found)
        found.compiled, found.chosen = choose_parametrization(found.compiled, point), True
    return found


def _read_shared_model(
    request: tuple | None,
    model: pm.Model,
    vars: Sequence[Variable],
    point: dict[str, np.ndarray],
    settings: ReadingSettings,
    linear: bool,
) -> SharedModel:
    parts = factorize(
        model,
        vars,
        settings.observed,
        weights=settings.weights,
        observation_dims=settings.observation_dims,
        initial_point=point,
    )
    if linear:
        parts = in_linear_coordinates(in_differences(parts))
    compiled = CompiledModel(parts, settings.compile_kwargs)
    watched = WatchedModel(model, parts.arrays, term_weights(parts.terms))
    return SharedModel(request, watched, compiled, chosen=not linear)
