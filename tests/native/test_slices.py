"""Moves without rows: what a slice leaves as it is, and what the loop goes on with after it."""

import ctypes

import numpy as np
import pytest
from numba import cfunc, njit, types
from scipy.stats import binom, chi2, gamma, norm

from law.exactness.compiled import ON_BATCHES, posterior_of
from law.exactness.kernels import FULL_DATA_RULES
from law.exactness.toys import jump, rows_of
from native.chain import draws_of
from pymc_minibatch_mh.native.library import Arena, GeneratorRecord, LaidOut, ffi, load_library
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.run import Slices

pytestmark = ON_BATCHES

#: Bins of equal mass, and moves from draws of a law; moves from which a pair of bins is compared.
BINS, MOVES, OFTEN = 8, 200_000, 50
#: Smallest accepted p-value: far below what any mistake leaves of so many moves.
FAR_OFF = 1e-8
#: Groups whose effects a scale is that of, and the sum of their squares.
GROUPS, SQUARES = 3, 0.8


def density(function):
    """Compile a log-density of one coordinate or two, for the library."""
    return cfunc(types.float64(types.CPointer(types.float64), types.CPointer(types.int64)))(
        function
    )


@density
def normal(position, context):
    return -0.5 * position[0] ** 2


@density
def log_scale(position, context):
    """A scale given the effects of groups, on the log scale: its right tail is exponential."""
    return -GROUPS * position[0] - 0.5 * SQUARES * np.exp(-2.0 * position[0])


@density
def half_line(position, context):
    """Normal where it is positive; not a number elsewhere, nor far out."""
    if position[0] < 0.0 or position[0] > 30.0:
        return np.nan if position[0] < 0.0 else np.inf
    return -0.5 * position[0] ** 2


def quantile_of_log_scale(p):
    return -0.5 * np.log(2.0 * gamma(0.5 * GROUPS).isf(p) / SQUARES)


LAWS = {
    "normal": (normal, norm.ppf),
    "log scale": (log_scale, quantile_of_log_scale),
    "half line": (half_line, lambda p: norm.ppf(0.5 + 0.5 * p)),
}
#: Widths of steps: the slice in many steps up to their limit, in a few, and in one.
WIDTHS = [0.02, 0.7, 50.0]


_POINTER, _INTEGER = ctypes.c_void_p, ctypes.c_int64
#: Position and size; step, its first entry and the one behind its last; prior and context;
#: generator; value and evaluations; scratch.
_MOVE = ctypes.CFUNCTYPE(
    ctypes.c_int, _POINTER, _INTEGER, _POINTER, _INTEGER, _INTEGER, *[_POINTER] * 6
)
move_by_slice = _MOVE(int(ffi.cast("intptr_t", load_library().mh_move_by_slice)))


@njit
def move_each(positions, values, width, prior, generator, arena):
    position, value, count = np.zeros(1), np.zeros(1), np.zeros(1, np.int64)
    step, context = np.full(1, width), np.zeros(1, np.int64)
    for k in range(positions.size):
        position[0], value[0] = positions[k], values[k]
        own = position.ctypes, 1, step.ctypes, 0, 1, prior, context.ctypes, generator
        move_by_slice(*own, value.ctypes, count.ctypes, arena)
        positions[k], values[k] = position[0], value[0]
    return step, context


def values_at(density, positions):
    at = ctypes.CFUNCTYPE(ctypes.c_double, _POINTER, _POINTER)(density.address)
    return np.array([at(np.array([x]).ctypes, None) for x in positions])


def moves_from_equilibrium(law, width, seed):
    """Return how many moves from draws of a law end in each bin, by the bin where they start."""
    (density, quantile), arena = LAWS[law], Arena()
    rng = np.random.default_rng(seed)
    starts = quantile(rng.random(MOVES))
    ends = starts.copy()
    values = np.array([density.__wrapped__([x], None) for x in starts])
    generator = LaidOut("mh_generator", GeneratorRecord(rng))
    addresses = (int(ffi.cast("intptr_t", x)) for x in (generator.at, arena.at))
    move_each(ends, values, width, density.address, *addresses)
    np.testing.assert_array_equal(values[:100], values_at(density, ends[:100]))
    edges = quantile(np.arange(1, BINS) / BINS)
    found = np.zeros((BINS, BINS))
    np.add.at(found, (np.searchsorted(edges, starts), np.searchsorted(edges, ends)), 1.0)
    return found


