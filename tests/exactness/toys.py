"""The proposal and the rows of hand-made chains, as the compiled loop runs them.

A chain moves among a few states, each known by its first coordinate. All that tells one chain from
another is data: the loop is compiled once for each test of the package, and kept on disk.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.data.arrays import load
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.roles import (
    EVALUATE_SIGNATURE,
    LOGP_SIGNATURE,
    METRIC_SIGNATURE,
    role_of,
)

# The first words of a context: address of the numbers of the rows that lie in each place, 0 where
# they are their own; number of states and of rows; first row of the second term; calls of
# `evaluate` so far where every other one reads the rows of the call before, else below 0.
PLACES, STATES, ROWS, SECOND, CALLS, HEAD = range(6)
#: M of every move by `metric`.
METRIC = 2.0


class Jump(NamedTuple):
    """A mixture of moves among states, of the first coordinate alone.

    Shapes: positions (S,), weights (K,), of at most two components, sums and ratios (K, S, S),
    furthest (1,). The sums are proposal probabilities, cumulated over their last axis; the ratios
    are what the loop is told of log q(position | new) - log q(new | position). `furthest` keeps how
    far the whitened position that the loop hands over was from what it should be.
    """

    positions: np.ndarray
    weights: np.ndarray
    sums: np.ndarray
    ratios: np.ndarray
    furthest: np.ndarray


def jump(positions, proposals=None, weights=(1.0,), ratios=None):
    """Return moves by some densities, shape (K, S, S): by default to each other state alike."""
    states = len(positions)
    if proposals is None:
        proposals = (1.0 - np.eye(states)) / max(states - 1, 1)
    proposals = np.reshape(proposals, (-1, states, states))
    if ratios is None:
        back = proposals.transpose(0, 2, 1)
        both = (proposals > 0.0) & (back > 0.0)
        ratios = np.log(np.divide(back, proposals, out=np.ones(proposals.shape), where=both))
    ratios = np.reshape(np.asarray(ratios, dtype=float), (-1, states, states))
    parts = np.array(positions, dtype=float), np.array(weights), np.cumsum(proposals, axis=2)
    return Jump(*parts, ratios, np.zeros(1))


@role_of(Jump, "propose")
@compiled(inlined=True)
def propose(proposal, move, posterior, rng):
    """Draw a component and a state: see :func:`roles.propose`."""
    positions, reference = proposal.positions, posterior.reference
    i, j = 0, 0
    for k in range(1, positions.size):
        if abs(positions[k] - move.position[0]) < abs(positions[i] - move.position[0]):
            i = k
    component = 0 if rng.random() < proposal.weights[0] else proposal.weights.size - 1
    uniform = rng.random()
    while j < positions.size - 1 and uniform >= proposal.sums[component, i, j]:
        j += 1
    for k in range(move.position.size):
        here = 0.0
        for m in range(k + 1):
            here += reference.whitener[k, m] * (move.position[m] - reference.centre[m])
        proposal.furthest[0] = max(proposal.furthest[0], abs(here - move.here[k]))
        move.new[k] = move.position[k]
    # A position beside its state ends on the other side of the next one, and finds back from there.
    move.new[0] = positions[j] + (positions[i] - move.position[0])
    return proposal.ratios[component, i, j], component


def rows_of(table, log_prior=None, positions=None, *, second=0, places=0):
    """Return the rows of a chain, and its prior, as the functions below read them.

    Parameters
    ----------
    table
        Log-likelihoods, shape (S, N). Rows of a single state change by them in every move.
    log_prior, positions
        Of the states, shape (S,); by default flat, and 0, 1, ...
    second
        First row of a second term; 0 for a single one.
    places
        Address of the numbers of the rows that lie in each place.
    """
    table = np.atleast_2d(table)
    states, rows = table.shape
    log_prior = np.zeros(states) if log_prior is None else log_prior
    positions = np.arange(states) if positions is None else positions
    head = [places, states, rows, second, -1]
    numbers = np.concatenate([positions, log_prior, table.ravel()]).astype(np.float64)
    # Behind the numbers is room for the rows of a batch.
    context = np.append(np.array(head, np.int64), [*numbers.view(np.int64), *[0] * rows])
    return RowSpace(np.array([0, second, rows] if second else [0, rows]), context)


@compiled(inlined=True)
def _state_at(position, context):
    numbers, state = context.view(np.float64), 0
    for k in range(1, context[STATES]):
        nearest = abs(numbers[HEAD + state] - position[0])
        if abs(numbers[HEAD + k] - position[0]) < nearest:
            state = k
    return state


@compiled(LOGP_SIGNATURE)
def prior(position, context):
    """Return the log-density of a state."""
    place = HEAD + context[STATES] + _state_at(position, context)
    return context.view(np.float64)[place]


@compiled(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    """Write by how much rows differ in two states."""
    numbers, states = context.view(np.float64), context[STATES]
    table = HEAD + 2 * states
    memory = table + states * context[ROWS]
    here = table + _state_at(position, context) * context[ROWS]
    there = table + _state_at(new, context) * context[ROWS]
    for k in range(rows.size):
        row = rows[k] + (context[SECOND] if k >= ends[0] else 0)
        if context[PLACES] != 0:
            row = load(context[PLACES] + 8 * row, np.int64)
        if context[CALLS] >= 0:
            if context[CALLS] % 2 == 0:
                context[memory + k] = row
            row = context[memory + k]
        differences[k] = numbers[there + row] - (numbers[here + row] if states > 1 else 0.0)
        scales[k] = 1.0
    if context[CALLS] >= 0:
        context[CALLS] += 1


@compiled(METRIC_SIGNATURE)
def metric(position, new):
    """Return the same M for every move."""
    return METRIC
