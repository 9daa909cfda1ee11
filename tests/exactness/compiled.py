"""Chains on several states that the compiled loop runs, to be held against their enumeration.

A state is known to the loop by its position on a line. The proposal carries the ratio of its
densities, and the prior the expansion, as the shipped ones do.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy.stats import chi2

from exactness import enumeration, kernels
from exactness import poisson as counts
from exactness.kernels import BETA, POSITIONS
from kernels.chain import draws_of, line, role
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moves import GIVEN
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.signatures import (
    EVALUATE_SIGNATURE,
    LOGP_SIGNATURE,
    METRIC_SIGNATURE,
)

NO_CONTEXT = np.zeros(0, dtype=np.int64)
#: Expected number of transitions from which a cell counts by itself.
FEWEST = 20.0


class Elsewhere(NamedTuple):
    """Moves to the other states, each as probable; positions, shape (S,)."""

    positions: np.ndarray


class Asymmetric(NamedTuple):
    """A mixture of moves with densities of their own.

    Shapes: positions (S,), weights (K,), proposals and, cumulated over their last axis, sums
    (K, S, S).
    """

    positions: np.ndarray
    weights: np.ndarray
    proposals: np.ndarray
    sums: np.ndarray


@njit
def nearest(positions, x):
    """Return the state at a position."""
    return int(np.argmin(np.abs(positions - x[0])))


@role_of(Elsewhere, "propose")
@role
def propose_elsewhere(proposal, move, posterior, rng):
    positions = proposal.positions
    step = rng.integers(1, positions.size)
    move.new[0] = positions[(nearest(positions, move.position) + step) % positions.size]
    return 0.0, 0


@role_of(Asymmetric, "propose")
@role
def propose_asymmetrically(proposal, move, posterior, rng):
    positions, weights, densities = proposal.positions, proposal.weights, proposal.proposals
    component = 0 if rng.random() < weights[0] else weights.size - 1
    i, j, uniform = nearest(positions, move.position), 0, rng.random()
    while j < positions.size - 1 and uniform >= proposal.sums[component, i, j]:
        j += 1
    move.new[0] = positions[j]
    return np.log(densities[component, j, i] / densities[component, i, j]), component


@dataclass(frozen=True)
class Compiled:
    """What the loop is handed, the positions of the states, and what must not be forgotten."""

    positions: np.ndarray
    posterior: Posterior
    proposal: Elsewhere | Asymmetric
    settings: Any
    functions: tuple

    def transitions(self, updates, seed):
        """Return how often each state was followed by each, shape (S, S)."""
        visited, _ = self.run(updates + 1, seed)
        states = np.abs(visited[:, None] - self.positions).argmin(axis=1)
        found = np.zeros((len(self.positions),) * 2)
        np.add.at(found, (states[:-1], states[1:]), 1.0)
        return found

    def run(self, updates, seed):
        """Return the positions after each update, and what each has counted."""
        start = float(self.positions[0])
        run = self.posterior, self.proposal, self.settings, start
        return draws_of(*run, count=updates, seed=seed)


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


@cache
def gaussian_posterior(data):
    """Return the posterior of some Gaussian data, and the functions that it is made of."""
    chain = kernels.CHAINS[data]
    table, positions, log_prior = chain.log_likelihood, POSITIONS, chain.log_prior

    @njit(LOGP_SIGNATURE)
    def prior(position, context):
        return log_prior[nearest(positions, position)]

    @njit(EVALUATE_SIGNATURE)
    def evaluate(position, new, centre, rows, ends, context, differences, scales):
        i, j = nearest(positions, position), nearest(positions, new)
        for k in range(rows.size):
            differences[k] = table[j, rows[k]] - table[i, rows[k]]

    space = RowSpace(np.array([0, table.shape[1]]), NO_CONTEXT)
    addresses, half = (address_of(prior), address_of(evaluate)), 0.5 * table.shape[1]
    tables = no_tables()._replace(heavy=np.array(chain.heavy, np.int64))
    return Posterior(*addresses, space, line(BETA), tables, half), (prior, evaluate)


def by_looks(name, data="clean"):
    """Return the chain on some Gaussian data under a test that reads batches."""
    chain = kernels.CHAINS[data]
    table = np.delete(chain.log_likelihood, chain.heavy, axis=1)
    # Differences of a normal mean are linear in the move: their variance goes with its square.
    gap = (table[1] - table[0]) / (POSITIONS[1] - POSITIONS[0])
    kappa = float(enumeration.audited_spread(gap, BETA))
    posterior, functions = gaussian_posterior(data)
    settings = kernels.RULES[name].settings._replace(kappa=kappa)
    return Compiled(POSITIONS, posterior, Elsewhere(POSITIONS), settings, functions)


def by_counts(chain, settings):
    """Return a chain with a mixture of asymmetric proposals under a Poisson test."""
    states, rows = chain.log_likelihood.shape
    # States outside lie beyond the radius of the table.
    positions = np.where(chain.outside, 100.0, 0.0) + np.arange(states)
    beta = chain.inverse_temperature
    table = chain.log_likelihood - chain.expansion
    cheap = chain.log_prior + beta * chain.expansion.sum(axis=1)
    sizes = chain.sizes

    @njit(LOGP_SIGNATURE)
    def prior(position, context):
        return cheap[nearest(positions, position)]

    @njit(EVALUATE_SIGNATURE)
    def evaluate(position, new, centre, rows, ends, context, differences, scales):
        i, j = nearest(positions, position), nearest(positions, new)
        for k in range(rows.size):
            differences[k] = table[j, rows[k]] - table[i, rows[k]]
            scales[k] = 1.0

    @njit(METRIC_SIGNATURE)
    def metric(position, new):
        return sizes[nearest(positions, position), nearest(positions, new)]

    heads = np.array([[50.0, GIVEN, chain.bounds.astype(np.float32).sum(dtype=np.float64)]])
    c = chain.bounds.astype(np.float32)[None]
    tables = Tables(heads, c, 1.0).reading_always(np.array(chain.heavy, np.int64))
    posterior = Posterior(
        address_of(prior),
        address_of(evaluate),
        RowSpace(np.array([0, rows]), NO_CONTEXT),
        line(beta),
        tables.arrays._replace(metric=address_of(metric)),
    )
    sums = np.cumsum(chain.proposals, axis=2)
    proposal = Asymmetric(positions, chain.weights, chain.proposals, sums)
    return Compiled(positions, posterior, proposal, settings, (prior, evaluate, metric))


def matrix_by_counts(chain, settings):
    """Return the enumerated transition matrix, its diagonal with the proposals to stay."""
    return counts.transition_matrix(chain, counts.Rule(settings))