def surprise(law):
    """Return the p-value of moves there and back between bins, as often in equilibrium."""
    statistic, degrees = 0.0, 0
    for seed, width in enumerate(WIDTHS):
        found = moves_from_equilibrium(law, width, seed)
        there, back = found[np.triu_indices(BINS, 1)], found.T[np.triu_indices(BINS, 1)]
        often = there + back >= OFTEN
        statistic += ((there - back)[often] ** 2 / (there + back)[often]).sum()
        degrees += int(often.sum())
    return float(chi2(degrees).sf(statistic))


@pytest.mark.parametrize("law", LAWS)
def test_a_slice_is_reversible(law):
    assert surprise(law) > FAR_OFF


@density
def effect_and_location(position, context):
    """A location that no row reads, and an effect around it that rows read."""
    return -0.5 * position[1] ** 2 - 2.0 * (position[0] - position[1]) ** 2


#: What rows add to the log-likelihood of the second value of the effect, and the ratio of moves.
TABLE = 0.1 * np.arange(-5.0, 9.0)
LOG_Q, BETA = 0.2, 0.6


def hierarchy(slices, count, **options):
    """Return positions and counts of a chain with moves without rows, and its proposal."""
    whitener = np.array([[1.0, 0.0], [0.5, 2.0]])
    zero = np.zeros((2, 2))
    reference = Reference(np.zeros(2), np.linalg.inv(whitener), whitener, zero[0], zero, 0, BETA)
    posterior = posterior_of(rows_of([0.0 * TABLE, TABLE], second=3), BETA, most_drawn=0.0)
    posterior = posterior._replace(prior=effect_and_location, reference=reference)
    proposal = jump([0.0, 1.0], ratios=[[0.0, LOG_Q], [-LOG_Q, 0.0]])
    test = FULL_DATA_RULES["austere, eps=0"].settings
    start = np.array([0.0, 0.3])
    draws, counts = draws_of(
        posterior, proposal, test, start, count=count, seed=5, slices=slices, **options
    )
    return draws, counts, proposal


LOCATION = Slices(np.array([[0.0, 1.5]]), np.array([[1, 2]]), 1)


def test_updates_go_on_from_where_moves_without_rows_end():
    draws, counts, proposal = hierarchy(LOCATION, 400)
    effects, locations = draws.T
    change = [
        effect_and_location.__wrapped__([1.0 - x, mu], None)
        - effect_and_location.__wrapped__([x, mu], None)
        for x, mu in draws
    ]
    rows = LOG_Q + BETA * TABLE.sum()
    expected = np.array(change) + rows * (1.0 - 2.0 * effects)
    np.testing.assert_allclose(counts["log_ratio"], expected, rtol=0.0, atol=1e-12)
    assert proposal.furthest[0] < 1e-12
    assert np.unique(effects).tolist() == [0.0, 1.0]
    assert np.unique(locations).size == len(locations)


def test_moves_without_rows_are_counted_and_cut_anywhere():
    draws, counts, _ = hierarchy(LOCATION, 300)
    assert (counts["n_prior"] >= 1.0).all()
    cut, of_cut, _ = hierarchy(LOCATION, 300, calls=60)
    np.testing.assert_array_equal(cut, draws)
    np.testing.assert_array_equal(of_cut, counts)
    by_three, of_three, _ = hierarchy(LOCATION, 100, updates=3)
    np.testing.assert_array_equal(by_three, draws[::3])
    expected = counts["n_prior"].reshape(-1, 3).sum(axis=1)
    np.testing.assert_array_equal(of_three["n_prior"], expected)


def test_directions_have_an_equal_share_of_fewer_moves():
    """One move an update: along the location alone, or along both coordinates together."""
    steps = np.array([[0.0, 1.5], [0.5, 0.5]])
    slices = Slices(steps, np.array([[1, 2], [0, 2]]), 1)
    draws, _, _ = hierarchy(slices, 1_000)
    # What is read changes by an update to its negative, so that moves along both can be told.
    change = np.diff(draws[:, 0])
    together = (np.abs(change) > 0.0) & (np.abs(np.abs(change) - np.abs(1 - 2 * draws[:-1, 0])) > 0)
    count = int(together.sum())
    assert binom.cdf(count, together.size, 0.5) > FAR_OFF
    assert binom.sf(count - 1, together.size, 0.5) > FAR_OFF
    three, _, _ = hierarchy(slices._replace(moves=2), 300)
    assert (np.diff(three[:, 0]) != 0.0).all()
