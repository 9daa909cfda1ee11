"""Where the linear forms of rows lie around a centre, and how far a step moves them."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.forms import (
    CHOSEN_ARGUMENTS,
    FIXED_ENDS,
    N_ARGUMENTS,
    N_CHOSEN,
    N_FIXED,
    READ_ROWS,
    pick_fixed,
    room_for_forms,
    rows_of_block,
    whiten_forms,
)
from pymc_minibatch_mh.kernels.signatures import READ
from pymc_minibatch_mh.kernels.vectors import inner


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
    """Where the forms of n rows lie.

    Parameters
    ----------
    values, sizes : ndarray, shape (n, m)
        The forms of the centre, and the sums of the absolute products that they are made of.
    norms : ndarray, shape (n, m)
        Lengths of Lᵀ times each form.
    whitened : ndarray, shape (n, m, d) or (0, m, d)
        These vectors, unless there is no room for them.
    """

    values: np.ndarray
    sizes: np.ndarray
    norms: np.ndarray
    whitened: np.ndarray


@compiled()
def place_forms(context, part, rows, centre, factor, placed):
    """Place the linear forms of some rows of a term.

    Parameters
    ----------
    context : ndarray of int64
    part
        Where the term's part of it begins.
    rows : ndarray of int64, shape (n,)
    centre : ndarray, shape (d,)
    factor : ndarray, shape (d, d)
        L, lower triangular.
    placed : PlacedForms
        Overwritten.
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
