"""Sequential tests on growing batches.

How many rows the first look reads follows from the move alone. Heavy rows are read before it, all
of them, and batches are drawn from the others, evenly and without replacement.

Rows in memory are drawn by the chain's generator. Rows that are stored come from a supply that was
drawn ahead with replacement: those that the batch has already are skipped, so that what remains of
a sequence of independent rows is drawn without replacement. Which rows come next depends on nothing
that the chain does.
"""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import (
    END,
    NEXT,
    ask,
    draw_more,
    insert,
    list_all,
    reserve,
    skip_rows,
)
from pymc_minibatch_mh.kernels.moves import JOINT, Move, move_between, products, size_of_move
from pymc_minibatch_mh.kernels.posterior import (
    BLOCK,
    number_of_rows,
    read_all,
    read_block,
    read_chosen,
    read_drawn,
)
from pymc_minibatch_mh.kernels.roles import decide_batch, sample_size
from pymc_minibatch_mh.kernels.vectors import scratch


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


@compiled()
def scan_rows(posterior, move):
    """Return mean, variance with divisor N and largest absolute value of all rows' differences."""
    total = posterior.space.term_starts[-1]
    rows, differences, scales = np.empty(BLOCK, np.int64), np.empty(BLOCK), np.empty(BLOCK)
    n, mean, second, third, largest = 0, 0.0, 0.0, 0.0, 0.0
    for first in range(0, total, BLOCK):
        count = read_block(posterior, move, first, rows, differences, scales)
        n, mean, second, third = add_moments(n, mean, second, third, differences, count)
        for i in range(count):
            largest = max(largest, abs(differences[i]))
    return mean, second / total, largest


#: The table of a supply of rows that are drawn evenly: there is no other then.
EVENLY = 0


@compiled(inlined=True)
def number_of_drawn(posterior):
    """Return how many rows batches are drawn from: all but those that every update reads."""
    return number_of_rows(posterior) - posterior.tables.heavy.size


@compiled(inlined=True)
def read_at_a_time(posterior, count):
    """Return how many of `count` rows of a batch are drawn and read before the next of them."""
    # A supply is overwritten while a batch goes on in the next but one.
    return min(count, BLOCK) if posterior.tables.supply.room > 0 else count


@compiled()
def take_new(supply, batch, seen, n, target, places):
    """Extend a batch by the next unused rows of a supply: see :func:`draw_next`.

    As many rows are used as `places` has room for, at most: those that the batch has count.
    """
    first, table = n, supply.places[EVENLY]
    for _ in range(places.size):
        if n == target:
            break
        if table[NEXT] == table[END] and not ask(supply, EVENLY):
            return -1
        place = table[NEXT]
        table[NEXT] += 1
        if insert(seen, supply.rows[place]):
            places[n - first] = place
            batch[n] = supply.rows[place]
            n += 1
    return n


@compiled(spliced=True)
def draw_next(posterior, rng, batch, seen, n, target, places):
    """Extend a batch of `n` rows, to `target` of them at most; return how many it has now.

    These are `target`, or fewer where rows are stored; -1 where they could not be had. `batch` and
    `seen` are from :func:`draw.reserve`; rows in memory are numbered among those that batches are
    drawn from. `places`, of the length of :func:`read_at_a_time`, begins with where the new rows
    are read.
    """
    if posterior.tables.supply.room > 0:
        return take_new(posterior.tables.supply, batch, seen, n, target, places)
    draw_more(rng, number_of_drawn(posterior), batch, seen, n, target)
    for i in range(target - n):
        places[i] = batch[n + i]
    if posterior.tables.heavy.size:
        skip_rows(batch[n:target], posterior.tables.heavy, places)
    return target


#: Bounds of a pass that asks for none.
NO_BOUNDS = np.empty(0, dtype=np.float32)


@compiled(inlined=True)
def predicted_noise(move, reference, kappa):
    """Return V = κ M(θ, θ')², the predicted variance of β N times the difference of one row."""
    size = reference.relative * size_of_move(products(move), reference.order, JOINT)
    return kappa * size**2


@compiled()
def unit_noise(reference, position, new):
    """Return V of two positions for κ = 1; functions called from Python are kept on disk."""
    return predicted_noise(move_between(reference, position, new), reference, 1.0)


