"""Rows that arrive: the new ones alone are read, and nothing differs from reading all of them."""

import logging
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import (
    BoundViolationError,
    MinibatchError,
    Rows,
    SettingError,
    StaleDataError,
    TunaMH,
)
from pymc_minibatch_mh.bounds.blocks import BLOCK, BlockTables
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.kernels.bound_tables import TOTAL
from pymc_minibatch_mh.preparation import appended

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


def model_of(rows, name="beta", prior=1.0, slope=1.0):
    with pm.Model() as model:
        beta = pm.Normal(name, 0.0, prior, shape=3)
        eta = rows.data("X") @ beta
        pm.Bernoulli("y", logit_p=eta if slope == 1.0 else slope * eta, observed=rows.data("y"))
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
    sums, largest = anew._sums_and_largest(0, N + MORE)
    np.testing.assert_allclose(longer.tables.sums, anew._of_served(sums), rtol=1e-12)
    np.testing.assert_allclose(longer.tables.largest, anew._of_served(largest) * (1 + 1e-6))
    np.testing.assert_allclose(longer.tables.heads[:, TOTAL], longer.tables.sums.sum(axis=1))
    assert longer.prepared.n_rows == N + MORE


def test_few_old_rows_are_read(step, monkeypatch):
    monkeypatch.setattr(appended, "RECOGNISED", 200)
    rows = Rows.of(Counting(first(N + MORE).storage))
    longer = TunaMH(model=model_of(rows), prepared=step)
    old = [row for row in rows.storage.first if row < N]
    # To tell that they are the same, to bound those in the block of the first new one again, and
    # to hold the bounds against a few.
    assert len(old) <= N % BLOCK + 200 + appended.AUDITED_AGAIN
    assert rows.storage.first.issuperset(range(N, N + MORE))
    assert longer.prepared.n_rows == N + MORE


def test_nothing_is_compiled(step, request, monkeypatch):
    model = model_of(first(N + MORE))
    # PyMC compiles this one, of every model.
    point = model.initial_point()
    monkeypatch.setattr(model, "initial_point", lambda: point)
    request.getfixturevalue("no_compilation")
    longer = TunaMH(model=model, prepared=step)
    assert longer.prepared.n_rows == N + MORE


def test_a_new_row_above_its_bound_is_found(step, monkeypatch):
    of = BlockTables.of

    def wrong(tables, table, rows):
        c = of(tables, table, rows)
        return np.where(rows == N + 17, np.float32(0.0), c)

    monkeypatch.setattr(BlockTables, "of", wrong)
    with pytest.raises(BoundViolationError, match="'y': row 20017 changes by inf times its bound"):
        TunaMH(model=model_of(first(N + MORE)), prepared=step)


def test_what_old_rows_had_against_their_bounds_is_kept(step):
    before = replace(step.prepared, violation="row 5 had")
    longer = TunaMH(model=model_of(first(N + MORE)), prepared=step, on_violation="warn")
    assert longer.prepared.violation == ""
    target = longer.target
    found = appended.appended(before, target, longer.surrogate.centre)
    assert found.violation == "row 5 had"


@pytest.mark.parametrize("row", [0, 500, MORE - 1])
def test_a_new_row_that_is_not_finite_is_named(step, row):
    x = X.copy()
    x[N + row, 1] = np.nan
    with pytest.raises(MinibatchError, match=rf"not finite .* first in row {N + row}\."):
        TunaMH(model=model_of(Rows(X=x, y=Y)), prepared=step)


def test_a_new_row_without_likelihood_at_the_old_centre_has_all_found_anew(
    step, monkeypatch, caplog
):
    """One row that is not among those asked at the start, where all rows name it."""
    monkeypatch.setattr(appended, "RECOGNISED", 2)
    x = X.copy()
    x[N + 500, 1] = np.nan
    with (
        caplog.at_level(logging.INFO, "pymc"),
        pytest.raises(MinibatchError, match=f"first in row {N + 500}"),
    ):
        TunaMH(model=model_of(Rows(X=x, y=Y)), prepared=step)
    assert "as a new row has no likelihood at the centre of the old ones" in caplog.text


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        ({"prior": 2.0}, "the prior part"),
        ({"slope": 0.5}, "the likelihood of 'y'"),
        ({"name": "gamma"}, "the variables"),
        ({"taylor_order": 1}, "taylor_order"),
        ({"temperature": 2.0}, "inverse_temperature"),
    ],
)
def test_another_model_is_refused(step, settings, differs):
    of_model = {name: settings.pop(name) for name in ("prior", "slope", "name") if name in settings}
    with pytest.raises(StaleDataError, match=f"a model that differs in {differs}"):
        TunaMH(model=model_of(first(N + MORE), **of_model), prepared=step, **settings)


def test_another_covariance_is_refused():
    given = {"centre": "start", "full_pass_above": N}
    before = TunaMH(model=model_of(first(N)), covariance=1e-4 * np.eye(3), **given)
    with pytest.raises(StaleDataError, match="a model that differs in covariance"):
        TunaMH(
            model=model_of(first(N + MORE)),
            prepared=before,
            covariance=2e-4 * np.eye(3),
            **given,
        )


def test_a_chain_goes_on_where_the_old_one_was(step):
    """It starts where the old one has ended; a default start far off is left for the old centre."""
    model = model_of(first(N + MORE))
    longer = TunaMH(model=model, prepared=step)
    chain = Chain(step.program, np.random.default_rng(1), adapting=False)
    chain.state.started = True
    point = longer.target.split.unravel(chain.advance(500).positions[-1], {})
    longer.setup_chain(np.random.default_rng(2), 0, 10)
    longer.start(placed(longer, point))
    np.testing.assert_array_equal(longer.chain.position, point["beta"])
    longer.setup_chain(np.random.default_rng(2), 100, 10)
    longer.start(placed(longer, model.initial_point()))
    away = longer.surrogate.whitener @ (longer.chain.position - longer.surrogate.centre)
    assert np.linalg.norm(away) < 10.0


def placed(step, point):
    """Return the chain of a step, placed at a point."""
    step.chain.place(step.target.split.ravel(point), np.zeros(0))
    return step.chain


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
