"""Stored rows of wide models: a copy in memory tells which are read, and these are asked for."""

import logging
from functools import cache
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import zarr

from helpers.zoo import sample
from pymc_minibatch_mh import FactorizedMH, Rows, ScalableSubsamplingMH, TunaMH, audit
from pymc_minibatch_mh.bounds import bounds_pass
from pymc_minibatch_mh.bounds.block_tables import BlockBounds, BlockTables
from pymc_minibatch_mh.data.source import StoredRows
from pymc_minibatch_mh.errors import BoundViolationError, SourceError
from pymc_minibatch_mh.plan.bound_sources import DerivedBounds, functions_of
from robustness.conformance.harness import same_draws

D, N, MORE = 36, 3_000, 20
pytestmark = pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation")


@cache
def data():
    """Return predictors and responses, of which some rows have bounds far above those of others."""
    rng = np.random.default_rng(31)
    x = rng.normal(size=(N + MORE, D)) / np.sqrt(D)
    x[:N:500] *= 12.0
    eta = x @ rng.normal(size=D)
    return x, (rng.random(N + MORE) < 1 / (1 + np.exp(-eta))).astype(np.int8)


def model_of(x, y):
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=D)
        pm.Bernoulli("y", logit_p=pm.math.dot(x, b), observed=y)
    return model


def on(rows):
    return model_of(rows.data("x"), rows.data("y"))


@cache
def in_memory():
    return model_of(*(values[:N] for values in data()))


@cache
def stored():
    return on(Rows(**dict(zip("xy", (values[:N] for values in data()), strict=True))))


@cache
def step_of(model, method=TunaMH):
    with model():
        return method()


def draw(model, step, chains=1, **settings):
    return sample(model, step, 300, 300, chains, random_seed=5, **settings)


@pytest.mark.parametrize("method", [TunaMH, ScalableSubsamplingMH, FactorizedMH])
def test_draws_are_those_of_rows_in_memory(method):
    steps = [step_of(model, method) for model in (in_memory, stored)]
    assert steps[1].plan.tables.heavy.size > 0
    traces = [draw(model(), one) for model, one in zip((in_memory, stored), steps, strict=True)]
    stats = traces[0].sample_stats
    assert float(stats["n_candidates"].median()) > 2.0 * float(stats["n_obs"].median())
    assert np.unique(traces[0].posterior["b"]).size > 20 * D
    same_draws(*traces)


def test_draws_are_the_same_from_chunks_on_disk(tmp_path):
    group = zarr.open_group(tmp_path / "rows.zarr", mode="w")
    for name, values in zip("xy", data(), strict=True):
        shape, chunks = (N, *values.shape[1:]), (512, D)[: values.ndim]
        array = group.create_array(name, shape=shape, dtype=values.dtype, chunks=chunks)
        array[:] = values[:N]
    model = on(Rows.from_zarr(tmp_path / "rows.zarr"))
    with model:
        step = TunaMH()
    same_draws(draw(model, step), draw(stored(), step_of(stored)))
    (column, *_) = step.target.source.columns
    column.values.storage._parts.room = 100_000
    assert not step.target.source.reads_few_quickly


def test_a_saved_step_draws_the_same_in_another_process(tmp_path):
    step_of(stored).save(tmp_path / "step.npz")
    with stored():
        saved = TunaMH(prepared=tmp_path / "step.npz")
    same_draws(draw(stored(), saved, chains=2, cores=2), draw(stored(), step_of(stored), chains=2))


def test_new_rows_are_bounded_around_the_same_centre():
    longer = on(Rows(**dict(zip("xy", data(), strict=True))))
    before = step_of(stored).plan
    with longer:
        step = TunaMH(prepared=step_of(stored))
    np.testing.assert_array_equal(step.reference.centre, before.reference.centre)
    lines = step.plan.tables.copy.lines
    np.testing.assert_array_equal(lines[:N], before.tables.copy.lines)
    assert lines.shape[0] == N + MORE
    assert lines[N:].any(axis=1).all()
    assert step.plan.violation == ""


def test_an_audit_finds_nothing():
    trace = draw(stored(), step_of(stored))
    found = audit(trace, step_of(stored), 60, 7, model=stored())
    assert list(found["verdict"].to_numpy()) == ["ok"] * 6, found["message"].to_numpy()


def test_a_row_above_its_bound_is_named_by_its_number():
    model = on(Rows(**dict(zip("xy", (values[:N] for values in data()), strict=True))))
    with model:
        step = TunaMH()
    step.plan.tables.c[:, 1_234:] *= np.float32(1e-3)
    with pytest.raises(BoundViolationError, match=r"'y': row (1[2-9]|2)\d\d\d? changes by"):
        draw(model, step)


def test_an_error_of_reading_is_raised(monkeypatch):
    step = step_of(stored)

    def broken(columns, rows):
        raise SourceError("gone")

    monkeypatch.setattr("pymc_minibatch_mh.data.source.read_columns", broken)
    with pytest.raises(SourceError, match="gone"):
        draw(stored(), step)


@pytest.mark.parametrize("model", [in_memory, stored])
def test_there_is_no_copy_where_memory_is_short(model, monkeypatch, caplog):
    plan = step_of(model).plan
    monkeypatch.setattr(bounds_pass, "virtual_memory", lambda: SimpleNamespace(available=100_000))
    with caplog.at_level(logging.WARNING, "pymc"):
        tables = DerivedBounds().tables(plan.target, plan.reference)
    assert "Too little memory (0.0 GB free)" in caplog.text
    assert isinstance(tables, BlockTables) if model is stored else not tables.copy.lines.size


def test_there_is_no_copy_where_few_rows_take_long_to_read(monkeypatch):
    plan = step_of(stored).plan
    support = plan.target.factorization.lower, plan.target.factorization.upper
    owner = BlockBounds(functions_of(plan.target), plan.reference, support)
    trials, _, _ = owner._plan()
    assert owner._worthwhile_copy(trials).lines.shape == (N, 64)
    monkeypatch.setattr(StoredRows, "reads_few_quickly", False)
    assert not owner._worthwhile_copy(trials).lines.size
