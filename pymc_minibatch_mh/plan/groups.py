"""Plan whose observations are groups: the effects of small groups are integrated out.

A stored draw has exact draws of all effects given the position, which are independent of earlier
ones. They are a function of the position and of the draw's number in its chain, so that the same
draw always has the same effects, and repetitions of a position have effects of their own.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any, Self, final

import numpy as np
import pymc as pm

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED
from pymc_minibatch_mh.bounds.effect_bounds import (
    EffectBounds,
    bounds_around,
    is_log_concave,
    require_drawable,
)
from pymc_minibatch_mh.bounds.effect_tangents import EffectTangents, tangents_around
from pymc_minibatch_mh.bounds.effects import draw_effects, effect_values, generator_for
from pymc_minibatch_mh.compiled.group_rows import GroupLayout, Nodes
from pymc_minibatch_mh.compiled.hessian_differences import count_operations
from pymc_minibatch_mh.compiled.integrated_model import IntegratedModel
from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.model.factorization import WholeDraws
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.plan.append import require_same_rows
from pymc_minibatch_mh.plan.bound_sources import NodeBounds, functions_of
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.group_forecast import (
    forecast_groups,
    seconds_one_at_a_time,
    share_along_scale,
)
from pymc_minibatch_mh.plan.plan import EffectMoves, Requirements
from pymc_minibatch_mh.reference.effect_nodes import (
    FIRST_COUNT,
    EffectMoments,
    first_moments,
    first_nodes,
)
from pymc_minibatch_mh.reference.node_rule import (
    GroupTarget,
    NarrowEffectsError,
    NodeChoice,
    effect_moments,
    exact_values,
    placed_at,
    with_placed_nodes,
)
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.integrated import with_loadings, without_effects
from pymc_minibatch_mh.structure.loadings import loadings_of
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.row_function import RowFunction
from pymc_minibatch_mh.structure.small_groups import SmallGroups, find_small_groups

_log = logging.getLogger("pymc")

#: Maximum mean size of a row's group, beyond which effects that are accepted one at a time are
#: faster in all models; maximum number of other parameters, beyond which bounds take too long.
MAX_ROWS_IN_GROUP, MAX_OTHERS = 200.0, 60
#: Maximum number of operations on intervals for the bounds of groups, if those of a row at a node
#: are more than `MANY_FOR_A_ROW`.
MAX_INTERVAL_OPERATIONS, MANY_FOR_A_ROW = 1e10, 10_000
#: Minimum standard deviation of a scale, relative to it, at which its square may be the coordinate;
#: effective draws of an update below which a coordinate is not chosen if the other one has more.
UNCERTAIN, MIN_SHARE = 0.05, 0.1
#: Relative standard deviation of a factor of effects from which its logarithm is the coordinate:
#: the posterior is skewed, and bounds are too wide to save much.
UNCERTAIN_FACTOR = 0.07
#: Factor by which both forecasts together may be wrong: in doubt, effects are integrated out,
#: as their stored draws are then independent.
ERROR_OF_FORECASTS = 10.0


@final
@dataclass(frozen=True, eq=False)
class GroupsPlan(DensePlan):
    """Plan of all parameters but the effects of small groups, which are integrated out.

    `complete` is the posterior of all parameters; `choice` has the number of nodes and their error.
    """

    target: GroupTarget
    complete: Target = None  # type: ignore[assignment]
    choice: NodeChoice = None  # type: ignore[assignment]

    @property
    def described(self) -> Target:
        """Posterior of all variables, effects included."""
        return self.complete

    @property
    def integrated(self) -> str:
        """Effects that are integrated out, and their nodes, in words."""
        groups = self.groups
        rows, large = groups.counts[:, groups.small].sum() / groups.n_groups, groups.large.size
        return (
            f"{groups.n_groups:,} effects {groups.name!r} of {rows:.3g} rows each "
            f"integrated out by {self.choice.n_nodes} nodes (error {self.choice.error:.1g})"
            + f", all but those of {large} larger groups"
            * bool(large)
        )

    @property
    def skew_map(self) -> None:
        """None: the other parameters are nearly normal, and sweeps would evaluate all nodes."""
        return

    def describe_centre(self) -> str:
        """Where the centre is, in words."""
        return f"near the mode of the density with {self.integrated}"

    units = "groups"

    def for_step(self, target: Target, requirements: Requirements) -> Self:
        """The same plan for the requirements of a step; `target` has all parameters."""
        return replace(self, complete=target, requirements=_requirements_of_groups(requirements))

    def objection_to(self, moves: EffectMoves) -> str:
        """Error text for a step that does not integrate effects out, unlike this plan; else ""."""
        if moves.integrated == "never":
            return "by integrating them out, but this one does not. Leave blocks= out"
        return ""

    @classmethod
    def of_model(
        cls, target: Target, model: pm.Model | None, stored: dict[str, np.ndarray]
    ) -> Self:
        """Plan read from the arrays of a file, for the posterior of all parameters."""
        assert model is not None
        groups = find_small_groups(
            model, target.factorization, functions_of(target), target.elements
        )
        groups = replace(groups, small=stored["small"], in_logs=bool(stored["in_logs"]))
        nodes = Nodes(stored["nodes"], stored["log_weights"])
        marginal = _group_target(target, groups, nodes, stored["roots"].tolist())
        choice = NodeChoice(int(stored["n_nodes"]), float(stored["error"]))
        return replace(cls.from_arrays(marginal, stored), complete=target, choice=choice)

    def stored_arrays(self) -> dict[str, np.ndarray]:
        """Arrays to write to a file, by name, with the nodes of all groups."""
        roots = np.array([scale.root for scale in self.target.compiled.layout.scales])
        nodes = dict(zip(("nodes", "log_weights"), self.target.group_rows.nodes, strict=True))
        choice = {name: np.array(value) for name, value in self.choice._asdict().items()}
        small = self.groups.small
        further = {"roots": roots, "small": small, "in_logs": np.array(self.groups.in_logs)}
        return {**super().stored_arrays(), **nodes, **choice, **further}

    def extended(self, target: Target, start: np.ndarray) -> Self | None:
        """The same plan if no rows were appended; else None, and everything is prepared anew."""
        require_same_rows(self.complete, target, start)
        if target.source.n_rows == self.complete.source.n_rows:
            return replace(self, complete=target)
        _log.info(
            "Cannot extend prepared=, because effects %r are integrated out, and appended rows "
            "change the groups that are its observations. Evaluating all observations instead.",
            self.groups.name,
        )
        return None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without bounds that another process computes when it needs them."""
        computed = "effect_bounds", "_large_groups"
        return {k: v for k, v in super().__getstate__().items() if k not in computed}

    @cached_property
    def effect_bounds(self) -> EffectBounds | EffectTangents | None:
        """Bounds of effects' densities around the centre; None if draws need none."""
        around = self.target, self.reference
        return tangents_around(*around) or bounds_around(*around)

    @cached_property
    def _large_groups(self) -> tuple[GroupTarget, EffectMoments]:
        """Large groups with their effects integrated out, and moments of these at the centre."""
        levels = np.arange(self.groups.counts.shape[1])
        groups = replace(self.groups, small=levels)
        roots = [scale.root for scale in self.target.compiled.layout.scales]
        everything = _group_target(self.complete, groups, first_nodes(groups), roots)
        target = everything.of_groups(self.groups.large)
        before = first_moments(groups, target.source.n_rows)
        position = self._without_effects(target, self.reference.centre)
        return target, placed_at(target, position, before)[1]

    def _without_effects(self, target: GroupTarget, position: np.ndarray) -> np.ndarray:
        """The same parameters in the coordinates of a target without all effects."""
        return target.factorization.ravel(self.target.factorization.unravel(position, {}))

    def values_at(self, position: np.ndarray) -> np.ndarray:
        """Log-likelihood of each group of the model, with its effects integrated out."""
        groups, values = self.groups, np.empty(self.groups.counts.shape[1])
        values[groups.small] = self.target.full_data.values(position, np.arange(groups.n_groups))
        if groups.large.size:
            target, moments = self._large_groups
            there = self._without_effects(target, position)
            values[groups.large] = exact_values(target, moments, there)
        return values

    @cached_property
    def seconds_of_effects(self) -> float:
        """Time to draw all effects for one stored draw."""
        # All draws share the bounds.
        _ = self.effect_bounds
        began = time.perf_counter()
        self.unravel(self.reference.centre, {})
        return time.perf_counter() - began

    @property
    def seconds_of_row(self) -> float:
        """Cost of a group that is drawn at random, in seconds."""
        return costs.NODE * self.target.group_rows.evaluations

    @property
    def groups(self) -> SmallGroups:
        """Groups whose effects are integrated out."""
        return self.target.compiled.layout.groups

    def unravel(
        self, position: np.ndarray, point: Mapping[str, np.ndarray], number: int = 0
    ) -> dict:
        """Copy of `point` with the variables of a position, and an exact draw of the effects."""
        moved = self.target.factorization.unravel(position, point)
        return moved | self._effects_by_name(position[None], [number], ())

    def whole_draws(
        self, positions: np.ndarray, first: int = 0, chosen: Sequence[int] | None = None
    ) -> WholeDraws:
        """All variables at draws, with exact draws of the effects, or of some groups' effects."""
        everything, lines = self.complete.factorization, positions.reshape(-1, positions.shape[-1])
        n_chains, n_draws = positions.shape[:2]
        numbers = [*range(first, first + n_draws)] * n_chains
        by_name = self.target.factorization.split_by_name(self.own_draws(lines.copy()).values)
        by_name |= self._effects_by_name(lines, numbers, (len(lines),), chosen)
        values = [by_name[block.name].reshape(len(lines), -1) for block in everything.blocks]
        together = np.concatenate(values, axis=1)
        return WholeDraws(everything, together.reshape(*positions.shape[:2], -1))

    def _effects_by_name(
        self,
        positions: np.ndarray,
        numbers: Sequence[int],
        shape: tuple[int, ...],
        chosen: Sequence[int] | None = None,
    ) -> dict[str, np.ndarray]:
        """Effects' value variables at draws, with the leading axes `shape`."""
        if chosen is not None:
            chosen = np.flatnonzero(np.isin(self.groups.small, chosen)).tolist()
        rngs = [generator_for(x, n) for x, n in zip(positions, numbers, strict=True)]
        z = draw_effects(self.target, positions, rngs, self.effect_bounds, chosen)
        values = effect_values(self.target, positions, z)
        return {name: value.reshape(*shape, *value.shape[1:]) for name, value in values.items()}


