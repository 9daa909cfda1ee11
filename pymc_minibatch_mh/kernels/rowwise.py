"""The roles of a model whose rows are functions of a few linear forms."""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.forms import (
    DIFFERENCE,
    N_ARGUMENTS,
    N_CHOSEN,
    N_FIXED,
    N_LEAVES,
    READ_ROWS,
    SLOPES,
    TERMS,
    THIRD,
    room_for_forms,
    rows_of_block,
    whiten_forms,
)
from pymc_minibatch_mh.kernels.outer import (
    add_gradient,
    add_hessian,
    add_products,
    bend_of_row,
)
from pymc_minibatch_mh.kernels.scratch import scratch
from pymc_minibatch_mh.kernels.signatures import (
    BEND_SIGNATURE,
    DERIVATIVES_SIGNATURE,
    EVALUATE_SIGNATURE,
    READ,
    ROWWISE,
)


@compiled(EVALUATE_SIGNATURE)
def evaluate_rows(position, new, centre, rows, ends, context, differences, scales):
    """Write differences of remainders and their rounding errors: see ``EVALUATE``."""
    # The arguments of a difference: forms of the centre, and of both ends seen from there.
    vectors = scratch((3, centre.size), np.float64)
    for j in range(centre.size):
        vectors[0, j] = centre[j]
        vectors[1, j] = position[j] - centre[j]
        vectors[2, j] = new[j] - centre[j]
    start = 0
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        most = min(rows_of_block(context, part), ends[term] - start)
        fixed = scratch((most + 1, context[part + N_FIXED]), np.float64)
        places = scratch((most, context[part + N_CHOSEN]), np.int64)
        chosen = scratch((most, context[part + N_CHOSEN]), np.float64)
        width = 3 * context[part + N_ARGUMENTS] + context[part + N_LEAVES]
        inputs, outputs = scratch((most, width), np.float64), scratch((most, 2), np.float64)
        read = function_at(context[part + READ_ROWS], READ)
        difference = function_at(context[part + DIFFERENCE], ROWWISE)
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            read(context, part, some, vectors, fixed, places, chosen, inputs)
            difference(inputs[:n], outputs[:n])
            for i in range(n):
                change = outputs[i, 0]
                differences[start + i] = change if np.isfinite(change) else -np.inf
                scales[start + i] = outputs[i, 1]
            start += n


@compiled(DERIVATIVES_SIGNATURE)
def derive_rows(position, rows, ends, context, sums, hessian):
    """Add derivatives of the log-likelihood of some rows: see ``DERIVATIVES``."""
    vectors = position.reshape((1, position.size))
    start = 0
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        m, n_fixed = context[part + N_ARGUMENTS], context[part + N_FIXED]
        most = min(rows_of_block(context, part), ends[term] - start)
        room = room_for_forms(context, part, most)
        inputs = np.empty((most, m + context[part + N_LEAVES]))
        slopes = np.empty((most, 1 + m + m * (m + 1) // 2))
        read = function_at(context[part + READ_ROWS], READ)
        derivatives = function_at(context[part + SLOPES], ROWWISE)
        gradient = np.zeros(n_fixed)
        products = np.zeros((n_fixed, n_fixed) if hessian.size else (0, 0))
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            read(context, part, some, vectors, room.fixed, room.places, room.chosen, inputs)
            derivatives(inputs[:n], slopes[:n])
            for i in range(n):
                sums[0] += slopes[i, 0]
            add_gradient(context, part, room, slopes[:n], gradient, sums)
            if hessian.size:
                add_products(context, part, room, slopes[:n], products, hessian)
            start += n
        add_hessian(context, part, gradient, products, sums, hessian)


@compiled(BEND_SIGNATURE)
def bend_rows(position, factor, rows, ends, context, out):
    """Add what third derivatives do to the gradient, on average over a Gaussian: see ``BEND``."""
    vectors = position.reshape((1, position.size))
    start = 0
    sums = np.zeros(1 + position.size)
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        m = context[part + N_ARGUMENTS]
        most = min(rows_of_block(context, part), ends[term] - start)
        room = room_for_forms(context, part, most)
        inputs = np.empty((most, m + context[part + N_LEAVES]))
        thirds = np.empty((most, m * (m + 1) * (m + 2) // 6))
        read = function_at(context[part + READ_ROWS], READ)
        third = function_at(context[part + THIRD], ROWWISE)
        gradient = np.zeros(context[part + N_FIXED])
        white, bends = np.empty((m, position.size)), np.zeros((most, 1 + m))
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            read(context, part, some, vectors, room.fixed, room.places, room.chosen, inputs)
            third(inputs[:n], thirds[:n])
            for i in range(n):
                whiten_forms(context, part, room, i, factor, white)
                bend_of_row(white, thirds[i], bends[i])
            add_gradient(context, part, room, bends[:n], gradient, sums)
            start += n
        add_hessian(context, part, gradient, np.zeros((0, 0)), sums, np.zeros((0, 0)))
    for j in range(position.size):
        out[j] += sums[1 + j]
