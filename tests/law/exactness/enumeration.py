"""Transition matrices of small chains, summed over every minibatch and every uniform.

The functions that are enumerated are the shipped ones. The loop around them is the library's: a
look that would read half of the rows or more reads all of them, and heavy rows are read before the
first look and never drawn.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numba import njit

from helpers.in_library import as_bytes, decide_at_once, decide_batch

BELOW_ONE = 1.0 - 2.0**-53


class Tempered:
    """A discrete state space with a log-prior, log-likelihoods and an inverse temperature."""

    def target(self):
        """Return the tempered posterior, shape (S,)."""
        log_weights = self.log_prior + self.inverse_temperature * self.log_likelihood.sum(axis=1)
        weights = np.exp(log_weights - log_weights.max())
        return weights / weights.sum()


@dataclass(frozen=True)
class Chain(Tempered):
    """A discrete state space with its log-prior, shape (S,), and log-likelihoods, shape (S, N).

    Rows of `heavy` are read by every update.
    """

    log_prior: np.ndarray
    log_likelihood: np.ndarray
    inverse_temperature: float
    heavy: tuple[int, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A test: its plan, its verdicts, their settings, and what the kernel hands to them."""

    sample_size: Callable
    decide_batch: Callable
    settings: Any
    statistics: Callable
    spread: Callable


def sample_statistics(cheap, differences, total, beta):
    """Return log ratios, their variances and skewnesses of batches, differences (batches, b)."""
    rows = differences.shape[1]
    log_ratio = cheap + beta * total * differences.mean(axis=1)
    centred = differences - differences.mean(axis=1, keepdims=True)
    second = (centred**2).sum(axis=1)
    variance = (beta * total) ** 2 * second / (rows - 1) / rows * (1.0 - rows / total)
    scale = np.where(second > 0.0, second, 1.0) ** 1.5
    skewness = np.sqrt(rows) * (centred**3).sum(axis=1) / scale
    return log_ratio, variance, skewness


def audited_spread(differences, beta):
    """Return V of the full data: symmetric in the two states."""
    return (beta * differences.size) ** 2 * differences.var(ddof=1)


@cache
def subsets(total, rows):
    """Return all batches of `rows` of `total` rows, shape (batches, rows)."""
    return np.array(list(combinations(range(total), rows)))


@cache
def children(total, rows, more):
    """Return the batches of `more` rows that contain each batch of `rows`, shape (k, children)."""

    def membership(size):
        inside = np.zeros((len(subsets(total, size)), total), dtype=np.float32)
        np.put_along_axis(inside, subsets(total, size), 1.0, axis=1)
        return inside

    contains = membership(rows) @ membership(more).T == rows
    return np.nonzero(contains)[1].reshape(len(contains), -1)


@njit(error_model="numpy")
def verdict_bounds(decide_batch, log_ratios, variances, skewnesses, rows, total, settings, out):
    """Write (a, r) of each batch: accepted for uniforms below a, rejected from r on."""
    for k in range(len(out)):
        given = log_ratios[k], variances[k], skewnesses[k], rows, total
        probability = decide_batch(*given, 0.5, settings)[1]
        below, above = probability * (1 - 1e-12), min(probability * (1 + 1e-12), BELOW_ONE)
        out[k] = probability
        certain = below == 0.0 or decide_batch(*given, below, settings)[0] == 1.0
        if certain and (
            probability >= BELOW_ONE or decide_batch(*given, above, settings)[0] == 0.0
        ):
            continue
        for side in range(2):
            # Largest uniform number that is accepted, and largest one that is not rejected.
            low, high = 0.0, BELOW_ONE
            at_low, at_high = (
                decide_batch(*given, low, settings)[0],
                decide_batch(*given, high, settings)[0],
            )
            if not (at_low == 1.0 or (side == 1 and at_low != 0.0)):
                high = low
            elif at_high == 1.0 or (side == 1 and at_high != 0.0):
                low = high = 1.0
            while high - low > 1e-13:
                middle = 0.5 * (low + high)
                verdict = decide_batch(*given, middle, settings)[0]
                if verdict == 1.0 or (side == 1 and verdict != 0.0):
                    low = middle
                else:
                    high = middle
            out[k, side] = low