def _requirements_of_groups(requirements: Requirements) -> Requirements:
    """Requirements with the bounds of groups in the place of those of rows."""
    if not requirements.derives_bounds:
        return requirements
    return replace(requirements, bounds=NodeBounds(), precondition=None)


def integrated_plan(
    target: Target, requirements: Requirements, model: pm.Model, start: np.ndarray, how: EffectMoves
) -> GroupsPlan:
    """Plan with effects integrated out; NotSeparableError if that is impossible.

    SlowerError, with the plan, if it is forecast to be slower than effects one at a time.
    """
    functions, factorization = functions_of(target), target.factorization
    groups = find_small_groups(model, factorization, functions, target.elements)
    if how.integrated != "always":
        _require_small(groups, factorization.size)
        _require_short(groups, functions)
    rng = np.random.default_rng(PREPARATION_SEED)
    marginal, near, choice = _at_nodes(target, groups, factorization.unravel(start, {}), rng)
    reference, _ = marginal.expand(near, rng)
    marginal, reference = _in_best_coordinate(target, marginal, reference, rng)
    groups = marginal.compiled.layout.groups
    moments = effect_moments(marginal.group_rows, reference.centre)
    needs = _requirements_of_groups(requirements)
    plan = GroupsPlan(marginal, needs, reference, complete=target, choice=choice)
    if not is_log_concave(marginal):
        # A first draw shows whether the effects can be drawn at all.
        plan.unravel(reference.centre, {})

    def draw() -> np.ndarray:
        position = marginal.factorization.in_support(plan.gaussian_draw(rng, 1.0))
        point = marginal.factorization.unravel(position, {})
        mean, factor = moments.some(np.arange(groups.n_groups))
        normal = rng.standard_normal(mean.shape)
        z = mean + (factor @ normal[:, :, None])[:, :, 0]
        values = effect_values(marginal, position[None], z[None])
        return factorization.ravel(point | {name: value[0] for name, value in values.items()})

    target.check(model, draw)
    return _with_reason(plan, moments, how)


