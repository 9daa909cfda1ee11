"""Along which directions chains move between updates, without rows, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pymc_minibatch_mh.kernels.bound_tables import NO_DIRECTIONS
from pymc_minibatch_mh.kernels.slices import NO_SLICES, Slices

if TYPE_CHECKING:
    from pymc_minibatch_mh.chain.program import Program
    from pymc_minibatch_mh.preparation.prepared import Prepared

#: Moves after each update at most, where their number is not set: each of them evaluates the prior
#: part some five times.
MOST_MOVES = 10
#: Width of a step, in conditional standard deviations along a direction: about what is left of a
#: normal density above a level.
WIDTH = 2.5
#: Posterior standard deviations of the step off a start that no chain comes by.
STEP_OFF = 0.1
#: Steps from a start at which the density has to fall: at most one unit less means that it has no
#: integral, or that the start lies more than a hundred posterior standard deviations off.
TAIL = 50.0, 100.0
#: Directions that moves are measured without, at most: leaving one out takes time at every update.
MOST_LEFT_OUT = 32


def slices_of(program: Program) -> Slices:
    """Return the directions along which no row changes, where they may be moved along."""
    asked, suits = program.moves_without_rows, program.proposal.moves_without_rows
    off = asked == 0 or suits is False or (asked is None and suits is None)
    if off or not program.method.moves_without_rows:
        return NO_SLICES
    directions = program.prepared.target.compiled.unread
    if not len(directions):
        return NO_SLICES
    lengths = np.linalg.norm(directions @ program.prepared.surrogate.whitener.T, axis=1)
    steps = np.ascontiguousarray(WIDTH * directions / lengths[:, None])
    ends = [(inside[0], inside[-1] + 1) for inside in map(np.flatnonzero, steps)]
    moves = min(len(steps), MOST_MOVES) if asked is None else asked
    return Slices(steps, np.array(ends, dtype=np.int64), moves)


def runs_away(program: Program, position: np.ndarray) -> bool:
    """Return whether moves without rows would never come back from a position.

    Where all effects of a hierarchy are exactly equal to their location, as at the default start of
    PyMC, the density of their scale given them has no integral near zero. No chain comes by such
    positions, but it can start at one, and only there is this asked for.

    Parameters
    ----------
    program
        What the chain runs on.
    position : ndarray, shape (d,)
        Where it starts.
    """
    prior = program.prepared.target.log_prior
    for step in program.slices.steps:
        for side in (-1.0, 1.0):
            near, far = (prior(position + side * t * step) for t in TAIL)
            if np.isfinite(near) and near - 1.0 < far < np.inf:
                return True
    return False


def steps_off(program: Program, position: np.ndarray, rng: np.random.Generator) -> bool:
    """Leave a position that :func:`runs_away`, by a small step in all coordinates.

    Parameters
    ----------
    program, position
        As of :func:`runs_away`; the position is changed.
    rng
        Draws the step.

    Returns
    -------
    bool
        Whether it was left.
    """
    if not runs_away(program, position):
        return False
    prepared = program.prepared
    noise = prepared.surrogate.factor @ rng.standard_normal(position.size)
    position[:] = prepared.target.split.mirrored(position + STEP_OFF * noise)
    return True


def whitened_directions(prepared: Prepared) -> np.ndarray:
    """Return the directions along which no row changes, whitened and orthonormal, shape (n, d).

    The bounds of a row hold by inner products with whitened forms, which are orthogonal to them.
    """
    directions = prepared.target.compiled.unread
    if not 0 < len(directions) <= MOST_LEFT_OUT:
        return NO_DIRECTIONS
    basis, _ = np.linalg.qr((directions @ prepared.surrogate.whitener.T).T)
    return np.ascontiguousarray(basis.T)
