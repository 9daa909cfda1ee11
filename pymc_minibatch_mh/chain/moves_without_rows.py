"""Along which directions chains move between updates, without rows, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pymc_minibatch_mh.kernels.slices import NO_SLICES, Slices
from pymc_minibatch_mh.preparation.prepared import Prepared

if TYPE_CHECKING:
    from pymc_minibatch_mh.chain.program import Program

#: Moves after each update at most, where their number is not set: each of them evaluates the prior
#: part some five times.
MOST_MOVES = 10
#: Width of a step, in conditional standard deviations along a direction: about what is left of a
#: normal density above a level.
WIDTH = 2.5


def slices_of(program: Program) -> Slices:
    """Return the directions along which no row changes, where they may be moved along."""
    asked, suits = program.moves_without_rows, program.proposal.moves_without_rows
    off = asked == 0 or suits is False or (asked is None and suits is None)
    if off or not program.method.moves_without_rows:
        return NO_SLICES
    found = possible_slices(program.prepared)
    return found if asked is None or not len(found.steps) else found._replace(moves=asked)


def possible_slices(prepared: Prepared) -> Slices:
    """Return the directions along which no row changes, and as many moves as have a choice."""
    directions = prepared.target.compiled.unread
    if not len(directions):
        return NO_SLICES
    lengths = np.linalg.norm(directions @ prepared.surrogate.whitener.T, axis=1)
    steps = np.ascontiguousarray(WIDTH * directions / lengths[:, None])
    ends = [(inside[0], inside[-1] + 1) for inside in map(np.flatnonzero, steps)]
    return Slices(steps, np.array(ends, dtype=np.int64), min(len(steps), MOST_MOVES))
