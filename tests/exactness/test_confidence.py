"""The compiled confidence sampler accepts as often as its looks, summed over all batches, say.

Rows have one of two differences, so that a batch is known by how many have the larger one.
"""

import numpy as np
import pytest
from numba import njit, vectorize
from scipy.stats import binom, hypergeom

from kernels.chain import draws_of, line
from kernels.toy import BETA, FLIP, LOG_PRIOR, LOG_Q, prior
from pymc_minibatch_mh.kernels import counts as entry
from pymc_minibatch_mh.kernels.alias import build_alias
from pymc_minibatch_mh.kernels.bound_tables import BoundTables, no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moves import GIVEN
from pymc_minibatch_mh.kernels.posterior import Posterior, RowSpace
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE, METRIC_SIGNATURE
from pymc_minibatch_mh.methods import confidence
from statistical.budget import FAR, LEVEL

UPDATES = 40_000
TOTAL, LARGER = 2_000, 1_100
LOW, HIGH = -0.0022, 0.0025
#: Which rows have the larger difference; the first rows belong to another term than the rest.
TABLE = np.where(np.random.default_rng(3).permutation(TOTAL) < LARGER, HIGH, LOW)
STARTS = np.array([0, 700, TOTAL])
METRIC, MARGIN = 2.0, 1.02
#: Uniform numbers over which the enumeration is averaged.
UNIFORMS = (np.arange(4_000) + 0.5) / 4_000

SETTINGS = {
    "bounds": confidence.settings(delta=0.1),
    "scan": confidence.settings(delta=0.1, scans=True),
}


