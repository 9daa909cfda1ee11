"""Nodes of groups: placed where the integrand of each group is, then frozen.

With nodes z = m + s x, x the Gauss-Hermite nodes of N(0, 1), and m and s the mean and standard
deviation of a group's effect at the mode, the weights are w √(2π) s exp(x²/2) times the density of
z. The nodes stay where they are: the sum is the same function everywhere. Many nodes for Student's
t, whose tails no polynomial fits, are equally spaced in u of x = a sinh(u); ends have its tails.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp, stdtr

from pymc_minibatch_mh.compiled.group_rows import GroupRows, Nodes
from pymc_minibatch_mh.compiled.integrated_model import IntegratedModel
from pymc_minibatch_mh.reference.density import Density, quadratic_of
from pymc_minibatch_mh.reference.full_data import Derivatives, on_all_cores
from pymc_minibatch_mh.reference.mode import LOOSE_TOLERANCE, Mode, whitening_factors
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.small_groups import EffectLaw

#: Numbers of nodes that are tried; number before they are chosen; number for exact integrals.
COUNTS, FIRST_COUNT, EXACT_COUNT = (7, 9, 11, 13, 15, 21, 31, 41), 15, 61
#: Number of nodes from which those of Student's t are stretched: a of x = a sinh(u), and the range
#: of u over the root of their number, for the smallest errors by 31 to 41 nodes.
STRETCHED, WIDENED, REACH = 31, 1.4, 0.55
#: Maximum sd over the posterior of the error of the log-likelihood: what is asked for, and beyond
#: which there are no nodes; number of positions for it; number of groups that propose a number.
MAX_ERROR, MAX_LAST_ERROR, ERROR_POINTS, SOME_GROUPS = 1e-6, 0.01, 5, 1_000
#: Maximum number of Newton steps, each at nodes placed anew, and of halvings of a step.
MAX_STEPS, MAX_HALVINGS = 30, 10
#: Maximum number of placements at a position; minimum ratio of standard deviations in a placement,
#: about the distance of nodes; their ratio if the integrand lies beyond the nodes; change of them
#: that ends the placements.
PLACEMENTS, MIN_SHRINKAGE, GROWTH, SETTLED = 12, 0.3, 2.0, 0.02
#: Share of the weight at an end beyond which an integrand lies outside of the nodes.
AT_END = 0.5
#: Total share of nodes that are left out, in all groups together.
LIGHT = 1e-8
#: Number of groups in a task.
GROUPS_IN_TASK = 2_048


class NodeChoice(NamedTuple):
    """Number of nodes, and sd over the posterior of the error of the whole log-likelihood."""

    n_nodes: int
    error: float


class GroupTarget(Target):
    """Posterior of all parameters but the effects of small groups, which are integrated out."""

    compiled: IntegratedModel

    @property
    def group_rows(self) -> GroupRows:
        """Groups with their rows, nodes and compiled functions."""
        rows = self.rows
        assert isinstance(rows, GroupRows)
        return rows

    def term_and_row(self, row: int) -> tuple[str, int]:
        """Name of the effects, and number of a group."""
        return self.compiled.layout.groups.factor.name, row

    def at_nodes(self, nodes: Nodes) -> "GroupTarget":
        """The same posterior at other nodes."""
        compiled = self.compiled.at_nodes(nodes)
        other = GroupTarget(
            compiled, self.taylor_order, self.inverse_temperature, covariance=self.covariance
        )
        other.source.others[:] = self.source.others
        return other


def _is_stretched(law: EffectLaw, count: int) -> bool:
    return law.name == "t" and count >= STRETCHED


def standard_nodes(law: EffectLaw, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes x, and logarithms of their weights in integrals over x."""
    if _is_stretched(law, count):
        end = REACH * np.sqrt(count)
        u, step = np.linspace(-end, end, count, retstep=True)
        return WIDENED * np.sinh(u), np.log(WIDENED * step * np.cosh(u))
    x, weights = hermegauss(count)
    return x, np.log(weights) + 0.5 * x**2


def placed_nodes(law: EffectLaw, mean: np.ndarray, sd: np.ndarray, count: int) -> Nodes:
    """Nodes of groups whose effects have a mean and a standard deviation, shape (groups,) each."""
    x, log_weights = standard_nodes(law, count)
    z = mean[:, None] + sd[:, None] * x
    log_weights = log_weights + np.log(sd)[:, None] + law.log_density(z)
    if _is_stretched(law, count):
        tails = stdtr(law.shape, z[:, [0, -1]] * [1.0, -1.0])
        log_weights[:, [0, -1]] = np.logaddexp(log_weights[:, [0, -1]] - np.log(2.0), np.log(tails))
    return Nodes(np.ascontiguousarray(z), np.ascontiguousarray(log_weights))


