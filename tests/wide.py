"""Copies of whitened rows that are set by hand, and the shares that own ceilings have in them."""

import numpy as np
from numba import njit

from pymc_minibatch_mh.kernels import whitened_copy as kernels
from pymc_minibatch_mh.kernels.moves import SHARP, Move, products, size_of_move
from pymc_minibatch_mh.kernels.whitened_copy import WhitenedCopy


@njit
def _shares(copy, move, order, raised, out):
    vectors = np.empty((2, move.step.size), np.float32)
    ends = kernels.ends_of_move(copy, move, order, raised, vectors)
    for row in range(out.shape[1]):
        out[0, row] = kernels.own_share(copy, ends, row)
        out[1, row] = kernels._share_of_ends(copy, ends, row)


@njit
def _size(move, order, kind):
    return size_of_move(products(move), order, kind)


def move_of(here, there):
    """Return a move in whitened coordinates."""
    return Move(here, there, here, there, there - here)


def size(here, there, order, kind=SHARP):
    """Return M of a move."""
    return _size(move_of(here, there), order, kind)


def copy_of(whitened, shared=None):
    """Return the copy of rows with gradients of shape (N, own, d), which are kept."""
    n_rows, own, d = whitened.shape
    shared = np.empty((0, d)) if shared is None else shared
    lines = kernels.empty_lines(n_rows, kernels.width_of(d, own))
    kernels.pack_rows(whitened.copy(), shared, lines)
    return WhitenedCopy(lines, shared, own)


def shares(copy, here, there, order, factor=1.0, *, per_size=None):
    """Return own ceilings over c_i M; or over c_i times another number than M."""
    return both_shares(copy, here, there, order, factor, per_size=per_size)[0]


def both_shares(copy, here, there, order, factor=1.0, *, per_size=None):
    """Return the same, and the shares by both ends alone."""
    out = np.empty((2, copy.lines.shape[0]))
    per = size(here, there, order) if per_size is None else per_size
    _shares(copy, move_of(here, there), order, factor / per, out)
    return out


def largest_remainder(x, order):
    """Return a remainder whose derivative of order k + 1 is at most 1, at its ends 1."""
    return x * np.abs(x) ** order / (1.0, 2.0, 6.0)[order]