def acceptance(rule, cheap, differences, beta, heavy=()):
    """Return the probability that a proposal is accepted, over all batches and uniforms."""
    most_drawn = 0.5 * differences.size - len(heavy)
    cheap = cheap + beta * differences[list(heavy)].sum()
    differences = np.delete(differences, heavy)
    total = differences.size
    spread = rule.spread(differences, beta)
    rows, accepted = 0, 0.0
    # One path per batch and interval of uniforms that are still undecided.
    paths = np.zeros(1, dtype=np.int64)
    low, high, weight = np.zeros(1), np.ones(1), np.ones(1)
    while True:
        target = rule.sample_size(spread, rows, total, rule.settings)
        target = total if target >= most_drawn else target
        if rows == 0:
            next_batches = np.arange(len(subsets(total, target)))[None]
        else:
            next_batches = children(total, rows, target)
        branches = next_batches.shape[1]
        paths = next_batches[paths].ravel()
        low, high, weight = (np.repeat(x, branches) for x in (low, high, weight / branches))
        rows = target
        accept_below, reject_from = _bounds_of_look(rule, cheap, differences, rows, beta, paths)
        accepted += weight @ np.maximum(np.minimum(high, accept_below) - low, 0.0)
        low, high = np.maximum(low, accept_below), np.minimum(high, reject_from)
        open_paths = high > low
        if not open_paths.any():
            return accepted
        paths, low, high, weight = (x[open_paths] for x in (paths, low, high, weight))


def _bounds_of_look(rule, cheap, differences, rows, beta, paths):
    """Return the verdict bounds of the batch of every path, each shape (paths,)."""
    total = differences.size
    if rows == total:
        log_ratio = cheap + beta * differences.sum()
        moments = (np.array([log_ratio]), np.zeros(1), np.zeros(1))
    else:
        batches = subsets(total, rows)
        moments = rule.statistics(cheap, differences[batches], total, beta)
    batches, of_path = np.unique(paths, return_inverse=True)
    bounds = np.empty((len(batches), 2))
    given = *(moment[batches] for moment in moments), rows, total
    if rule.decide_batch is decide_batch:
        decide = decide_at_once(rule.settings.decide_batch)
        verdict_bounds(decide, *given, as_bytes(rule.settings), bounds)
    else:
        # A mutant is no compiled function.
        verdict_bounds.py_func(rule.decide_batch, *given, rule.settings, bounds)
    return bounds[of_path, 0], bounds[of_path, 1]


def transition_matrix(chain, rule, proposals=None):
    """Return the transition matrix; proposals are uniform to the other states, if not given."""
    states = len(chain.log_prior)
    q = np.full((states, states), 1.0 / (states - 1)) if proposals is None else proposals
    matrix = np.zeros((states, states))
    for i in range(states):
        for j in range(states):
            if i != j:
                matrix[i, j] = q[i, j] * acceptance(
                    rule,
                    chain.log_prior[j] - chain.log_prior[i] + np.log(q[j, i] / q[i, j]),
                    chain.log_likelihood[j] - chain.log_likelihood[i],
                    chain.inverse_temperature,
                    chain.heavy,
                )
        matrix[i, i] = 1.0 - matrix[i].sum()
    return matrix


def stationary_law(matrix):
    """Return the stationary law of an irreducible transition matrix."""
    equations = matrix.T - np.eye(len(matrix))
    equations[-1] = 1.0
    return np.linalg.solve(equations, np.eye(len(matrix))[-1])


def total_variation(matrix, target):
    """Return the distance of the stationary law to the target."""
    return 0.5 * float(np.abs(stationary_law(matrix) - target).sum())
