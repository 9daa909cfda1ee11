"""Barker's test as its authors programmed it."""

import numpy as np
import pytest
from scipy.special import expit

from papers.programmed import EARLY, decide_batch
from pymc_minibatch_mh.steps.barker import correction_table

SIGMA = 1.0
TABLE = correction_table(SIGMA)
NUMBERS = np.array([100.0, SIGMA, *TABLE.atoms, *TABLE.masses])


def decided(log_ratio, variance, n=100, uniform=0.5):
    return decide_batch(log_ratio, variance, 0.0, n, 1_000, uniform, NUMBERS)


@pytest.mark.parametrize("log_ratio", [-2.0, 0.3, 1.5])
def test_batches_of_little_noise_accept_as_barkers_rule_says(log_ratio):
    variance = 0.4
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    noisy = log_ratio + np.sqrt(variance) * nodes
    # Up to the early end, which few batches of so little noise reach.
    found = [decided(x, variance)[1] for x in noisy]
    expected = np.average(found, weights=weights)
    assert expected == pytest.approx(expit(log_ratio), abs=2e-3)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_mean_far_from_zero_decides_however_noisy_the_batch_is(sign):
    variance = 100.0
    assert decided(0.99 * EARLY * 10.0 * sign, variance)[0] == -1.0
    assert decided(1.01 * EARLY * 10.0 * sign, variance)[0] == (sign > 0.0)


def test_all_rows_decide():
    assert decided(0.1, 0.0, n=1_000)[0] == 1.0
    assert decided(-0.1, 0.0, n=1_000)[0] == 0.0
