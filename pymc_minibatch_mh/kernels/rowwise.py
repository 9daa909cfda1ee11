"""The roles of a model whose rows are functions of a few linear forms.

Sums over rows of products of linear forms: gradients and Hessians in coordinates.

A row with forms B (m x d) and derivatives g, H in its m arguments adds gᵀB to the gradient and
BᵀHB to the Hessian. Fixed coefficients are summed in a matrix of their own, whose inner loops run
over neighbours in memory, and are brought to their coordinates once.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.forms import (
    CHOSEN_ARGUMENTS,
    DIFFERENCE,
    FIXED_ENDS,
    FIXED_PLACES,
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
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.roles import (
    BEND_SIGNATURE,
    DERIVATIVES_SIGNATURE,
    EVALUATE_SIGNATURE,
    READ,
    ROWWISE,
)
from pymc_minibatch_mh.kernels.vectors import add_multiple, inner, scratch


@compiled()
def second(m, a, b):
    """Return the place of a second derivative among value, gradient and Hessian of a row."""
    low, high = min(a, b), max(a, b)
    return 1 + m + low * m - low * (low - 1) // 2 + high - low


@compiled()
def _start(context, part, a):
    return context[context[part + FIXED_ENDS] + a - 1] if a > 0 else 0


@compiled()
def add_gradient(context, part, forms, slopes, gradient, sums):
    """Add the gradients of some rows, those of fixed coefficients to a vector of their own."""
    arguments, ends = context[part + CHOSEN_ARGUMENTS], context[part + FIXED_ENDS]
    for i in range(slopes.shape[0]):
        for a in range(context[part + N_ARGUMENTS]):
            slope = slopes[i, 1 + a]
            first, last = _start(context, part, a), context[ends + a]
            add_multiple(gradient[first:last], forms.fixed[i, first:last], slope)
        for g in range(context[part + N_CHOSEN]):
            slope = slopes[i, 1 + context[arguments + g]]
            sums[1 + forms.places[i, g]] += slope * forms.chosen[i, g]


@compiled(reassociate=True)
def _add_weighted(products, weights, fixed, first, last, start, stop):
    """Add Σ w_i x_i y_iᵀ of some rows, x and y being ranges of their coefficients, to `products`.

    Four rows at a time. Only the lower triangle of `products` is added to.
    """
    n = weights.size
    # Of unsigned numbers the compiler knows that they do not count from the end of an array.
    begin = np.uint64(start)
    for i in range(0, n - n % 4, 4):
        for j in range(first, last):
            one, two = weights[i] * fixed[i, j], weights[i + 1] * fixed[i + 1, j]
            three, four = weights[i + 2] * fixed[i + 2, j], weights[i + 3] * fixed[i + 3, j]
            for k in range(begin, np.uint64(min(stop, j + 1))):
                products[j, k] += (
                    one * fixed[i, k]
                    + two * fixed[i + 1, k]
                    + three * fixed[i + 2, k]
                    + four * fixed[i + 3, k]
                )
    for i in range(n - n % 4, n):
        for j in range(first, last):
            weight = weights[i] * fixed[i, j]
            for k in range(begin, np.uint64(min(stop, j + 1))):
                products[j, k] += weight * fixed[i, k]


@compiled()
def add_products(context, part, forms, slopes, products, hessian):
    """Add the Hessians of some rows, those of pairs of fixed coefficients to a matrix of theirs."""
    m, ends = context[part + N_ARGUMENTS], context[part + FIXED_ENDS]
    for a in range(m):
        first, last = _start(context, part, a), context[ends + a]
        for b in range(a + 1):
            start, stop = _start(context, part, b), context[ends + b]
            weights = slopes[:, second(m, a, b)].copy()
            _add_weighted(products, weights, forms.fixed, first, last, start, stop)
    if context[part + N_CHOSEN]:
        for i in range(slopes.shape[0]):
            _add_chosen(context, part, forms, slopes, i, hessian)


@compiled()
def _add_chosen(context, part, forms, slopes, i, hessian):
    m, n_chosen = context[part + N_ARGUMENTS], context[part + N_CHOSEN]
    arguments, ends = context[part + CHOSEN_ARGUMENTS], context[part + FIXED_ENDS]
    fixed_places = context[part + FIXED_PLACES]
    for g in range(n_chosen):
        here, weight, a = forms.places[i, g], forms.chosen[i, g], context[arguments + g]
        for b in range(m):
            slope = weight * slopes[i, second(m, a, b)]
            for j in range(_start(context, part, b), context[ends + b]):
                there = context[fixed_places + j]
                hessian[here, there] += slope * forms.fixed[i, j]
                hessian[there, here] += slope * forms.fixed[i, j]
        for h in range(n_chosen):
            slope = weight * slopes[i, second(m, a, context[arguments + h])]
            hessian[here, forms.places[i, h]] += slope * forms.chosen[i, h]


@compiled()
def add_hessian(context, part, gradient, products, sums, hessian):
    """Bring the sums of fixed coefficients to their coordinates."""
    places = context[part + FIXED_PLACES]
    for j in range(gradient.size):
        sums[1 + context[places + j]] += gradient[j]
    for j in range(products.shape[0]):
        for k in range(j + 1):
            here, there = context[places + j], context[places + k]
            hessian[here, there] += products[j, k]
            if j != k:
                hessian[there, here] += products[j, k]


@compiled()
def skewness_of_row(white, thirds, out):
    """Write ½ Σ f_abc w_b·w_c for every argument a to out[1 + a].

    `white` are the whitened forms w_a of a row, shape (m, d); `thirds` are f_abc for a <= b <= c,
    in the order of the indices.
    """
    m = white.shape[0]
    out[:] = 0.0
    place = 0
    for a in range(m):
        for b in range(a, m):
            for c in range(b, m):
                # Of the orders of an index, those with one argument in front add to its bend.
                if a == b == c:
                    out[1 + a] += 0.5 * thirds[place] * inner(white[a], white[a])
                elif a == b or b == c:
                    twice, once = (a, c) if a == b else (b, a)
                    out[1 + once] += 0.5 * thirds[place] * inner(white[twice], white[twice])
                    out[1 + twice] += thirds[place] * inner(white[twice], white[once])
                else:
                    out[1 + a] += thirds[place] * inner(white[b], white[c])
                    out[1 + b] += thirds[place] * inner(white[a], white[c])
                    out[1 + c] += thirds[place] * inner(white[a], white[b])
                place += 1


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


@compiled()
def _add_rows(position, factor, rows, ends, context, sums, hessian):
    """Add derivatives of some rows, or given L the third-order correction of the gradient."""
    bends, vectors = factor.size > 0, position.reshape((1, position.size))
    start = 0
    for term in range(ends.size):
        if ends[term] == start:
            continue
        part = context[TERMS + term]
        m, n_fixed = context[part + N_ARGUMENTS], context[part + N_FIXED]
        most = min(rows_of_block(context, part), ends[term] - start)
        room = room_for_forms(context, part, most)
        inputs = np.empty((most, m + context[part + N_LEAVES]))
        slopes = np.empty((most, 1 + m + (0 if bends else m * (m + 1) // 2)))
        thirds = np.empty((most if bends else 0, m * (m + 1) * (m + 2) // 6))
        white = np.empty((m, factor.shape[0]))
        read = function_at(context[part + READ_ROWS], READ)
        derivatives = function_at(context[part + (THIRD if bends else SLOPES)], ROWWISE)
        gradient = np.zeros(n_fixed)
        products = np.zeros((n_fixed, n_fixed) if hessian.size else (0, 0))
        while start < ends[term]:
            n = min(most, ends[term] - start)
            some = rows[start : start + n]
            read(context, part, some, vectors, room.fixed, room.places, room.chosen, inputs)
            derivatives(inputs[:n], thirds[:n] if bends else slopes[:n])
            for i in range(n):
                if bends:
                    whiten_forms(context, part, room, i, factor, white)
                    skewness_of_row(white, thirds[i], slopes[i])
                sums[0] += slopes[i, 0]
            add_gradient(context, part, room, slopes[:n], gradient, sums)
            if hessian.size:
                add_products(context, part, room, slopes[:n], products, hessian)
            start += n
        add_hessian(context, part, gradient, products, sums, hessian)


@compiled(DERIVATIVES_SIGNATURE)
def derive_rows(position, rows, ends, context, sums, hessian):
    """Add derivatives of the log-likelihood of some rows: see ``DERIVATIVES``."""
    _add_rows(position, np.empty((0, 0)), rows, ends, context, sums, hessian)


@compiled(BEND_SIGNATURE)
def bend_rows(position, factor, rows, ends, context, out):
    """Add the third-order correction of the gradient, averaged over a Gaussian (``SKEWNESS``)."""
    sums = np.zeros(1 + position.size)
    _add_rows(position, factor, rows, ends, context, sums, np.empty((0, 0)))
    for j in range(position.size):
        out[j] += sums[1 + j]