def first_nodes(law: EffectLaw, n_groups: int, count: int = FIRST_COUNT) -> Nodes:
    """Nodes before anything is known about the groups' effects."""
    return placed_nodes(law, np.zeros(n_groups), np.ones(n_groups), count)


def values_at_nodes(
    rows: GroupRows, theta: np.ndarray, groups: np.ndarray | None = None
) -> np.ndarray:
    """Values F_q of some groups, by default of all, shape (groups, nodes)."""
    numbers = np.arange(rows.layout.groups.n_groups) if groups is None else groups
    tasks = np.array_split(numbers, max(1, numbers.size // GROUPS_IN_TASK))
    return np.concatenate(list(on_all_cores(lambda task: rows.values_at(theta, task), tasks)))


def effect_moments(rows: GroupRows, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each group's effect z given the position."""
    return _moments_of(_shares_of_nodes(rows, theta), rows.nodes.z)


def _shares_of_nodes(rows: GroupRows, theta: np.ndarray) -> np.ndarray:
    """Share of each node in its group's likelihood, shape (groups, nodes)."""
    values = values_at_nodes(rows, theta)
    # A group that is impossible has no shares.
    with np.errstate(invalid="ignore"):
        return np.exp(values - logsumexp(values, axis=1, keepdims=True))


def _moments_of(shares: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = (shares * z).sum(axis=1)
    return mean, np.sqrt((shares * (z - mean[:, None]) ** 2).sum(axis=1))


def placed_at(
    target: GroupTarget, position: np.ndarray, sd: np.ndarray
) -> tuple[GroupTarget, np.ndarray, np.ndarray]:
    """Target with nodes for the effects at a position, their mean and sd; `sd` of the nodes now."""
    law = target.compiled.layout.groups.law
    for _ in range(PLACEMENTS):
        shares = _shares_of_nodes(target.group_rows, position)
        mean, narrower = _moments_of(shares, target.group_rows.nodes.z)
        # Between two nodes an effect that is narrower than their distance has no visible width.
        before, sd = sd, np.maximum(narrower, MIN_SHRINKAGE * sd)
        at_end = np.maximum(shares[:, 0], shares[:, -1]) > AT_END
        sd[at_end] = GROWTH * before[at_end]
        target = target.at_nodes(placed_nodes(law, mean, sd, FIRST_COUNT))
        if np.abs(sd / before - 1.0).max() < SETTLED:
            break
    return target, mean, sd


def with_placed_nodes(
    target: GroupTarget, start: np.ndarray, rng: np.random.Generator
) -> tuple[GroupTarget, np.ndarray, NodeChoice]:
    """Target with frozen nodes for the posterior near a start, its mode, and the choice."""
    groups, position = target.compiled.layout.groups, start
    sd = np.ones(groups.n_groups)
    # Nodes of effects that are far off would mislead the search for the mode.
    if np.isfinite(target.log_likelihood(position)):
        target, _, sd = placed_at(target, position, sd)
    position = target.mode(position, rng, LOOSE_TOLERANCE).position
    position, target, mean, sd = _climb(target, position, sd)
    mode = target.mode(position, rng, LOOSE_TOLERANCE)
    points = _ErrorPoints.near(mode, target, rng)
    nodes, choice = _choose_nodes(target, mean, sd, points)
    if not choice.error < MAX_LAST_ERROR:
        raise NotSeparableError(
            f"{groups.factor.name!r} has effects that are too narrow or too wide for "
            f"{choice.n_nodes} nodes: their log-likelihood has an error of {choice.error:.2g}"
        )
    return target.at_nodes(nodes), mode.position, choice


def _climb(
    target: GroupTarget, position: np.ndarray, sd: np.ndarray
) -> tuple[np.ndarray, GroupTarget, np.ndarray, np.ndarray]:
    """Newton steps to the mode, and nodes there with their mean and sd.

    The derivatives at nodes that are placed at a position are exact, but further away than the
    width of narrow effects values are not: nodes are placed anew after each step.
    """
    ends = target.factorization.boundary
    target, mean, sd = placed_at(target, position, sd)
    density = _density_at(target, position)
    for _ in range(MAX_STEPS):
        step = quadratic_of(density.hessian).step(density.gradient)
        if step @ density.gradient < LOOSE_TOLERANCE**2:
            break
        for _ in range(MAX_HALVINGS):
            tried = position + step
            if (tried[ends] > 0.5 * position[ends]).all():
                there = placed_at(target, tried, sd)
                higher = _density_at(there[0], tried)
                if higher.value > density.value:
                    position, density, (target, mean, sd) = tried, higher, there
                    break
            step = 0.5 * step
        else:
            break
    return position, target, mean, sd


def _density_at(target: GroupTarget, position: np.ndarray) -> Derivatives:
    density = Density(target.full_data, target.inverse_temperature)
    return density.at(position, hessian=True).total


class _ErrorPoints(NamedTuple):
    """Positions with weights, for averages over the posterior.

    Errors grow by exponentials of the scale: along it, positions are Gauss-Hermite nodes.
    """

    positions: np.ndarray
    weights: np.ndarray

    @classmethod
    def near(cls, mode: Mode, target: GroupTarget, rng: np.random.Generator) -> Self:
        """Positions of the normal approximation at a mode."""
        x, weights = hermegauss(ERROR_POINTS)
        factor = whitening_factors(mode.precision)[1]
        line = factor[target.compiled.layout.scale_at]
        line = line / np.linalg.norm(line)
        w = rng.standard_normal((ERROR_POINTS, line.size))
        w += np.outer(x - w @ line, line)
        positions = target.factorization.in_support(mode.position + w @ factor.T)
        return cls(positions, weights / weights.sum())

    def sd_of(self, numbers: np.ndarray) -> float:
        """Standard deviation of numbers at the positions; NaN if one is not finite."""
        numbers = np.where(np.isfinite(numbers), numbers, np.nan)
        return float(np.sqrt(self.weights @ (numbers - self.weights @ numbers) ** 2))


def _choose_nodes(
    target: GroupTarget, mean: np.ndarray, sd: np.ndarray, points: _ErrorPoints
) -> tuple[Nodes, NodeChoice]:
    """Fewest nodes whose error, against nodes placed at each position, is small enough.

    Some groups propose a number, by an error that is the same in all groups; all groups decide.
    """
    rows, law = target.group_rows, target.compiled.layout.groups.law
    exact = _exact_values(target, sd, points)

    def error(nodes: Nodes, groups: np.ndarray) -> float:
        placed = rows.at_nodes(nodes)
        values = (values_at_nodes(placed, x, groups) for x in points.positions)
        totals = np.array([logsumexp(value, axis=1).sum() for value in values])
        with np.errstate(invalid="ignore"):
            errors = totals - exact[:, groups].sum(axis=1)
        return points.sd_of(errors) * mean.size / groups.size

    some = np.linspace(0, mean.size - 1, min(SOME_GROUPS, mean.size)).astype(np.int64)
    rules = ((count, placed_nodes(law, mean, sd, count)) for count in COUNTS)
    few = (count for count, nodes in rules if error(nodes, some) < MAX_ERROR)
    for count in COUNTS[COUNTS.index(next(few, COUNTS[-1])) :]:
        placed = rows.at_nodes(placed_nodes(law, mean, sd, count))
        nodes = _without_light_nodes(placed, points)
        choice = NodeChoice(count, error(nodes, np.arange(mean.size)))
        if choice.error < MAX_ERROR:
            break
    return nodes, choice


def _exact_values(target: GroupTarget, sd: np.ndarray, points: _ErrorPoints) -> np.ndarray:
    """Log-likelihood of each group by nodes placed at each position, shape (positions, groups)."""
    law, values = target.compiled.layout.groups.law, []
    for position in points.positions:
        placed, mean, own_sd = placed_at(target, position, sd)
        rows = placed.group_rows.at_nodes(placed_nodes(law, mean, own_sd, EXACT_COUNT))
        values.append(logsumexp(values_at_nodes(rows, position), axis=1))
    return np.array(values)


def _without_light_nodes(rows: GroupRows, points: _ErrorPoints) -> Nodes:
    """Nodes without those that weigh nothing: they would only spoil the bounds."""
    square = np.zeros(rows.nodes.z.shape)
    for position, weight in zip(*points, strict=True):
        square += weight * _shares_of_nodes(rows, position) ** 2
    light = square < (LIGHT / rows.layout.groups.n_groups) ** 2
    return rows.nodes._replace(log_weights=np.where(light, -np.inf, rows.nodes.log_weights))
