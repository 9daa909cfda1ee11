"""A chain on two states whose rows are a table, driven by the shipped loop."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from exactness.enumeration import Rule, audited_spread
from kernels.chain import draws_of, line, role
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE, LOGP_SIGNATURE
from pymc_minibatch_mh.methods.penalty import PenaltyTest
from pymc_minibatch_mh.methods.penalty import judge as judge_by_penalty

#: What a row adds to the log-likelihood of state 1 over that of state 0.
TABLE = 0.5 * np.array(
    [1.3, 0.9, 0.8, 0.6, 0.5, -0.4, 0.3, -1.1, 0.1, -0.7, -0.2, -0.9, 0.4, -0.3, 0.2, 0.2]
)
#: The first rows belong to another term than the rest.
STARTS = np.array([0, 5, TABLE.size])
LOG_PRIOR, LOG_Q, BETA = 0.35, 0.2, 0.6
#: Context: number of calls, number of rows remembered, the rows.
CONTEXT = np.zeros(2 + TABLE.size, dtype=np.int64)


class Flip(NamedTuple):
    """A move to the other state, whose density ratio favours moves to state 1."""

    log_q: float


@role_of(Flip, "propose")
@role
def propose(proposal, move, posterior, rng):
    move.new[0] = 1.0 - move.position[0]
    return proposal.log_q * (move.new[0] - move.position[0]), 0


FLIP = Flip(LOG_Q)


class FlipWithoutRatio(Flip):
    """The same move, which keeps its density ratio to itself."""


@role_of(FlipWithoutRatio, "propose")
@role
def propose_without_ratio(proposal, move, posterior, rng):
    move.new[0] = 1.0 - move.position[0]
    return 0.0, 0


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


class WithoutFinitePopulation(PenaltyTest):
    """The penalty test on a variance without the factor 1 - n/N."""


@role_of(WithoutFinitePopulation, "judge")
@role
def judge_without_finite_population(log_ratio, variance, skewness, n, total, uniform, test):
    factor = 1.0 - n / total
    return judge_by_penalty(log_ratio, variance / factor, skewness, n, total, uniform, test)


class ByAnotherUniform(PenaltyTest):
    """The penalty test with a uniform number that is none."""


@role_of(ByAnotherUniform, "judge")
@role
def judge_by_another_uniform(log_ratio, variance, skewness, n, total, uniform, test):
    return judge_by_penalty(log_ratio, variance, skewness, n, total, uniform * uniform, test)


@dataclass
class Toy:
    """The chain under one test; roles and numbers can be replaced by mutants.

    Parameters
    ----------
    rule
        The test.
    proposal
        Record of the moves.
    prior, evaluate
        Roles of the model.
    kind
        Class of the test's record, if not its own.
    kappa
        κ of the predicted variance; by default that of the full data.
    inverse_temperature
        β.
    """

    rule: Rule
    proposal: Flip = FLIP
    prior: object = prior
    evaluate: object = evaluate
    kind: type | None = None
    kappa: float | None = None
    inverse_temperature: float = BETA

    @property
    def posterior(self):
        """What is sampled."""
        return Posterior(
            address_of(self.prior),
            address_of(self.evaluate),
            RowSpace(STARTS, CONTEXT.copy()),
            line(self.inverse_temperature),
            no_tables(),
            0.5 * TABLE.size,
        )

    def steps(self, count, seed, **options):
        """Return the states before each of `count` draws, and the draws' counts: see `draws_of`."""
        posterior = self.posterior
        test = self.rule.settings._replace(kappa=self.spread if self.kappa is None else self.kappa)
        if self.kind is not None:
            test = self.kind(*test)
        return draws_of(posterior, self.proposal, test, 0.0, count=count, seed=seed, **options)

    @property
    def spread(self):
        """V of the full data: the two states are one whitened unit apart."""
        return float(audited_spread(TABLE, BETA))
