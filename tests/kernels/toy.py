"""A chain on two states whose rows are a table, driven by the shipped update.

The update is handed roles by their addresses, so that a mutant of a role needs no other kernel.
"""

from dataclasses import dataclass, field

import numpy as np
from numba import njit

from exactness.enumeration import Rule, audited_spread
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.generator import generator_addresses
from pymc_minibatch_mh.kernels.looks import look_until_decided
from pymc_minibatch_mh.kernels.signatures import (
    DECIDE_SIGNATURE,
    EVALUATE_SIGNATURE,
    LOGP_SIGNATURE,
    PROPOSE_SIGNATURE,
)
from pymc_minibatch_mh.kernels.surrogate import Surrogate, pack
from pymc_minibatch_mh.kernels.update import update
from pymc_minibatch_mh.steps.decision import NO_BOUNDS

#: What a row adds to the log-likelihood of state 1 over that of state 0.
TABLE = 0.5 * np.array(
    [1.3, 0.9, 0.8, 0.6, 0.5, -0.4, 0.3, -1.1, 0.1, -0.7, -0.2, -0.9, 0.4, -0.3, 0.2, 0.2]
)
#: The first rows belong to another term than the rest.
STARTS = np.array([0, 5, TABLE.size])
LOG_PRIOR, LOG_Q, BETA = 0.35, 0.2, 0.6
#: Context: number of calls, number of rows remembered, the rows.
CONTEXT = np.zeros(2 + TABLE.size, dtype=np.int64)


@njit(PROPOSE_SIGNATURE)
def propose(position, new, rng, numbers, first, centre, factor, whitener):
    """Move to the other state; the density ratio favours moves to state 1."""
    new[0] = 1.0 - position[0]
    return LOG_Q * (new[0] - position[0]), 0


@njit(LOGP_SIGNATURE)
def prior(position, context):
    """Favour state 1."""
    return LOG_PRIOR * position[0]


@njit(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    """Read the table, each term from its first row on."""
    for i in range(rows.size):
        row = rows[i] + (STARTS[1] if i >= ends[0] else 0)
        differences[i] = TABLE[row] * (new[0] - position[0])


@njit(EVALUATE_SIGNATURE)
def evaluate_every_batch_twice(position, new, centre, rows, ends, context, differences, scales):
    """Read at every other call the rows of the call before."""
    context[0] += 1
    for i in range(rows.size):
        if context[0] % 2 == 1:
            context[2 + i] = rows[i] + (STARTS[1] if i >= ends[0] else 0)
        differences[i] = TABLE[context[2 + i]] * (new[0] - position[0])


@njit(EVALUATE_SIGNATURE)
def evaluate_one_term(position, new, centre, rows, ends, context, differences, scales):
    """Take the rows of both terms for rows of the first."""
    for i in range(rows.size):
        differences[i] = TABLE[rows[i]] * (new[0] - position[0])


@njit(PROPOSE_SIGNATURE)
def propose_without_ratio(position, new, rng, numbers, first, centre, factor, whitener):
    """Keep the density ratio to itself."""
    new[0] = 1.0 - position[0]
    return 0.0, 0


def without_finite_population(decide):
    """Return a decision on a variance without the factor 1 - n/N."""

    @njit(DECIDE_SIGNATURE)
    def altered(log_ratio, variance, skewness, n, total, uniform, settings):
        factor = 1.0 - n / total
        return decide(log_ratio, variance / factor, skewness, n, total, uniform, settings)

    return altered


def decide_by_another_uniform(decide):
    """Return a decision whose uniform is not one."""

    @njit(DECIDE_SIGNATURE)
    def altered(log_ratio, variance, skewness, n, total, uniform, settings):
        return decide(log_ratio, variance, skewness, n, total, uniform * uniform, settings)

    return altered


@dataclass
class Toy:
    """The chain under one test; roles and numbers can be replaced by mutants."""

    rule: Rule
    roles: dict = field(default_factory=dict)
    surrogate: dict = field(default_factory=dict)

    def steps(self, count, seed, updates=1):
        """Return the states before each of `count` calls of some updates, and the calls' sums."""
        given = {
            "propose": propose,
            "test": look_until_decided,
            "prior": prior,
            "evaluate": evaluate,
            "plan": self.rule.plan,
            "decide": self.rule.decide,
        } | self.roles
        functions = list(given.values())
        addresses = np.array([address_of(function) for function in functions])
        one, zero = np.ones((1, 1)), np.zeros(1)
        surrogate = Surrogate(zero, one, one, zero, 0.0 * one, 0, BETA, self.spread)
        arrays = pack(surrogate._replace(**self.surrogate))
        rng = np.random.default_rng(seed)
        generator = generator_addresses(rng)
        position, tallies, context = np.zeros(1), np.zeros((1, entry.N_TALLIES)), CONTEXT.copy()
        states, sums = np.empty(count), np.zeros((count, entry.N_SUMS))
        for k in range(count):
            states[k] = position[0]
            update(
                position, zero.copy(), updates, generator, addresses, zero, self.rule.settings,
                *arrays, STARTS, context, *NO_BOUNDS, sums[k], tallies,
                np.zeros((2, 1)),
            )  # fmt: skip
        return states, sums

    @property
    def spread(self):
        """V of the full data: the two states are one whitened unit apart."""
        return audited_spread(TABLE, BETA)
