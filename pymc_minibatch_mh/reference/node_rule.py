"""Nodes of groups: placed where the integrand of each group is, then frozen.

Effects' moments at the mode place them: effect_nodes.py. The nodes stay where they are: the sum is
the same function everywhere.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp

from pymc_minibatch_mh.compiled.group_rows import GroupRows, Nodes
from pymc_minibatch_mh.compiled.integrated_model import IntegratedModel
from pymc_minibatch_mh.reference.density import quadratic_of
from pymc_minibatch_mh.reference.effect_nodes import (
    FIRST_COUNT,
    EffectMoments,
    first_moments,
    product_nodes,
)
from pymc_minibatch_mh.reference.full_data import Derivatives, on_all_cores
from pymc_minibatch_mh.reference.mode import LOOSE_TOLERANCE, whitening_factors
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.scales import find_scales
from pymc_minibatch_mh.structure.small_groups import MOST_LARGE, EffectLaw

#: By the number q of effects, numbers of nodes in each direction: those that are tried, and the
#: number for exact integrals.
COUNTS = {1: (7, 9, 11, 13, 15, 21, 31, 41, 61, 81), 2: (5, 6, 7, 8, 9, 10, 11, 13, 15)}
EXACT_COUNT = {1: 81, 2: 17}
#: Maximum sd over the posterior of the error of the log-likelihood, by q, and the sd beyond which
#: there are no nodes; number of positions for it; number of groups that propose a number; maximum
#: number that decide.
MAX_ERROR, MAX_LAST_ERROR, ERROR_POINTS = {1: 1e-6, 2: 1e-3}, 0.01, 5
#: Share of the last error without the groups whose effects become parameters; its inverse is the
#: multiple of the last error, of all groups, by which some are too narrow.
ENOUGH = 0.1
SOME_GROUPS, ERROR_GROUPS = 1_000, 5_000
#: Maximum number of groups in the first search for the mode; of these, of a first look at errors;
#: number of groups there, and multiple of their mean number, that are not there by chance.
SEARCH_GROUPS, FIRST_GROUPS, SURELY = 2_000, 400, 3.0
#: Maximum number of Newton steps, each at nodes placed anew, and of halvings of a step.
MAX_STEPS, MAX_HALVINGS = 30, 10
#: Maximum number of placements at a position; minimum ratio of standard deviations in a placement,
#: about the distance of nodes; their ratio if the integrand lies beyond the nodes; change of them
#: that ends the placements.
PLACEMENTS, MIN_SHRINKAGE, GROWTH, SETTLED = 12, 0.3, 2.0, 0.02
#: Share of the weight at an end beyond which an integrand lies outside of the nodes.
AT_END = 0.5
#: Total share of nodes that are left out, in all groups together, relative to the maximum error.
LIGHT = 0.01
#: Number of groups in a task.
GROUPS_IN_TASK = 2_048


class NodeChoice(NamedTuple):
    """Number of nodes, and sd over the posterior of the error of the whole log-likelihood."""

    n_nodes: int
    error: float


class NarrowEffectsError(NotSeparableError):
    """No nodes are enough: numbers of the groups, worst first, without which they would be."""

    def __init__(self, message: str, groups: np.ndarray) -> None:
        super().__init__(message)
        self.groups = groups


class GroupTarget(Target):
    """Posterior of all parameters but the effects of small groups, which are integrated out."""

    compiled: IntegratedModel

    @property
    def group_rows(self) -> GroupRows:
        """Groups with their rows, nodes and compiled functions."""
        rows = self.rows
        assert isinstance(rows, GroupRows)
        return rows

    @property
    def evaluations(self) -> float:  # type: ignore[override]
        """Mean number of evaluations for a group: of its rows, at all nodes."""
        return self.group_rows.evaluations

    def require_finite_start(self, position: np.ndarray) -> None:
        """Raise MinibatchError if a start has zero density; stored groups are subsampled."""
        self.require_finite(position, ERROR_GROUPS if self.compiled.layout.is_stored else None)

    def scales(self, start: np.ndarray) -> tuple[int, ...]:
        """Coordinates that are scales near `start`, and that no group depends on."""
        read = set(np.flatnonzero(self.compiled.layout.is_read).tolist())
        return find_scales(self.full_data.prior, read, start)

    def term_and_row(self, row: int) -> tuple[str, int]:
        """Name of the effects, and number of a group."""
        return self.compiled.layout.groups.name, row

    def at_nodes(self, nodes: Nodes) -> "GroupTarget":
        """The same posterior at other nodes."""
        return self._with_model(self.compiled.at_nodes(nodes), self.inverse_temperature)

    def some(self, most: int) -> "GroupTarget":
        """Posterior of at most `most` evenly spaced groups, which stand for all."""
        return self.of_groups(self.spread(most))

    def of_groups(self, numbers: np.ndarray) -> "GroupTarget":
        """Posterior of some groups, which stand for all."""
        ratio = self.compiled.layout.n_groups / numbers.size
        return self._with_model(self.compiled.some(numbers), self.inverse_temperature * ratio)

    def _with_model(self, compiled: IntegratedModel, inverse_temperature: float) -> "GroupTarget":
        order, covariance = self.taylor_order, self.covariance
        other = GroupTarget(compiled, order, inverse_temperature, covariance=covariance)
        other.source.others[:] = self.source.others
        return other


def values_at_nodes(
    rows: GroupRows, theta: np.ndarray, groups: np.ndarray | None = None
) -> np.ndarray:
    """Values F_q of some groups, by default of all, shape (groups, nodes)."""
    numbers = np.arange(rows.layout.n_groups) if groups is None else groups
    tasks = np.array_split(numbers, max(1, numbers.size // GROUPS_IN_TASK))
    return np.concatenate(list(on_all_cores(lambda task: rows.values_at(theta, task), tasks)))


def _on_tasks(rows: GroupRows, work: Callable[[GroupRows, slice], Any]) -> list[Any]:
    """Results of calls with the rows of some groups at a time, in memory, and their range.

    Arrays for all nodes of all groups may not fit into memory.
    """
    n_groups = rows.layout.n_groups
    starts = range(0, n_groups, GROUPS_IN_TASK)

    def compute(first: int) -> Any:
        some = slice(first, min(first + GROUPS_IN_TASK, n_groups))
        return work(rows.some(np.arange(some.start, some.stop)), some)

    return list(on_all_cores(compute, starts))


def effect_moments(rows: GroupRows, theta: np.ndarray) -> EffectMoments:
    """Moments of each group's effects z given the position."""
    parts = _on_tasks(
        rows, lambda part, _: _moments_of(_shares_of_nodes(part, theta), part.nodes.z)
    )
    return EffectMoments(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def _shares_of_nodes(rows: GroupRows, theta: np.ndarray) -> np.ndarray:
    """Share of each node in its group's likelihood, shape (groups, nodes), for rows in memory."""
    values = rows.values_at(theta, np.arange(rows.layout.n_groups))
    # A group that is impossible has no shares.
    with np.errstate(invalid="ignore"):
        return np.exp(values - logsumexp(values, axis=1, keepdims=True))


def _moments_of(shares: np.ndarray, z: np.ndarray) -> EffectMoments:
    mean = (shares[:, None] * z).sum(axis=2)
    centred = z - mean[:, :, None]
    products = centred[:, :, None] * centred[:, None]
    return EffectMoments(mean, _factor_of((shares[:, None, None] * products).sum(axis=3)))


def _factor_of(covariance: np.ndarray) -> np.ndarray:
    """Lower triangular factors of covariances, which may be singular, shape (groups, q, q)."""
    factor = np.zeros(covariance.shape)
    for k in range(covariance.shape[1]):
        left = covariance[:, k:, k] - (factor[:, k:, :k] @ factor[:, k, :k, None])[:, :, 0]
        pivot = np.sqrt(np.maximum(left[:, :1], 0.0))
        factor[:, k:, k] = np.divide(left, pivot, where=pivot > 0.0, out=np.zeros_like(left))
        factor[:, k, k] = pivot[:, 0]
    return factor


def placed_at(
    target: GroupTarget, position: np.ndarray, before: EffectMoments
) -> tuple[GroupTarget, EffectMoments]:
    """Target with nodes for the effects at a position, and moments; `before`, of the nodes now."""
    law, moments = target.compiled.layout.groups.law, EffectMoments(*map(np.empty_like, before))
    n_groups, q = before.mean.shape
    count = FIRST_COUNT[q] ** q
    nodes = Nodes(np.empty((n_groups, q, count)), np.empty((n_groups, count)))

    def place_some(part: GroupRows, some: slice) -> None:
        placed = _placed(part, law, position, before.some(some))
        for to, values in zip((*nodes, *moments), (*placed[0], *placed[1]), strict=True):
            to[some] = values

    _on_tasks(target.group_rows, place_some)
    return target.at_nodes(nodes), moments


def _placed(
    rows: GroupRows, law: EffectLaw, position: np.ndarray, before: EffectMoments
) -> tuple[Nodes, EffectMoments]:
    """Nodes for the effects of rows in memory at a position, and moments."""
    moments = EffectMoments(*(x.copy() for x in before))
    nodes, moving = rows.nodes, np.arange(len(moments.mean))
    for _ in range(PLACEMENTS):
        shares = _shares_of_nodes(rows, position)
        last = moments.some(moving)
        new = _widened(law, _moments_of(shares, nodes.z[moving]), last, shares)
        moments.mean[moving], moments.factor[moving] = new
        placed = new.nodes(law, FIRST_COUNT[new.mean.shape[1]])
        if moving.size < len(moments.mean):
            nodes.z[moving], nodes.log_weights[moving] = placed
        else:
            nodes = placed
        change = np.abs(np.linalg.solve(last.factor, new.factor) - np.eye(new.mean.shape[1]))
        left = np.flatnonzero(~(change.max(axis=(1, 2)) < SETTLED))
        if not left.size:
            break
        moving, rows = moving[left], rows.at_nodes(placed).some(left)
    return nodes, moments


def _widened(
    law: EffectLaw, moments: EffectMoments, before: EffectMoments, shares: np.ndarray
) -> EffectMoments:
    """Moments whose factors are in no direction much below those of the nodes.

    Between two nodes an effect that is narrower than their distance has no visible width.
    """
    q = moments.mean.shape[1]
    turns, ratios, _ = np.linalg.svd(np.linalg.solve(before.factor, moments.factor))
    floors = before.factor @ turns * np.maximum(ratios, MIN_SHRINKAGE)[:, None]
    narrow = (ratios < MIN_SHRINKAGE).any(axis=1)[:, None, None]
    factor = np.where(narrow, _factor_of(floors @ floors.swapaxes(1, 2)), moments.factor)
    x, _ = product_nodes(law, round(shares.shape[1] ** (1.0 / q)), q)
    ends = np.concatenate([x == x.min(), x == x.max()])
    at_end = (shares @ ends.T > AT_END).any(axis=1)[:, None, None]
    return EffectMoments(moments.mean, np.where(at_end, GROWTH * before.factor, factor))


def with_placed_nodes(
    target: GroupTarget, start: np.ndarray, rng: np.random.Generator
) -> tuple[GroupTarget, np.ndarray, NodeChoice]:
    """Target with frozen nodes for the posterior near a start, its mode, and the choice.

    NarrowEffectsError if no nodes are enough.
    """
    groups = target.compiled.layout.groups
    few = target.some(SEARCH_GROUPS)
    position, moments = start, first_moments(groups, few.source.n_rows)
    # Nodes of effects that are far off would mislead the search for the mode.
    if np.isfinite(few.log_likelihood(position)):
        few, moments = placed_at(few, position, moments)
    position = few.mode(position, rng, LOOSE_TOLERANCE).position
    position, few, moments, precision = _climb(few, position, moments)
    if few.source.n_rows < target.source.n_rows:
        _require_fit(target, few, position, moments, precision)
        position, target, moments, precision = _climb(target, position, first_moments(groups))
    else:
        target = target.at_nodes(few.group_rows.nodes)
    factor = _factor_at(target, position, precision, rng)
    points = _ErrorPoints.near(position, factor, target, rng)
    movements = _movements(target, moments, position, factor)
    errors = _NodeErrors(target, moments, points, movements)
    nodes, choice = _choose_nodes(target, moments, errors, movements)
    return target.at_nodes(nodes), position, choice


def _require_fit(
    target: GroupTarget,
    few: GroupTarget,
    position: np.ndarray,
    moments: EffectMoments,
    precision: np.ndarray,
) -> None:
    """NotSeparableError if more of few groups are too narrow for nodes than may be parameters."""
    some, rng = few.spread(FIRST_GROUPS), np.random.default_rng(few.source.n_rows)
    sample, effects, law = few.of_groups(some), moments.some(some), few.compiled.layout.groups.law
    factor = _factor_at(few, position, precision, rng)
    points = _ErrorPoints.near(position, factor, few, rng)
    movements = _movements(few, moments, position, factor)[some]
    errors = _NodeErrors(sample, effects, points, movements)
    count, ratio = COUNTS[effects.mean.shape[1]][-1], target.source.n_rows / some.size
    nodes, aliasing = effects.wide_nodes(law, count, movements), effects.aliasing(count, movements)
    worst = errors.worst(nodes, aliasing, MAX_LAST_ERROR / max(1.0, ENOUGH * ratio))
    # As many as would be there by chance, if no more of all groups were too narrow.
    if worst.size > SURELY + SURELY * MOST_LARGE / ratio:
        choice = NodeChoice(nodes.log_weights.shape[1], ratio * errors.sd(nodes))
        group = int(target.spread(SEARCH_GROUPS)[some[worst[0]]])
        raise NotSeparableError(_reason_of(target, choice, group))


def _reason_of(target: GroupTarget, choice: NodeChoice, group: int) -> str:
    """Why no nodes are enough, with the group whose effects they miss most."""
    return (
        f"{target.compiled.layout.groups.name!r} has effects that are too narrow or too wide for "
        f"{choice.n_nodes} nodes, most of all in group {group}: their log-likelihood has an "
        f"error of {choice.error:.2g}. blocks=True accepts effects one at a time"
    )


def _factor_at(
    target: GroupTarget, position: np.ndarray, precision: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Factor of the covariance at a mode; of a mode nearby if the precision there is none."""
    if np.linalg.eigvalsh(precision)[0] <= 0.0:
        precision = target.mode(position, rng, LOOSE_TOLERANCE).precision
    return whitening_factors(precision)[1]


def _climb(
    target: GroupTarget, position: np.ndarray, moments: EffectMoments
) -> tuple[np.ndarray, GroupTarget, EffectMoments, np.ndarray]:
    """Newton steps to the mode, nodes there with their moments, and the precision.

    The derivatives at nodes that are placed at a position are exact, but further away than the
    width of narrow effects values are not: nodes are placed anew after each step.
    """
    ends = target.factorization.boundary
    target, moments = placed_at(target, position, moments)
    density = _density_at(target, position)
    for _ in range(MAX_STEPS):
        step = quadratic_of(density.hessian).step(density.gradient)
        if step @ density.gradient < LOOSE_TOLERANCE**2:
            break
        for _ in range(MAX_HALVINGS):
            tried = position + step
            if (tried[ends] > 0.5 * position[ends]).all():
                there = placed_at(target, tried, moments)
                higher = _density_at(there[0], tried)
                if higher.value > density.value:
                    position, density, (target, moments) = tried, higher, there
                    break
            step = 0.5 * step
        else:
            break
    return position, target, moments, -density.hessian


def _density_at(target: GroupTarget, position: np.ndarray) -> Derivatives:
    density = target.density_of(target.full_data)
    return density.at(position, hessian=True).total


class _ErrorPoints(NamedTuple):
    """Positions with weights, shapes (scales, n, d) and (n,), for averages over the posterior.

    Errors grow by exponentials of a scale: along it, positions are Gauss-Hermite nodes. If all
    scales are constant, they are along a random direction.
    """

    positions: np.ndarray
    weights: np.ndarray

    @classmethod
    def near(
        cls, mode: np.ndarray, factor: np.ndarray, target: GroupTarget, rng: np.random.Generator
    ) -> Self:
        """Positions of the normal approximation at a mode, by a factor of its covariance."""
        (x, weights), positions = hermegauss(ERROR_POINTS), []
        lines = [factor[scale.coordinate] for scale in target.compiled.layout.free_scales]
        for line in lines or [rng.standard_normal(mode.size)]:
            line = line / np.linalg.norm(line)
            w = rng.standard_normal((ERROR_POINTS, line.size))
            w += np.outer(x - w @ line, line)
            positions.append(target.factorization.in_support(mode + w @ factor.T))
        return cls(np.array(positions), weights / weights.sum())

    def sd_of(self, numbers: np.ndarray) -> float:
        """Largest sd of numbers at the positions along a scale; NaN if one is not finite."""
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return float(max(np.sqrt(self.weights @ (x - self.weights @ x) ** 2) for x in numbers))


def _movements(
    target: GroupTarget, moments: EffectMoments, mode: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Standard deviations over the posterior of the means of effects z, shape (groups,).

    Rows determine α = μ + τ z of a narrow effect, so z moves with μ and τ.
    """
    layout = target.compiled.layout
    if moments.mean.shape[1] > 1 or len(layout.scales) != 1:
        return np.zeros(len(moments.mean))
    (scale,), turns = layout.scales, layout.location @ factor
    if scale.root:
        turns = turns + scale.spread * moments.mean * factor[scale.coordinate]
    informed = np.maximum(1.0 - moments.factor[:, 0, 0] ** 2, 0.0)
    return informed * np.linalg.norm(turns, axis=1) / scale.value_at(mode)


class _NodeErrors:
    """Errors of nodes against nodes placed at each position, of some groups that stand for all.

    Errors of the groups that move most count once, and those of others for as many as they are.
    """

    def __init__(
        self,
        target: GroupTarget,
        moments: EffectMoments,
        points: _ErrorPoints,
        movements: np.ndarray,
    ) -> None:
        hard = moments.moving_most(movements)
        #: Numbers of the groups.
        self.numbers = np.union1d(target.spread(ERROR_GROUPS), hard)
        is_hard = np.isin(self.numbers, hard)
        others = (movements.size - hard.size) / max(int((~is_hard).sum()), 1)
        self._shares, self.points = np.where(is_hard, 1.0, others), points
        self.moments, self.movements = moments.some(self.numbers), movements[self.numbers]
        self._sample = target.of_groups(self.numbers)
        self._exact = _at_points(points, lambda x: exact_values(self._sample, self.moments, x))

    def differences(self, nodes: Nodes, every: int = 1) -> np.ndarray:
        """Errors at all positions of every k-th group, shape (scales, n, groups)."""
        some = self._sample.group_rows.at_nodes(nodes)
        some = some.some(np.arange(0, self.numbers.size, every))
        values = _at_points(self.points, lambda x: _log_sums(some, x))
        with np.errstate(invalid="ignore"):
            return (values - self._exact[..., ::every]) * self._shares[::every]

    def sd(self, nodes: Nodes, every: int = 1) -> float:
        """Sd of the error of all groups together."""
        total = self.points.sd_of(self.differences(nodes, every).sum(axis=2))
        return total * self._shares.sum() / self._shares[::every].sum()

    def worst(self, nodes: Nodes, aliasing: np.ndarray, most: float) -> np.ndarray:
        """Numbers of the groups, worst first, without which the error is at most `most`."""
        order = _worst(self.points, self.differences(nodes), aliasing[self.numbers], most)
        return self.numbers[order]


def _choose_nodes(
    target: GroupTarget, moments: EffectMoments, errors: _NodeErrors, movements: np.ndarray
) -> tuple[Nodes, NodeChoice]:
    """Fewest nodes whose error is small enough: some groups propose a number, more decide."""
    law = target.compiled.layout.groups.law
    every, q = max(1, errors.numbers.size // SOME_GROUPS), moments.mean.shape[1]
    rules = ((n, errors.moments.wide_nodes(law, n, errors.movements)) for n in COUNTS[q])
    good = (n for n, nodes in rules if errors.sd(nodes, every) < MAX_ERROR[q])
    first = next(good, COUNTS[q][-1])
    for count in COUNTS[q][COUNTS[q].index(first) :]:
        nodes = _nodes_by_rule(target, moments, movements, count, errors.points)
        aliasing = moments.aliasing(count, movements)
        error = np.hypot(errors.sd(nodes.some(errors.numbers)), np.sqrt(aliasing.sum()))
        choice = NodeChoice(count**q, float(error))
        if choice.error < MAX_ERROR[q]:
            return nodes, choice
        at_errors = nodes.some(errors.numbers), aliasing
    if choice.error < MAX_LAST_ERROR:
        return nodes, choice
    worst = errors.worst(*at_errors, ENOUGH * MAX_LAST_ERROR)
    raise NarrowEffectsError(_reason_of(target, choice, int(worst[0])), worst)


def _worst(
    points: _ErrorPoints, errors: np.ndarray, aliasing: np.ndarray, most: float
) -> np.ndarray:
    """Groups, worst first, without which the error is at most `most`, at least one."""
    # A group with an infinite error is among the worst.
    sds = np.nan_to_num([points.sd_of(x) for x in errors.transpose(2, 0, 1)], nan=np.inf)
    order = np.argsort(-np.hypot(sds, np.sqrt(aliasing)), kind="stable")
    for count in range(1, order.size):
        others = order[count:]
        error = points.sd_of(errors[..., others].sum(axis=2))
        if np.hypot(error, np.sqrt(aliasing[others].sum())) < most:
            return order[:count]
    return order


def _at_points(points: _ErrorPoints, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Values of a function at all positions, shape (scales, n, ...)."""
    return np.array([[function(x) for x in line] for line in points.positions])


def _log_sums(rows: GroupRows, theta: np.ndarray) -> np.ndarray:
    """Log-likelihood of each group, shape (groups,)."""
    return logsumexp(values_at_nodes(rows, theta), axis=1)


def exact_values(target: GroupTarget, moments: EffectMoments, position: np.ndarray) -> np.ndarray:
    """Log-likelihood of each group by nodes placed at a position, shape (groups,)."""
    law = target.compiled.layout.groups.law
    placed, refined = placed_at(target, position, moments)
    count = EXACT_COUNT[moments.mean.shape[1]]
    return _log_sums(placed.group_rows.at_nodes(refined.nodes(law, count)), position)


def _nodes_by_rule(
    target: GroupTarget,
    moments: EffectMoments,
    movements: np.ndarray,
    count: int,
    points: _ErrorPoints,
) -> Nodes:
    """Nodes of all groups by a rule, without those that weigh nothing."""
    rows, law = target.group_rows, target.compiled.layout.groups.law
    n_groups, q = moments.mean.shape
    most = LIGHT * MAX_ERROR[q] / n_groups
    nodes = Nodes(np.empty((n_groups, q, count**q)), np.empty((n_groups, count**q)))

    def choose(part: GroupRows, some: slice) -> None:
        effects, moves = moments.some(some), movements[some]
        placed = part.at_nodes(effects.wide_nodes(law, count, moves))
        left = _without_light_nodes(placed, points, ~effects.moves_much(moves), most)
        nodes.z[some], nodes.log_weights[some] = left

    _on_tasks(rows, choose)
    used = (nodes.log_weights > -np.inf).any(axis=0)
    if used.all():
        return nodes
    return Nodes(nodes.z[:, :, used].copy("C"), nodes.log_weights[:, used].copy("C"))


def _without_light_nodes(
    rows: GroupRows, points: _ErrorPoints, groups: np.ndarray, most: float
) -> Nodes:
    """Nodes of rows in memory; those of some groups that weigh nothing would spoil the bounds."""
    square = np.zeros(rows.nodes.log_weights.shape)
    for line in points.positions:
        for position, weight in zip(line, points.weights, strict=True):
            square += weight * _shares_of_nodes(rows, position) ** 2 / len(points.positions)
    light = (square < most**2) & groups[:, None]
    return Nodes(rows.nodes.z, np.where(light, -np.inf, rows.nodes.log_weights))
