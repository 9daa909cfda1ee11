"""Rows that arrive: the new ones alone are read, and nothing differs from reading all of them."""

import logging
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_minibatch_mh import Rows, TunaMH
from pymc_minibatch_mh.bounds.block_tables import BLOCK
from pymc_minibatch_mh.bounds.bound_check import BoundCheck
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.errors import (
    BoundViolationError,
    MinibatchError,
    SettingError,
    StaleDataError,
)
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.plan import append

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


@cache
def on_first_rows():
    """Return a step on the first N rows."""
    return TunaMH(model=model_of(first(N)))


def test_rows_that_are_no_number_are_the_same_rows():
    """A column may be NaN where the model does not read it."""
    known = (np.arange(N) % 3 > 0).astype(np.int8)
    x = np.where(known, X[:N, 0], np.nan)

    def model(count):
        rows = Rows(x=x[:count], known=known[:count], y=Y[:count])
        with pm.Model() as found:
            beta = pm.Normal("beta", shape=2)
            seen = pt.switch(pt.eq(rows.data("known"), 1), rows.data("x"), 0.0)
            pm.Bernoulli("y", logit_p=beta[0] + beta[1] * seen, observed=rows.data("y"))
        return found

    step = TunaMH(model=model(N - MORE))
    assert TunaMH(model=model(N), prepared=step).plan.n_rows == N


def test_sums_and_bounds_are_those_of_all_rows_around_the_same_centre():
    longer = TunaMH(model=model_of(first(N + MORE)), prepared=on_first_rows())
    s, before = longer.reference, on_first_rows().reference
    np.testing.assert_array_equal(s.centre, before.centre)
    all_rows = longer.target.full_data.likelihood(s.centre, hessian=True)
    np.testing.assert_allclose(s.gradient, all_rows.gradient, atol=1e-9)
    np.testing.assert_allclose(s.hessian, all_rows.hessian, rtol=1e-12)
    anew = longer.tables.bounds
    sums, largest = anew.sums_and_largest(0)
    np.testing.assert_allclose(longer.tables.sums, anew.selected_tables(sums), rtol=1e-12)
    np.testing.assert_allclose(longer.tables.largest, anew.selected_tables(largest) * (1 + 1e-6))
    np.testing.assert_allclose(longer.tables.headers[:, TOTAL], longer.tables.sums.sum(axis=1))
    assert longer.plan.n_rows == N + MORE


def test_few_old_rows_are_read():
    rows = Rows.of(Counting(first(N + MORE).storage))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(append, "RECOGNITION_ROWS", 200)
        longer = TunaMH(model=model_of(rows), prepared=on_first_rows())
    old = [row for row in rows.storage.first if row < N]
    # To tell that they are the same, to bound those in the block of the first new one again, and
    # to hold the bounds against a few.
    assert len(old) <= N % BLOCK + 200 + append.AUDITED_OLD_ROWS
    assert rows.storage.first.issuperset(range(N, N + MORE))
    assert longer.plan.n_rows == N + MORE


def test_a_new_row_above_its_bound_is_found():
    spreads = BoundCheck.block_spreads

    def wrong(check, source, tables, asked, label):
        for (rows, _), found in zip(asked, spreads(check, source, tables, asked), strict=True):
            (places,) = np.nonzero(rows == N + 17)
            yield found._replace(ratio=np.inf, row=int(places[0])) if places.size else found

    found = pytest.raises(BoundViolationError, match="'y': row 20017 changes by inf times its bou")
    with pytest.MonkeyPatch.context() as patch, found:
        patch.setattr(BoundCheck, "block_spreads", wrong)
        TunaMH(model=model_of(first(N + MORE)), prepared=on_first_rows())


def test_what_old_rows_had_against_their_bounds_is_kept():
    before = replace(on_first_rows().plan, violation="row 5 had")
    longer = TunaMH(model=model_of(first(N + MORE)), prepared=on_first_rows(), on_violation="warn")
    assert longer.plan.violation == ""
    target = longer.target
    found = before.extended(target, longer.reference.centre)
    assert found.violation == "row 5 had"


@contextmanager
def told():
    """Yield the reasons that are told of why all is found anew."""
    found, log = [], logging.getLogger("pymc")
    handler, level = logging.Handler(), log.level
    handler.addFilter(lambda record: "prepared=" in record.getMessage())
    handler.emit = lambda record: found.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield found
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


@pytest.mark.parametrize("row", [0, 502, MORE - 1])
def test_a_new_row_that_is_not_finite_is_named_at_once(row):
    x = X.copy()
    x[N + row, 1] = np.nan
    with told() as why, pytest.raises(MinibatchError, match=rf"not finite .* in row {N + row}\."):
        TunaMH(model=model_of(Rows(X=x, y=Y)), prepared=on_first_rows())
    assert why == []


def test_a_new_row_without_likelihood_at_the_old_centre_has_all_found_anew():
    """At the start, zero, it has one."""
    x, y = X.copy(), Y.copy()
    x[N + 500], y[N + 500] = 1.7e308 * np.sign(on_first_rows().reference.centre), 0
    with told() as why, pytest.raises(MinibatchError), np.errstate(all="ignore"):
        TunaMH(model=model_of(Rows(X=x, y=y)), prepared=on_first_rows())
    assert "because a new row has no likelihood at the centre of the old ones" in why[0]


