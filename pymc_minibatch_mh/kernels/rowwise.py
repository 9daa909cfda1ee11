"""The roles of a model whose rows are functions of a few linear forms."""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.forms import (
    DIFFERENCE,
    N_ARGUMENTS,
    N_FIXED,
    N_LEAVES,
    SLOPES,
    TERMS,
    THIRD,
    Forms,
    apply_forms,
    pick_fixed,
    read_forms,
    read_leaves,
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
from pymc_minibatch_mh.kernels.signatures import (
    BEND_SIGNATURE,
    DERIVATIVES_SIGNATURE,
    EVALUATE_SIGNATURE,
    ROWWISE,
)


@compiled()
def _picked(context, part, vector):
    out = np.empty(context[part + N_FIXED])
    pick_fixed(context, part, vector, out)
    return out


@compiled(EVALUATE_SIGNATURE)
def evaluate_rows(position, new, centre, rows, ends, context, differences, scales):
    """Write differences of remainders and their rounding errors: see ``EVALUATE``."""
    here, there = position - centre, new - centre
    start = 0
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        m, n_leaves = context[part + N_ARGUMENTS], context[part + N_LEAVES]
        most = min(rows_of_block(context, part), ends[term] - start)
        room = room_for_forms(context, part, most)
        inputs, outputs = np.empty((most, 3 * m + n_leaves)), np.empty((most, 2))
        difference = function_at(context[part + DIFFERENCE], ROWWISE)
        at_centre = _picked(context, part, centre)
        at_here, at_there = _picked(context, part, here), _picked(context, part, there)
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            forms = Forms(room.fixed[:n], room.places[:n], room.chosen[:n])
            read_forms(context, part, some, forms)
            apply_forms(context, part, forms, at_centre, centre, inputs, 0)
            apply_forms(context, part, forms, at_here, here, inputs, m)
            apply_forms(context, part, forms, at_there, there, inputs, 2 * m)
            read_leaves(context, part, some, inputs, 3 * m)
            difference(inputs[:n], outputs[:n])
            for i in range(n):
                change = outputs[i, 0]
                differences[start + i] = change if np.isfinite(change) else -np.inf
                scales[start + i] = outputs[i, 1]
            start += n


@compiled(DERIVATIVES_SIGNATURE)
def derive_rows(position, rows, ends, context, sums, hessian):
    """Add derivatives of the log-likelihood of some rows: see ``DERIVATIVES``."""
    start = 0
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        m, n_leaves = context[part + N_ARGUMENTS], context[part + N_LEAVES]
        n_fixed = context[part + N_FIXED]
        most = min(rows_of_block(context, part), ends[term] - start)
        room = room_for_forms(context, part, most)
        inputs = np.empty((most, m + n_leaves))
        slopes = np.empty((most, 1 + m + m * (m + 1) // 2))
        derivatives = function_at(context[part + SLOPES], ROWWISE)
        picked, gradient = _picked(context, part, position), np.zeros(n_fixed)
        products = np.zeros((n_fixed, n_fixed) if hessian.size else (0, 0))
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            forms = Forms(room.fixed[:n], room.places[:n], room.chosen[:n])
            read_forms(context, part, some, forms)
            apply_forms(context, part, forms, picked, position, inputs, 0)
            read_leaves(context, part, some, inputs, m)
            derivatives(inputs[:n], slopes[:n])
            for i in range(n):
                sums[0] += slopes[i, 0]
            add_gradient(context, part, forms, slopes[:n], gradient, sums)
            if hessian.size:
                add_products(context, part, forms, slopes[:n], products, hessian)
            start += n
        add_hessian(context, part, gradient, products, sums, hessian)


@compiled(BEND_SIGNATURE)
def bend_rows(position, factor, rows, ends, context, out):
    """Add what third derivatives do to the gradient, on average over a Gaussian: see ``BEND``."""
    start = 0
    sums = np.zeros(1 + position.size)
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        m, n_leaves = context[part + N_ARGUMENTS], context[part + N_LEAVES]
        most = min(rows_of_block(context, part), ends[term] - start)
        room = room_for_forms(context, part, most)
        inputs = np.empty((most, m + n_leaves))
        thirds = np.empty((most, m * (m + 1) * (m + 2) // 6))
        third = function_at(context[part + THIRD], ROWWISE)
        picked, gradient = _picked(context, part, position), np.zeros(context[part + N_FIXED])
        white, bends = np.empty((m, position.size)), np.zeros((most, 1 + m))
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            forms = Forms(room.fixed[:n], room.places[:n], room.chosen[:n])
            read_forms(context, part, some, forms)
            apply_forms(context, part, forms, picked, position, inputs, 0)
            read_leaves(context, part, some, inputs, m)
            third(inputs[:n], thirds[:n])
            for i in range(n):
                whiten_forms(context, part, forms, i, factor, white)
                bend_of_row(white, thirds[i], bends[i])
            add_gradient(context, part, forms, bends[:n], gradient, sums)
            start += n
        add_hessian(context, part, gradient, np.zeros((0, 0)), sums, np.zeros((0, 0)))
    out += sums[1:]
