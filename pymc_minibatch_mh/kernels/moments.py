"""Running moments of the differences that a test has read."""

import numpy as np

from pymc_minibatch_mh._jit import compiled


@compiled()
def merge_moments(n, mean, second, third, m, other_mean, other_second, other_third):
    """Merge two sets of n, mean, Σ(x - mean)² and Σ(x - mean)³.

    Pébay (2008), doi:10.2172/1028931.
    """
    total = n + m
    shift = other_mean - mean
    cross = shift * shift * n * m / total
    merged_third = (
        third
        + other_third
        + shift * cross * (n - m) / total
        + 3.0 * shift * (n * other_second - m * second) / total
    )
    return total, mean + shift * m / total, second + other_second + cross, merged_third


@compiled()
def add_moments(n, mean, second, third, values, count):
    """Merge the first `count` of `values` into n, mean and central sums of order 2 and 3."""
    own_mean = 0.0
    for i in range(count):
        own_mean += values[i]
    own_mean /= count
    own_second = 0.0
    own_third = 0.0
    for i in range(count):
        gap = values[i] - own_mean
        own_second += gap * gap
        own_third += gap * gap * gap
    return merge_moments(n, mean, second, third, count, own_mean, own_second, own_third)


@compiled()
def skewness(n, second, third):
    """Return the sample skewness, zero where it is not defined."""
    if n < 3 or second <= 0.0:
        return 0.0
    return np.sqrt(float(n)) * third / second**1.5
