"""Acceptance probabilities of the package's tests on rows that take two values, summed exactly.

Rows of the same change are alike, so that only how many of each kind are drawn matters: two
Poisson counts for the exact tests, one hypergeometric count a look for the approximate ones. What
is summed are the functions that the steps run, `rate`, `thin`, `sample_size` and
`decide_batch`.
"""

from typing import Any

import numpy as np
from scipy.stats import hypergeom
from scipy.stats import poisson as poisson_law

from papers.runner import Array
from pymc_minibatch_mh.steps import tuna as poisson

#: Values of the uniform number that a decision is summed over, and of a Poisson count.
UNIFORMS, TAIL = 1_000, 1e-13


def poisson_acceptance(changes: Array, counts: Array, test: Any, size: float = 1.0) -> float:
    """Return how often a Poisson test accepts a move of distance `size`.

    Parameters
    ----------
    changes
        Change of the log-likelihood in the move, of each kind of row.
    counts
        Number of rows of each kind.
    test
        Settings of the test.
    size
        M of the move, with c_i of a row the |change| of a step by 1.
    """
    bounds = np.abs(changes)
    total = float(counts @ bounds)
    products, weights = np.zeros(1), np.ones(1)
    for change, bound, count in zip(changes, bounds, counts, strict=True):
        keep, added = poisson.thin(-change, bound, total, test)
        mean = poisson.rate(total, test) * count * bound / total * keep
        seen = np.arange(poisson_law.isf(TAIL, mean) + 2.0)
        # -inf times a count of 0 is 0: no row has vetoed.
        terms = np.where(seen > 0.0, np.where(seen > 0.0, seen, 1.0) * added, 0.0)
        products = np.add.outer(products, terms).ravel()
        weights = np.multiply.outer(weights, poisson_law.pmf(seen, mean)).ravel()
    return float(weights @ np.exp(np.minimum(products, 0.0)))


def batch_decision(changes: Array, counts: Array, module: Any, test: Any) -> tuple[float, float]:
    """Return how often a test on growing batches accepts, and the rows that it reads.

    Parameters
    ----------
    changes, counts
        Changes and numbers of the two kinds of rows.
    module, test
        Where `sample_size` and `decide_batch` are, and their settings.
    """
    total = int(counts.sum())
    uniforms = (np.arange(UNIFORMS) + 0.5) / UNIFORMS
    # Mass of every uniform number and count of the first kind that is still undecided.
    mass, seen, accepted, rows = np.full((UNIFORMS, 1), 1.0 / UNIFORMS), 0, 0.0, 0.0
    while mass.sum() > 0.0:
        more = module.sample_size(0.0, seen, total, test) - seen
        rows += more * mass.sum()
        drawn = np.zeros((UNIFORMS, mass.shape[1] + more))
        for already in np.flatnonzero(mass.sum(axis=0)):
            left = int(counts[0]) - already
            chance = hypergeom.pmf(np.arange(more + 1), total - seen, left, more)
            drawn[:, already : already + more + 1] += np.outer(mass[:, already], chance)
        seen += more
        mass = drawn
        for first in np.flatnonzero(mass.sum(axis=0)):
            below, above = _limits(changes, int(first), seen, total, module, test)
            accepted += mass[uniforms < below, first].sum()
            mass[(uniforms < below) | (uniforms >= above), first] = 0.0
    return float(accepted), float(rows)


def _limits(
    changes: Array, first: int, seen: int, total: int, module: Any, test: Any
) -> tuple[float, float]:
    """Return the uniform number below which a look accepts, and from which on it rejects."""
    mean = (first * changes[0] + (seen - first) * changes[1]) / seen
    spread = first * (seen - first) * (changes[0] - changes[1]) ** 2 / seen / max(seen - 1, 1)
    ratio = float(total * mean)
    variance = float(total**2 * spread / seen * (1.0 - seen / total))

    def verdict(uniform: float) -> float:
        return float(module.decide_batch(ratio, variance, 0.0, seen, total, uniform, test)[0])

    def largest(wanted: tuple[float, ...]) -> float:
        low, high = 0.0, 1.0
        if verdict(0.5 / UNIFORMS) not in wanted:
            return 0.0
        while high - low > 0.5 / UNIFORMS:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if verdict(middle) in wanted else (low, middle)
        return high

    return largest((1.0,)), largest((1.0, -1.0))


def walk(sides: tuple[float, float], states: int) -> Array:
    """Return the transition matrix of a walk on a line that stays where it cannot go on."""
    right, left = sides
    matrix = np.diag(np.full(states - 1, 0.5 * right), 1)
    matrix += np.diag(np.full(states - 1, 0.5 * left), -1)
    return np.asarray(matrix + np.diag(1.0 - matrix.sum(axis=1)))


def stationary(sides: tuple[float, float], states: int) -> Array:
    """Return the stationary distribution of that walk."""
    logs = np.arange(states) * np.log(sides[0] / sides[1])
    weights = np.exp(logs - logs.max())
    return np.asarray(weights / weights.sum())


def gap(matrix: Array) -> float:
    """Return the spectral gap of a reversible transition matrix: 1 less the second eigenvalue."""
    return float(1.0 - np.sort(np.linalg.eigvals(matrix).real)[-2])
