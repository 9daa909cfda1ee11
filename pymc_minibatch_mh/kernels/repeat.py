"""The parts of an update one by one: a move, its test again and again, all of its rows.

They call the functions that a run calls, on the same records.
"""

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.draw import arrange_block
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.handle import record_at
from pymc_minibatch_mh.kernels.moves import ratio_to_bound, whiten
from pymc_minibatch_mh.kernels.posterior import cheap_change, log_prior
from pymc_minibatch_mh.kernels.row_sums import BLOCK
from pymc_minibatch_mh.kernels.run import decided, proposed
from pymc_minibatch_mh.kernels.signatures import EVALUATE, INDICES, VECTOR
from pymc_minibatch_mh.kernels.vectors import copy_to

# What repetitions of a test add up: Σp, Σp², Σ rows; the fewest rows that decided; 1 for a row
# beyond its bound.
TOTAL, SQUARES, ROWS, FEWEST, VIOLATED = range(5)
N_OUTCOMES = 5

#: What `propose_once` and `repeat_test` take behind the record.
PROPOSE_ARGUMENTS = (INDICES, VECTOR, VECTOR)
REPEAT_ARGUMENTS = (INDICES, VECTOR, VECTOR, types.float64, types.int64, types.int64, VECTOR)


@compiled()
def propose_once(handle, generator, position, new):
    """Write a proposal to `new`; return the cheap part of its log ratio.

    Parameters
    ----------
    handle : Handle
        Where the Workings of a chain lie.
    generator : ndarray of int64, shape (4,)
        Addresses of a generator.
    position, new : ndarray, shape (d,)
    """
    own = record_at(handle)
    posterior, move = own.posterior, own.move
    copy_to(move.position, position)
    whiten(posterior.surrogate.whitener, position, posterior.surrogate.centre, move.here)
    log_q, _ = proposed(own, handle, generator)
    copy_to(new, move.new)
    change = log_prior(posterior, new) - log_prior(posterior, position)
    return change + log_q + cheap_change(posterior, move)


@compiled()
def repeat_test(handle, generator, position, new, cheap, repetitions, by_verdict, outcomes):
    """Decide on one move many times, on fresh rows; add up the acceptance probabilities.

    Parameters
    ----------
    handle, generator
        As above.
    position, new, cheap
        The move.
    repetitions
        How often to decide.
    by_verdict
        Whether to count verdicts, for a test whose probability is that of a single look.
    outcomes : ndarray, shape (N_OUTCOMES,)
        Added to. A violated bound ends the repetitions.
    """
    own = record_at(handle)
    surrogate, move = own.posterior.surrogate, own.move
    copy_to(move.position, position)
    copy_to(move.new, new)
    whiten(surrogate.whitener, position, surrogate.centre, move.here)
    whiten(surrogate.whitener, new, surrogate.centre, move.there)
    whiten(surrogate.whitener, new, position, move.step)
    counts = np.zeros(entry.N_COUNTS)
    for _ in range(repetitions):
        counts[:] = 0.0
        verdict, accept, n = decided(own, handle, cheap, generator, counts)
        if verdict < 0.0:
            outcomes[VIOLATED] = 1.0
            return
        probability = verdict if by_verdict else accept
        outcomes[TOTAL] += probability
        outcomes[SQUARES] += probability * probability
        # A test that scans all rows before it decides has counted these already.
        outcomes[ROWS] += n + counts[entry.N_OBS]
        outcomes[FEWEST] = min(outcomes[FEWEST], n)


@compiled()
def differences_of(address, ends_of_move, space, first, last, differences, scales):
    """Write the differences and scales of the rows `first` to `last`, in their order.

    Parameters
    ----------
    address
        Address of an ``EVALUATE`` function.
    ends_of_move : tuple of ndarray
        The position, the new one and the centre of the expansion.
    space : RowSpace
    first, last
        Rows to read.
    differences, scales : ndarray, shape (last - first,)
        Overwritten.
    """
    evaluate = function_at(address, EVALUATE)
    position, new, centre = ends_of_move
    rows = np.empty(min(BLOCK, last - first), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    for start in range(first, last, BLOCK):
        stop = min(start + BLOCK, last)
        arrange_block(start, stop, space.term_starts, rows, ends)
        own = differences[start - first : stop - first]
        own_scales = scales[start - first : stop - first]
        some = rows[: stop - start]
        evaluate(position, new, centre, some, ends, space.context, own, own_scales)


@compiled()
def largest_of(differences, scales, c, m, inverse_temperature):
    """Return the largest |dU_i| / (c_i M) of some rows, and its place among them."""
    largest, worst = -1.0, 0
    for i in range(differences.size):
        ratio = ratio_to_bound(differences[i], scales[i], c[i] * m, inverse_temperature)
        if ratio > largest:
            largest, worst = ratio, i
    return largest, worst
