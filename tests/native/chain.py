"""Chains of hand-made records, which the shipped loop runs."""

import ctypes
from types import SimpleNamespace

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, ffi
from pymc_minibatch_mh.native.looks import batch_test
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.run import NO_SLICES, linked, run
from pymc_minibatch_mh.native.statistics import COUNTS, TALLY

#: Components of the proposals that are tallied, at most.
COMPONENTS = 8


def line(inverse_temperature):
    """Return control variates of order 0 on a line, whitened as it is."""
    one, zero = np.ones((1, 1)), np.zeros(1)
    return Reference(zero, one, one, zero, 0.0 * one, 0, inverse_temperature)


class Constant:
    """A generator with a number in the place of every random one in [0, 1)."""

    def __init__(self, rng, uniform):
        self._rng, self._double = rng, ffi.callback("double(void *)", lambda _: uniform)
        self._bits = ffi.new("mh_bits *", ffi.cast("mh_bits *", GeneratorRecord(rng).bits)[0])
        self._bits.next_double = self._double
        address = ctypes.c_void_p(int(ffi.cast("intptr_t", self._bits)))
        self.bit_generator = SimpleNamespace(ctypes=SimpleNamespace(bit_generator=address))


class Loop:
    """The shipped loop on a chain, called with (updates from draw to draw, draws, counts).

    The `status` is that of the last call.

    Parameters
    ----------
    posterior, proposal, test
        Records that it takes; or the settings of a test on batches.
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
        rng, self.status = np.random.default_rng(seed), 0
        position = np.atleast_1d(np.array(start, dtype=np.float64))
        self.move = Move(position, *np.zeros((4, position.size)))
        tallies, worst = np.zeros(COMPONENTS, TALLY), np.zeros((2, position.size))
        rng = rng if uniform is None else Constant(rng, uniform)
        rows = posterior.rows._replace(size=position.size)
        test = test if hasattr(test, "decide") else batch_test(test)
        own = posterior._replace(rows=rows), proposal, test, rng, self.move
        self.linked = linked(*own, tallies, worst, slices)

    def __call__(self, updates, draws, counts):
        """Make draws; return how many there are, one that a violated bound has ended included."""
        self.status, made = run(self.linked, updates, draws, counts)
        return made


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
    counts, made = np.zeros(count, COUNTS), 0
    while made < count:
        next_ones = slice(made, min(made + count // calls, count))
        made += loop(updates, draws[next_ones], counts[next_ones])
    before = np.concatenate([np.reshape(start, (1, -1)), draws[:-1]])
    return before if np.ndim(start) else before[:, 0], counts
