"""Copies of whitened rows that are set by hand, and the shares that own ceilings have in them."""

import numpy as np

from helpers.in_library import products, size_of_move
from pymc_minibatch_mh.native import whitened_copy as kernels
from pymc_minibatch_mh.native.library import Arena, LaidOut, ffi, function, load_library
from pymc_minibatch_mh.native.moves import SHARP, Move
from pymc_minibatch_mh.native.whitened_copy import WhitenedCopy


class Ends:
    """A copy and a move as the library has them, for as long as this is held."""

    def __init__(self, copy, move, order, raised):
        self._copy, self._move, self._arena = (
            LaidOut("mh_copy", copy),
            LaidOut("mh_move", move),
            Arena(),
        )
        self.copy, self.at = self._copy.at, ffi.new("mh_ends *")
        size, library = move.step.size, load_library()
        more = self.copy, self._move.at, order, size, raised, self.at, self._arena.at
        assert library.mh_ends_of_move(*more) == library.MH_OK


def move_of(here, there):
    """Return a move in whitened coordinates."""
    return Move(here, there, here, there, there - here)


def size(here, there, order, kind=SHARP):
    """Return M of a move."""
    return size_of_move(products(move_of(here, there)), order, kind)


def copy_of(whitened, shared=None):
    """Return the copy of rows with gradients of shape (N, own, d), which are kept."""
    n_rows, own, d = whitened.shape
    shared = np.empty((0, d)) if shared is None else shared
    lines = kernels.empty_lines(n_rows, kernels.width_of(d, own))
    packed = whitened.copy(), *whitened.shape, shared, len(shared), lines, lines.shape[1]
    function("mh_pack_rows")(*packed)
    return WhitenedCopy(lines, shared, own)


def shares(copy, here, there, order, factor=1.0, *, per_size=None):
    """Return own ceilings over c_i M; or over c_i times another number than M."""
    return both_shares(copy, here, there, order, factor, per_size=per_size)[0]


def both_shares(copy, here, there, order, factor=1.0, *, per_size=None):
    """Return the same, and the shares by both ends alone."""
    per = size(here, there, order) if per_size is None else per_size
    ends, library = Ends(copy, move_of(here, there), order, factor / per), load_library()
    shares = library.mh_own_share, library.mh_share_of_ends
    return np.array([[f(ends.copy, ends.at, k) for k in range(len(copy.lines))] for f in shares])


def largest_remainder(x, order):
    """Return a remainder whose derivative of order k + 1 is at most 1, at its ends 1."""
    return x * np.abs(x) ** order / (1.0, 2.0, 6.0, 24.0)[order]
