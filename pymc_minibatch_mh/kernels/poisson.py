"""The Poisson-minibatch test: a Poisson number of rows, drawn in proportion to their bounds."""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import sums as entry
from pymc_minibatch_mh.kernels.alias import draw_alias
from pymc_minibatch_mh.kernels.draw import arrange
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.reading import RowSpace, read_all
from pymc_minibatch_mh.kernels.remainder import (
    GIVEN,
    move_between,
    ratio_to_bound,
    size_of_move,
)
from pymc_minibatch_mh.kernels.signatures import (
    ACCEPT,
    EVALUATE,
    METRIC,
    RATE,
    TEST_SIGNATURE,
    THIN,
)
from pymc_minibatch_mh.kernels.surrogate import unpack

# Places of the roles among the addresses that an update passes on.
EVALUATE_ROLE, RATE_ROLE, THIN_ROLE, ACCEPT_ROLE, METRIC_ROLE = range(3, 8)
# Slots that every Poisson test's settings end with.
DELAYED, MAX_RATE, TOLERATE = range(-3, 0)
# Columns of the heads of tables.
RADIUS, KIND, TOTAL = range(3)


@compiled()
def smallest_table(surrogate, position, new, heads, metric):
    """Return the table with the smallest C M of those that hold for a move, and its M.

    Symmetric in the two positions. Without a table the number is -1.
    """
    move = move_between(surrogate.whitener, surrogate.centre, position, new)
    outer = np.sqrt(max(move.here, move.there)) * (1.0 + 1e-12)
    best, best_size, best_m = -1, np.inf, np.inf
    for k in range(heads.shape[0]):
        if outer <= heads[k, RADIUS]:
            kind = int(heads[k, KIND])
            if kind == GIVEN:
                m = max(metric(position, new), metric(new, position))
            else:
                m = size_of_move(move, surrogate.order, kind)
            if heads[k, TOTAL] * m < best_size:
                best, best_size, best_m = k, heads[k, TOTAL] * m, m
    return best, best_m


@compiled()
def table_of_move(position, new, metric_address, vectors, matrices, scalars, heads):
    """Return the table that serves a move, or -1, and its M: see :func:`smallest_table`."""
    metric = function_at(metric_address, METRIC)
    return smallest_table(unpack(vectors, matrices, scalars), position, new, heads, metric)


@compiled()
def log_product(
    addresses, settings, position, new, surrogate, space, rng, count, size, m, drawn, c, sums
):
    """Read drawn rows, thin them, and return the sum of what the kept ones add to the log ratio.

    A row that exceeds its bound is clipped; the sums remember the one that does so most.
    """
    evaluate = function_at(addresses[EVALUATE_ROLE], EVALUATE)
    thin = function_at(addresses[THIN_ROLE], THIN)
    beta = surrogate.inverse_temperature
    rows = np.empty(count, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences, scales = np.empty(count), np.empty(count)
    arrange(drawn, 0, count, space.term_starts, rows, ends)
    evaluate(position, new, surrogate.centre, rows, ends, space.context, differences, scales)
    total, term = 0.0, 0
    for i in range(count):
        while i >= ends[term]:
            term += 1
        row = rows[i] + space.term_starts[term]
        bound = c[row] * m
        change = -beta * differences[i]
        ratio = ratio_to_bound(differences[i], scales[i], bound, beta)
        if not ratio <= sums[entry.BOUND_RATIO]:
            sums[entry.BOUND_RATIO], sums[entry.BOUND_ROW] = ratio, row
        sums[entry.SQUARED_RATIOS] += ratio * ratio
        sums[entry.N_RATIOS] += 1.0
        kept, added = thin(min(max(change, -bound), bound), bound, size, settings)
        if rng.random() < kept:
            total += added
    return total


@compiled()
def product_of_all(addresses, position, new, surrogate, space, size, m, c, sums):
    """Read all rows and return what they add to the log ratio; learn from them, if c is not empty.

    The sums learn as from C M drawn rows: without this, a χ at which every move reads all rows
    could not be found to be too large.
    """
    evaluate = function_at(addresses[EVALUATE_ROLE], EVALUATE)
    change, squares = read_all(evaluate, position, new, surrogate.centre, space, c)
    beta = surrogate.inverse_temperature
    if np.isfinite(squares) and c.size > 0:
        sums[entry.SQUARED_RATIOS] += beta * beta * squares / m
        sums[entry.N_RATIOS] += size
    sums[entry.FULL_PASS] += 1.0
    sums[entry.INVALID] += not np.isfinite(change)
    return beta * change


@compiled(TEST_SIGNATURE)
def thin_rows(
    position, new, cheap, rng, addresses, settings, vectors, matrices, scalars,
    term_starts, context, heads, thresholds, aliases, c, sums,
):  # fmt: skip
    """Decide by a Poisson number of rows: see ``TEST`` for the arguments."""
    surrogate = unpack(vectors, matrices, scalars)
    space = RowSpace(term_starts, context)
    delayed = settings[DELAYED] > 0.0
    sums[entry.LOG_RATIO_STD] = 0.0
    if delayed and not rng.random() < np.exp(min(cheap, 0.0)):
        sums[entry.LOG_RATIO] = cheap
        return 0.0, 0.0, 0.0
    metric = function_at(addresses[METRIC_ROLE], METRIC)
    rate = function_at(addresses[RATE_ROLE], RATE)
    best, m = smallest_table(surrogate, position, new, heads, metric)
    size = heads[best, TOTAL] * m if best >= 0 else np.inf
    expected = rate(size, settings) if size < np.inf else np.inf
    # Larger moves read all rows whatever χ is, and say nothing about it.
    informs = size <= settings[MAX_RATE] and size < np.inf
    if informs:
        sums[entry.SIZES] += size
        sums[entry.N_SIZES] += 1.0
    if expected <= settings[MAX_RATE] and expected < np.inf:
        count = rng.poisson(expected)
        product = 0.0
        if count > 0:
            drawn = np.empty(count, np.int64)
            draw_alias(rng, thresholds[best], aliases[best], drawn, count)
            product = log_product(
                addresses, settings, position, new, surrogate, space, rng, count, size, m,
                drawn, c[best], sums,
            )  # fmt: skip
            if not (sums[entry.BOUND_RATIO] <= 1.0 or settings[TOLERATE] > 0.0):
                return -1.0, 0.0, float(count)
    else:
        count = term_starts[-1]
        learned = c[best] if informs else c[0, :0]
        product = product_of_all(addresses, position, new, surrogate, space, size, m, learned, sums)
    sums[entry.N_LOOKS] += 1.0
    sums[entry.LOG_RATIO] = cheap + product
    accept = function_at(addresses[ACCEPT_ROLE], ACCEPT)
    # Past the first stage of a delayed acceptance, what is left to decide is the product.
    probability = accept(0.0 if delayed else cheap, product, 0.0)
    return (1.0 if rng.random() < probability else 0.0), probability, float(count)
