"""A move, and the kinds of tables of bounds that M is found for: moves.c."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import function

#: Kinds of tables of c_i: see moves.c.
DIRECTIONAL, JOINT, SHARP, GIVEN, CONSTANT = range(5)


class Move(NamedTuple):
    """A proposed move, with whitened coordinates of its ends and of its step, shape (d,)."""

    #: Positions θ and θ'.
    position: np.ndarray
    new: np.ndarray
    #: a = L⁻¹(θ - θ̂), a' = L⁻¹(θ' - θ̂), and b = L⁻¹(θ' - θ): a' - a would cancel in short steps.
    here: np.ndarray
    there: np.ndarray
    step: np.ndarray


def whiten(whitener: np.ndarray, end: np.ndarray, start: np.ndarray, out: np.ndarray) -> None:
    """Write L⁻¹(end - start)."""
    function("mh_whiten")(whitener, end, start, end.size, np.empty(end.size), out)
