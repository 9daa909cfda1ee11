"""The confidence sampler on two states, its looks summed over all batches, and its compiled loop.

Rows have one of two differences, so that a batch is known by how many have the larger one.
"""

from functools import cache

import numpy as np
from scipy.special import gammaln

from helpers.in_library import level, next_rows
from helpers.in_library import verdict_by_width as verdict
from law.exactness.compiled import Compiled, posterior_of
from law.exactness.toys import METRIC, jump, metric, rows_of
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.moves import GIVEN
from pymc_minibatch_mh.steps import confidence

half_width = function("mh_half_width")

TOTAL, LARGER = 2_000, 1_100
LOW, HIGH = -0.0022, 0.0025
#: Which rows have the larger difference.
TABLE = np.where(np.random.default_rng(3).permutation(TOTAL) < LARGER, HIGH, LOW)
#: Number k of the first look.
FIRST_LOOK = 2
BETA, CHEAP, MARGIN = 0.6, 0.55, 1.02
LOG_FACTORIAL = gammaln(np.arange(TOTAL + 1.0) + 1.0)
#: Uniform numbers over which the enumeration is averaged.
UNIFORMS = (np.arange(2_000) + 0.5) / 2_000

SETTINGS = {
    "bounds": confidence.confidence_test(delta=0.1),
    "scan": confidence.confidence_test(delta=0.1)._replace(scans=1),
}


def loop(name, margin=MARGIN, radius=np.inf):
    """Return two states, their rows in two terms."""
    c = np.full((1, TOTAL), margin * BETA * HIGH / METRIC, dtype=np.float32)
    headers = np.array([[radius, GIVEN, c.sum(dtype=np.float64)]])
    arrays = Tables(headers, c).arrays._replace(metric=metric)
    tables = no_tables() if name == "scan" else arrays
    settings = SETTINGS[name]._replace(largest=tables.c.max(axis=1, initial=0.0).astype(float))
    rows = rows_of([0.0 * TABLE, TABLE], [0.0, CHEAP], second=700)
    return Compiled(posterior_of(rows, BETA, tables, 0.5 * TOTAL), jump([0.0, 1.0]), settings)


def look(name, sign, n, number, found):
    """Return the log ratio and N c_n of batches of n rows, by how many have the larger one."""
    test, share = SETTINGS[name], found / n
    gap = BETA * (HIGH - LOW)
    deviation = gap * np.sqrt(share * (1.0 - share))
    reach = 2.0 * BETA * HIGH * MARGIN
    if name == "scan":
        deviation[:] = gap * np.sqrt(LARGER / TOTAL * (1.0 - LARGER / TOTAL))
        reach = 2.0 * BETA * HIGH
    delta_k = level(number, test)
    widths = [TOTAL * half_width(s, reach, n, delta_k) for s in deviation]
    log_ratio = sign * (CHEAP + BETA * TOTAL * (LOW + (HIGH - LOW) * share))
    return log_ratio, np.array(widths)


def log_choose(n, k):
    """Return the log of how many sets of k among n there are, -inf for none."""
    n, k = np.broadcast_arrays(n, k)
    some = (k >= 0) & (k <= n)
    found = np.full(n.shape, -np.inf)
    n, k = n[some], k[some]
    found[some] = LOG_FACTORIAL[n] - LOG_FACTORIAL[k] - LOG_FACTORIAL[n - k]
    return found


@cache
def chances_of_more(n, target):
    """Return the chances of how many have the larger difference, given how many of n have it."""
    before, after = np.arange(n + 1)[:, None], np.arange(target + 1)
    larger, more = LARGER - before, after - before
    smaller = TOTAL - n - larger
    ways = log_choose(larger, more) + log_choose(smaller, target - n - more)
    return np.exp(ways - log_choose(TOTAL - n, target - n))


@cache
def enumerated(name, state):
    """Return the chance of accepting, and the mean and the variance of the rows of the batches."""
    sign, test = 1.0 - 2.0 * state, SETTINGS[name]
    n, number, found = 0, FIRST_LOOK, np.zeros(1)
    undecided = np.ones((UNIFORMS.size, 1))
    accepted, rows = 0.0, {}
    while undecided.sum() > 0.0:
        target = next_rows(n, TOTAL, 0.5 * TOTAL, test)
        if target == TOTAL:
            exact = sign * (CHEAP + BETA * TABLE.sum())
            left = undecided.sum(axis=1)
            # A scan has read them before, and no batch is added.
            last = TOTAL if name == "bounds" else n
            rows[last] = rows.get(last, 0.0) + left.mean()
            accepted += (left * (np.exp(exact) > UNIFORMS)).mean()
            break
        undecided = undecided @ chances_of_more(n, target)
        n, found = target, np.arange(target + 1.0)
        log_ratio, widths = look(name, sign, n, number, found)
        decided = verdict(log_ratio, widths, UNIFORMS[:, None])
        accepted += (undecided * (decided == 1.0)).sum(axis=1).mean()
        rows[n] = (undecided * (decided >= 0.0)).sum(axis=1).mean()
        undecided, number = undecided * (decided < 0.0), number + 1
    sizes, chances = np.array(list(rows)), np.array(list(rows.values()))
    assert abs(chances.sum() - 1.0) < 1e-9
    mean = sizes @ chances
    return accepted, mean, sizes**2 @ chances - mean**2


def exact(state):
    return min(1.0, np.exp((1.0 - 2.0 * state) * (CHEAP + BETA * TABLE.sum())))


def matrix(name):
    """Return the transition matrix."""
    up, down = (enumerated(name, state)[0] for state in (0.0, 1.0))
    return np.array([[1.0 - up, up], [down, 1.0 - down]])
