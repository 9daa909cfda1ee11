"""The compiled loop of a chain: propose, test, move, record; draw after draw.

It knows neither test nor proposal, and calls both by address: it is compiled once, each test and
each proposal once beside it, and not once for each pair of them. The types of their records choose
the functions (:mod:`pymc_minibatch_mh.kernels.roles`).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import generator_at
from pymc_minibatch_mh.kernels.handle import (
    Handle,
    LinkedRecord,
    address_in,
    function_at,
    record_at,
    record_type,
)
from pymc_minibatch_mh.kernels.moves import Move, whiten
from pymc_minibatch_mh.kernels.posterior import Posterior, cheap_change, lacks_rows, log_prior
from pymc_minibatch_mh.kernels.roles import (
    DECIDE,
    DECISION,
    INDICES,
    MATRIX,
    PROPOSAL,
    PROPOSE,
    VECTOR,
    decide,
    propose,
)
from pymc_minibatch_mh.kernels.slices import NO_SLICES, Slices, move_without_rows
from pymc_minibatch_mh.kernels.vectors import copy_to


class KernelState(NamedTuple):
    """State of one chain's compiled updates."""

    posterior: Posterior
    #: Addresses of the records of the proposal and of the test, and of the functions for records of
    #: their types (``PROPOSE`` and ``DECIDE``).
    proposal: int
    test: int
    propose: int
    decide: int
    #: Addresses of the chain's generator, the only source of randomness, shape (4,).
    generator: np.ndarray
    #: The position, which is moved, and scratch for proposals.
    move: Move
    #: Efficiency of each component of the proposal, added to, shape (components, N_TALLIES).
    tallies: np.ndarray
    #: Overwritten, if a bound is violated, by position and proposal of the move in which a row
    #: exceeds its bound most, shape (2, d): row and ratio in the counts belong to it.
    worst_move: np.ndarray
    #: Directions along which no row changes, for moves between updates.
    slices: Slices = NO_SLICES


#: Arguments of `run` after the record: see there.
ARGUMENTS = (types.int64, MATRIX, MATRIX)


@compiled()
def _propose(proposal, own, generator):
    """Draw the proposal of a kernel state: see :func:`roles.propose`."""
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    return propose(record_at(proposal), own.move, own.posterior, rng)


@compiled()
def _decide(test, own, cheap, generator, counts):
    """Accept or reject the proposal of a kernel state: see :func:`roles.decide`."""
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    return decide(record_at(test), own.move, cheap, own.posterior, rng, counts)


def linked(posterior: Posterior, proposal: Any, test: Any, *others: Any) -> LinkedRecord:
    """Return KernelState laid out for compiled code, with the functions that they call.

    The types of the records of the proposal and of the test choose these; `others` are the fields
    of KernelState from the generator on.
    """
    parts = LinkedRecord(proposal), LinkedRecord(test)
    addresses = parts[0].address, parts[1].address
    kernel_state = Handle(record_type(KernelState(posterior, *addresses, 0, 0, *others)))
    functions = (
        parts[0].function(_propose, PROPOSAL, kernel_state, INDICES),
        parts[1].function(_decide, DECISION, kernel_state, types.float64, INDICES, VECTOR),
    )
    return LinkedRecord(KernelState(posterior, *addresses, *functions, *others), keeps=parts)


def proposal_of(kernel_state: LinkedRecord) -> Any:
    """Return the record of the proposal of some linked KernelState."""
    return kernel_state.keeps[0].record


@compiled(inlined=True)
def proposed(own, generator):
    """Call the proposal of some kernel_state; return its log ratio and the component drawn."""
    return function_at(own.propose, PROPOSE)(own.proposal, address_in(own), generator)


@compiled(inlined=True)
def decided(own, cheap, generator, counts):
    """Call the test of some kernel_state; return verdict, acceptance probability and rows read."""
    call = function_at(own.decide, DECIDE)
    return call(own.test, address_in(own), cheap, generator, counts)


@compiled(spliced=True)
def _tally(tally, move, accept, n):
    """Add one tried move to the tally of its component, in posterior standard deviations."""
    jump, square_jump = 0.0, 0.0
    for i in range(move.step.size):
        before, after = move.here[i], move.there[i]
        jump += move.step[i] * move.step[i]
        square_jump += (after * after - before * before) ** 2
    tally[entry.TRIED] += 1.0
    tally[entry.TALLY_ACCEPT] += accept
    tally[entry.JUMP] += accept * jump
    tally[entry.SQUARE_JUMP] += accept * square_jump
    tally[entry.ROWS] += n


@compiled(spliced=True)
def _update(own, prior_here, counts):
    """Make one update; return the prior part where it ends, and whether the chain goes on."""
    posterior, move = own.posterior, own.move
    log_q, component = proposed(own, own.generator)
    if component < 0:
        return prior_here, False
    prior_there = log_prior(posterior, move.new)
    cheap = prior_there - prior_here + log_q + cheap_change(posterior, move)
    if not np.isfinite(cheap):
        counts[entry.INVALID] += 1.0
        own.tallies[component, entry.TRIED] += 1.0
        counts[entry.LOG_RATIO] = -np.inf
        counts[entry.LOG_RATIO_STD] = 0.0
        return prior_here, True
    whiten(posterior.reference.whitener, move.new, posterior.reference.centre, move.there)
    whiten(posterior.reference.whitener, move.new, move.position, move.step)
    largest_ratio = counts[entry.BOUND_RATIO]
    verdict, accept, n = decided(own, cheap, own.generator, counts)
    if not counts[entry.BOUND_RATIO] <= max(largest_ratio, 1.0):
        copy_to(own.worst_move[0], move.position)
        copy_to(own.worst_move[1], move.new)
    if verdict < 0.0 or lacks_rows(posterior):
        return prior_here, False
    counts[entry.ACCEPT] += accept
    counts[entry.N_OBS] += n
    _tally(own.tallies[component], move, accept, n)
    if verdict > 0.0:
        counts[entry.ACCEPTED] += 1.0
        copy_to(move.position, move.new)
        copy_to(move.here, move.there)
        return prior_there, True
    return prior_here, True


@compiled(spliced=True)
def _without_rows(own, rng, prior_here, counts):
    """Move coordinates that no row depends on; return the prior part at the end."""
    posterior, move = own.posterior, own.move
    prior, context = posterior.prior, posterior.space.context
    prior_here, evaluations = move_without_rows(
        move.position, own.slices, prior, context, prior_here, rng
    )
    whiten(posterior.reference.whitener, move.position, posterior.reference.centre, move.here)
    counts[entry.N_PRIOR] += evaluations
    return prior_here


@compiled()
def run(own, n_updates, draws, counts):
    """Make draws of a chain, which ends at the last of them; return how many were made.

    Updates lie between draws: `n_updates` each. Positions overwrite `draws`, shape (draws, d), and
    counts of updates are added to `counts`, shape (draws, N_COUNTS). A violated bound, stored rows
    that could not be had or a move that went wrong end the chain with that update, at the old
    position: the draw that ended before its time counts as made.
    """
    posterior, move, generator = own.posterior, own.move, own.generator
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    prior_here = log_prior(posterior, move.position)
    whiten(posterior.reference.whitener, move.position, posterior.reference.centre, move.here)
    for k in range(draws.shape[0]):
        for _ in range(n_updates):
            prior_here, goes_on = _update(own, prior_here, counts[k])
            if not goes_on:
                copy_to(draws[k], move.position)
                return k + 1
            if own.slices.moves:
                prior_here = _without_rows(own, rng, prior_here, counts[k])
        copy_to(draws[k], move.position)
    return draws.shape[0]
