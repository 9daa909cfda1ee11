"""Error and use of data of a sequential test: against other programmes, walks and limits."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from papers.sequential import sequential_error, sequential_use

#: m, epsilon, n_rows, boundary, all_rows_from
TESTS = [
    (100, 0.05, 2_000, 0.5, 1.0),
    (100, 0.05, 2_000, 0.5, 0.5),
    (70, 0.01, 1_000, 0.5, 1.0),
    (100, 0.2, 1_550, 0.7, 1.0),
    (100, 0.05, 2_000, 1.0, 1.0),
]
DISTANCES = np.array([0.0, 0.1, 0.5, 1.5, 5.0])


def both(test, distances=DISTANCES):
    m, epsilon, n_rows, boundary, all_rows_from = test
    options = {"boundary": boundary, "all_rows_from": all_rows_from}
    return (
        sequential_error(distances, m, epsilon, n_rows, **options),
        sequential_use(distances, m, epsilon, n_rows, **options),
    )


def shares_and_limits(m, epsilon, n_rows, boundary, all_rows_from):
    read = [k for k in range(m, n_rows, m) if k < all_rows_from * n_rows]
    shares = np.array(read) / n_rows
    return shares, -ndtri(epsilon) * shares ** (0.5 - boundary)


def forward(test, distance, points=700):
    """Follow the density of the statistic from look to look, for one distance at a time."""
    shares, limits = shares_and_limits(*test)
    grid = (np.arange(points) + 0.5) / points * 2.0 - 1.0
    means = distance * np.sqrt(shares / (1.0 - shares))
    normal = lambda x, mean, sd: np.exp(-0.5 * ((x - mean) / sd) ** 2) / sd / math.sqrt(2 * math.pi)  # noqa: E731
    error, use = ndtr(-limits[0] - means[0]), 0.0
    right = ndtr(means[0] - limits[0])
    use += shares[0] * (error + right)
    z, step = limits[0] * grid, 2.0 * limits[0] / points
    density = normal(z, means[0], 1.0)
    for j in range(1, len(shares)):
        before, now = shares[j - 1], shares[j]
        slope = math.sqrt(before * (1.0 - now) / (now * (1.0 - before)))
        drift = distance * (now - before) / ((1.0 - before) * math.sqrt(now * (1.0 - now)))
        sd = math.sqrt((now - before) / (now * (1.0 - before)))
        ahead = drift + slope * z
        low = (density * step) @ ndtr((-limits[j] - ahead) / sd)
        high = (density * step) @ ndtr((ahead - limits[j]) / sd)
        error, use = error + low, use + now * (low + high)
        reached = limits[j] * grid
        density = normal(reached[:, None], ahead, sd) @ density * step
        z, step = reached, 2.0 * limits[j] / points
    return error, use + density.sum() * step


@pytest.mark.parametrize("test", TESTS)
def test_the_density_followed_forwards_says_the_same(test):
    error, use = both(test)
    expected = np.array([forward(test, distance) for distance in DISTANCES])
    np.testing.assert_allclose(error, expected[:, 0], atol=1e-5)
    np.testing.assert_allclose(use, expected[:, 1], atol=1e-5)


def test_at_epsilon_zero_all_rows_decide():
    assert sequential_error(0.0, 100, 0.0, 2_000) == 0.0
    assert sequential_use([0.0, 3.0], 100, 0.0, 2_000).tolist() == [1.0, 1.0]


def test_at_epsilon_one_half_the_first_look_decides():
    expected = ndtr(-DISTANCES * math.sqrt(0.05 / 0.95))
    np.testing.assert_allclose(sequential_error(DISTANCES, 100, 0.5, 2_000), expected, rtol=1e-9)
    np.testing.assert_allclose(sequential_use(DISTANCES, 100, 0.5, 2_000), 0.05, rtol=1e-12)


@pytest.mark.parametrize("m", [2_000, 5_000])
def test_a_first_look_of_all_rows_is_right(m):
    assert sequential_error(0.0, m, 0.2, 2_000) == 0.0
    assert sequential_use(0.0, m, 0.2, 2_000) == 1.0


def test_far_from_the_threshold_the_first_look_is_right():
    assert sequential_error(math.inf, 100, 0.05, 2_000) == 0.0
    assert sequential_use(math.inf, 100, 0.05, 2_000) == 0.05


def test_the_worst_is_at_the_threshold_and_signs_do_not_count():
    distances = np.linspace(0.0, 8.0, 60).reshape(3, 20)
    error, use = both(TESTS[0], distances)
    assert error.shape == use.shape == (3, 20)
    assert (np.diff(error.ravel()) < 0.0).all()
    assert (np.diff(use.ravel()) < 0.0).all()
    np.testing.assert_array_equal(both(TESTS[0], -distances)[0], error)


def test_wider_limits_at_early_looks_err_less_and_read_more():
    found = [both((100, 0.05, 2_000, boundary, 1.0), 0.3) for boundary in (0.5, 0.75, 1.0)]
    errors, uses = zip(*found, strict=True)
    assert errors[0] > errors[1] > errors[2] > 0.0
    assert uses[0] < uses[1] < uses[2] < 1.0
