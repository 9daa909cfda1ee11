"""Tests that read batches of rows, look by look, until they decide.

How many rows the first look reads follows from the move alone. Heavy rows are read before it, all
of them, and batches are drawn from the others.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.draw import draw_more, reserve, skip_rows
from pymc_minibatch_mh.kernels.moments import add_moments, skewness
from pymc_minibatch_mh.kernels.moves import JOINT, move_between, products, size_of_move
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


@compiled()
def _read_others(posterior, move, numbers, rows, ends, differences, scales):
    """Read rows by their numbers among those that are not heavy: see :func:`read_drawn`."""
    drawn = np.empty(numbers.size, np.int64)
    skip_rows(numbers, posterior.tables.heavy, drawn)
    read_drawn(posterior, move, drawn, rows, ends, differences, scales)


@compiled(inlined=True)
def _look_at_more(posterior, move, drawn, n, target, moments):
    """Read rows n to `target` of those drawn; return the moments of all of them."""
    count = target - n
    differences, scales = scratch(count, np.float64), scratch(count, np.float64)
    rows = scratch(count, np.int64)
    ends = scratch(posterior.space.term_starts.size - 1, np.int64)
    if posterior.tables.heavy.size:
        _read_others(posterior, move, drawn[n:target], rows, ends, differences, scales)
    else:
        read_drawn(posterior, move, drawn[n:target], rows, ends, differences, scales)
    return add_moments(n, moments[0], moments[1], moments[2], differences, count)


@compiled(inlined=True)
def look_until_decided(test, move, cheap, posterior, rng, counts):
    """Read rows until the test decides, or all of them: see :func:`roles.decide`."""
    heavy = posterior.tables.heavy
    # Of the rows that are drawn.
    total = posterior.space.term_starts[-1] - heavy.size
    limit = min(posterior.most_drawn - heavy.size, total)
    beta = posterior.surrogate.inverse_temperature
    noise = predicted_noise(move, posterior.surrogate, test.kappa)
    uniform = rng.random()
    drawn, table = np.empty(0, np.int64), np.empty(0, np.int64)
    n, moments, known = 0, (0.0, 0.0, 0.0), 0.0
    while True:
        target = plan(noise, n, total, test)
        counts[entry.N_LOOKS] += 1.0
        if target >= limit:
            change, _ = read_all(posterior, move, NO_BOUNDS)
            n, log_ratio, variance, skew = total, cheap + beta * change, 0.0, 0.0
        else:
            if n == 0 and heavy.size:
                known = beta * read_chosen(posterior, move, heavy, NO_BOUNDS)[0]
            drawn, table = reserve(drawn, table, n, target)
            draw_more(rng, total, drawn, table, n, target)
            n, mean, second, third = _look_at_more(posterior, move, drawn, n, target, moments)
            moments = (mean, second, third)
            log_ratio = cheap + beta * total * mean + known
            variance = (beta * total) ** 2 * second / (n - 1.0) / n * (1.0 - n / total)
            skew = skewness(n, second, third)
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
