"""Linear forms of the position whose coefficients are data, read row by row.

The sources of a term's rows, and the compiled functions that take them, lie in one vector of
integers, the context. From ``TERMS`` on it has the place of each term's part; a part begins with
the slots named here. One kernel so serves all models.

Coefficients are of two kinds. *Fixed* ones belong to the same coordinates of the position in every
row; *chosen* ones to coordinates that the data choose, as in ``a[group]``.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.arrays import load, prefetch, read_block, read_number
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.roles import READ, READ_SIGNATURE
from pymc_minibatch_mh.kernels.vectors import inner, inner_of_line

#: Where the places of the terms' parts stand in the context.
TERMS = 3
# Slots of a term's part: numbers of things, addresses of functions and numbers, and places of
# lists in the context.
N_ARGUMENTS, N_LEAVES, N_FIXED, N_CHOSEN, N_PIECES = range(5)
READ_ROWS, DIFFERENCE, SLOPES, THIRD, FACTORS = range(5, 10)
LEAVES, PIECES, FIXED_PLACES, FIXED_ENDS, CHOSEN_ARGUMENTS, N_SLOTS = range(10, 16)

# A leaf: address of row 0, bytes from row to row, type.
LEAF_ADDRESS, LEAF_STRIDE, LEAF_TYPE, LEAF_SIZE = range(4)

# A piece of a form: a run of numbers of a row, a product of leaves, or such a product for a
# coordinate that a leaf chooses.
RUN, PRODUCT, CHOICE = range(3)
# Where it goes, how many coefficients it has, whether others were there before it, its factor, the
# first of its leaves and their number; bytes between the numbers of a run; and coordinates to
# choose from.
KIND, WHERE, COUNT, ADDS, FACTOR, FIRST_LEAF, LEAVES_USED = range(7)
ENTRY_STRIDE, FIRST_PLACE, PLACE_STEP, PLACES, PIECE_SIZE = range(7, 12)

#: Numbers of a block of rows that stay in a core's own cache, and the most rows of one.
CACHED_NUMBERS, MOST_ROWS = 16_384, 512


class Forms(NamedTuple):
    """Coefficients of the linear forms of a block of n rows."""

    #: Those of fixed coordinates, and a line of scratch, shape (n + 1, S).
    fixed: np.ndarray
    #: The coordinates that the data choose, int64, and their coefficients, shape (n, Q).
    places: np.ndarray
    chosen: np.ndarray


@compiled(inlined=True)
def rows_of_block(context, part):
    """Return how many rows of a term are best read at a time."""
    width = context[part + N_FIXED] + context[part + N_CHOSEN] + context[part + N_LEAVES]
    width += 3 * context[part + N_ARGUMENTS]
    return min(max(CACHED_NUMBERS // width, 8), MOST_ROWS)


@compiled(inlined=True)
def room_for_forms(context, part, most):
    """Return coefficients of up to `most` rows, to be read into, and a line for reading them."""
    n_fixed, n_chosen = context[part + N_FIXED], context[part + N_CHOSEN]
    # One piece of memory for both: asking for it takes as long as reading a row.
    factorization = (most + 1) * n_fixed
    numbers = np.empty(factorization + most * n_chosen)
    fixed = numbers[:factorization].reshape((most + 1, n_fixed))
    chosen = numbers[factorization:].reshape((most, n_chosen))
    return Forms(fixed, np.empty((most, n_chosen), np.int64), chosen)


@compiled(inlined=True)
def _product_of_leaves(context, leaves, first, count, factor, row):
    product = factor
    for k in range(first, first + count):
        leaf = leaves + LEAF_SIZE * k
        address = context[leaf + LEAF_ADDRESS] + row * context[leaf + LEAF_STRIDE]
        product *= read_number(address, context[leaf + LEAF_TYPE])
    return product


@compiled(inlined=True)
def _read_leaves(context, part, rows, out, first):
    """Read the inputs of the row function into columns of `out`, from `first` on."""
    for k in range(context[part + N_LEAVES]):
        leaf = context[part + LEAVES] + LEAF_SIZE * k
        address, stride = context[leaf + LEAF_ADDRESS], context[leaf + LEAF_STRIDE]
        for i in range(rows.size):
            number = read_number(address + rows[i] * stride, context[leaf + LEAF_TYPE])
            out[i, first + k] = number


@compiled(inlined=True)
def _read_run(context, leaf, piece, rows, factor, fixed):
    where, count = context[piece + WHERE], context[piece + COUNT]
    read_block(
        rows, context[leaf + LEAF_ADDRESS], context[leaf + LEAF_STRIDE],
        context[piece + ENTRY_STRIDE], context[leaf + LEAF_TYPE], fixed, where, count,
    )  # fmt: skip
    if factor != 1.0:
        for i in range(rows.size):
            for j in range(count):
                fixed[i, where + j] *= factor


@compiled()
def _place_chosen(context, piece, leaf, row):
    address = context[leaf + LEAF_ADDRESS] + row * context[leaf + LEAF_STRIDE]
    index = int(read_number(address, context[leaf + LEAF_TYPE]))
    if index < 0:
        index += context[piece + PLACES]
    return context[piece + FIRST_PLACE] + context[piece + PLACE_STEP] * index


@compiled(inlined=True)
def _read_forms(context, part, rows, forms):
    """Read the coefficients of the linear forms of some rows, by their numbers within the term."""
    leaves = context[part + LEAVES]
    for k in range(context[part + N_PIECES]):
        piece = context[part + PIECES] + PIECE_SIZE * k
        kind, where = context[piece + KIND], context[piece + WHERE]
        first, count = context[piece + FIRST_LEAF], context[piece + LEAVES_USED]
        factor = load(context[part + FACTORS] + 8 * context[piece + FACTOR], np.float64)
        leaf = leaves + LEAF_SIZE * first
        if kind == RUN:
            _read_run(context, leaf, piece, rows, factor, forms.fixed)
        elif kind == PRODUCT:
            for i in range(rows.size):
                before = forms.fixed[i, where] if context[piece + ADDS] else 0.0
                product = _product_of_leaves(context, leaves, first, count, factor, rows[i])
                forms.fixed[i, where] = before + product
        else:
            for i in range(rows.size):
                forms.places[i, where] = _place_chosen(context, piece, leaf, rows[i])
                forms.chosen[i, where] = _product_of_leaves(
                    context, leaves, first + 1, count - 1, factor, rows[i]
                )


@compiled(inlined=True)
def pick_fixed(context, part, vector, out):
    """Write the entries of a vector that belong to fixed coefficients to `out`, in their order."""
    places = context[part + FIXED_PLACES]
    for j in range(context[part + N_FIXED]):
        out[j] = vector[context[places + j]]


@compiled(reassociate=True, inlined=True)
def _apply_forms(context, part, forms, n, picked, vector, out, first):
    """Write the forms of `n` rows, applied to a vector, into columns of `out` from `first` on.

    `picked` are the entries of the vector that belong to fixed coefficients, shape (S,).
    """
    ends = context[part + FIXED_ENDS]
    for i in range(n):
        start = 0
        for a in range(context[part + N_ARGUMENTS]):
            stop = context[ends + a]
            out[i, first + a] = inner_of_line(forms.fixed, i, picked, start, stop)
            start = stop
        for g in range(context[part + N_CHOSEN]):
            a = context[context[part + CHOSEN_ARGUMENTS] + g]
            out[i, first + a] += forms.chosen[i, g] * vector[forms.places[i, g]]


@compiled(inlined=True)
def _ask_for_rows(context, part, rows):
    """Have the leaves of rows fetched at once: rows that are drawn are rarely in a cache."""
    for k in range(context[part + N_LEAVES]):
        leaf = context[part + LEAVES] + LEAF_SIZE * k
        address, stride = context[leaf + LEAF_ADDRESS], context[leaf + LEAF_STRIDE]
        for i in range(rows.size):
            prefetch(address + rows[i] * stride)


@compiled(READ_SIGNATURE)
def read_rows(context, part, rows, vectors, fixed, places, chosen, inputs):
    """Read the inputs of the row function for some rows: see ``READ``.

    Kernels call it by its address, so that each of them is compiled without its code.
    """
    _ask_for_rows(context, part, rows)
    forms = Forms(fixed, places, chosen)
    _read_forms(context, part, rows, forms)
    picked = fixed[fixed.shape[0] - 1]
    m = context[part + N_ARGUMENTS]
    for k in range(vectors.shape[0]):
        pick_fixed(context, part, vectors[k], picked)
        _apply_forms(context, part, forms, rows.size, picked, vectors[k], inputs, k * m)
    _read_leaves(context, part, rows, inputs, vectors.shape[0] * m)


@compiled(reassociate=True)
def whiten_forms(context, part, forms, row, factor, out):
    """Write Lᵀ times each form of a row of the block to the lines of `out`, shape (m, d)."""
    places, ends = context[part + FIXED_PLACES], context[part + FIXED_ENDS]
    out[:] = 0.0
    start = 0
    for a in range(context[part + N_ARGUMENTS]):
        for j in range(start, context[ends + a]):
            place, weight = context[places + j], forms.fixed[row, j]
            if weight != 0.0:
                for k in range(place + 1):
                    out[a, k] += weight * factor[place, k]
        start = context[ends + a]
    for g in range(context[part + N_CHOSEN]):
        a = context[context[part + CHOSEN_ARGUMENTS] + g]
        place = forms.places[row, g]
        for k in range(place + 1):
            out[a, k] += forms.chosen[row, g] * factor[place, k]


@compiled()
def _sizes(context, part, forms, picked, vector, row, out):
    """Write the sums of absolute products of the forms of a row to `out`."""
    start = 0
    for a in range(context[part + N_ARGUMENTS]):
        total = 0.0
        stop = context[context[part + FIXED_ENDS] + a]
        for j in range(start, stop):
            total += abs(forms.fixed[row, j] * picked[j])
        out[a] = total
        start = stop
    for g in range(context[part + N_CHOSEN]):
        a = context[context[part + CHOSEN_ARGUMENTS] + g]
        out[a] += abs(forms.chosen[row, g] * vector[forms.places[row, g]])


class PlacedForms(NamedTuple):
    """Where the forms of n rows lie."""

    #: The forms of the centre, and the sums of the absolute products in them, shape (n, m).
    values: np.ndarray
    sizes: np.ndarray
    #: Lᵀ times each form: its length, shape (n, m), and itself where there is room, (n, m, d).
    norms: np.ndarray
    whitened: np.ndarray


@compiled()
def place_forms(context, part, rows, centre, factor, placed):
    """Place the linear forms of some rows of a term, of which `part` begins in the context.

    `rows`, int64, are numbered within the term; `factor` is L, lower triangular; `placed` is
    overwritten.
    """
    m = context[part + N_ARGUMENTS]
    most = min(rows_of_block(context, part), rows.size)
    room = room_for_forms(context, part, most)
    picked, own = np.empty(context[part + N_FIXED]), np.empty((m, centre.size))
    pick_fixed(context, part, centre, picked)
    vectors = centre.reshape((1, centre.size))
    read = function_at(context[part + READ_ROWS], READ)
    for start in range(0, rows.size, max(most, 1)):
        stop = min(start + most, rows.size)
        some, there = rows[start:stop], placed.values[start:stop]
        read(context, part, some, vectors, room.fixed, room.places, room.chosen, there)
        for i in range(stop - start):
            _sizes(context, part, room, picked, centre, i, placed.sizes[start + i])
            white = placed.whitened[start + i] if placed.whitened.shape[0] else own
            whiten_forms(context, part, room, i, factor, white)
            for a in range(m):
                placed.norms[start + i, a] = np.sqrt(inner(white[a], white[a]))
