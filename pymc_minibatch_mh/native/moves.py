"""Proposals in whitened coordinates, and kinds of bounds tables with their sizes M: moves.c."""

from pymc_minibatch_mh.native.library import record_of

#: Kinds of tables of c_i: see moves.c.
DIRECTIONAL, JOINT, SHARP, GIVEN, CONSTANT, ENDS, KINKED = range(7)


class Move(record_of("mh_move")):  # type: ignore[misc]
    """Positions θ and θ', and a = L⁻¹(θ - θ̂), a' = L⁻¹(θ' - θ̂) and b = L⁻¹(θ' - θ), shape (d,).

    b is stored because the difference a' - a would cancel in short steps.
    """
