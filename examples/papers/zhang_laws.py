"""Acceptance probabilities of the package's tests on rows that take two values, summed exactly.

Rows of the same change are alike, so that only how many of each kind are drawn matters: two
Poisson counts for the exact tests, one hypergeometric count a look for the approximate ones. What
is summed are the functions of the library that the steps run: ``mh_thin``, and those that the
record of a test on batches names.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import hypergeom
from scipy.stats import poisson as poisson_law

from papers.runner import Array
from pymc_minibatch_mh.native.library import LaidOut, dtype_of, function, load_library
from pymc_minibatch_mh.steps.tuna import PoissonTest

#: Values of the uniform number that a decision is summed over, and of a Poisson count.
UNIFORMS, TAIL = 1_000, 1e-13
#: Verdicts of a look.
ACCEPT, READ_MORE = load_library().MH_ACCEPT, load_library().MH_READ_MORE


def rate(size: float, test: PoissonTest) -> float:
    """Return the expected number of rows that a Poisson test draws in a move of `size` C M."""
    return size * (1.0 + test.chi * size)


def thin(change: float, bound: float, size: float, test: PoissonTest) -> Array:
    """Return the probability that a drawn row is kept, and what it adds to the log ratio then."""
    found = np.empty(2)
    function("mh_thin")(change, bound, size, test, found[:1], found[1:])
    return found


def poisson_acceptance(changes: Array, counts: Array, test: PoissonTest) -> float:
    """Return how often a Poisson test accepts a move, with the bound of a row its |change|.

    Parameters
    ----------
    changes
        Change of the log-likelihood in the move, of each kind of row.
    counts
        Number of rows of each kind.
    test
        Settings of the test.
    """
    bounds = np.abs(changes)
    total = float(counts @ bounds)
    products, weights = np.zeros(1), np.ones(1)
    for change, bound, count in zip(changes, bounds, counts, strict=True):
        keep, added = thin(-change, bound, total, test)
        mean = rate(total, test) * count * bound / total * keep
        seen = np.arange(poisson_law.isf(TAIL, mean) + 2.0)
        # -inf times a count of 0 is 0: no row has vetoed.
        terms = np.where(seen > 0.0, np.where(seen > 0.0, seen, 1.0) * added, 0.0)
        products = np.add.outer(products, terms).ravel()
        weights = np.multiply.outer(weights, poisson_law.pmf(seen, mean)).ravel()
    return float(weights @ np.exp(np.minimum(products, 0.0)))


def batch_decision(changes: Array, counts: Array, test: Any) -> tuple[float, float]:
    """Return how often a test on growing batches accepts, and the rows that it reads.

    Parameters
    ----------
    changes, counts
        Changes and numbers of the two kinds of rows.
    test
        Settings of the test.
    """
    total, settings = int(counts.sum()), LaidOut(test.LAYOUT, test)
    uniforms = (np.arange(UNIFORMS) + 0.5) / UNIFORMS
    # Mass of every uniform number and count of the first kind that is still undecided.
    mass, seen, accepted, rows = np.full((UNIFORMS, 1), 1.0 / UNIFORMS), 0, 0.0, 0.0
    while mass.sum() > 0.0:
        more = function(test.sample_size)(settings, 0.0, seen, total) - seen
        rows += more * mass.sum()
        drawn = np.zeros((UNIFORMS, mass.shape[1] + more))
        for already in np.flatnonzero(mass.sum(axis=0)):
            left = int(counts[0]) - already
            chance = hypergeom.pmf(np.arange(more + 1), total - seen, left, more)
            drawn[:, already : already + more + 1] += np.outer(mass[:, already], chance)
        seen += more
        mass = drawn
        for first in np.flatnonzero(mass.sum(axis=0)):
            below, above = _limits(_estimate(changes, int(first), seen, total), test, settings)
            accepted += mass[uniforms < below, first].sum()
            mass[(uniforms < below) | (uniforms >= above), first] = 0.0
    return float(accepted), float(rows)


def _estimate(changes: Array, first: int, seen: int, total: int) -> NDArray[Any]:
    """Return the look at so many rows, with no uniform number yet: one record of the library."""
    mean = (first * changes[0] + (seen - first) * changes[1]) / seen
    spread = first * (seen - first) * (changes[0] - changes[1]) ** 2 / seen / max(seen - 1, 1)
    variance = total**2 * spread / seen * (1.0 - seen / total)
    return np.array([(total * mean, variance, 0.0, seen, total, 0.0)], dtype_of("mh_look"))


def _limits(look: NDArray[Any], test: Any, settings: LaidOut) -> tuple[float, float]:
    """Return the uniform number below which a look accepts, and from which on it rejects."""
    decide, said = function(test.decide_batch), np.empty(1, dtype_of("mh_verdict"))

    def largest(*wanted: int) -> float:
        def decides(uniform: float) -> bool:
            look["uniform"] = uniform
            decide(settings, look, said)
            return int(said["verdict"][0]) in wanted

        low, high = 0.0, 1.0
        if not decides(0.5 / UNIFORMS):
            return 0.0
        while high - low > 0.5 / UNIFORMS:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if decides(middle) else (low, middle)
        return high

    return largest(ACCEPT), largest(ACCEPT, READ_MORE)


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
