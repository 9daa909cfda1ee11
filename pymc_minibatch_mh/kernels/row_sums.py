"""Sums over many rows, for passes over all of them, and the parts of an update one by one.

The parts call the functions that a run calls, on the same records.
"""

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import arrange
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.looks import add_moments
from pymc_minibatch_mh.kernels.moves import ratio_to_bound, whiten
from pymc_minibatch_mh.kernels.posterior import cheap_change, log_prior
from pymc_minibatch_mh.kernels.roles import DERIVATIVES, EVALUATE, INDICES, LOGP, SKEWNESS, VECTOR
from pymc_minibatch_mh.kernels.run import decided, proposed
from pymc_minibatch_mh.kernels.vectors import copy_to, shifted

#: Rows whose temporaries stay in a core's own cache.
BLOCK = 4096


@compiled(inlined=True)
def _room(space, size):
    """Return room for the rows of a block of `size` ones at most, and for where terms end in it."""
    return np.empty(min(BLOCK, size), np.int64), np.empty(space.term_starts.size - 1, np.int64)


@compiled(inlined=True)
def _arranged(drawn, start, space, rows, ends):
    """Return the rows of the block of drawn ones from `start` on, numbered within their terms."""
    stop = min(start + BLOCK, drawn.size)
    arrange(drawn, start, stop, space.term_starts, rows, ends)
    return rows[: stop - start]


@compiled()
def add_derivatives(address, theta, space, drawn, sums, hessian):
    """Add value and gradient, shape (1 + d,), and Hessian of some rows: see ``DERIVATIVES``.

    `drawn` are their numbers through all terms; a Hessian without entries is not asked for.
    """
    derivatives = function_at(address, DERIVATIVES)
    rows, ends = _room(space, drawn.size)
    for start in range(0, drawn.size, BLOCK):
        some = _arranged(drawn, start, space, rows, ends)
        derivatives(theta, some, ends, space.context, sums, hessian)


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
def add_skewness(address, theta, factor, space, drawn, out):
    """Add averages of third derivatives of some rows to `out`, shape (d,): see ``SKEWNESS``."""
    skewness = function_at(address, SKEWNESS)
    rows, ends = _room(space, drawn.size)
    for start in range(0, drawn.size, BLOCK):
        some = _arranged(drawn, start, space, rows, ends)
        skewness(theta, factor, some, ends, space.context, out)


@compiled()
def _curvature(logp, theta, factor, context):
    """Return half of the second differences along the columns of a factor, summed."""
    here, total = logp(theta, context), 0.0
    for k in range(theta.size):
        forth, back = shifted(theta, factor[:, k], 1.0), shifted(theta, factor[:, k], -1.0)
        total += 0.5 * (logp(forth, context) + logp(back, context)) - here
    return total


@compiled()
def skewness_of_prior(address, theta, factor, context, out):
    """Write how much the average over N(theta, L Lᵀ) tilts a ``LOGP`` along L's columns.

    That is Lᵀ times the third-order correction of the gradient, shape (d,).
    """
    logp = function_at(address, LOGP)
    for k in range(theta.size):
        forth = _curvature(logp, shifted(theta, factor[:, k], 1.0), factor, context)
        back = _curvature(logp, shifted(theta, factor[:, k], -1.0), factor, context)
        out[k] = 0.5 * (forth - back)


@compiled()
def differences_of(address, ends_of_move, space, drawn, differences, scales):
    """Write the differences that a move makes to some rows, and their scales: see ``EVALUATE``.

    The move is the position, the new one and the centre of the expansion; the rows are numbered
    through all terms, those of a term together.
    """
    position, new, centre = ends_of_move
    evaluate = function_at(address, EVALUATE)
    rows, ends = _room(space, drawn.size)
    for start in range(0, drawn.size, BLOCK):
        some = _arranged(drawn, start, space, rows, ends)
        own, own_scales = differences[start : start + BLOCK], scales[start : start + BLOCK]
        evaluate(position, new, centre, some, ends, space.context, own, own_scales)


@compiled()
def moments_of_move(address, ends_of_move, space, drawn, differences):
    """Write differences as :func:`differences_of`; return n, mean, Σ(d - mean)^2 and ^3, Σ|d|^3."""
    differences_of(address, ends_of_move, space, drawn, differences, np.empty(drawn.size))
    n, mean, second, third, absolute = 0, 0.0, 0.0, 0.0, 0.0
    for start in range(0, drawn.size, BLOCK):
        some = differences[start : start + BLOCK]
        n, mean, second, third = add_moments(n, mean, second, third, some, some.size)
        for i in range(some.size):
            absolute += abs(some[i]) ** 3
    return n, mean, second, third, absolute


# Sums over repetitions of a test: Σp, Σp², Σ rows; the fewest rows that decided; 1 for a row
# beyond its bound.
TOTAL, SQUARES, ROWS, FEWEST, VIOLATED = range(5)
N_OUTCOMES = 5

#: Arguments of `propose_once` and `repeat_test` after the record.
PROPOSE_ARGUMENTS = (INDICES, VECTOR, VECTOR)
REPEAT_ARGUMENTS = (INDICES, VECTOR, VECTOR, types.float64, types.int64, types.int64, VECTOR)


@compiled()
def propose_once(own, generator, position, new):
    """Write a proposal of linked KernelState to `new`; return the cheap part of its log ratio."""
    posterior, move = own.posterior, own.move
    copy_to(move.position, position)
    whiten(posterior.reference.whitener, position, posterior.reference.centre, move.here)
    log_q, _ = proposed(own, generator)
    copy_to(new, move.new)
    change = log_prior(posterior, new) - log_prior(posterior, position)
    return change + log_q + cheap_change(posterior, move)


@compiled()
def repeat_test(own, generator, position, new, cheap, repetitions, by_verdict, outcomes):
    """Decide on one move many times, on fresh rows; add up the acceptance probabilities.

    `by_verdict` counts verdicts, for a test whose probability is that of a single look. The
    outcomes, shape (N_OUTCOMES,), are added to; a violated bound ends the repetitions.
    """
    reference, move = own.posterior.reference, own.move
    copy_to(move.position, position)
    copy_to(move.new, new)
    whiten(reference.whitener, position, reference.centre, move.here)
    whiten(reference.whitener, new, reference.centre, move.there)
    whiten(reference.whitener, new, position, move.step)
    counts = np.zeros(entry.N_COUNTS)
    for _ in range(repetitions):
        counts[:] = 0.0
        verdict, accept, n = decided(own, cheap, generator, counts)
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
def largest_of(differences, scales, c, m, inverse_temperature):
    """Return the largest |dU_i| / (c_i M) of some rows, and its place among them."""
    largest, worst = -1.0, 0
    for i in range(differences.size):
        ratio = ratio_to_bound(differences[i], scales[i], c[i] * m, inverse_temperature)
        if ratio > largest:
            largest, worst = ratio, i
    return largest, worst