def _at_nodes(
    target: Target, groups: SmallGroups, start: Mapping[str, np.ndarray], rng: np.random.Generator
) -> tuple[GroupTarget, np.ndarray, NodeChoice]:
    """Target with frozen nodes, its mode, and the choice.

    A few groups whose effects no nodes fit keep them as parameters.
    """
    marginal = _group_target(target, groups, first_nodes(groups), [1] * len(groups.scales))
    # Before nodes are placed, which takes long for many rows.
    require_drawable(marginal)
    try:
        return with_placed_nodes(marginal, marginal.factorization.ravel(start), rng)
    except NarrowEffectsError as error:
        if error.groups.size > groups.room:
            raise
        return _at_nodes(target, groups.without_groups(error.groups), start, rng)


def _group_target(
    target: Target, groups: SmallGroups, nodes: Nodes, roots: Sequence[int]
) -> GroupTarget:
    """Posterior of all parameters but the effects, with their scales to powers."""
    factorization = target.factorization
    reduced = without_effects(factorization, groups, roots)
    functions, options = functions_of(target), target.compiled.compile_kwargs
    if (loadings := loadings_of(factorization, functions, groups)) is not None:
        reduced = with_loadings(reduced, loadings, groups.without(factorization.size))
        functions = list(loadings.functions)
    layout = GroupLayout.from_functions(functions, groups, factorization.size, roots)
    marginal = GroupTarget(IntegratedModel(reduced, layout, nodes, options))
    # The prior may depend on variables of other steps.
    marginal.source.others[:] = target.source.others
    return marginal


