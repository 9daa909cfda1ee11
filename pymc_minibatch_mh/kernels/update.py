"""The compiled update: propose, test, move.

It is handed its roles (:mod:`pymc_minibatch_mh.kernels.signatures`) and imports none of them.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.generator import generator_at
from pymc_minibatch_mh.kernels.signatures import LOGP, PROPOSE, TEST
from pymc_minibatch_mh.kernels.surrogate import expansion_change, unpack
from pymc_minibatch_mh.kernels.vectors import copy_to


class Roles(NamedTuple):
    """The functions that every update is built from, in the order of their addresses.

    The test finds the roles of its own behind them.
    """

    propose: object
    test: object
    prior: object


@compiled()
def _roles_at(addresses):
    return Roles(
        function_at(addresses[0], PROPOSE),
        function_at(addresses[1], TEST),
        function_at(addresses[2], LOGP),
    )


@compiled()
def _tally_move(tally, position, new, surrogate, accept, n):
    """Add one tried move to the tally of its component, in posterior standard deviations."""
    jump = 0.0
    square_jump = 0.0
    for i in range(position.size):
        before = 0.0
        after = 0.0
        for j in range(i + 1):
            before += surrogate.whitener[i, j] * (position[j] - surrogate.centre[j])
            after += surrogate.whitener[i, j] * (new[j] - surrogate.centre[j])
        jump += (after - before) ** 2
        square_jump += (after**2 - before**2) ** 2
    tally[entry.TRIED] += 1.0
    tally[entry.TALLY_ACCEPT] += accept
    tally[entry.JUMP] += accept * jump
    tally[entry.SQUARE_JUMP] += accept * square_jump
    tally[entry.ROWS] += n


@compiled()
def update(
    position, new, n_updates, generator, addresses, numbers, settings,
    vectors, matrices, scalars, term_starts, context, heads, thresholds, aliases, c,
    sums, tallies, worst_move,
):  # fmt: skip
    """Move `position` in place by `n_updates` Metropolis–Hastings updates.

    Parameters
    ----------
    position : ndarray, shape (d,)
        Current position, overwritten.
    new : ndarray, shape (d,)
        Overwritten by proposals.
    n_updates
        Number of updates.
    generator : ndarray of int64, shape (4,)
        Addresses of the generator, the only source of randomness.
    addresses : ndarray of int64
        Addresses of the Roles and of the roles of the test.
    numbers : ndarray
        Settings of the proposal.
    settings : ndarray
        Settings of the test.
    vectors, matrices, scalars : ndarray
        The packed surrogate.
    term_starts, context : ndarray of int64
        The row space.
    heads, thresholds, aliases, c : ndarray
        The bound tables; empty for tests that need none.
    sums : ndarray, shape (N_SUMS,)
        Statistics of these updates, added to. If a violated bound stops the chain, they end with
        that update, at the old position.
    tallies : ndarray, shape (components, N_TALLIES)
        Efficiency of each component of the proposal, added to.
    worst_move : ndarray, shape (2, d)
        Overwritten, if a bound is violated, by position and proposal of the move in which a row
        exceeds its bound most: the row and the ratio in the sums belong to it.
    """
    roles = _roles_at(addresses)
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    surrogate = unpack(vectors, matrices, scalars)
    prior_here = roles.prior(position, context)
    for _ in range(n_updates):
        log_q, component = roles.propose(
            position, new, rng, numbers,
            surrogate.first, surrogate.centre, surrogate.factor, surrogate.whitener,
        )  # fmt: skip
        prior_there = roles.prior(new, context)
        cheap = prior_there - prior_here + log_q + expansion_change(surrogate, position, new)
        if not np.isfinite(cheap):
            sums[entry.INVALID] += 1.0
            tallies[component, entry.TRIED] += 1.0
            sums[entry.LOG_RATIO] = -np.inf
            sums[entry.LOG_RATIO_STD] = 0.0
            continue
        largest_ratio = sums[entry.BOUND_RATIO]
        verdict, accept, n = roles.test(
            position, new, cheap, rng, addresses, settings, vectors, matrices, scalars,
            term_starts, context, heads, thresholds, aliases, c, sums,
        )  # fmt: skip
        if not sums[entry.BOUND_RATIO] <= max(largest_ratio, 1.0):
            copy_to(worst_move[0], position)
            copy_to(worst_move[1], new)
        if verdict < 0.0:
            return
        sums[entry.ACCEPT] += accept
        sums[entry.N_OBS] += n
        _tally_move(tallies[component], position, new, surrogate, accept, n)
        if verdict > 0.0:
            sums[entry.ACCEPTED] += 1.0
            prior_here = prior_there
            copy_to(position, new)
