"""Passes that are made where the rows are: what is sent there finds what would be found here."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import pymc as pm
import pytest

from data.elsewhere import Elsewhere
from pymc_minibatch_mh import Rows, TunaMH
from pymc_minibatch_mh.bounds import block_tables as block_bounds
from pymc_minibatch_mh.bounds import bound_check
from pymc_minibatch_mh.reference import full_data, target

N, G = 20_000, 5
RNG = np.random.default_rng(4)
ARRAYS = {
    "X": RNG.standard_normal((N, 3)).astype(np.float32),
    "y": RNG.poisson(2.0, N),
    "g": RNG.integers(0, G, N),
}


def model_of(rows, groups=G):
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=3)
        level = pm.Normal("level", shape=groups)
        mu = rows.data("X") @ beta + level[rows.data("g")]
        pm.Poisson("y", mu=pm.math.exp(mu), observed=rows.data("y"))
    return model


@contextmanager
def small_blocks():
    """Have few rows read at a time, and few for comparisons."""
    with pytest.MonkeyPatch.context() as patch:
        for room in (full_data, block_bounds):
            patch.setattr(room, "BLOCK_ROWS", 8_192)
        patch.setattr(target, "CHECK_ROWS", 100)
        patch.setattr(bound_check, "MAX_CHANGES", 5_000)
        yield


@cache
def steps():
    """The same step on rows elsewhere and here."""
    with small_blocks():
        return [TunaMH(model=model_of(Rows.of(kind(ARRAYS))), rng=3) for kind in (Elsewhere, Here)]


class Here(Elsewhere):
    """The same, which nobody else computes with."""

    workers = None


def test_sums_and_bounds_are_those_of_this_process():
    ours, theirs = steps()
    assert ours.target.source.stored_by.workers
    assert not theirs.target.source.stored_by.workers
    for one, other in zip(ours.reference, theirs.reference, strict=True):
        np.testing.assert_array_equal(one, other)
    for what in ("headers", "largest", "sums"):
        np.testing.assert_array_equal(getattr(ours.tables, what), getattr(theirs.tables, what))


def every_pass(step):
    full_data, s = step.target.full_data, step.reference
    new = s.centre + s.factor[:, 0]
    moves, order = [(s.centre, new), (new, s.centre)], step.target.taylor_order
    yield full_data.values(new)
    yield full_data.skewness(s.centre, s.factor, None)
    yield full_data.skewness(s.centre, s.factor, np.arange(0, N, 7))
    yield full_data.change(order, (s.centre, new, s.centre))
    yield full_data.differences(order, moves, s.centre, np.arange(5, N, 1_000))
    yield [[m.variance, m.skewness] for m in full_data.moves(order, moves, s.centre)]
    yield full_data.likelihood(new, hessian=False, rows=np.arange(3, N, 11)).gradient
    yield step.tables.of(0, np.array([3, 3, 8_200]))


@small_blocks()
def test_every_pass_is_that_of_this_process():
    for ours, theirs in zip(*map(every_pass, steps()), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@small_blocks()
def test_rows_that_are_left_out_do_not_count():
    (step, _), left_out = steps(), np.array([3, 8_192, 8_200, N - 1])
    s, order = step.reference, step.target.taylor_order
    moves = [(s.centre, s.centre + s.factor[:, 0])]
    (every,) = step.target.full_data.differences(order, moves, s.centre, np.arange(N))
    (moments,) = step.target.full_data.moves(order, moves, s.centre, left_out)
    others = np.delete(every, left_out)
    np.testing.assert_allclose(moments.variance, others.var(ddof=1), rtol=1e-9)


@small_blocks()
def test_rows_that_change_most_are_those_of_this_process():
    def found(step):
        rng = np.random.default_rng(1)
        largest = full_data.Largest(N, 1.0)
        s, order = step.reference, step.target.taylor_order
        moves = [tuple(s.centre + x @ s.factor.T for x in rng.standard_normal((2, 3 + G)))]
        step.target.full_data.moves(order, moves, s.centre, largest=largest)
        (every,) = step.target.full_data.differences(order, moves, s.centre, np.arange(N))
        assert set(largest.rows) == set(np.argsort(np.abs(every))[-largest.rows.size :])
        return largest.rows

    np.testing.assert_array_equal(*map(found, steps()))