def _in_best_coordinate(
    target: Target, marginal: GroupTarget, reference: Reference, rng: np.random.Generator
) -> tuple[GroupTarget, Reference]:
    """Target and reference in a scale or, if it is forecast to be faster, in its square."""
    scales = marginal.compiled.layout.scales
    if marginal.factorization.boundary and not marginal.compiled.layout.free_scales:
        return _in_logs_if_uncertain(target, marginal, reference, rng)
    if len(scales) > 1 or not scales[0].root:
        return marginal, reference
    scale, sd = scales[0], float(np.linalg.norm(reference.factor[scales[0].coordinate]))
    if not sd > UNCERTAIN * reference.centre[scale.coordinate]:
        return marginal, reference
    layout, begin = marginal.compiled.layout, reference.centre.copy()
    squared = _group_target(target, layout.groups, marginal.group_rows.nodes, [2])
    begin[scale.coordinate] **= 2
    try:
        both = (marginal, reference), (squared, squared.expand(begin, rng)[0])
    except ModeError:
        return marginal, reference
    return both[_is_better_squared(*both)]


def _in_logs_if_uncertain(
    target: Target, marginal: GroupTarget, reference: Reference, rng: np.random.Generator
) -> tuple[GroupTarget, Reference]:
    """Target and reference in the factors of effects, or in their logarithms if some vary much."""
    layout, ends = marginal.compiled.layout, marginal.factorization.boundary
    sd = np.linalg.norm(reference.factor[ends], axis=1)
    if (sd < UNCERTAIN_FACTOR * reference.centre[ends]).all():
        return marginal, reference
    point = marginal.factorization.unravel(reference.centre, {})
    groups = replace(layout.groups, in_logs=True)
    logs = _group_target(target, groups, marginal.group_rows.nodes, [1] * len(layout.scales))
    try:
        return logs, logs.expand(logs.factorization.ravel(point), rng)[0]
    except ModeError:
        return marginal, reference


