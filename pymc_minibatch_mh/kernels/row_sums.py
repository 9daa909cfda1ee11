"""Sums over many rows, for passes over all of them.

The parts of an update one by one: a move, its test again and again, all of its rows.

They call the functions that a run calls, on the same records.
"""

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import arrange, arrange_block
from pymc_minibatch_mh.kernels.handle import function_at, record_at
from pymc_minibatch_mh.kernels.looks import add_moments
from pymc_minibatch_mh.kernels.moves import ratio_to_bound, whiten
from pymc_minibatch_mh.kernels.posterior import cheap_change, log_prior
from pymc_minibatch_mh.kernels.roles import BEND, DERIVATIVES, EVALUATE, INDICES, LOGP, VECTOR
from pymc_minibatch_mh.kernels.run import decided, proposed
from pymc_minibatch_mh.kernels.vectors import copy_to, shifted

#: Rows whose temporaries stay in a core's own cache.
BLOCK = 4096


@compiled()
def add_derivatives(address, theta, space, drawn, sums, hessian):
    """Add value, gradient and Hessian of some rows.

    Parameters
    ----------
    address
        Address of a ``DERIVATIVES`` function.
    theta : ndarray, shape (d,)
    space : RowSpace
    drawn : ndarray of int64
        Row numbers through all terms.
    sums : ndarray, shape (1 + d,)
        Value and gradient, added to.
    hessian : ndarray, shape (d, d) or (0, 0)
        Added to, unless it has no entries.
    """
    derivatives = function_at(address, DERIVATIVES)
    rows = np.empty(min(BLOCK, drawn.size), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    for start in range(0, drawn.size, BLOCK):
        stop = min(start + BLOCK, drawn.size)
        arrange(drawn, start, stop, space.term_starts, rows, ends)
        derivatives(theta, rows[: stop - start], ends, space.context, sums, hessian)


@compiled()
def row_values(address, theta, space, drawn, out):
    """Write the value of every row; arguments as in :func:`add_derivatives`."""
    derivatives = function_at(address, DERIVATIVES)
    row, ends = np.empty(1, np.int64), np.empty(space.term_starts.size - 1, np.int64)
    sums, no_hessian = np.empty(1 + theta.size), np.empty((0, 0))
    for k in range(drawn.size):
        arrange(drawn, k, k + 1, space.term_starts, row, ends)
        sums[0] = 0.0
        derivatives(theta, row, ends, space.context, sums, no_hessian)
        out[k] = sums[0]


@compiled()
def add_bend(address, theta, factor, space, drawn, out):
    """Add averages of third derivatives of some rows.

    Parameters
    ----------
    address
        Address of a ``BEND`` function.
    theta, factor, space, drawn
        As in :func:`add_derivatives`; see ``BEND``.
    out : ndarray, shape (d,)
        Added to.
    """
    bend = function_at(address, BEND)
    rows = np.empty(min(BLOCK, drawn.size), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    for start in range(0, drawn.size, BLOCK):
        stop = min(start + BLOCK, drawn.size)
        arrange(drawn, start, stop, space.term_starts, rows, ends)
        bend(theta, factor, rows[: stop - start], ends, space.context, out)


@compiled()
def _curvature(logp, theta, factor, context):
    """Return half of the second differences along the columns of a factor, summed."""
    here, total = logp(theta, context), 0.0
    for k in range(theta.size):
        forth, back = shifted(theta, factor[:, k], 1.0), shifted(theta, factor[:, k], -1.0)
        total += 0.5 * (logp(forth, context) + logp(back, context)) - here
    return total


@compiled()
def bend_of_prior(address, theta, factor, context, out):
    """Write how much the average over N(theta, L Lᵀ) tilts a log-density along L's columns.

    Parameters
    ----------
    address
        Address of a ``LOGP`` function.
    theta : ndarray, shape (d,)
    factor : ndarray, shape (d, d)
        L.
    context : ndarray of int64
    out : ndarray, shape (d,)
        Overwritten with Lᵀ times what third derivatives add to the gradient.
    """
    logp = function_at(address, LOGP)
    for k in range(theta.size):
        forth = _curvature(logp, shifted(theta, factor[:, k], 1.0), factor, context)
        back = _curvature(logp, shifted(theta, factor[:, k], -1.0), factor, context)
        out[k] = 0.5 * (forth - back)


@compiled()
def move_moments(address, theta, new, centre, space, drawn):
    """Return moments of the differences that a move makes to some rows: see below."""
    return moments_of_move(address, (theta, new, centre), space, drawn, np.empty(drawn.size))


@compiled()
def moments_of_move(address, ends_of_move, space, drawn, differences):
    """Write the differences that a move makes to some rows, and return moments of them.

    Parameters
    ----------
    address
        Address of an ``EVALUATE`` function.
    ends_of_move : tuple of ndarray
        The position, the new one and the centre of the expansion.
    space : RowSpace
    drawn : ndarray of int64
        Row numbers through all terms, those of a term together.
    differences : ndarray, shape (drawn.size,)
        Overwritten.

    Returns
    -------
    tuple
        n, mean, Σ(d - mean)², Σ(d - mean)³, Σ|d|³.
    """
    theta, new, centre = ends_of_move
    evaluate = function_at(address, EVALUATE)
    n, mean, second, third, absolute = 0, 0.0, 0.0, 0.0, 0.0
    rows = np.empty(min(BLOCK, drawn.size), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    scales = np.empty(rows.size)
    for start in range(0, drawn.size, BLOCK):
        stop = min(start + BLOCK, drawn.size)
        arrange(drawn, start, stop, space.term_starts, rows, ends)
        count = stop - start
        some = differences[start:stop]
        evaluate(theta, new, centre, rows[:count], ends, space.context, some, scales)
        n, mean, second, third = add_moments(n, mean, second, third, some, count)
        for i in range(count):
            absolute += abs(some[i]) ** 3
    return n, mean, second, third, absolute


@compiled()
def largest_ratio(address, ends_of_move, space, drawn, c, m, inverse_temperature):
    """Return the largest |dU_i| / (c_i M) of some rows, and the row that has it.

    Rounding errors of the differences are taken off, as where a chain checks its rows. The ends of
    the move are the position, the new one and the centre of the expansion.
    """
    theta, new, centre = ends_of_move
    evaluate = function_at(address, EVALUATE)
    largest, worst = 0.0, -1
    rows = np.empty(min(BLOCK, drawn.size), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences, scales = np.empty(rows.size), np.empty(rows.size)
    for start in range(0, drawn.size, BLOCK):
        stop = min(start + BLOCK, drawn.size)
        count = stop - start
        arrange(drawn, start, stop, space.term_starts, rows, ends)
        evaluate(theta, new, centre, rows[:count], ends, space.context, differences, scales)
        term = 0
        for i in range(count):
            while i >= ends[term]:
                term += 1
            row = rows[i] + space.term_starts[term]
            ratio = ratio_to_bound(differences[i], scales[i], c[row] * m, inverse_temperature)
            if not ratio <= largest:
                largest, worst = ratio, row
    return largest, worst


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
