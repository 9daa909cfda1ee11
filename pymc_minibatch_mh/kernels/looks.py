"""Tests that read batches of rows, look by look, until they decide.

How many rows the first look reads follows from the move alone.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.draw import arrange, draw_more, reserve
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.moments import add_moments, skewness
from pymc_minibatch_mh.kernels.reading import RowSpace, read_all
from pymc_minibatch_mh.kernels.signatures import DECIDE, EVALUATE, PLAN, TEST_SIGNATURE
from pymc_minibatch_mh.kernels.surrogate import remainder_size, unpack

# Places of the roles among the addresses that an update passes on.
EVALUATE_ROLE, PLAN_ROLE, DECIDE_ROLE = 3, 4, 5


@compiled()
def _look_at_more(evaluate, drawn, n, target, position, new, centre, space, moments):
    """Read rows n to `target` of those drawn; return the moments of all of them."""
    count = target - n
    rows = np.empty(count, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(count)
    scales = np.empty(count)
    arrange(drawn, n, target, space.term_starts, rows, ends)
    evaluate(position, new, centre, rows, ends, space.context, differences, scales)
    return add_moments(n, moments[0], moments[1], moments[2], differences, count)


#: What a pass is handed that asks nothing about bounds.
NO_BOUNDS = np.empty(0, dtype=np.float32)


@compiled(TEST_SIGNATURE)
def look_until_decided(
    position, new, cheap, rng, addresses, settings, vectors, matrices, scalars,
    term_starts, context, heads, thresholds, aliases, c, sums,
):  # fmt: skip
    """Read rows until the test decides, or all of them: see ``TEST`` for the arguments."""
    evaluate = function_at(addresses[EVALUATE_ROLE], EVALUATE)
    plan = function_at(addresses[PLAN_ROLE], PLAN)
    decide = function_at(addresses[DECIDE_ROLE], DECIDE)
    surrogate = unpack(vectors, matrices, scalars)
    space = RowSpace(term_starts, context)
    total = term_starts[-1]
    beta = surrogate.inverse_temperature
    spread = surrogate.spread * remainder_size(surrogate, position, new) ** 2
    uniform = rng.random()
    drawn, table = np.empty(0, np.int64), np.empty(0, np.int64)
    n, moments = 0, (0.0, 0.0, 0.0)
    while True:
        target = plan(spread, n, total, settings)
        sums[entry.N_LOOKS] += 1.0
        if 2 * target >= total:
            change, _ = read_all(evaluate, position, new, surrogate.centre, space, NO_BOUNDS)
            n, log_ratio, variance, skew = total, cheap + beta * change, 0.0, 0.0
        else:
            drawn, table = reserve(drawn, table, n, target)
            draw_more(rng, total, drawn, table, n, target)
            n, mean, second, third = _look_at_more(
                evaluate, drawn, n, target, position, new, surrogate.centre, space, moments
            )
            moments = (mean, second, third)
            log_ratio = cheap + beta * total * mean
            variance = (beta * total) ** 2 * second / (n - 1.0) / n * (1.0 - n / total)
            skew = skewness(n, second, third)
        verdict, accept, error = decide(log_ratio, variance, skew, n, total, uniform, settings)
        if verdict >= 0.0:
            break
    predicted = spread * (1.0 / n - 1.0 / total)
    sums[entry.ERROR] += error
    sums[entry.UNDERESTIMATED] += n < total and variance > max(0.5, 1.5 * predicted)
    sums[entry.FULL_PASS] += n == total
    sums[entry.INVALID] += not np.isfinite(log_ratio)
    sums[entry.LOG_RATIO] = log_ratio
    sums[entry.LOG_RATIO_STD] = np.sqrt(variance)
    return verdict, accept, float(n)
