"""A move, and the kinds of tables of bounds that M is found for: moves.c."""

from typing import NamedTuple

import numpy as np

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