@njit(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    for i in range(rows.size):
        row = rows[i] + (STARTS[1] if i >= ends[0] else 0)
        differences[i] = TABLE[row] * (new[0] - position[0])
        scales[i] = 1.0


@njit(METRIC_SIGNATURE)
def metric(position, new):
    return METRIC


def tables_with(margin, radius):
    c = np.full(TOTAL, margin * BETA * HIGH / METRIC, dtype=np.float32)
    thresholds, aliases = np.empty((1, TOTAL)), np.empty((1, TOTAL), dtype=np.int32)
    build_alias(c, thresholds[0], aliases[0])
    heads = np.array([[radius, GIVEN, c.sum(dtype=np.float64)]])
    return BoundTables(heads, c[None], thresholds, aliases, address_of(metric))


def run(name, updates=UPDATES, margin=MARGIN, radius=np.inf):
    """Return the states before each update, and the counts of each."""
    tables = no_tables() if name == "scan" else tables_with(margin, radius)
    settings = SETTINGS[name]._replace(largest=tables.c.max(axis=1, initial=0.0).astype(float))
    space = RowSpace(STARTS, np.zeros(0, dtype=np.int64))
    posterior = Posterior(
        address_of(prior), address_of(evaluate), space, line(BETA), tables, 0.5 * TOTAL
    )
    return draws_of(posterior, FLIP, settings, 0.0, count=updates, seed=71)


@vectorize
def verdict(log_ratio, width, uniform):
    return confidence.judge(log_ratio, width, uniform)[0]


def look(name, sign, n, number, found):
    """Return the log ratio and N c_n of batches of n rows, by how many have the larger one."""
    test, share = SETTINGS[name], found / n
    gap = BETA * (HIGH - LOW)
    deviation = gap * np.sqrt(share * (1.0 - share))
    reach = 2.0 * BETA * HIGH * MARGIN
    if name == "scan":
        deviation[:] = gap * np.sqrt(LARGER / TOTAL * (1.0 - LARGER / TOTAL))
        reach = 2.0 * BETA * HIGH
    delta_k = confidence.level(number, test)
    widths = [TOTAL * confidence.half_width(s, reach, n, delta_k) for s in deviation]
    log_ratio = sign * (LOG_PRIOR + LOG_Q + BETA * TOTAL * (LOW + (HIGH - LOW) * share))
    return log_ratio, np.array(widths)


def enumerated(name, state):
    """Return the chance of accepting, and the mean and the variance of the rows of the batches."""
    sign, test = 1.0 - 2.0 * state, SETTINGS[name]
    n, number, found = 0, confidence.FIRST_LOOK, np.zeros(1)
    undecided = np.ones((UNIFORMS.size, 1))
    accepted, rows = 0.0, {}
    while undecided.sum() > 0.0:
        target = confidence.next_rows(n, TOTAL, 0.5 * TOTAL, test)
        if target == TOTAL:
            exact = sign * (LOG_PRIOR + LOG_Q + BETA * TABLE.sum())
            left = undecided.sum(axis=1)
            # A scan has read them before, and no batch is added.
            last = TOTAL if name == "bounds" else n
            rows[last] = rows.get(last, 0.0) + left.mean()
            accepted += (left * (np.exp(exact) > UNIFORMS)).mean()
            break
        more = np.arange(target + 1.0)
        step = hypergeom.pmf(more - found[:, None], TOTAL - n, LARGER - found[:, None], target - n)
        undecided, n, found = undecided @ np.nan_to_num(step), target, more
        log_ratio, widths = look(name, sign, n, number, found)
        decided = verdict(log_ratio, widths, UNIFORMS[:, None])
        accepted += (undecided * (decided == 1.0)).sum(axis=1).mean()
        rows[n] = (undecided * (decided >= 0.0)).sum(axis=1).mean()
        undecided, number = undecided * (decided < 0.0), number + 1
    sizes, chances = np.array(list(rows)), np.array(list(rows.values()))
    assert chances.sum() == pytest.approx(1.0, abs=1e-9)
    mean = sizes @ chances
    return accepted, mean, sizes**2 @ chances - mean**2


def exact(state):
    return min(1.0, np.exp((1.0 - 2.0 * state) * (LOG_PRIOR + LOG_Q + BETA * TABLE.sum())))


@pytest.mark.parametrize("name", SETTINGS)
def test_moves_are_accepted_as_often_as_the_enumeration_says(name):
    states, counts = run(name)
    scanned = TOTAL if name == "scan" else 0
    for state in (0.0, 1.0):
        here = states == state
        p, mean, variance = enumerated(name, state)
        accepted = counts[here, entry.ACCEPTED].sum()
        assert binom.cdf(accepted, here.sum(), p) > LEVEL
        assert binom.sf(accepted - 1, here.sum(), p) > LEVEL
        rows = counts[here, entry.N_OBS].mean() - scanned
        assert abs(rows - mean) < FAR * np.sqrt(variance / here.sum())


@pytest.mark.parametrize("name", SETTINGS)
def test_an_update_decides_otherwise_than_all_rows_with_probability_delta_at_most(name):
    for state in (0.0, 1.0):
        p, mean, _ = enumerated(name, state)
        assert abs(p - exact(state)) <= SETTINGS[name].delta / SETTINGS[name].p
        # Many of the updates are decided by batches.
        assert mean < 0.7 * TOTAL


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_spent_of_delta_is_counted_look_by_look(name):
    _, counts = run(name, updates=2_000)
    looks = counts[:, entry.N_LOOKS].astype(int)
    by_all = counts[:, entry.LOG_RATIO_STD] == 0.0
    assert len(set(looks)) > 3
    levels = [confidence.level(k, SETTINGS[name]) for k in range(2, 2 + looks.max())]
    spent = np.append(0.0, np.cumsum(levels))
    np.testing.assert_allclose(counts[:, entry.ERROR], spent[looks - by_all])
    # A scan is counted, and what a comparison counts follows from the looks.
    batches = np.where(by_all, TOTAL, 100.0 * 2.0 ** (looks - 1))
    if name == "bounds":
        np.testing.assert_array_equal(counts[:, entry.N_OBS], batches)
        np.testing.assert_array_equal(counts[:, entry.FULL_PASS], by_all)
    else:
        kept = ~by_all
        np.testing.assert_array_equal(counts[kept, entry.N_OBS], TOTAL + batches[kept])
        assert counts[:, entry.FULL_PASS].all()


def test_a_row_beyond_its_bound_stops_before_the_move_and_is_named():
    _, counts = run("bounds", updates=200, margin=0.9)
    stopped = counts[:, entry.BOUND_RATIO] > 1.0
    assert stopped.all()
    assert not counts[:, entry.ACCEPTED].any()
    assert (TABLE[counts[:, entry.BOUND_ROW].astype(int)] == HIGH).all()
    np.testing.assert_allclose(counts[:, entry.BOUND_RATIO], 1.0 / 0.9, rtol=1e-5)


def test_moves_outside_of_the_region_read_all_rows():
    _, counts = run("bounds", updates=200, radius=0.5)
    assert (counts[:, entry.N_OBS] == TOTAL).all()
    assert counts[:, entry.FULL_PASS].all()
    assert not counts[:, entry.ERROR].any()