def _is_better_squared(
    plain: tuple[GroupTarget, Reference], squared: tuple[GroupTarget, Reference]
) -> bool:
    """Whether an effective draw takes less time in the square of a scale."""
    shares = [share_along_scale(*each) for each in (plain, squared)]
    # Few effective draws are those of a chain that has yet to reach a part of the scale.
    if min(shares) < MIN_SHARE:
        return shares[1] > shares[0]
    times = [forecast_groups(*each).seconds_of_draw for each in (plain, squared)]
    return times[1] < times[0]


class SlowerError(NotSeparableError):
    """Effects that can be integrated out, by `plan`, but are faster one at a time."""

    def __init__(self, message: str, plan: GroupsPlan) -> None:
        super().__init__(message)
        self.plan = plan


def _with_reason(plan: GroupsPlan, moments: EffectMoments, how: EffectMoves) -> GroupsPlan:
    """Plan that says why effects are integrated out; SlowerError if one at a time is faster."""
    if how.integrated == "always":
        return replace(plan, reason="integrated out, as blocks='groups' asks for")
    if how.by_elements == "never":
        reason = "integrated out, as this step cannot update effects one at a time"
        return replace(plan, reason=reason)
    if _is_multiplied(plan):
        reason = "integrated out, as the mode in effects and in what multiplies them is not typical"
        return replace(plan, reason=reason)
    here = forecast_groups(plan.target, plan.reference).seconds_of_draw
    rival = seconds_one_at_a_time(plan.target, moments)
    times = f"{format_seconds(here)} to an effective draw of the other parameters, forecast"
    if here > ERROR_OF_FORECASTS * rival:
        raise SlowerError(
            f"{plan.groups.name!r} would then take {times}, and {format_seconds(rival)} with "
            "effects one at a time",
            replace(plan, reason=f"integrated out, as they cannot be updated otherwise: {times}"),
        )
    reason = f"integrated out: {times}, against {format_seconds(rival)} with effects one at a time"
    return replace(plan, reason=reason)


def _is_multiplied(plan: GroupsPlan) -> bool:
    """Whether other parameters multiply the effects in observations, in no removable way."""
    names = {effect.factor.name for effect in plan.groups.effects}
    return not names.isdisjoint(name for name, _ in plan.complete.factorization.refused)


def _require_small(groups: SmallGroups, size: int) -> None:
    """Raise NotSeparableError if a forecast takes too long, as bounds of groups would."""
    counts = groups.counts[:, groups.small].sum(axis=0)
    rows = float((counts.astype(float) ** 2).sum() / max(counts.sum(), 1))
    if rows > MAX_ROWS_IN_GROUP:
        raise NotSeparableError(
            f"{groups.name!r} has {rows:,.0f} rows in the group of a typical row, and "
            f"effects one at a time are faster above {MAX_ROWS_IN_GROUP:.0f}"
        )
    others = size - groups.coordinates.size
    if others > MAX_OTHERS:
        raise NotSeparableError(
            f"there are {others} other parameters, and bounds of groups take too long above "
            f"{MAX_OTHERS}"
        )


def _require_short(groups: SmallGroups, functions: Sequence[RowFunction]) -> None:
    """Raise NotSeparableError if intervals of all derivatives at all nodes take too long."""
    q = len(groups.effects)
    each = [_n_interval_operations(function) for function in functions]
    total = FIRST_COUNT[q] ** q * sum(f.n_rows * n for f, n in zip(functions, each, strict=True))
    if max(each) > MANY_FOR_A_ROW and total > MAX_INTERVAL_OPERATIONS:
        raise NotSeparableError(
            f"rows depend on {max(len(f.arguments) for f in functions)} combinations of the "
            f"parameters, and bounds of groups would take {total:.0e} operations on intervals"
        )


def _n_interval_operations(function: RowFunction) -> int:
    """Number of operations of a row, times that of its derivatives up to the fourth order."""
    return count_operations([function.root]) * comb(len(function.arguments) + 4, 4)


def format_seconds(seconds: float) -> str:
    """Seconds, milliseconds or microseconds to two digits."""
    for unit, length in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{float(f'{seconds / length:.2g}'):,g} {unit}"
    return f"{float(f'{1e6 * seconds:.2g}'):g} µs"