@compiled(spliced=True)
def _look_at_more(posterior, move, batch, seen, target, moments, rng):
    """Draw rows until there are `target` of them, and read them; return the moments of all.

    Rows that could not be had are missing: see :class:`draw.Supply`.
    """
    n = moments[0]
    count = read_at_a_time(posterior, target - n)
    differences, scales = scratch(count, np.float64), scratch(count, np.float64)
    rows, places = scratch(count, np.int64), scratch(count, np.int64)
    while n < target:
        upto = draw_next(posterior, rng, batch, seen, n, target, places)
        if upto < 0:
            break
        new = upto - n
        # None is new where the batch has all rows that came next.
        if new > 0:
            read_drawn(posterior, move, places[:new], rows[:new], differences, scales)
            moments = add_moments(n, moments[1], moments[2], moments[3], differences, new)
        n = upto
    return moments


@compiled()
def read_rest(posterior, move, batch, seen, moments, known):
    """Read the rows that a batch lacks; return the change of all, and how many were read.

    The heavy rows' change is `known`, unless the batch is empty. Stored rows are all read anew.
    """
    n = moments[0]
    if n == 0 or posterior.tables.supply.room > 0:
        return read_all(posterior, move, NO_BOUNDS)[0], number_of_rows(posterior)
    total = number_of_drawn(posterior)
    # Without a set of the batch's rows, the list has all of them.
    rest = (list_all(batch, n, total) if seen.size else batch)[n:total]
    if posterior.tables.heavy.size:
        skip_rows(rest, posterior.tables.heavy, rest)
    return n * moments[1] + known + read_chosen(posterior, move, rest, NO_BOUNDS)[0], rest.size


@compiled(inlined=True)
def look_until_decided(test, move, cheap, posterior, rng, counts):
    """Read rows until the test decides, or all of them: see :func:`roles.decide`."""
    heavy, supply = posterior.tables.heavy, posterior.tables.supply
    total = number_of_drawn(posterior)
    limit = min(posterior.most_drawn - heavy.size, total)
    beta = posterior.reference.inverse_temperature
    noise, uniform = predicted_noise(move, posterior.reference, test.kappa), rng.random()
    batch, seen = np.empty(0, np.int64), np.empty(0, np.int64)
    n, read, moments, known = 0, 0, (0, 0.0, 0.0, 0.0), 0.0
    while True:
        target = sample_size(noise, n, total, test)
        counts[entry.N_LOOKS] += 1.0
        if target >= limit:
            change, count = read_rest(posterior, move, batch, seen, moments, known)
            read += count
            n, log_ratio, variance, skew = total, cheap + beta * change, 0.0, 0.0
        else:
            if n == 0 and heavy.size:
                known = read_chosen(posterior, move, heavy, NO_BOUNDS)[0]
            # Of a supply it is asked which rows the batch has, so that it needs the set.
            most = total if supply.room == 0 else 2 * target
            batch, seen = reserve(batch, seen, n, target, most)
            moments = _look_at_more(posterior, move, batch, seen, target, moments, rng)
            n, mean, second, third = moments
            read = n + heavy.size
            log_ratio = cheap + beta * total * mean + beta * known
            variance = (beta * total) ** 2 * second / (n - 1.0) / n * (1.0 - n / total)
            skew = skewness(n, second, third)
        if supply.open_requests[0]:
            return -1.0, 0.0, float(read)
        verdict, accept, error = decide_batch(log_ratio, variance, skew, n, total, uniform, test)
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
    return (-1.0 if np.isnan(verdict) else verdict), accept, float(read)


@compiled()
def full_passes_of(test, reference, moves, total, limit, rng):
    """Return how many of some moves a test would read all rows for.

    Batches are simulated: of normal noise with the predicted variance, around the log ratio that a
    move has under the Gaussian approximation. `moves` are whitened ends, shape (moves, 2, d); looks
    at `limit` rows or more, of the `total` that are drawn from, read all.
    """
    passes = 0
    for k in range(moves.shape[0]):
        here, there = moves[k, 0], moves[k, 1]
        move = Move(here, there, here, there, there - here)
        noise = predicted_noise(move, reference, test.kappa)
        exact = 0.5 * (np.sum(here * here) - np.sum(there * there))
        uniform, n, away = rng.random(), 0, 0.0
        while True:
            target = sample_size(noise, n, total, test)
            passes += target >= limit
            if target >= limit or not noise < np.inf:
                break
            away += np.sqrt(noise * (target - n)) * rng.standard_normal()
            n = target
            variance = noise * (1.0 / n - 1.0 / total)
            verdict, _, _ = decide_batch(exact + away / n, variance, 0.0, n, total, uniform, test)
            if verdict >= 0.0 or np.isnan(verdict):
                break
    return passes
