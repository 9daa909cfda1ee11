"""Drawing rows in proportion to fixed weights, in constant time."""

import numpy as np

from pymc_minibatch_mh._jit import compiled


@compiled()
def build_alias(weights, thresholds, aliases):
    """Fill an alias table: keep place i with probability thresholds[i], else go to aliases[i].

    Vose (1991), doi:10.1109/32.92917.

    Parameters
    ----------
    weights : ndarray of float32, shape (N,)
        Non-negative; their sum is positive.
    thresholds : ndarray of float64, shape (N,)
    aliases : ndarray of int32, shape (N,)
    """
    size = weights.size
    total = 0.0
    for i in range(size):
        total += weights[i]
    small, large = np.empty(size, np.int32), np.empty(size, np.int32)
    n_small, n_large = 0, 0
    for i in range(size):
        thresholds[i] = size * (weights[i] / total)
        aliases[i] = i
        if thresholds[i] < 1.0:
            small[n_small] = i
            n_small += 1
        else:
            large[n_large] = i
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low, high = small[n_small], large[n_large - 1]
        aliases[low] = high
        thresholds[high] -= 1.0 - thresholds[low]
        if thresholds[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    # What is left over differs from 1 by rounding.
    for k in range(n_large):
        thresholds[large[k]] = 1.0
    for k in range(n_small):
        thresholds[small[k]] = 1.0


@compiled()
def draw_alias(rng, thresholds, aliases, rows, count):
    """Write `count` places to `rows`, drawn with replacement in proportion to the weights."""
    size = thresholds.size
    for k in range(count):
        place = rng.integers(0, size)
        # Both are read at once: neither is likely to be in a cache.
        threshold, alias = thresholds[place], aliases[place]
        rows[k] = place if rng.random() < threshold else alias
