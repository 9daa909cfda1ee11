"""The compiled confidence sampler reads and counts as its looks, summed over all batches, say."""

import numpy as np
import pytest

from helpers.in_library import level
from law.exactness.compiled import BY_BOUNDS
from law.exactness.confidence import HIGH, SETTINGS, TABLE, TOTAL, enumerated, exact, loop
from law.statistical.budget import FAR

pytestmark = BY_BOUNDS

UPDATES = 10_000


@pytest.mark.parametrize("name", SETTINGS)
def test_as_many_rows_are_read_as_the_enumeration_says(name):
    states, counts = loop(name).run(UPDATES, seed=71)
    scanned = TOTAL if name == "scan" else 0
    for state in (0.0, 1.0):
        here = states == state
        _, mean, variance = enumerated(name, state)
        rows = counts["n_obs"][here].mean() - scanned
        assert abs(rows - mean) < FAR * np.sqrt(variance / here.sum())


@pytest.mark.parametrize("name", SETTINGS)
def test_an_update_decides_otherwise_than_all_rows_with_probability_delta_at_most(name):
    for state in (0.0, 1.0):
        p, mean, _ = enumerated(name, state)
        assert abs(p - exact(state)) <= SETTINGS[name].delta / SETTINGS[name].p
        # Many of the updates are decided by batches.
        assert mean < 0.7 * TOTAL


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_spent_of_delta_is_counted_look_by_look(name):
    _, counts = loop(name).run(2_000, seed=71)
    looks = counts["n_looks"].astype(int)
    by_all = counts["log_ratio_std"] == 0.0
    assert len(set(looks)) > 3
    levels = [level(k, SETTINGS[name]) for k in range(2, 2 + looks.max())]
    spent = np.append(0.0, np.cumsum(levels))
    np.testing.assert_allclose(counts["error"], spent[looks - by_all])
    # A scan is counted, and what a comparison counts follows from the looks.
    batches = np.where(by_all, TOTAL, 100.0 * 2.0 ** (looks - 1))
    if name == "bounds":
        np.testing.assert_array_equal(counts["n_obs"], batches)
        np.testing.assert_array_equal(counts["full_pass"], by_all)
    else:
        kept = ~by_all
        np.testing.assert_array_equal(counts["n_obs"][kept], TOTAL + batches[kept])
        assert counts["full_pass"].all()


def test_a_row_beyond_its_bound_stops_before_the_move_and_is_named():
    _, counts = loop("bounds", margin=0.9).run(200, seed=71)
    stopped = counts["bound_ratio"] > 1.0
    assert stopped.all()
    assert not counts["accepted"].any()
    assert (TABLE[counts["bound_row"].astype(int)] == HIGH).all()
    np.testing.assert_allclose(counts["bound_ratio"], 1.0 / 0.9, rtol=1e-5)


def test_moves_outside_of_the_region_read_all_rows():
    _, counts = loop("bounds", radius=0.5).run(200, seed=71)
    assert (counts["n_obs"] == TOTAL).all()
    assert counts["full_pass"].all()
    assert not counts["error"].any()