@pytest.mark.parametrize(
    ("of_model", "settings", "differs"),
    [
        ({"prior": 2.0}, {}, "the prior part"),
        ({"slope": 0.5}, {}, "the likelihood of 'y'"),
        ({"name": "gamma"}, {}, "the variables"),
        ({}, {"taylor_order": 1}, "taylor_order"),
        ({}, {"temperature": 2.0}, "inverse_temperature"),
    ],
)
def test_another_model_is_refused(of_model, settings, differs):
    with pytest.raises(StaleDataError, match=f"a model that differs in {differs}"):
        TunaMH(model=model_of(first(N + MORE), **of_model), prepared=on_first_rows(), **settings)


def test_a_chain_goes_on_where_the_old_one_was():
    """It starts where the old one has ended; a default start far off is left for the old centre."""
    model = model_of(first(N + MORE))
    longer = TunaMH(model=model, prepared=on_first_rows())
    chain = Chain(on_first_rows().program, np.random.default_rng(1), adapting=False)
    chain.state.started = True
    point = longer.target.factorization.unravel(chain.advance(500).positions[-1], {})
    longer.setup_chain(np.random.default_rng(2), 0, 10)
    longer.start(placed(longer, point))
    np.testing.assert_array_equal(longer.chain.position, point["beta"])
    longer.setup_chain(np.random.default_rng(2), 100, 10)
    longer.start(placed(longer, model.initial_point()))
    away = longer.reference.whitener @ (longer.chain.position - longer.reference.centre)
    assert np.linalg.norm(away) < 10.0


def placed(step, point):
    """Return the chain of a step, placed at a point."""
    step.chain.place(step.target.factorization.ravel(point), np.zeros(0))
    return step.chain


def test_a_mode_that_moves_far_in_small_parts_has_all_found_anew():
    """Each part moves it by a fraction of a standard deviation."""
    y = Y.copy()
    y[N:] = (
        np.random.default_rng(6).random(MORE) < 1 / (1 + np.exp(0.6 - X[N:] @ [0.0, -0.5, 0.3]))
    ).astype(np.int8)
    longer, upto = on_first_rows(), N
    with told() as why:
        while np.array_equal(longer.reference.centre, on_first_rows().reference.centre):
            assert upto < N + MORE
            upto += 50
            longer = TunaMH(model=model_of(first(upto, y)), prepared=longer)
    assert upto > N + 100
    assert "because the mode has moved by 0.5" in why[0]


def test_many_new_rows_in_small_parts_have_all_found_anew(monkeypatch, caplog):
    monkeypatch.setattr(append, "MAX_MODE_SHIFT", np.inf)
    longer = TunaMH(model=model_of(first(N // 2)))
    with caplog.at_level(logging.INFO, "pymc"):
        for count in (N // 2, 12_000, 13_000, 14_000):
            longer = TunaMH(model=model_of(first(count)), prepared=longer)
    assert "because 4,000 of 14,000 rows are new" in caplog.text
    assert "of 12,000 rows are new" not in caplog.text
    assert "of 13,000 rows are new" not in caplog.text
    assert longer.plan.sought is None


def test_other_rows_are_refused():
    y = Y.copy()
    y[: N // 2] = 1 - y[: N // 2]
    with pytest.raises(StaleDataError, match="'y' differs in one of the first 20,000"):
        TunaMH(model=model_of(first(N + MORE, y)), prepared=on_first_rows())


def written(folder, name, stop, begin=0):
    """Write some rows as files of NumPy, and as a file of a table; return both."""
    np.save(folder / f"X{name}.npy", X[:stop])
    np.save(folder / f"y{name}.npy", Y[:stop])
    frame = pd.DataFrame(X[begin:stop], columns=list("abc")).assign(y=Y[begin:stop])
    (folder / "table").mkdir(exist_ok=True)
    frame.to_parquet(folder / "table" / f"{begin:05}.parquet")
    table = Rows.from_parquet(folder / "table", {"X": list("abc"), "y": "y"})
    return Rows.from_npy(X=folder / f"X{name}.npy", y=folder / f"y{name}.npy"), table


def test_files_stay_as_they_are_until_their_step_is_extended(tmp_path):
    few, more = 2_000, 2_100
    steps = [TunaMH(model=model_of(rows)) for rows in written(tmp_path, "", few)]
    for rows, step in zip(written(tmp_path, "_longer", more, few), steps, strict=True):
        longer = TunaMH(model=model_of(rows), prepared=step)
        np.testing.assert_array_equal(longer.reference.centre, step.reference.centre)
    in_one_file, _ = written(tmp_path, "", more)
    refused = (
        r"y\.npy has [0-9,]+ bytes, but had .* opened\. Its files must not .* Put new rows into"
    )
    with pytest.raises(StaleDataError, match=refused):
        TunaMH(model=model_of(in_one_file), prepared=steps[0])


def test_rows_in_memory_are_refused():
    def held(count):
        with pm.Model() as model:
            pm.Bernoulli("y", logit_p=X[:count] @ pm.Normal("beta", shape=3), observed=Y[:count])
        return model

    before = TunaMH(model=held(N))
    with pytest.raises(SettingError, match="data are in memory"):
        TunaMH(model=held(N + MORE), prepared=before)
