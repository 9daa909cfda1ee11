"""Nodes of groups: placed where the integrand of each group is, then frozen.

With nodes z = m + s x, x the Gauss-Hermite nodes of N(0, 1), and m and s the mean and standard
deviation of a group's effect at the mode, the weights are w √(2π) s exp(x²/2) times the density of
z. The nodes stay where they are: the sum is the same function everywhere.
"""

from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp

from pymc_minibatch_mh.compiled.group_rows import GroupRows, Nodes
from pymc_minibatch_mh.compiled.integrated_model import IntegratedModel
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.reference.mode import LOOSE_TOLERANCE, Mode, whitening_factors
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.small_groups import EffectLaw

#: Numbers of nodes that are tried; number before they are chosen.
COUNTS, FIRST_COUNT = (7, 9, 11, 13, 15, 21, 31, 41, 61), 15
#: Maximum sd over the posterior of the error of the log-likelihood; number of draws for it,
#: with some groups and with all; number of groups that are some.
MAX_ERROR, ERROR_DRAWS, FEW_DRAWS, SOME_GROUPS = 1e-6, 16, 6, 1_000
#: Rounds of placement and mode; maximum number of placements in each; minimum ratio of standard
#: deviations in a placement, about the distance of nodes; change of them that ends a round.
ROUNDS, PLACEMENTS, MIN_SHRINKAGE, SETTLED = 2, 8, 0.3, 0.02
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
        return GroupTarget(compiled, self.taylor_order, covariance=self.covariance)


def placed_nodes(law: EffectLaw, mean: np.ndarray, sd: np.ndarray, count: int) -> Nodes:
    """Nodes of groups whose effects have a mean and a standard deviation, shape (groups,) each."""
    x, weights = hermegauss(count)
    z = mean[:, None] + sd[:, None] * x
    log_weights = np.log(weights) + 0.5 * x**2 + np.log(sd)[:, None] + law.log_density(z)
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
    values = values_at_nodes(rows, theta)
    shares = np.exp(values - logsumexp(values, axis=1, keepdims=True))
    mean = (shares * rows.nodes.z).sum(axis=1)
    return mean, np.sqrt((shares * (rows.nodes.z - mean[:, None]) ** 2).sum(axis=1))


def placed_at(
    target: GroupTarget, position: np.ndarray, sd: np.ndarray
) -> tuple[GroupTarget, np.ndarray, np.ndarray]:
    """Target with nodes for the effects at a position, their mean and sd; `sd` of the nodes now."""
    law = target.compiled.layout.groups.law
    for _ in range(PLACEMENTS):
        mean, narrower = effect_moments(target.group_rows, position)
        # Between two nodes an effect that is narrower than their distance has no visible width.
        before, sd = sd, np.maximum(narrower, MIN_SHRINKAGE * sd)
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
    for k in range(ROUNDS):
        # Nodes of effects that are far off would mislead the search for the mode.
        if k or np.isfinite(target.log_likelihood(position)):
            target, mean, sd = placed_at(target, position, sd)
        mode = target.mode(position, rng, LOOSE_TOLERANCE)
        position = mode.position
    target, mean, sd = placed_at(target, position, sd)
    choice = _choose_count(target, mode, mean, sd, rng)
    target = target.at_nodes(placed_nodes(groups.law, mean, sd, choice.n_nodes))
    return target.at_nodes(_without_light_nodes(target.group_rows, position)), position, choice


def _without_light_nodes(rows: GroupRows, theta: np.ndarray) -> Nodes:
    """Nodes without those that weigh nothing near a position: they would only spoil the bounds."""
    values, nodes = values_at_nodes(rows, theta), rows.nodes
    logs = values - logsumexp(values, axis=1, keepdims=True)
    light = logs < np.log(LIGHT / rows.layout.groups.n_groups)
    return nodes._replace(log_weights=np.where(light, -np.inf, nodes.log_weights))


def _choose_count(
    target: GroupTarget, mode: Mode, mean: np.ndarray, sd: np.ndarray, rng: np.random.Generator
) -> NodeChoice:
    """Smallest number of nodes whose error, against the rule after the next, is small enough.

    Some groups propose a number, by an error that is the same in all groups; all groups decide.
    """
    law, factor = target.compiled.layout.groups.law, whitening_factors(mode.precision)[1]
    draws = mode.position + rng.standard_normal((ERROR_DRAWS, mode.position.size)) @ factor.T
    draws = target.factorization.in_support(draws)
    some = np.sort(rng.permutation(mean.size)[:SOME_GROUPS])

    def totals(k: int, groups: np.ndarray, positions: np.ndarray) -> np.ndarray:
        nodes = placed_nodes(law, mean, sd, COUNTS[k])
        rows = target.group_rows.at_nodes(nodes)
        values = (values_at_nodes(rows, x, groups) for x in positions)
        return np.array([logsumexp(value, axis=1).sum() for value in values])

    def error(k: int, groups: np.ndarray, positions: np.ndarray) -> float:
        change = totals(k, groups, positions) - totals(k + 2, groups, positions)
        return float(np.std(change)) * mean.size / groups.size

    tried = range(len(COUNTS) - 2)
    k = next((k for k in tried if error(k, some, draws) < MAX_ERROR), tried[-1])
    all_groups, few = np.arange(mean.size), draws[:FEW_DRAWS]
    while (last := error(k, all_groups, few)) >= MAX_ERROR and k < tried[-1]:
        k += 1
    return NodeChoice(COUNTS[k], last)
