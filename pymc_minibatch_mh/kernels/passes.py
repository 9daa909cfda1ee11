"""Sums over many rows, for passes over all of them."""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.moments import add_moments
from pymc_minibatch_mh.kernels.remainder import ratio_to_bound
from pymc_minibatch_mh.kernels.signatures import DERIVATIVES, EVALUATE

#: Rows whose temporaries stay in a core's own cache.
BLOCK = 4096


@compiled()
def add_derivatives(address, theta, space, drawn, directions, out, products):
    """Add value, gradient and Hessian-vector products of some rows.

    Parameters
    ----------
    address
        Address of a ``DERIVATIVES`` function.
    theta : ndarray, shape (d,)
    space : RowSpace
    drawn : ndarray of int64
        Row numbers through all terms.
    directions : ndarray, shape (k, d)
        k directions; none leaves the Hessian out.
    out : ndarray, shape (1 + d,)
        Value and gradient, added to.
    products : ndarray, shape (k, d)
        Hessian times each direction, added to.
    """
    derivatives = function_at(address, DERIVATIVES)
    size = theta.size
    rows = np.empty(min(BLOCK, drawn.size), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    packed = np.empty(1 + 2 * size)
    still = np.zeros(size)
    for start in range(0, drawn.size, BLOCK):
        stop = min(start + BLOCK, drawn.size)
        arrange(drawn, start, stop, space.term_starts, rows, ends)
        some = rows[: stop - start]
        for k in range(max(1, directions.shape[0])):
            direction = directions[k] if directions.shape[0] else still
            derivatives(theta, direction, some, ends, space.context, packed)
            if k == 0:
                out += packed[: 1 + size]
            if directions.shape[0]:
                products[k] += packed[1 + size :]


@compiled()
def move_moments(address, theta, new, centre, space, drawn):
    """Return moments of the differences that a move makes to some rows.

    Returns
    -------
    tuple
        n, mean, Σ(d - mean)², Σ(d - mean)³, Σ|d|³.
    """
    evaluate = function_at(address, EVALUATE)
    n, mean, second, third, absolute = 0, 0.0, 0.0, 0.0, 0.0
    rows = np.empty(min(BLOCK, drawn.size), np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(rows.size)
    scales = np.empty(rows.size)
    for start in range(0, drawn.size, BLOCK):
        stop = min(start + BLOCK, drawn.size)
        arrange(drawn, start, stop, space.term_starts, rows, ends)
        count = stop - start
        evaluate(theta, new, centre, rows[:count], ends, space.context, differences, scales)
        n, mean, second, third = add_moments(n, mean, second, third, differences, count)
        for i in range(count):
            absolute += abs(differences[i]) ** 3
    return n, mean, second, third, absolute


@compiled()
def largest_ratio(address, theta, new, centre, space, drawn, c, m, inverse_temperature):
    """Return the largest |dU_i| / (c_i M) of some rows, and the row that has it.

    Rounding errors of the differences are taken off, as where a chain checks its rows.
    """
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
