"""Moments of changes, sums over vectors, and scans, against NumPy."""

import numpy as np
import pytest
from scipy.stats import skew

from helpers.in_library import move_between, scan_rows, skewness
from law.exactness.compiled import posterior_of
from law.exactness.toys import rows_of
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.looks import merge_moments, moments_of


def moments(values):
    gaps = values - values.mean()
    return len(values), values.mean(), (gaps**2).sum(), (gaps**3).sum()


@pytest.mark.parametrize("cuts", [(), (1,), (7,), (3, 4, 90)])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_moments_are_those_of_all_values(cuts, shift):
    values = shift + np.random.default_rng(1).gamma(0.5, size=100)
    state = (0, 0.0, 0.0, 0.0)
    for piece in np.split(values, cuts):
        state = merge_moments(state, moments_of(piece))
    expected = moments(values - shift)
    assert state[0] == expected[0]
    assert state[1] - shift == pytest.approx(expected[1], abs=1e-9 * max(1.0, shift))
    assert state[2:] == pytest.approx(expected[2:], rel=1e-6 if shift else 1e-12)


@pytest.mark.parametrize("size", [3, 10, 500])
def test_skewness_is_that_of_the_sample(size):
    values = np.random.default_rng(3).exponential(size=size)
    n, _, second, third = moments(values)
    assert skewness(n, second, third) == pytest.approx(skew(values))


@pytest.mark.parametrize("size", [1.0, 60.0, 300.0])
def test_sum_of_logs_is_that_of_single_ones(size):
    values = 10.0 ** np.random.default_rng(1).uniform(-size, size, 101)
    for start, stop in ((0, 101), (3, 12), (5, 5)):
        some = values[start:stop]
        found = function("mh_sum_of_logs")(some, some.size)
        np.testing.assert_allclose(found, np.log(some).sum(), rtol=1e-13, atol=1e-12)


#: Rows that a pass reads at a time.
BLOCK = 2_048
CHANGES = np.random.default_rng(8).normal(0.3, 1.0, 2 * BLOCK + 57)


def test_all_rows_are_read_in_blocks():
    posterior = posterior_of(rows_of(CHANGES, second=900), 1.0)
    move = move_between(posterior.reference, np.array([0.1]), np.array([0.6]))
    mean, variance, largest = scan_rows(posterior, move)
    assert mean == pytest.approx(CHANGES.mean(), rel=1e-12)
    assert variance == pytest.approx(CHANGES.var(), rel=1e-12)
    assert largest == pytest.approx(np.abs(CHANGES).max(), rel=1e-14)
