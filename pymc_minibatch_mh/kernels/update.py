"""The compiled update: propose, read rows look by look, decide, move.

It is handed its roles (:mod:`pymc_minibatch_mh.kernels.signatures`) and imports none of them.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange, arrange_block, draw_more, reserve
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.generator import generator_at
from pymc_minibatch_mh.kernels.moments import add_moments, skewness
from pymc_minibatch_mh.kernels.signatures import DECIDE, EVALUATE, LOGP, PLAN, PROPOSE
from pymc_minibatch_mh.kernels.surrogate import expansion_change, remainder_size, unpack

#: Rows that a full pass inside an update reads at a time.
BLOCK = 2048

# Entries of the sums that an update adds to.
ACCEPT, ACCEPTED, N_OBS, N_LOOKS, FULL_PASS, INVALID, ERROR, UNDERESTIMATED = range(8)
# Entries that hold the value of the last update.
LOG_RATIO, LOG_RATIO_STD = 8, 9
N_SUMS = 10

# Columns of the tally that is kept for each component of the proposal.
TRIED, TALLY_ACCEPT, JUMP, SQUARE_JUMP, ROWS = range(5)
N_TALLIES = 5


class Roles(NamedTuple):
    """The first-class functions that an update is built from, in the order of their addresses."""

    propose: object
    plan: object
    decide: object
    prior: object
    evaluate: object


class RowSpace(NamedTuple):
    """Where the rows are: first row of each term and the context of the batch graph."""

    term_starts: np.ndarray
    context: np.ndarray


class Look(NamedTuple):
    """What has been read of one move."""

    n: int
    log_ratio: float
    variance: float
    predicted: float


@compiled()
def _roles_at(addresses):
    return Roles(
        function_at(addresses[0], PROPOSE),
        function_at(addresses[1], PLAN),
        function_at(addresses[2], DECIDE),
        function_at(addresses[3], LOGP),
        function_at(addresses[4], EVALUATE),
    )


@compiled()
def read_all(evaluate, position, new, surrogate, space):
    """Sum the differences of all rows, in bounded memory."""
    total = space.term_starts[-1]
    rows = np.empty(BLOCK, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(BLOCK)
    scales = np.empty(BLOCK)
    change = 0.0
    for first in range(0, total, BLOCK):
        last = min(first + BLOCK, total)
        arrange_block(first, last, space.term_starts, rows, ends)
        count = last - first
        evaluate(
            position, new, surrogate.centre, rows[:count], ends, space.context, differences, scales
        )
        for i in range(count):
            change += differences[i]
    return change


@compiled()
def decide_by_looks(roles, settings, position, new, cheap, surrogate, space, rng):
    """Read rows until the test decides, or all of them.

    How many rows the first look reads follows from the move alone. Returns the verdict (1 accept,
    0 reject), the acceptance probability, the error estimate, the number of looks and a Look.
    """
    total = space.term_starts[-1]
    beta = surrogate.inverse_temperature
    spread = surrogate.spread * remainder_size(surrogate, position, new) ** 2
    uniform = rng.random()
    drawn, table = np.empty(0, np.int64), np.empty(0, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    n, mean, second, third, looks = 0, 0.0, 0.0, 0.0, 0
    while True:
        target = roles.plan(spread, n, total, settings)
        looks += 1
        if 2 * target >= total:
            change = read_all(roles.evaluate, position, new, surrogate, space)
            n, log_ratio, variance, skew = total, cheap + beta * change, 0.0, 0.0
        else:
            drawn, table = reserve(drawn, table, n, target)
            draw_more(rng, total, drawn, table, n, target)
            count = target - n
            rows = np.empty(count, np.int64)
            differences = np.empty(count)
            scales = np.empty(count)
            arrange(drawn, n, target, space.term_starts, rows, ends)
            roles.evaluate(
                position, new, surrogate.centre, rows, ends, space.context, differences, scales
            )
            n, mean, second, third = add_moments(n, mean, second, third, differences, count)
            log_ratio = cheap + beta * total * mean
            per_row = second / (n - 1.0)
            variance = (beta * total) ** 2 * per_row / n * (1.0 - n / total)
            skew = skewness(n, second, third)
        predicted = spread * (1.0 / n - 1.0 / total)
        verdict, accept, error = roles.decide(
            log_ratio, variance, skew, n, total, uniform, settings
        )
        if verdict >= 0.0:
            return verdict, accept, error, looks, Look(n, log_ratio, variance, predicted)


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
    tally[TRIED] += 1.0
    tally[TALLY_ACCEPT] += accept
    tally[JUMP] += accept * jump
    tally[SQUARE_JUMP] += accept * square_jump
    tally[ROWS] += n


@compiled()
def update(
    position,
    n_updates,
    generator,
    addresses,
    numbers,
    settings,
    vectors,
    matrices,
    scalars,
    term_starts,
    context,
    sums,
    tallies,
):
    """Move `position` in place by `n_updates` Metropolis–Hastings updates.

    Parameters
    ----------
    position : ndarray, shape (d,)
        Current position, overwritten.
    n_updates
        Number of updates.
    generator : ndarray of int64, shape (4,)
        Addresses of the generator, the only source of randomness.
    addresses : ndarray of int64, shape (5,)
        Addresses of the Roles.
    numbers : ndarray
        Settings of the proposal.
    settings : ndarray
        Settings of the test.
    vectors, matrices, scalars : ndarray
        The packed surrogate.
    term_starts, context : ndarray of int64
        The row space.
    sums : ndarray, shape (N_SUMS,)
        Statistics of these updates, added to.
    tallies : ndarray, shape (components, N_TALLIES)
        Efficiency of each component of the proposal, added to.
    """
    roles = _roles_at(addresses)
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    surrogate = unpack(vectors, matrices, scalars)
    space = RowSpace(term_starts, context)
    new = np.empty_like(position)
    prior_here = roles.prior(position)
    for _ in range(n_updates):
        log_q, component = roles.propose(
            position, new, rng, numbers, surrogate.centre, surrogate.factor, surrogate.whitener
        )
        prior_there = roles.prior(new)
        cheap = prior_there - prior_here + log_q + expansion_change(surrogate, position, new)
        if not np.isfinite(cheap):
            sums[INVALID] += 1.0
            tallies[component, TRIED] += 1.0
            sums[LOG_RATIO] = -np.inf
            sums[LOG_RATIO_STD] = 0.0
            continue
        verdict, accept, error, looks, look = decide_by_looks(
            roles, settings, position, new, cheap, surrogate, space, rng
        )
        full = look.n == space.term_starts[-1]
        sums[ACCEPT] += accept
        sums[N_OBS] += look.n
        sums[N_LOOKS] += looks
        sums[FULL_PASS] += full
        sums[INVALID] += not np.isfinite(look.log_ratio)
        sums[ERROR] += error
        sums[UNDERESTIMATED] += not full and look.variance > max(0.5, 1.5 * look.predicted)
        sums[LOG_RATIO] = look.log_ratio
        sums[LOG_RATIO_STD] = np.sqrt(look.variance)
        _tally_move(tallies[component], position, new, surrogate, accept, look.n)
        if verdict > 0.0:
            sums[ACCEPTED] += 1.0
            prior_here = prior_there
            position[:] = new
