"""The parts of an update one by one: a move, its test again and again, all of its rows.

They call the functions that an update calls, at the same addresses.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.draw import arrange_block
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.generator import generator_at
from pymc_minibatch_mh.kernels.passes import BLOCK
from pymc_minibatch_mh.kernels.remainder import ratio_to_bound
from pymc_minibatch_mh.kernels.signatures import EVALUATE, LOGP, PROPOSE, TEST
from pymc_minibatch_mh.kernels.surrogate import expansion_change, unpack

# Places of the roles of an update among the addresses.
PROPOSE_ROLE, TEST_ROLE, PRIOR_ROLE, EVALUATE_ROLE = range(4)
# What repetitions of a test add up: Σp, Σp², Σ rows; the fewest rows; 1 for a row beyond
# its bound.
TOTAL, SQUARES, ROWS, FEWEST, VIOLATED = range(5)
N_OUTCOMES = 5


@compiled()
def propose(position, new, generator, addresses, numbers, vectors, matrices, scalars, context):
    """Write a proposal to `new`; return the cheap part of its log ratio."""
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    move = function_at(addresses[PROPOSE_ROLE], PROPOSE)
    prior = function_at(addresses[PRIOR_ROLE], LOGP)
    surrogate = unpack(vectors, matrices, scalars)
    log_q, _ = move(
        position, new, rng, numbers,
        surrogate.first, surrogate.centre, surrogate.factor, surrogate.whitener,
    )  # fmt: skip
    change = prior(new, context) - prior(position, context)
    return change + log_q + expansion_change(surrogate, position, new)


@compiled()
def repeat_test(
    position, new, cheap, repetitions, by_verdict, generator, addresses, settings,
    vectors, matrices, scalars, term_starts, context, heads, thresholds, aliases, c, outcomes,
):  # fmt: skip
    """Decide on one move many times, on fresh rows; add up the acceptance probabilities.

    Parameters
    ----------
    position, new, cheap
        The move.
    repetitions
        How often to decide.
    by_verdict
        Whether to count verdicts, for a test whose probability is that of a single look.
    generator, addresses, settings, vectors, matrices, scalars, term_starts, context, heads, \
thresholds, aliases, c
        As an update takes them.
    outcomes : ndarray, shape (N_OUTCOMES,)
        Added to. A violated bound ends the repetitions.
    """
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    test = function_at(addresses[TEST_ROLE], TEST)
    sums = np.zeros(entry.N_SUMS)
    for _ in range(repetitions):
        sums[:] = 0.0
        verdict, accept, n = test(
            position, new, cheap, rng, addresses, settings, vectors, matrices, scalars,
            term_starts, context, heads, thresholds, aliases, c, sums,
        )  # fmt: skip
        if verdict < 0.0:
            outcomes[VIOLATED] = 1.0
            return
        probability = verdict if by_verdict else accept
        outcomes[TOTAL] += probability
        outcomes[SQUARES] += probability * probability
        outcomes[ROWS] += n
        outcomes[FEWEST] = min(outcomes[FEWEST], n)


@compiled()
def differences_of(address, position, new, centre, space, first, last, differences, scales):
    """Write the differences and scales of the rows `first` to `last`, in their order."""
    evaluate = function_at(address, EVALUATE)
    rows = np.empty(min(BLOCK, last - first), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        count = stop - start
        arrange_block(start, stop, space.term_starts, rows, ends)
        own = differences[start - first : stop - first]
        own_scales = scales[start - first : stop - first]
        evaluate(position, new, centre, rows[:count], ends, space.context, own, own_scales)


@compiled()
def largest_of(differences, scales, c, m, inverse_temperature):
    """Return the largest |dU_i| / (c_i M) of some rows, and its place among them."""
    largest, worst = -1.0, 0
    for i in range(differences.size):
        ratio = ratio_to_bound(differences[i], scales[i], c[i] * m, inverse_temperature)
        if ratio > largest:
            largest, worst = ratio, i
    return largest, worst
