"""One move again and again, whose rows change by given numbers, under the shipped loop."""

from typing import NamedTuple

import numpy as np
from numba import njit

from kernels.chain import draws_of, line, role
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE, LOGP_SIGNATURE
from pymc_minibatch_mh.methods.austere import AustereTest
from pymc_minibatch_mh.methods.austere import judge as judge_by_austere

#: The uniform number of every update of `AtOneHalf`.
UNIFORM = 0.5


class Stay(NamedTuple):
    """A move to where the chain is, whose log ratio has a part that needs no row."""

    cheap: float


@role_of(Stay, "propose")
@role
def propose(proposal, move, posterior, rng):
    move.new[0] = move.position[0]
    return proposal.cheap, 0


@njit(LOGP_SIGNATURE)
def flat(position, context):
    """Return a density that is the same everywhere."""
    return 0.0


@njit(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    """Read what each row changes by, which lies in the context."""
    table = context.view(np.float64)
    for i in range(rows.size):
        differences[i] = table[rows[i]]


class AtOneHalf(AustereTest):
    """The austere test with one threshold for all updates."""


@role_of(AtOneHalf, "judge")
@role
def judge_at_one_half(log_ratio, variance, skewness, n, total, uniform, test):
    return judge_by_austere(log_ratio, variance, skewness, n, total, UNIFORM, test)


def updates(differences, cheap, test, count, seed):
    """Return the counts of updates, each a draw of its own.

    Parameters
    ----------
    differences : ndarray, shape (N,)
        What rows change by.
    cheap
        Rest of the log ratio.
    test
        Record of a test.
    count, seed
        Number of updates, and seed of the chain.
    """
    context = np.ascontiguousarray(differences, dtype=np.float64).view(np.int64)
    space = RowSpace(np.array([0, context.size]), context)
    addresses, half = (address_of(flat), address_of(evaluate)), 0.5 * context.size
    posterior = Posterior(*addresses, space, line(1.0), no_tables(), half)
    return draws_of(posterior, Stay(float(cheap)), test, 0.0, count=count, seed=seed)[1]


def spread(differences):
    """Return √N times the standard deviation of the rows."""
    return float(np.sqrt(differences.size) * differences.std(ddof=1))
