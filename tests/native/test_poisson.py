"""What the compiled Poisson test reads and counts, and how it stops; its law is in exactness."""

import numpy as np
import pytest
from scipy.stats import chi2, ttest_1samp
from scipy.stats import poisson as poisson_law

from helpers.in_library import rate
from law.exactness.compiled import BY_BOUNDS, Compiled, posterior_of
from law.exactness.toys import METRIC, jump, metric, rows_of
from law.statistical.budget import LEVEL
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.moves import GIVEN
from pymc_minibatch_mh.native.statistics import summed
from pymc_minibatch_mh.steps import tuna as poisson

pytestmark = BY_BOUNDS

UPDATES = 40_000
#: Rows that the test reads at a time, at most.
MOST_READ = 65_536
#: What a row adds to the log-likelihood of state 1 over that of state 0.
TABLE = np.array([0.9, -0.6, 0.5, -0.8, 0.3])
#: c_i by the metric between the states.
BOUNDS = np.array([0.3, 0.25, 0.2, 0.3, 0.15], dtype=np.float32)
BETA, CHEAP = 0.6, 0.55


def loop(settings, bounds=BOUNDS, radius=np.inf):
    headers = np.array([[radius, GIVEN, bounds.sum(dtype=np.float64)]])
    tables = Tables(headers, bounds[None]).arrays._replace(metric=metric)
    rows = rows_of([0.0 * TABLE, TABLE], [0.0, CHEAP], second=2)
    return Compiled(posterior_of(rows, BETA, tables), jump([0.0, 1.0]), settings)


def run(settings, *, count=UPDATES, **parts):
    """Return states before each update and the counts of each."""
    return loop(settings, **parts).run(count, seed=23)


