"""PenaltyMH: its balance, its batches, and the step that a forecast compares with."""

import math

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr
from scipy.stats import chi2

from helpers.in_library import decide_batch, penalty_error, sample_size
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.steps import penalty
from pymc_minibatch_mh.steps.penalty import penalty_beside
from robustness.conformance.harness import same_state

BIG = 10**6
penalty_of = function("mh_penalty")
DEFAULT = penalty.penalty_test()
LOG_RATIOS = np.linspace(-6.0, 0.0, 61)


def average_acceptance(log_ratio, deviation, penalties, weights):
    """Average min(1, exp(D - u)) over D ~ N(log_ratio, deviation^2) and over u."""
    mean = log_ratio[:, None] - penalties
    above = ndtr(mean / deviation)
    below = np.exp(mean + deviation**2 / 2) * ndtr(-mean / deviation - deviation)
    return (above + below) @ weights


def detailed_balance_error(deviation, n, u=penalty_of):
    """Return the largest |a(d) - exp(d) a(-d)|, d <= 0, with n normal rows."""
    low, high = chi2.ppf(1e-14, n - 1), chi2.isf(1e-14, n - 1)
    nodes, weights = leggauss(400)
    x = low + (high - low) * (nodes + 1) / 2
    weights = weights * (high - low) / 2 * chi2.pdf(x, n - 1)
    penalties = np.array([u(v, n) for v in deviation**2 * x / (n - 1)])
    there = average_acceptance(LOG_RATIOS, deviation, penalties, weights)
    back = average_acceptance(-LOG_RATIOS, deviation, penalties, weights)
    return np.abs(there - np.exp(LOG_RATIOS) * back).max()


@pytest.mark.parametrize("n", [10, 30, 100])
@pytest.mark.parametrize("deviation", [0.4, 1.0, 1.2])
def test_detailed_balance_error_is_covered_by_the_estimate(deviation, n):
    found = detailed_balance_error(deviation, n)
    estimate = penalty_error(deviation**2, 0.0, n, 10**9, DEFAULT)
    assert found <= estimate <= 4.0 * found


def test_uncorrected_penalty_is_an_order_worse():
    shipped = detailed_balance_error(1.0, 30)
    assert shipped < 1.4e-4
    assert detailed_balance_error(1.0, 30, lambda v, n: v / 2.0) > 10.0 * shipped


def test_penalty_is_the_published_series():
    expected = 0.9 / 2 + 0.81 / (4 * 51) + 0.729 / (3 * 51 * 53)
    assert penalty_of(0.9, 50) == pytest.approx(expected, rel=1e-14)


def test_verdict_and_probability():
    p = math.exp(-0.3 - penalty_of(0.8, 200))
    for uniform, verdict in ((0.0, 1.0), (p * (1 - 1e-12), 1.0), (p * (1 + 1e-12), 0.0)):
        decided = decide_batch(-0.3, 0.8, 0.0, 200, BIG, uniform, DEFAULT)
        assert decided[:2] == (verdict, pytest.approx(p, rel=1e-14))
    assert decide_batch(9.0, 0.8, 0.0, 200, BIG, 0.999, DEFAULT)[:2] == (1.0, 1.0)


def test_batch_is_sized_for_the_largest_deviation():
    rows = sample_size(1e4, 0, BIG, DEFAULT)
    aim = 0.7 * 1.2**2
    assert 1e4 * (1 / rows - 1 / BIG) <= aim < 1e4 * (1 / (rows - 1) - 1 / BIG)
    plans = [sample_size(v, 0, BIG, DEFAULT) for v in (0.0, math.inf, math.nan)]
    assert plans == [100, BIG, BIG]
    assert sample_size(0.0, 0, 60, DEFAULT) == 60


def test_skewness_of_the_audit_stands_in_for_a_smaller_one_of_the_batch():
    audited = DEFAULT._replace(skewness=2.0)
    expected = penalty_error(0.9, 2.0, 200, BIG, DEFAULT)
    for skewness in (-2.0, 0.3, math.nan):
        assert penalty_error(0.9, skewness, 200, BIG, audited) == expected
    assert penalty_error(0.9, 3.0, 200, BIG, audited) > expected


def test_skewness_term_covers_skewed_batches():
    # Batches of gamma rows: the two directions differ by the sign of the skewness.
    rng = np.random.default_rng(13)
    rows = rng.standard_gamma(1.0, (200_000, 50)) - 1.0
    mean, variance = rows.mean(axis=1) * math.sqrt(50), rows.var(axis=1, ddof=1)
    charge = np.array([penalty_of(v, 50) for v in variance])
    estimate = penalty_error(1.0, 2.0, 50, 10**9, DEFAULT)
    for exact in (-2.0, -0.5, 0.0, 0.5):
        known = average_acceptance(np.array([exact]), 1.0, np.array([0.5]), np.ones(1))[0]
        for sign in (1.0, -1.0):
            found = np.exp(np.minimum(0.0, exact + sign * mean - charge)).mean()
            assert abs(found - known) < estimate < 0.1


def test_states_belong_to_the_step_that_they_were_taken_of(prepared):
    step, penalty = prepared("poisson", "TunaMH"), prepared("poisson", "PenaltyMH")
    assert step.key["method"] == "TunaMH"
    beside = penalty_beside(step, np.random.default_rng(1))
    assert beside.key == penalty.key
    assert step.key["method"] == "TunaMH"
    state = beside.sampling_state
    penalty.sampling_state = state
    same_state(penalty.sampling_state, state)
