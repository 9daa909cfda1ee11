"""Chains on several states that the compiled update runs, to be held against their enumeration.

A state is known to the update by its position on a line. The proposal carries the ratio of its
densities, and the prior the expansion, as the shipped ones do.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.stats import chi2

from exactness import enumeration, kernels
from exactness import poisson as counts
from exactness.kernels import BETA, POSITIONS
from pymc_minibatch_mh.acceptance import poisson
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.alias import build_alias
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.generator import generator_addresses
from pymc_minibatch_mh.kernels.looks import look_until_decided
from pymc_minibatch_mh.kernels.poisson import thin_rows
from pymc_minibatch_mh.kernels.remainder import GIVEN
from pymc_minibatch_mh.kernels.signatures import (
    EVALUATE_SIGNATURE,
    LOGP_SIGNATURE,
    METRIC_SIGNATURE,
    PROPOSE_SIGNATURE,
)
from pymc_minibatch_mh.kernels.surrogate import Surrogate, pack
from pymc_minibatch_mh.kernels.update import update
from pymc_minibatch_mh.steps.decision import NO_BOUNDS

NO_CONTEXT = np.zeros(0, dtype=np.int64)
#: Expected number of transitions from which a cell counts by itself.
FEWEST = 20.0


@dataclass(frozen=True)
class Compiled:
    """What the update is handed: roles, numbers of the test, and tables of bounds."""

    positions: np.ndarray
    functions: list
    settings: np.ndarray
    surrogate: Surrogate
    tables: tuple
    rows: int

    def transitions(self, updates, seed):
        """Return how often each state was followed by each, shape (S, S)."""
        addresses = np.array([address_of(function) for function in self.functions])
        arrays, starts = pack(self.surrogate), np.array([0, self.rows])
        rng = np.random.default_rng(seed)
        generator = generator_addresses(rng)
        position, new, sums = self.positions[:1].copy(), np.zeros(1), np.zeros(entry.N_SUMS)
        tallies, numbers = np.zeros((8, entry.N_TALLIES)), np.zeros(1)
        visited = np.empty(updates + 1)
        for k in range(updates + 1):
            visited[k] = position[0]
            update(
                position, new, 1, generator, addresses, numbers, self.settings, *arrays, starts,
                NO_CONTEXT, *self.tables, sums, tallies, np.zeros((2, 1)),
            )  # fmt: skip
        states = np.abs(visited[:, None] - self.positions).argmin(axis=1)
        found = np.zeros((len(self.positions),) * 2)
        np.add.at(found, (states[:-1], states[1:]), 1.0)
        return found


def chance(found, matrix):
    """Return the p-value of one-step frequencies: chi-square, rare transitions joined."""
    statistic, degrees = 0.0, 0
    for row, law in zip(found, matrix, strict=True):
        expected = law * row.sum()
        often = expected >= FEWEST
        cells = np.append(row[often], row[~often].sum())
        means = np.append(expected[often], expected[~often].sum())
        kept = means > 1e-6
        assert not cells[~kept].any()
        statistic += ((cells - means)[kept] ** 2 / means[kept]).sum()
        degrees += max(kept.sum() - 1, 0)
    return float(chi2(degrees).sf(statistic))


def by_looks(name):
    """Return the chain on clean data under a test that reads batches."""
    rule, chain = kernels.RULES[name], kernels.CHAINS["clean"]
    table, positions, log_prior = chain.log_likelihood, POSITIONS, chain.log_prior

    @njit
    def state_at(x):
        return int(np.argmin(np.abs(positions - x[0])))

    @njit(PROPOSE_SIGNATURE)
    def propose(position, new, rng, numbers, first, centre, factor, whitener):
        step = rng.integers(1, positions.size)
        new[0] = positions[(state_at(position) + step) % positions.size]
        return 0.0, 0

    @njit(LOGP_SIGNATURE)
    def prior(position, context):
        return log_prior[state_at(position)]

    @njit(EVALUATE_SIGNATURE)
    def evaluate(position, new, centre, rows, ends, context, differences, scales):
        i, j = state_at(position), state_at(new)
        for k in range(rows.size):
            differences[k] = table[j, rows[k]] - table[i, rows[k]]

    one, zero = np.ones((1, 1)), np.zeros(1)
    # Differences of a normal mean are linear in the move: their variance goes with its square.
    gap = (table[1] - table[0]) / (positions[1] - positions[0])
    spread = enumeration.audited_spread(gap, BETA)
    return Compiled(
        positions,
        [propose, look_until_decided, prior, evaluate, rule.plan, rule.decide],
        rule.settings,
        Surrogate(zero, one, one, zero, 0.0 * one, 0, BETA, spread),
        NO_BOUNDS,
        table.shape[1],
    )


def by_counts(chain, settings):
    """Return a chain with a mixture of asymmetric proposals under a Poisson test."""
    states, rows = chain.log_likelihood.shape
    # States outside lie beyond the radius of the table.
    positions = np.where(chain.outside, 100.0, 0.0) + np.arange(states)
    beta, weights, proposals = chain.inverse_temperature, chain.weights, chain.proposals
    table = chain.log_likelihood - chain.expansion
    cheap = chain.log_prior + beta * chain.expansion.sum(axis=1)
    sizes, cumulated = chain.sizes, np.cumsum(proposals, axis=2)

    @njit
    def state_at(x):
        return int(np.argmin(np.abs(positions - x[0])))

    @njit(PROPOSE_SIGNATURE)
    def propose(position, new, rng, numbers, first, centre, factor, whitener):
        component = 0 if rng.random() < weights[0] else weights.size - 1
        i, j, uniform = state_at(position), 0, rng.random()
        while j < positions.size - 1 and uniform >= cumulated[component, i, j]:
            j += 1
        new[0] = positions[j]
        return np.log(proposals[component, j, i] / proposals[component, i, j]), component

    @njit(LOGP_SIGNATURE)
    def prior(position, context):
        return cheap[state_at(position)]

    @njit(EVALUATE_SIGNATURE)
    def evaluate(position, new, centre, rows, ends, context, differences, scales):
        i, j = state_at(position), state_at(new)
        for k in range(rows.size):
            differences[k] = table[j, rows[k]] - table[i, rows[k]]
            scales[k] = 1.0

    @njit(METRIC_SIGNATURE)
    def metric(position, new):
        return sizes[state_at(position), state_at(new)]

    one, zero = np.ones((1, 1)), np.zeros(1)
    c = chain.bounds.astype(np.float32)
    thresholds, aliases = np.empty((1, rows)), np.empty((1, rows), dtype=np.int32)
    build_alias(c, thresholds[0], aliases[0])
    heads = np.array([[50.0, GIVEN, c.sum(dtype=np.float64)]])
    roles = [poisson.rate, poisson.thin, poisson.accept_probability, metric]
    return Compiled(
        positions,
        [propose, thin_rows, prior, evaluate, *roles],
        settings,
        Surrogate(zero, one, one, zero, 0.0 * one, 0, beta, np.inf),
        (heads, thresholds, aliases, c[None]),
        rows,
    )


def matrix_by_counts(chain, settings):
    """Return the enumerated transition matrix, its diagonal with the proposals to stay."""
    return counts.transition_matrix(chain, counts.Rule(settings))
