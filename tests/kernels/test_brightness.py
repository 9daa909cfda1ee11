"""Rows are bright as often as their odds say, over many blocks of rows and several likelihoods."""

import numpy as np
import pytest
from numba import njit
from scipy.special import expm1
from scipy.stats import binomtest

from kernels.chain import line, nothing_kept
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moves import Move
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE
from pymc_minibatch_mh.methods.brightness import (
    BLOCK,
    Place,
    odds_of_bright,
    unknown_brightness,
    update_brightness,
)
from statistical.budget import LEVEL

#: log(L/B) of the rows, which take turns.
EXCESSES = np.array([0.0, 1e-3, 0.1, 0.7, 3.0, 50.0])
STARTS = np.array([0, 1_301, 3_000])
N, REPETITIONS = int(STARTS[-1]), 60
FALLEN, BOUNDS = 0.5 * EXCESSES, 1.5 * EXCESSES


@njit(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    """Rows have fallen by a third of what their bounds allow."""
    for k in range(rows.size):
        row = rows[k] + (1_301 if k >= ends[0] else 0)
        differences[k] = -FALLEN[row % FALLEN.size]
        scales[k] = 1.0


@pytest.fixture(scope="module")
def posterior():
    c = np.tile(BOUNDS, N // BOUNDS.size)[None].astype(np.float32)
    heads = np.array([[np.inf, 0.0, c.sum(dtype=np.float64)]])
    tables = no_tables()._replace(heads=heads, c=c)
    space = RowSpace(STARTS, np.zeros(0, dtype=np.int64))
    return Posterior(0, address_of(evaluate), space, line(1.0), tables)


PLACE = Place(Move(*np.zeros((5, 1))), 0, 1.0)


def updated(brightness, posterior, rng):
    counts = np.zeros(entry.N_COUNTS)
    with nothing_kept():
        odds, read = update_brightness(brightness, PLACE, posterior, rng, counts)
    return odds, read, counts


def bright(brightness):
    return brightness.rows[: brightness.n_bright[0]]


@pytest.mark.parametrize(("q", "updates"), [(0.05, 0), (0.05, 6), (0.6, 3), (1.0, 2)])
def test_rows_are_bright_as_often_as_their_odds_say(posterior, q, updates):
    rng, found = np.random.default_rng(61), np.zeros(EXCESSES.size, dtype=int)
    for _ in range(REPETITIONS):
        own = unknown_brightness(q, N, 1)
        for _ in range(1 + updates):
            updated(own, posterior, rng)
        found += np.bincount(bright(own) % EXCESSES.size, minlength=EXCESSES.size)
    trials = REPETITIONS * N // EXCESSES.size
    for count, chance in zip(found, -expm1(-EXCESSES), strict=True):
        assert binomtest(int(count), trials, float(chance)).pvalue > LEVEL


@pytest.mark.parametrize("q", [0.05, 1.0])
def test_sums_and_counts_are_those_of_the_bright_rows(posterior, q):
    rng, own = np.random.default_rng(62), unknown_brightness(q, N, 1)
    log_odds = np.log(expm1(EXCESSES[1:]))
    for k in range(8):
        before = own.n_bright[0]
        odds, read, counts = updated(own, posterior, rng)
        assert own.n_bright[0] > BLOCK
        assert (np.sort(own.rows) == np.arange(N)).all()
        assert odds == pytest.approx(log_odds[bright(own) % EXCESSES.size - 1].sum())
        with nothing_kept():
            again = odds_of_bright(own, PLACE, posterior, np.zeros(entry.N_COUNTS))
        assert again == pytest.approx(odds)
        assert counts[entry.FULL_PASS] == (k == 0)
        assert read == N if k == 0 or q == 1.0 else before < read < before + 0.1 * N
        assert counts[entry.BOUND_RATIO] == pytest.approx(1.0 / 3.0, rel=1e-6)


def test_the_row_that_falls_farthest_below_its_bound_is_marked(posterior):
    """Rising above it is no violation."""
    tables = posterior.tables
    for factor, violated in ((0.3, True), (0.34, False), (-1.0, False)):
        # Bounds of the other sign are rows that have risen.
        c = np.abs(factor) * tables.c
        c[0, 2_500] *= 0.5
        low = posterior._replace(tables=tables._replace(c=c))
        own, rng = unknown_brightness(1.0, N, 1), np.random.default_rng(63)
        _, _, counts = updated(own, low, rng)
        assert counts[entry.BOUND_ROW] == 2_500
        assert (counts[entry.BOUND_RATIO] > 1.0) == (violated or factor > 0.0)
