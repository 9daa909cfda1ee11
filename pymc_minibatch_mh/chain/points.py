"""Points of a model that a chain takes from PyMC's loop and hands back to it.

Positions may lie in other coordinates than value variables, and value variables may be rounded to
single precision. There and back again is an ulp away: a chain that took that for a move of other
steps would be another chain than one that runs alone, and a firefly sampler would draw its bright
rows anew. So a chain keeps its position with the point that it handed out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pymc_minibatch_mh.chain.chain import Chain


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
