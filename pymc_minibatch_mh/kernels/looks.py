"""Tests that read batches of rows, look by look, until they decide.

How many rows the first look reads follows from the move alone. Heavy rows are read before it, all
of them, and batches are drawn from the others.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.draw import reserve
from pymc_minibatch_mh.kernels.even import draw_next, number_of_drawn, read_at_a_time
from pymc_minibatch_mh.kernels.moments import add_moments, skewness
from pymc_minibatch_mh.kernels.moves import JOINT, Move, move_between, products, size_of_move
from pymc_minibatch_mh.kernels.posterior import read_all, read_chosen, read_drawn
from pymc_minibatch_mh.kernels.roles import judge, plan
from pymc_minibatch_mh.kernels.scratch import scratch

#: What a pass is handed that asks nothing about bounds.
NO_BOUNDS = np.empty(0, dtype=np.float32)


@compiled(inlined=True)
def predicted_noise(move, surrogate, kappa):
    """Return V = κ M(θ, θ')², the predicted variance of β N times the difference of one row."""
    size = surrogate.relative * size_of_move(products(move), surrogate.order, JOINT)
    return kappa * size**2


@compiled()
def unit_noise(surrogate, position, new):
    """Return V of two positions for κ = 1; what is called from Python is kept on disk by itself."""
    return predicted_noise(move_between(surrogate, position, new), surrogate, 1.0)


@compiled(spliced=True)
def _look_at_more(posterior, move, batch, seen, target, moments, rng):
    """Draw rows until there are `target` of them, and read them; return the moments of all.

    Rows that could not be had are missing: see :class:`supply.Supply`.
    """
    n = moments[0]
    count = read_at_a_time(posterior, target - n)
    differences, scales = scratch(count, np.float64), scratch(count, np.float64)
    rows, places = scratch(count, np.int64), scratch(count, np.int64)
    ends = scratch(posterior.space.term_starts.size - 1, np.int64)
    while n < target:
        upto = draw_next(posterior, rng, batch, seen, n, target, places)
        if upto < 0:
            break
        new = upto - n
        # None is new where the batch has all rows that came next.
        if new > 0:
            read_drawn(posterior, move, places[:new], rows[:new], ends, differences, scales)
            moments = add_moments(n, moments[1], moments[2], moments[3], differences, new)
        n = upto
    return moments


@compiled(inlined=True)
def look_until_decided(test, move, cheap, posterior, rng, counts):
    """Read rows until the test decides, or all of them: see :func:`roles.decide`."""
    heavy, supply = posterior.tables.heavy, posterior.tables.supply
    # Of the rows that are drawn.
    total = number_of_drawn(posterior)
    limit = min(posterior.most_drawn - heavy.size, total)
    beta = posterior.surrogate.inverse_temperature
    noise = predicted_noise(move, posterior.surrogate, test.kappa)
    uniform = rng.random()
    batch, seen = np.empty(0, np.int64), np.empty(0, np.int64)
    n, moments, known = 0, (0, 0.0, 0.0, 0.0), 0.0
    while True:
        target = plan(noise, n, total, test)
        counts[entry.N_LOOKS] += 1.0
        if target >= limit:
            change, _ = read_all(posterior, move, NO_BOUNDS)
            n, log_ratio, variance, skew = total, cheap + beta * change, 0.0, 0.0
        else:
            if n == 0 and heavy.size:
                known = beta * read_chosen(posterior, move, heavy, NO_BOUNDS)[0]
            batch, seen = reserve(batch, seen, n, target)
            moments = _look_at_more(posterior, move, batch, seen, target, moments, rng)
            n, mean, second, third = moments
            log_ratio = cheap + beta * total * mean + known
            variance = (beta * total) ** 2 * second / (n - 1.0) / n * (1.0 - n / total)
            skew = skewness(n, second, third)
        if supply.unanswered[0]:
            return -1.0, 0.0, float(n)
        verdict, accept, error = judge(log_ratio, variance, skew, n, total, uniform, test)
        if verdict >= 0.0 or np.isnan(verdict):
            break
    predicted = noise * (1.0 / n - 1.0 / total)
    counts[entry.ERROR] += error
    counts[entry.UNDERESTIMATED] += n < total and variance > max(0.5, 1.5 * predicted)
    counts[entry.FULL_PASS] += n == total
    counts[entry.INVALID] += not np.isfinite(log_ratio)
    counts[entry.LOG_RATIO] = log_ratio
    counts[entry.LOG_RATIO_STD] = np.sqrt(variance)
    # NaN is no verdict, which the error estimate says: the chain stops.
    return (-1.0 if np.isnan(verdict) else verdict), accept, float(n + heavy.size)


@compiled()
def full_passes_of(test, surrogate, moves, total, limit, rng):
    """Return how many of some moves a test would read all rows for.

    Batches are simulated: of normal noise with the predicted variance, around the log ratio that a
    move has under the Gaussian approximation. Without a prediction only the first look is known.

    Parameters
    ----------
    test
        Record of the test, as compiled updates are handed it.
    surrogate : Surrogate
    moves : ndarray, shape (moves, 2, d)
        Their ends, whitened.
    total, limit
        Rows that batches are drawn from, and those from which on a look reads all.
    rng : numpy.random.Generator
    """
    passes = 0
    for k in range(moves.shape[0]):
        here, there = moves[k, 0], moves[k, 1]
        move = Move(here, there, here, there, there - here)
        noise = predicted_noise(move, surrogate, test.kappa)
        exact = 0.5 * (np.sum(here * here) - np.sum(there * there))
        uniform, n, away = rng.random(), 0, 0.0
        while True:
            target = plan(noise, n, total, test)
            passes += target >= limit
            if target >= limit or not noise < np.inf:
                break
            away += np.sqrt(noise * (target - n)) * rng.standard_normal()
            n = target
            variance = noise * (1.0 / n - 1.0 / total)
            verdict, _, _ = judge(exact + away / n, variance, 0.0, n, total, uniform, test)
            if verdict >= 0.0 or np.isnan(verdict):
                break
    return passes
