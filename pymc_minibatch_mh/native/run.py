"""The loop of a chain: propose, test, move, record; draw after draw. And its parts one by one."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import (
    Arena,
    GeneratorRecord,
    LaidOut,
    ffi,
    function,
    load,
)
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.posterior import Posterior
from pymc_minibatch_mh.native.slices import NO_SLICES, Slices
from pymc_minibatch_mh.native.statistics import TALLY


class KernelState(NamedTuple):
    """State of one chain's updates: ``mh_chain``."""

    posterior: Posterior
    #: The position, which is moved, and scratch for proposals.
    move: Move
    #: The only source of randomness.
    generator: GeneratorRecord
    #: Records of the proposal and of the test, and the functions that take them; None where a loop
    #: has its own.
    propose: str | None
    proposal: LaidOut | None
    decide: str | None
    test: LaidOut | None
    #: Directions along which no row changes, for moves between updates.
    slices: Slices
    #: Efficiency of each component of the proposal, added to, records of shape (components,).
    tallies: np.ndarray | None
    #: Overwritten, if a bound is violated, by position and proposal of the move in which a row
    #: exceeds its bound most, shape (2, d): row and ratio in the counts belong to it.
    worst_move: np.ndarray | None
    arena: Arena

    @property
    def scratch(self) -> int:
        """Address of scratch memory."""
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
    """Return the state of a chain laid out for its updates.

    The records of the proposal and of the test name theirs of C, `LAYOUT`, and their functions,
    `propose` and `decide`. A chain that only proposes needs neither a test nor what follows the
    move.
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
    """Make draws of a chain, which ends at the last of them; return a status, and how many.

    Updates lie between draws: `updates` each. Positions overwrite contiguous `draws`, shape (draws,
    d), and counts of updates are added to the records `counts`, shape (draws,). Any status but
    ``MH_OK`` ends the chain with that update, at the old position: the draw that ended before its
    time counts as made.
    """
    # As :func:`function` does, in a fifth of its time: PyMC asks for one draw at a time.
    made = ffi.new("int64_t *")
    positions = ffi.from_buffer("double[]", draws, require_writable=True)
    counted = ffi.from_buffer("mh_counts[]", counts, require_writable=True)
    status = getattr(load(), loop)(chain.at, updates, len(draws), positions, counted, made)
    return status, made[0]


def propose_once(chain: LaidOut, position: np.ndarray, new: np.ndarray) -> tuple[int, float]:
    """Write a proposal to `new`; return a status, and the cheap part of its log ratio."""
    cheap = np.full(1, np.nan)
    status = function("mh_propose_once")(chain, position, new, cheap)
    return status, float(cheap[0])


#: Sums over repetitions of a test: Σp, Σp², Σ rows; and the fewest rows that decided.
TOTAL, SQUARES, ROWS, FEWEST = range(4)


def repeat_test(
    chain: LaidOut,
    move: tuple[np.ndarray, np.ndarray, float],
    repetitions: int,
    by_verdict: bool,
) -> tuple[int, np.ndarray]:
    """Decide many times on a move, given by its ends and the cheap part of its log ratio.

    Each time rows are drawn anew. `by_verdict` counts verdicts, for a test whose probability is
    that of a single look. Returned are a status, which ends the repetitions unless it is ``MH_OK``,
    and the outcomes, shape (4,).
    """
    outcomes = np.array([0.0, 0.0, 0.0, np.inf])
    status = function("mh_repeat_test")(chain, *move, repetitions, by_verdict, outcomes)
    return status, outcomes
