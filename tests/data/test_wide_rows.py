"""Stored rows of wide models: a copy in memory tells which are read, and these are asked for."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import zarr

from helpers.zoo import sample
from pymc_minibatch_mh import FactorizedMH, Rows, ScalableSubsamplingMH, TunaMH
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
