"""Rows are bright as often as their odds say, over many blocks of rows and several likelihoods."""

import numpy as np
import pytest
from scipy.special import expm1
from scipy.stats import binomtest

from helpers.published import Place, odds_of_bright, update_brightness
from law.exactness.compiled import posterior_of
from law.exactness.toys import rows_of
from law.statistical.budget import LEVEL
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.published.firefly import unknown_brightness

#: log(L/B) of the rows, which take turns.
EXCESSES = np.array([0.0, 1e-3, 0.1, 0.7, 3.0, 50.0])
#: More bright rows than are read at a time.
N, REPETITIONS, BLOCK = 3_000, 60, 1_024
FALLEN, BOUNDS = 0.5 * EXCESSES, 1.5 * EXCESSES


@pytest.fixture(scope="module")
def posterior():
    """Rows that have fallen by a third of what their bounds allow."""
    c = np.tile(BOUNDS, N // BOUNDS.size)[None].astype(np.float32)
    headers = np.array([[np.inf, 0.0, c.sum(dtype=np.float64)]])
    rows = rows_of(-np.tile(FALLEN, N // FALLEN.size), second=1_301)
    return posterior_of(rows, 1.0, no_tables()._replace(headers=headers, c=c))


PLACE = Place(Move(*np.zeros((5, 1))), 0, 1.0)


def bright(brightness):
    return brightness.rows[: brightness.n_bright[0]]


@pytest.mark.parametrize(("q", "updates"), [(0.05, 0), (0.05, 6), (0.6, 3), (1.0, 2)])
def test_rows_are_bright_as_often_as_their_odds_say(posterior, q, updates):
    rng, found = np.random.default_rng(61), np.zeros(EXCESSES.size, dtype=int)
    for _ in range(REPETITIONS):
        own = unknown_brightness(q, N, 1)
        for _ in range(1 + updates):
            update_brightness(own, PLACE, posterior, rng)
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
        odds, read, counts = update_brightness(own, PLACE, posterior, rng)
        assert own.n_bright[0] > BLOCK
        assert (np.sort(own.rows) == np.arange(N)).all()
        assert odds == pytest.approx(log_odds[bright(own) % EXCESSES.size - 1].sum())
        again = odds_of_bright(own, PLACE, posterior)
        assert again == pytest.approx(odds)
        assert counts["full_pass"] == (k == 0)
        assert read == N if k == 0 or q == 1.0 else before < read < before + 0.1 * N
        assert counts["bound_ratio"] == pytest.approx(1.0 / 3.0, rel=1e-6)


def test_the_row_that_falls_farthest_below_its_bound_is_marked(posterior):
    """Rising above it is no violation."""
    tables = posterior.bounds
    for factor, violated in ((0.3, True), (0.34, False), (-1.0, False)):
        # Bounds of the other sign are rows that have risen.
        c = np.float32(abs(factor)) * tables.c
        c[0, 2_500] *= 0.5
        low = posterior._replace(bounds=tables._replace(c=c))
        own, rng = unknown_brightness(1.0, N, 1), np.random.default_rng(63)
        _, _, counts = update_brightness(own, PLACE, low, rng)
        assert counts["bound_row"] == 2_500
        assert (counts["bound_ratio"] > 1.0) == (violated or factor > 0.0)
