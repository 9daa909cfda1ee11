"""Chains of records that only tests have, which the shipped loop runs."""

from contextlib import contextmanager

import numpy as np
import pytest
from numba import njit
from numba.core.caching import Cache

from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.generator import generator_addresses
from pymc_minibatch_mh.kernels.moves import Move
from pymc_minibatch_mh.kernels.run import ARGUMENTS, linked, run
from pymc_minibatch_mh.kernels.slices import NO_SLICES
from pymc_minibatch_mh.kernels.surrogate import Surrogate

#: Compiles a function for a role as the package does, and keeps nothing of it.
role = njit(nogil=True, error_model="numpy")
#: Components of the proposals that are tallied, at most.
COMPONENTS = 8


@contextmanager
def nothing_kept():
    """Compile without writing to numba's cache: other processes do not know the records here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cache, "save_overload", lambda *_: None)
        yield


def line(inverse_temperature):
    """Return control variates of order 0 on a line, whitened as it is."""
    one, zero = np.ones((1, 1)), np.zeros(1)
    return Surrogate(zero, one, one, zero, 0.0 * one, 0, inverse_temperature)


def draws_of(posterior, proposal, test, start, *, count, seed, slices=NO_SLICES, **calling):
    """Return the positions before each of `count` draws of some updates, and the draws' counts.

    Positions of one number, as `start` is one then, have shape (count,), and others (count, d).
    The draws are shared out among a number of `calls`, of some `updates` each. A violated
    bound ends a call after the draw that it is met in, at the old position; the chain is taken up
    there.
    """
    updates, calls = calling.pop("updates", 1), calling.pop("calls", 1)
    assert not calling
    rng = np.random.default_rng(seed)
    position = np.atleast_1d(np.array(start, dtype=np.float64))
    move = Move(position, *np.zeros((4, position.size)))
    tallies, worst = np.zeros((COMPONENTS, entry.N_TALLIES)), np.zeros((2, position.size))
    rest = generator_addresses(rng), move, tallies, worst, slices
    bound = linked(posterior, proposal, test, *rest)
    with nothing_kept():
        make_draws = bound.entry(run, *ARGUMENTS)
    draws, counts, made = np.empty((count, position.size)), np.zeros((count, entry.N_COUNTS)), 0
    while made < count:
        next_ones = slice(made, min(made + count // calls, count))
        made += make_draws(bound.address, updates, draws[next_ones], counts[next_ones])
    before = np.concatenate([np.reshape(start, (1, -1)), draws[:-1]])
    return before if np.ndim(start) else before[:, 0], counts
