"""Transition matrices of Poisson tests whose rows are groups, summed over all vectors of counts.

Remainders, bounds, sizes of moves and the test are the library's; the target is summed over nodes
by SciPy. States are positions of a slope, of the effects' mean, and of their scale or its square.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import expit, logsumexp

from helpers.in_library import accept_many, expansion_change, rate
from helpers.small_groups import moments_of, target_of
from law.exactness.poisson import RULES, Move, Rule, log_products
from law.exactness.toys import jump
from native.chain import Loop
from pymc_minibatch_mh.bounds.over_nodes import NodeBoundsPass
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.native.run import TOTAL
from pymc_minibatch_mh.reference.effect_nodes import EffectMoments
from pymc_minibatch_mh.reference.node_rule import GroupTarget

#: Group of each row: one has three rows, one none. The group with most rows is read always.
GROUP, HEAVY = np.array([1, 0, 1, 3, 0, 1]), 1
X = np.array([0.8, -0.5, 0.3, -1.1, 1.4, -0.2])
Y = {"bernoulli": np.array([1, 0, 1, 1, 0, 0]), "poisson": np.array([2, 0, 1, 4, 1, 1])}
#: Observations of rows with two correlated effects, an intercept and a slope.
Y["two effects"] = Y["bernoulli"]
#: Centre: slope, mean and scale of effects; the factor of their covariance if there are two.
#: Whitened states, the last one outside of all balls.
CENTRE, CENTRE_OF_TWO = np.array([0.4, -0.2, 0.7]), np.array([0.8, 0.3, 0.7])
STATES = np.array(
    [[0.5, -0.6, 0.4], [-1.4, 0.9, -1.2], [1.3, 1.6, 1.9], [-0.2, -0.3, -3.0], [2.0, -7.0, 5.0]]
)
FACTOR = np.array([[0.12, 0.0, 0.0], [-0.03, 0.15, 0.0], [0.01, -0.02, 0.06]])
#: Unit of lengths, in which pairs of states draw some groups. Means and sds at which nodes are.
UNIT = {
    ("two effects", 1): 2.0,
    ("bernoulli", 1): 2.0,
    ("bernoulli", 2): 2.4,
    ("poisson", 1): 0.7,
    ("poisson", 2): 1.0,
}
PLACES = np.array([0.3, -0.2, 0.0, 0.5]), np.array([0.8, 0.7, 1.0, 0.9])
#: Expected number of groups above which all decide.
MAX_RATE = 12.0


def model_of(family):
    with pm.Model() as model:
        if family == "two effects":
            sd = pm.HalfNormal.dist(1.0)
            chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
            effect = pm.MvNormal("a", np.zeros(2), chol=chol, shape=(4, 2))
            line = effect[GROUP, 0] + effect[GROUP, 1] * X
            pm.Bernoulli("y", logit_p=line, observed=Y[family])
            return model
        slope, mean, scale = pm.Normal("b"), pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau")
        line = slope * X + pm.Normal("a", mean, scale, shape=4)[GROUP]
        if family == "bernoulli":
            pm.Bernoulli("y", logit_p=line, observed=Y[family])
        else:
            pm.Poisson("y", pm.math.exp(line), observed=Y[family])
    return model


def log_density(family, nodes, root, position):
    """Return the log-density of the coordinates, summed over the nodes."""
    if family == "two effects":
        return log_density_of_two(nodes, *position)
    slope, mean, power = position
    scale = power ** (1.0 / root)
    line = (slope * X + mean)[:, None] + scale * nodes.z[GROUP, 0]
    seen, values = Y[family][:, None], nodes.log_weights.copy()
    if family == "bernoulli":
        np.add.at(values, GROUP, stats.bernoulli.logpmf(seen, expit(line)))
    else:
        np.add.at(values, GROUP, stats.poisson.logpmf(seen, np.exp(line)))
    prior = stats.norm.logpdf(slope) + stats.norm.logpdf(mean, 0.0, 2.0)
    prior += stats.halfnorm.logpdf(scale) - (root == 2) * np.log(2.0 * scale)
    return prior + logsumexp(values, axis=1).sum()


def log_density_of_two(nodes, first, cross, second):
    """Return the log-density of the entries of the effects' factor, up to a constant."""
    sd = np.hypot(cross, second)
    z, seen, values = nodes.z[GROUP], Y["two effects"][:, None], nodes.log_weights.copy()
    line = first * z[:, 0] + X[:, None] * (cross * z[:, 0] + second * z[:, 1])
    np.add.at(values, GROUP, stats.bernoulli.logpmf(seen, expit(line)))
    # Densities of both standard deviations, and of the correlation, (second/sd)² at eta = 2.
    prior = stats.halfnorm.logpdf([first, sd]).sum() + 3.0 * np.log(second / sd) - np.log(sd)
    return prior + logsumexp(values, axis=1).sum()


