"""Chains of hand-made records, which the shipped loop runs."""

import ctypes

import numpy as np
from numba import njit

from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import generator_addresses
from pymc_minibatch_mh.kernels.moves import Move
from pymc_minibatch_mh.kernels.posterior import Reference
from pymc_minibatch_mh.kernels.run import ARGUMENTS, linked, run
from pymc_minibatch_mh.kernels.slices import NO_SLICES

#: Compiles a function for a role as the package does, and keeps nothing of it.
role = njit(nogil=True, error_model="numpy")
#: Components of the proposals that are tallied, at most.
COMPONENTS = 8
_NEXT_DOUBLE = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)


def line(inverse_temperature):
    """Return control variates of order 0 on a line, whitened as it is."""
    one, zero = np.ones((1, 1)), np.zeros(1)
    return Reference(zero, one, one, zero, 0.0 * one, 0, inverse_temperature)


class Loop:
    """The shipped loop on a chain, called with (updates from draw to draw, draws, counts).

    It is kept on disk: records of tests are those of `toys.py`, which every process can import.

    Parameters
    ----------
    posterior, proposal, test
        Records that it is compiled for.
    start
        A position, or a number.
    seed
        Of the chain's generator.
    slices
        Moves without rows.
    uniform
        A number in the place of every random one in [0, 1); integers are drawn as ever.
    """

    def __init__(self, posterior, proposal, test, start, seed, *, slices=NO_SLICES, uniform=None):
        self._rng = np.random.default_rng(seed)
        generator = generator_addresses(self._rng)
        if uniform is not None:
            self._double = _NEXT_DOUBLE(lambda _: uniform)
            generator[1] = ctypes.cast(self._double, ctypes.c_void_p).value
        position = np.atleast_1d(np.array(start, dtype=np.float64))
        self.move = Move(position, *np.zeros((4, position.size)))
        tallies, worst = np.zeros((COMPONENTS, entry.N_TALLIES)), np.zeros((2, position.size))
        rest = generator, self.move, tallies, worst, slices
        self._linked = linked(posterior, proposal, test, *rest)
        self._run = self._linked.entry(run, *ARGUMENTS)

    def __call__(self, updates, draws, counts):
        """Make draws; return how many there are, one that a violated bound has ended included."""
        return self._run(self._linked.address, updates, draws, counts)


def draws_of(posterior, proposal, test, start, *, count, seed, updates=1, calls=1, **options):
    """Return the positions before each of `count` draws of some updates, and the draws' counts.

    Positions of one number, as `start` is one then, have shape (count,), and others (count, d).
    The draws are shared out among a number of `calls`, of some `updates` each. A violated
    bound ends a call after the draw that it is met in, at the old position; the chain is taken up
    there.
    """
    loop = Loop(posterior, proposal, test, start, seed, **options)
    return visited(loop, start, count, updates, calls)


def visited(loop, start, count, updates=1, calls=1):
    """Return the same for a loop that begins there."""
    draws = np.empty((count, np.size(start)))
    counts, made = np.zeros((count, entry.N_COUNTS)), 0
    while made < count:
        next_ones = slice(made, min(made + count // calls, count))
        made += loop(updates, draws[next_ones], counts[next_ones])
    before = np.concatenate([np.reshape(start, (1, -1)), draws[:-1]])
    return before if np.ndim(start) else before[:, 0], counts
