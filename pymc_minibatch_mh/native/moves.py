"""A move, and M, by how much the remainders of rows can change in it in units of c_i: moves.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import dtype_of, function

#: Kinds of tables of c_i: see moves.c.
DIRECTIONAL, JOINT, SHARP, GIVEN, CONSTANT = range(5)

#: Rounding error of a difference of log-likelihoods, in units of the larger of them.
ULPS = 64 * 2.220446049250313e-16


class Move(NamedTuple):
    """A proposed move, with the whitened coordinates of its ends and of its step, shape (d,)."""

    #: θ and θ'.
    position: np.ndarray
    new: np.ndarray
    #: a = L⁻¹(θ - θ̂), a' = L⁻¹(θ' - θ̂), and b = L⁻¹(θ' - θ), which a difference of the two would
    #: lose in a short step.
    here: np.ndarray
    there: np.ndarray
    step: np.ndarray


class Products(NamedTuple):
    """Inner products of a move in whitened coordinates: |a|², |a'|², |b|², a·b and a'·b."""

    here: float
    there: float
    step: float
    along_here: float
    along_there: float


def whiten(whitener: np.ndarray, end: np.ndarray, start: np.ndarray, out: np.ndarray) -> None:
    """Write L⁻¹(end - start)."""
    function("mh_whiten")(whitener, end, start, end.size, np.empty(end.size), out)


def move_between(reference: Any, position: np.ndarray, new: np.ndarray) -> Move:
    """Return the move between two positions."""
    move = Move(position, new, *(np.empty(new.size) for _ in range(3)))
    whiten(reference.whitener, position, reference.centre, move.here)
    whiten(reference.whitener, new, reference.centre, move.there)
    whiten(reference.whitener, new, position, move.step)
    return move


def products(move: Move) -> Products:
    """Return the inner products of a move."""
    out = np.empty(1, dtype_of("mh_products"))
    function("mh_products_of_move")(move, move.step.size, out)
    return Products(*out[0].item())


def size_of_move(dots: Products, order: int, kind: int) -> float:
    """M for control variates of an order and a table of a kind other than GIVEN."""
    return function("mh_size_of_move")(dots, order, kind)


def ratio_to_bound(
    difference: float, scale: float, bound: float, inverse_temperature: float
) -> float:
    """Return |dU_i| / (c_i M), rounding errors of the difference taken off.

    `difference` is r_i(θ') - r_i(θ), `scale` the unit of its rounding errors, `bound` c_i M.
    """
    return function("mh_ratio_to_bound")(difference, scale, bound, inverse_temperature)
