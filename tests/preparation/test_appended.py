"""Rows that arrive: the new ones alone are read, and nothing differs from reading all of them."""

import logging

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import Rows, SettingError, StaleDataError, TunaMH
from pymc_minibatch_mh.bounds.blocks import BLOCK
from pymc_minibatch_mh.kernels.bound_tables import TOTAL
from pymc_minibatch_mh.preparation import appended, sharing, violations

N, MORE = 20_000, 1_000
RNG = np.random.default_rng(6)
X = RNG.standard_normal((N + MORE, 3))
Y = (RNG.random(N + MORE) < 1 / (1 + np.exp(-X @ [0.5, -0.5, 0.3]))).astype(np.int8)


class Counting:
    """A storage that remembers which rows were read."""

    def __init__(self, storage):
        self._storage, self.fields = storage, storage.fields
        self.n_rows, self.stamp, self.first = storage.n_rows, storage.stamp, set()

    def read(self, names, rows):
        self.first.update(range(rows.start, rows.stop) if isinstance(rows, slice) else rows)
        return self._storage.read(names, rows)

    def where(self, row):
        return self._storage.where(row)


def model_of(rows):
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=3)
        pm.Bernoulli("y", logit_p=rows.data("X") @ beta, observed=rows.data("y"))
    return model


def first(count, y=Y):
    return Rows(X=X[:count], y=y[:count])


@pytest.fixture(scope="module")
def step():
    return TunaMH(model=model_of(first(N)))


def test_sums_and_bounds_are_those_of_all_rows_around_the_same_centre(step):
    longer = TunaMH(model=model_of(first(N + MORE)), prepared=step)
    s, before = longer.surrogate, step.surrogate
    np.testing.assert_array_equal(s.centre, before.centre)
    all_rows = longer.target.passes.likelihood(s.centre, hessian=True)
    np.testing.assert_allclose(s.gradient, all_rows.gradient, atol=1e-9)
    np.testing.assert_allclose(s.hessian, all_rows.hessian, rtol=1e-12)
    anew = longer.tables.bounds
    sums, largest = anew.sums_and_largest(0)
    np.testing.assert_allclose(longer.tables.sums, anew.of_served(sums), rtol=1e-12)
    np.testing.assert_allclose(longer.tables.largest, anew.of_served(largest) * (1 + 1e-6))
    np.testing.assert_allclose(longer.tables.heads[:, TOTAL], longer.tables.sums.sum(axis=1))
    assert longer.prepared.n_rows == N + MORE


def test_few_old_rows_are_read(step, monkeypatch):
    monkeypatch.setattr(sharing, "START_ROWS", 100)
    monkeypatch.setattr(appended, "RECOGNISED", 200)
    monkeypatch.setattr(violations, "CHANGES", 400)
    rows = Rows.of(Counting(first(N + MORE).storage))
    longer = TunaMH(model=model_of(rows), prepared=step)
    old = [row for row in rows.storage.first if row < N]
    # To tell that they are the same, to bound the last block again, and to hold the bounds
    # against a few.
    assert len(old) <= BLOCK + 700
    assert longer.prepared.n_rows == N + MORE


def test_draws_are_from_the_posterior_of_all_rows(step):
    longer = TunaMH(model=model_of(first(N + MORE)), prepared=step)
    anew = TunaMH(model=model_of(first(N + MORE)))
    centre, precision = anew.surrogate.centre, anew.surrogate.whitener
    draws = longer.chain.advance(4_000).positions[500:]
    shift = precision @ (draws.mean(axis=0) - centre)
    assert np.abs(shift).max() < 0.15
    # One update in 30,000 reads all rows.
    assert longer.chain.state.n_full <= 1


def test_a_mode_that_moves_far_has_all_found_anew(step, caplog):
    y = np.concatenate([Y[:N], np.ones(MORE, np.int8)])
    with caplog.at_level(logging.INFO, "pymc"):
        longer = TunaMH(model=model_of(first(N + MORE, y)), prepared=step)
    assert "prepared= is not extended, as the mode has moved by" in caplog.text
    assert not np.array_equal(longer.surrogate.centre, step.surrogate.centre)


def test_many_new_rows_have_all_found_anew(step, caplog):
    with caplog.at_level(logging.INFO, "pymc"):
        TunaMH(model=model_of(first(N)), prepared=TunaMH(model=model_of(first(N // 2))))
    assert "10,000 of 20,000 rows are new" in caplog.text


def test_other_rows_are_refused(step):
    y = Y.copy()
    y[: N // 2] = 1 - y[: N // 2]
    with pytest.raises(StaleDataError, match="'y' differs in one of the first 20,000"):
        TunaMH(model=model_of(first(N + MORE, y)), prepared=step)


def test_fewer_rows_are_refused(step):
    with pytest.raises(StaleDataError, match="is a step on 20,000 rows, and this model has 1,000"):
        TunaMH(model=model_of(first(1_000)), prepared=step)


def test_rows_in_memory_are_refused():
    def held(count):
        with pm.Model() as model:
            pm.Bernoulli("y", logit_p=X[:count] @ pm.Normal("beta", shape=3), observed=Y[:count])
        return model

    before = TunaMH(model=held(N))
    with pytest.raises(SettingError, match="data are in memory"):
        TunaMH(model=held(N + MORE), prepared=before)
