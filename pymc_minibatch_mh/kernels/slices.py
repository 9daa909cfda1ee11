"""Moves without rows: slice sampling along directions that change no row.

Rows of a hierarchy read the effects of groups, and not their location and scale. Along a direction
that no row depends on the posterior is the prior part, which takes no row to evaluate: a move there
leaves the posterior as it is, whatever the test of the other updates is. A slice is stepped out
and shrunk, which is exact for any width: Neal (2003), figures 3 and 5, doi:10.1214/aos/1056562461.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import generator_at
from pymc_minibatch_mh.kernels.handle import function_at
from pymc_minibatch_mh.kernels.roles import LOGP
from pymc_minibatch_mh.kernels.vectors import copy_to, scratch

#: Steps that a slice is stepped out by at most. Any number is exact.
MOST_STEPS = 32


class Slices(NamedTuple):
    """Along which directions a position is moved without rows, and how often."""

    #: The directions, as long as the steps that slices are found by, shape (n, d).
    steps: np.ndarray
    #: First entry of each that is not zero, and the one behind the last, int64, shape (n, 2).
    ends: np.ndarray
    #: Moves after each update.
    moves: int


NO_SLICES = Slices(np.empty((0, 0)), np.empty((0, 2), np.int64), 0)


@compiled(inlined=True)
def _value_at(t, along, start, position, prior, context):
    """Go to start + t step; return the log-density there."""
    step, first, last = along
    for i in range(first, last):
        position[i] = start[i] + t * step[i]
    return function_at(prior, LOGP)(position, context)


@compiled(inlined=True)
def _inside(value, level):
    """Return whether a value is in the slice; one that is no finite number never is."""
    return level <= value < np.inf


@compiled()
def move_by_slice(position, along, prior, context, value_here, rng):
    """Move a position along a direction by slice sampling; return the value there and evaluations.

    `along` is a step in the direction, its first entry that is not zero, and the one behind the
    last; `prior` is the address of the log-density (``LOGP``), which is `value_here` at the
    position.
    """
    if not np.isfinite(value_here):
        return value_here, 0
    start, count = scratch(position.size, np.float64), 0
    copy_to(start, position)
    level = value_here + np.log1p(-rng.random())
    low = -rng.random()
    high = low + 1.0
    # How many of the steps may go to the left is drawn, or a limit would not be reversible.
    left = int(MOST_STEPS * rng.random())
    for _ in range(left):
        count += 1
        if not _inside(_value_at(low, along, start, position, prior, context), level):
            break
        low -= 1.0
    for _ in range(MOST_STEPS - 1 - left):
        count += 1
        if not _inside(_value_at(high, along, start, position, prior, context), level):
            break
        high += 1.0
    while True:
        t = low + (high - low) * rng.random()
        value = _value_at(t, along, start, position, prior, context)
        count += 1
        # Shrunk to where it started, a slice has nothing else that numbers can tell apart.
        if _inside(value, level) or t == 0.0:
            return value, count
        if t < 0.0:
            low = t
        else:
            high = t


@compiled()
def move_without_rows(position, slices, prior, context, value_here, rng):
    """Move a position along directions that no row depends on, one after the other.

    Where the moves are no multiple of the directions, the first of them is drawn, so that all
    directions have an equal share. As in :func:`move_by_slice`, value and evaluations are returned.
    """
    n, value, evaluations = slices.steps.shape[0], value_here, 0
    first = rng.integers(0, n) if slices.moves % n else 0
    for k in range(slices.moves):
        j = (first + k) % n
        along = slices.steps[j], slices.ends[j, 0], slices.ends[j, 1]
        value, count = move_by_slice(position, along, prior, context, value, rng)
        evaluations += count
    return value, evaluations


@compiled()
def sweep_without_rows(position, slices, prior, context, generator):
    """Move a position as :func:`move_without_rows` does, outside of a chain.

    The generator is given by its addresses.
    """
    rng = generator_at(generator[0], generator[1], generator[2], generator[3])
    here = function_at(prior, LOGP)(position, context)
    move_without_rows(position, slices, prior, context, here, rng)
