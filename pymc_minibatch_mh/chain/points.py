"""Points of a model that a chain takes from PyMC's loop and hands back to it.

Positions may lie in other coordinates than value variables, and value variables may be rounded to
single precision. There and back again is an ulp away: a chain that took that for a move of other
steps would be another chain than one that runs alone, and a firefly sampler would draw its bright
rows anew. So a chain keeps its position with the point that it handed out.

Starts at which the scale of a hierarchy would run to zero, and how chains leave them.

Where all effects of a hierarchy are exactly equal to their location, as at the default start of
PyMC, the density of their scale given them has no integral near zero: moves of the scale alone take
it down without end, after which no effect can be moved any more. The posterior gives such positions
no probability, and no chain comes by them, but one can start there.

A chain that moves effects, or their location, steps off beside them. One that does not makes no
update until another step has moved the effects. Either happens before the first update alone, so
that what a chain converges to is as it would be from any other start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import possible_slices
from pymc_minibatch_mh.kernels.draw import generator_addresses
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.slices import sweep_without_rows
from pymc_minibatch_mh.plan.prepared import Prepared
from pymc_minibatch_mh.plan.violations import whitened_directions

Begun = Literal["stepped off", "waits"] | None

#: Posterior standard deviations of the step off.
STEP_OFF = 0.1
#: Moves along each direction, and moves in all, at most, after which one that runs away is far off:
#: along the scale alone a few are enough, while scale and location of effects that other steps move
#: run away together, and slower.
SWEEPS, MOST_MOVES = 200, 20_000
#: How many conditional standard deviations are far, in excess of what is usual; and the share of
#: that way that is no running away any more, where nobody knows the standard deviations.
FAR, MUCH_LESS = 20.0, 0.125
#: Of the moves that are tried, so that a start is judged the same in all processes.
SEED = 20_261_122


def runs_away(prepared: Prepared, position: np.ndarray) -> bool:
    """Return whether moves without rows alone go from a position to far from the posterior.

    Parameters
    ----------
    prepared
        What a chain runs on, given the variables that it does not move.
    position : ndarray, shape (d,)
        Where it starts.
    """
    return not _distance_after(prepared, position) < FAR


def _distance_after(prepared: Prepared, position: np.ndarray) -> float:
    """Try moves without rows; return how far from the centre they end, in excess of the usual."""
    slices, there, target = possible_slices(prepared), position.copy(), prepared.target
    n = len(slices.steps)
    if not n:
        return 0.0
    rng = np.random.default_rng(SEED)
    own = slices._replace(moves=n * max(1, min(SWEEPS, MOST_MOVES // n)))
    functions = address_of(target.prior), target.rows.context
    sweep_without_rows(there, own, *functions, generator_addresses(rng))
    surrogate, basis = prepared.surrogate, whitened_directions(target, prepared.surrogate, most=n)
    away = np.linalg.norm(basis @ (surrogate.whitener @ (there - surrogate.centre)))
    return float(away - np.sqrt(n))


def beside(
    prepared: Prepared, position: np.ndarray, rng: np.random.Generator, first: int = 0
) -> np.ndarray | None:
    """Return a position near one that :func:`runs_away`, and does not; None if none was found.

    Parameters
    ----------
    prepared, position
        As of :func:`runs_away`.
    rng
        Draws the step.
    first
        First coordinate that may be moved.
    """
    noise = prepared.surrogate.factor @ rng.standard_normal(position.size)
    noise[:first] = 0.0
    near = prepared.target.split.mirrored(position + STEP_OFF * noise)
    left = _distance_after(prepared, near)
    most = max(FAR, MUCH_LESS * _distance_after(prepared, position))
    return near if left < most else None


def begin(chain: Chain) -> Begun:
    """Have a chain leave a start that :func:`runs_away`, by a small step in all own coordinates.

    Where that does not help, as what rows read is others' to move, the chain waits for them; or no
    longer, if it has waited and they have moved.

    Returns
    -------
    Begun
        What has become of the start, if there is something to tell.
    """
    prepared, first = chain.prepared, chain.prepared.surrogate.first
    if chain.state.waiting:
        _wait(chain)
        return None
    # Updates that move all coordinates leave by themselves.
    moves = first > 0 or len(chain.program.slices.steps) > 0
    if not moves or not runs_away(prepared, chain.position):
        return None
    near = beside(prepared, chain.position, chain.rng, first)
    if near is not None:
        chain.position[:] = near
        return "stepped off"
    if first > 0:
        chain.state.waits_at[:] = chain.position
        return "waits"
    return None


def _wait(chain: Chain) -> None:
    """Have a chain wait no longer, once what rows read has moved."""
    state, first = chain.state, chain.prepared.surrogate.first
    moved = chain.position[:first] != state.waits_at[:first]
    if moved.all() or (moved.any() and not runs_away(chain.prepared, chain.position)):
        state.waits_at[:], state.warned = np.nan, False


def place_at(chain: Chain, point: Mapping[str, np.ndarray]) -> None:
    """Put a chain at a point; where that is the last one of :func:`point_of`, where it was then.

    Parameters
    ----------
    chain
        The chain.
    point
        Value variables by their names.
    """
    split, (handed, position) = chain.prepared.target.split, chain.state.handed_out
    values = split.ravel_values(point)
    # Bit for bit, and faster than by numbers.
    if values.tobytes() != handed.tobytes():
        position = split.positions(values)
    chain.place(position, split.ravel_others(point))


def point_of(chain: Chain, point: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a point with the value variables where a chain is; remember it if it rounds."""
    split = chain.prepared.target.split
    moved = split.unravel(chain.position.copy(), point)
    if chain.program.rounds_points:
        handed, position = chain.state.handed_out
        handed[:], position[:] = split.ravel_values(moved), chain.position
    return moved
