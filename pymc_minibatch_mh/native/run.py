"""Loop of a chain: propose, test, update the position and record draws."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import (
    Arena,
    GeneratorRecord,
    LaidOut,
    ffi,
    load_library,
    record_of,
)
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.posterior import Posterior
from pymc_minibatch_mh.native.statistics import TALLY


class Slices(record_of("mh_slices")):  # type: ignore[misc]
    """Directions of slice updates in the null space of the likelihood: ``mh_slices``."""


NO_SLICES = Slices(np.empty((0, 0)), np.empty((0, 2), np.int64), 0)


class KernelState(NamedTuple):
    """State of one chain's updates: ``mh_chain``."""

    posterior: Posterior
    #: Position, updated in place, and scratch for proposals.
    move: Move
    generator: GeneratorRecord
    #: None for loops with a built-in proposal and test.
    propose: str | None
    proposal: LaidOut | None
    decide: str | None
    test: LaidOut | None
    slices: Slices
    #: Accumulated efficiency of each component of the proposal, records of shape (components,).
    tallies: np.ndarray | None
    #: Ends of the proposal with the largest violation of a bound, shape (2, d).
    worst_move: np.ndarray | None
    arena: Arena

    @property
    def scratch(self) -> int:
        """Address of the chain's scratch memory."""
        return int(ffi.cast("intptr_t", self.arena.at))


def linked(
    posterior: Posterior,
    proposal: Any,
    test: Any,
    rng: np.random.Generator,
    move: Move,
    tallies: np.ndarray | None = None,
    worst_move: np.ndarray | None = None,
    slices: Slices = NO_SLICES,
) -> LaidOut:
    """C record of a chain's state.

    The records of the proposal and of the test name their C type, `LAYOUT`, and their functions,
    `propose` and `decide`. A chain that only proposes needs neither a test nor the arguments after
    `move`.
    """
    state = KernelState(
        posterior,
        move,
        GeneratorRecord(rng),
        proposal.propose,
        LaidOut(proposal.LAYOUT, proposal),
        None if test is None else test.decide,
        None if test is None else LaidOut(test.LAYOUT, test),
        slices,
        None if tallies is None else tallies.view(TALLY),
        worst_move,
        Arena(),
    )
    return LaidOut("mh_chain", state)


def run(
    chain: LaidOut, updates: int, draws: np.ndarray, counts: np.ndarray, loop: str = "mh_run"
) -> tuple[int, int]:
    """Run a chain for some draws; the result is a status and the number of draws made.

    Each draw takes `updates` updates. Positions overwrite contiguous `draws`, shape (draws, d), and
    counts of updates are added to the records `counts`, shape (draws,). Any status but ``MH_OK``
    stops the chain in that update, at the old position; the incomplete draw counts as made.
    """
    # A direct call takes a fifth of the time of :func:`function`: PyMC requests single draws.
    made = ffi.new("int64_t *")
    positions = ffi.from_buffer("double[]", draws, require_writable=True)
    counted = ffi.from_buffer("mh_counts[]", counts, require_writable=True)
    status = getattr(load_library(), loop)(chain.at, updates, len(draws), positions, counted, made)
    return status, made[0]


#: Indices of the outcomes of a repeated test: Σp, Σp², Σ rows, and the minimum number of rows.
TOTAL, SQUARES, ROWS, FEWEST = range(4)