@dataclass(frozen=True, eq=False)
class GroupChain:
    """A posterior on a few positions, (S, d), and proposals, (1, S, S); `target` is by SciPy."""

    posterior: GroupTarget
    reference: Reference
    tables: Tables
    positions: np.ndarray
    proposals: np.ndarray
    log_target: np.ndarray
    weights: tuple[float, ...] = (1.0,)

    @classmethod
    def around(cls, posterior, reference, tables, positions, log_target):
        """Return the chain with proposals of random probabilities, and one row that all read."""
        rng = np.random.default_rng(5)
        proposals = rng.uniform(0.2, 1.0, size=(1, len(positions), len(positions)))
        proposals /= proposals.sum(axis=2, keepdims=True)
        tables = tables.reading_always(np.array([HEAVY]))
        return cls(posterior, reference, tables, positions, proposals, np.array(log_target))

    def target(self):
        """Return the probabilities of the states."""
        return np.exp(self.log_target - logsumexp(self.log_target))

    @property
    def log_prior(self):
        """Return the log prior of each state."""
        return np.array([self.posterior.log_prior(x) for x in self.positions])

    def table_of(self, i, j):
        """Return the table of a move, and its M."""
        return table_of_move(self.tables.arrays, self.reference, *self.positions[[i, j]])

    def changes(self, i, j):
        """Return the change dU of each group, heavy or not."""
        groups = np.arange(self.tables.c.shape[1])
        found, scales = np.empty((2, groups.size))
        ends = *self.positions[[i, j]], self.reference.centre
        function("mh_differences_of")(
            self.posterior.space, *ends, groups, groups.size, found, scales
        )
        return -found

    def cheap(self, i, j):
        """Return the log ratio without any group."""
        prior, q = self.log_prior, self.proposals[0]
        change = expansion_change(self.reference, *self.positions[[i, j]])
        return prior[j] - prior[i] + change + np.log(q[j, i] / q[i, j])

    def accepted(self, settings, i, j, repetitions, seed):
        """Return the mean of the acceptance probability over repetitions of the compiled test."""
        prior, rows = self.posterior.full_data.log_prior, self.posterior.space
        posterior = Posterior(prior, rows, self.reference, self.tables.arrays)
        here, there = self.positions[[i, j]]
        loop = Loop(posterior, jump([0.0]), settings, here, seed)
        sums = np.array([0.0, 0.0, 0.0, np.inf])
        arguments = loop.linked, here, there, self.cheap(i, j), repetitions, 0, sums
        assert function("mh_repeat_test")(*arguments) == 0
        return sums[TOTAL] / repetitions


def move(chain, settings, i, j, component):
    """Return the move from state i to state j."""
    heavy, changes, (table, m) = chain.tables.heavy, chain.changes(i, j), chain.table_of(i, j)
    light = np.delete(np.arange(changes.size), heavy)
    bounds = np.zeros(light.size) if table < 0 else chain.tables.c[table, light].astype(float) * m
    by_all_rows = table < 0 or rate(bounds.sum(), settings) + heavy.size > settings.max_rate
    known = -changes[heavy].sum()
    return Move(chain.cheap(i, j), changes[light], bounds, by_all_rows, settings, known)


def rule(name, **replaced):
    """Return a rule of the Poisson test on groups, of which something is replaced."""
    settings = RULES[name]
    settings = settings._replace(max_rate=min(settings.max_rate, MAX_RATE))
    return Rule(settings, **{"move": move} | replaced)


def chance(chain, name, i, j):
    """Return mean and standard deviation of a move's acceptance probability over all counts.

    Of a delayed test it is the probability of its second stage, 0 after the first has rejected.
    """
    found = rule(name)
    made, delayed = move(chain, found.settings, i, j, 0), found.settings.delayed
    products, weights = np.zeros(1) - made.changes.sum(), np.ones(1)
    if not made.by_all_rows:
        products, weights = log_products(found, made)
    first = np.exp(min(0.0, made.cheap)) if delayed else 1.0
    second = accept_many(made.cheap, made.known + products, float(delayed)) / first
    mean = first * weights @ second
    return mean, np.sqrt(max(first * weights @ second**2 - mean**2, 0.0))


def reference_at(posterior, factor):
    """Return control variates around the centre, whitened by a factor."""
    scales, groups = posterior.compiled.layout.scales, np.arange(4)
    centre = CENTRE.copy() if len(scales) == 1 else CENTRE_OF_TWO.copy()
    for scale in scales:
        centre[scale.coordinate] **= scale.root
    sums, hessian = np.zeros(4), np.zeros((3, 3))
    function("mh_add_derivatives")(posterior.space, centre, groups, 4, 1, sums, hessian)
    return Reference(centre, factor, np.linalg.inv(factor), sums[1:], hessian, 2, 1.0)


@cache
def chain_of(family, root, count):
    """Return states of a family, with `count` nodes for each group."""
    posterior = target_of(model_of(family), root)
    moments, factor = moments_of(*PLACES), np.array([[1.0, 0.0], [-0.2, 0.9]])
    if family == "two effects":
        mean = np.stack([PLACES[0], PLACES[0][::-1]], axis=1)
        moments = EffectMoments(mean, moments.factor * factor)
    nodes = moments.nodes(posterior.compiled.layout.groups.law, count)
    posterior, factor = posterior.at_nodes(nodes), UNIT[family, root] * FACTOR
    reference = reference_at(posterior, factor)
    tables = NodeBoundsPass(posterior.group_rows, reference).tables()
    positions = reference.centre + STATES @ factor.T
    target = [log_density(family, nodes, root, x) for x in positions]
    return GroupChain.around(posterior, reference, tables, positions, target)


#: Families, the power of the scale that is their coordinate, and the number of nodes.
CASES = [("bernoulli", 1, 3), ("bernoulli", 2, 2), ("poisson", 1, 2), ("poisson", 2, 3)]
CASES += [("two effects", 1, 2)]