SETTINGS = {
    "best": poisson.poisson_test("best", 0.8),
    "paper": poisson.poisson_test("paper", 0.8),
    "MH-SS": poisson.poisson_test("best", 0.0),
    "factorized": poisson.poisson_test("factorized"),
    "best, delayed": poisson.poisson_test("best", 0.8, delayed_acceptance=True),
    "factorized, delayed": poisson.poisson_test("factorized", delayed_acceptance=True),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_reported_acceptance_is_the_share_of_accepted_moves(name):
    _, counts = run(SETTINGS[name])
    share, reported = counts["accepted"].mean(), counts["accept"].mean()
    assert share == pytest.approx(reported, abs=0.02)


@pytest.mark.parametrize("name", ["best", "best, delayed"])
@pytest.mark.parametrize("outside", ["radius", "rate"])
def test_pairs_that_all_rows_decide_are_exact(name, outside):
    settings = SETTINGS[name]
    if outside == "rate":
        settings = settings._replace(max_rate=0.5)
    chain = loop(settings, radius=0.5 if outside == "radius" else np.inf)
    states, counts = chain.run(UPDATES, seed=23)
    read = counts["n_obs"] > 0
    assert (counts["n_obs"][read] == TABLE.size).all()
    assert (counts["full_pass"][read] == 1.0).all()
    exact = (1.0 - 2.0 * states[read]) * (CHEAP + BETA * TABLE.sum())
    np.testing.assert_allclose(counts["log_ratio"][read], exact, rtol=1e-12)
    assert read.all() or name.endswith("delayed")
    assert chain.proposal.furthest[0] < 1e-12


@pytest.mark.parametrize("by_all_rows", [True, False])
def test_a_choice_of_chi_learns_the_same_from_drawn_rows_and_from_all(by_all_rows):
    size = float(BOUNDS.sum(dtype=float) * METRIC)
    settings = SETTINGS["best"]._replace(max_rate=size * 1.01 if by_all_rows else np.inf)
    _, counts = run(settings)
    learned = summed(counts)
    assert learned["full_pass"] == (UPDATES if by_all_rows else 0)
    assert learned["sizes"] / learned["n_sizes"] == pytest.approx(size)
    changes = BETA * TABLE / (BOUNDS * METRIC)
    exact = (BOUNDS * changes**2).sum() / BOUNDS.sum()
    assert learned["n_ratios"] > 0
    found = learned["squared_ratios"] / learned["n_ratios"]
    assert found == pytest.approx(exact, rel=1e-6 if by_all_rows else 0.02)


def test_moves_that_read_all_rows_whatever_chi_teach_nothing():
    settings = SETTINGS["best"]._replace(max_rate=0.5)
    for _, counts in (run(settings), run(SETTINGS["best"], radius=0.5)):
        assert counts["full_pass"].all()
        assert not counts["n_sizes"].any()
        assert not counts["n_ratios"].any()


def test_rows_read_are_poisson():
    _, counts = run(SETTINGS["best"])
    size = float(BOUNDS.sum() * METRIC)
    mean = rate(size, SETTINGS["best"])
    observed = np.bincount(counts["n_obs"].astype(int), minlength=12)[:12]
    probable = poisson_law.pmf(np.arange(12), mean) * UPDATES
    kept = probable > 20
    statistic = ((observed[kept] - probable[kept]) ** 2 / probable[kept]).sum()
    assert chi2(kept.sum()).sf(statistic) > LEVEL


@pytest.mark.parametrize("name", ["factorized", "factorized, delayed"])
def test_rows_after_a_veto_are_not_read(name):
    states, counts = run(SETTINGS[name])
    bounds = BOUNDS.astype(float) * METRIC
    for state in (0.0, 1.0):
        of_state = counts["n_obs"][states == state]
        of_state = of_state[of_state > 0]
        change = -BETA * (1.0 - 2.0 * state) * TABLE
        veto = (np.maximum(change, 0.0) / bounds * bounds / bounds.sum()).sum()
        # Of B ~ Poisson(R) drawn rows, those up to the first veto, given B > 0.
        rate = bounds.sum()
        mean = (1.0 - np.exp(-rate * veto)) / veto / (1.0 - np.exp(-rate))
        assert ttest_1samp(of_state, mean).pvalue > LEVEL
        assert ttest_1samp(of_state, rate / (1.0 - np.exp(-rate))).pvalue < LEVEL


def test_more_rows_than_are_read_at_a_time_decide_as_one_batch_does():
    settings = poisson.poisson_test("best", 200_000.0)
    states, counts = run(settings, count=24)
    expected = rate(float(BOUNDS.sum(dtype=float) * METRIC), settings)
    assert expected > 3 * MOST_READ
    assert (np.abs(counts["n_obs"] / expected - 1.0) < 0.02).all()
    assert not counts["full_pass"].any()
    for state in (0.0, 1.0):
        sign = 1.0 - 2.0 * state
        exact = sign * (CHEAP + BETA * TABLE.sum())
        found = counts["log_ratio"][states == state]
        assert found.mean() == pytest.approx(exact, abs=0.01)


def test_a_violated_bound_stops_before_the_move_and_names_the_row():
    low = BOUNDS.copy()
    low[3] *= 0.7
    _, counts = run(SETTINGS["best"], bounds=low)
    stopped = counts["bound_ratio"] > 1.0
    assert stopped.any()
    assert (counts["bound_row"][stopped] == 3.0).all()
    assert not counts["accepted"][stopped].any()
    ratio = BETA * abs(TABLE[3]) / (low[3] * METRIC)
    assert counts["bound_ratio"][stopped].max() == pytest.approx(ratio)


def test_of_several_rows_beyond_their_bounds_the_worst_is_named_with_its_own_ratio():
    low = BOUNDS * np.float32(0.3)
    _, counts = run(SETTINGS["best"], bounds=low)
    ratios = BETA * np.abs(TABLE) / (low * METRIC)
    named = counts["bound_row"].astype(int)
    stopped = counts["bound_ratio"] > 1.0
    assert len(set(named[stopped])) > 3
    found = counts["bound_ratio"][stopped]
    np.testing.assert_allclose(found, ratios[named[stopped]], rtol=1e-6)
