"""Temperatures that fall in warm-up: what a chain does at each of them."""

import sys
from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_minibatch_mh as mh
from helpers.zoo import drawn, sample
from law.statistical.budget import FAR
from pymc_minibatch_mh import BarkerMinibatchMH, PenaltyMH, TunaMH
from pymc_minibatch_mh.chain.program import Stage, at_temperature, stage_of
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.native.looks import unit_noise
from pymc_minibatch_mh.native.statistics import numbers
from robustness.conformance.harness import run, same_draws

HOT = ((0, 16.0), (130, 4.0), (200, 1.0))
#: An end of each stage that is no end of a window of 50 draws.
TUNE = 260
ROWS = 3_000


def normal(rows=ROWS):
    """Rows of a normal mean, whose tempered posterior is known."""
    y = np.random.default_rng(4).standard_normal(rows) + 0.3
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean", 0.0, 10.0), 1.0, observed=y)
    return model


@cache
def given():
    """Return the model, built once."""
    return normal()


@cache
def built(method):
    """Return a step with the schedule, built once: sampling starts every chain of it anew."""
    return method(model=given(), temperature=list(HOT))


each = pytest.mark.parametrize("method", [TunaMH, BarkerMinibatchMH])


@pytest.mark.parametrize(
    ("n_draws", "adapting", "expected"),
    [
        (0, True, Stage(0, 130, 16.0)),
        (129, True, Stage(0, 130, 16.0)),
        (130, True, Stage(130, 200, 4.0)),
        (200, True, Stage(200, sys.maxsize, None)),
        (900, False, Stage(200, sys.maxsize, None)),
        (140, False, Stage(130, sys.maxsize, None)),
    ],
)
def test_a_stage_is_that_of_the_next_draw(n_draws, adapting, expected):
    assert stage_of(HOT, n_draws, adapting) == expected


def test_bounds_and_noise_are_those_of_the_temperature():
    model = given()
    cold = TunaMH(model=model, taylor_order=0)
    hot = TunaMH(model=model, taylor_order=0, temperature=4.0)
    there = at_temperature(cold.reference, 4.0)
    assert there.inverse_temperature == hot.reference.inverse_temperature
    step = 0.1 * np.ones(1)
    ends = cold.reference.centre, cold.reference.centre + step
    table, m = table_of_move(cold.tables.arrays, cold.reference, *ends)
    assert table_of_move(cold.tables.arrays, there, *ends) == (table, m / 4.0)
    noise = unit_noise(cold.reference, *ends)
    assert unit_noise(there, *ends) == pytest.approx(noise / 16.0, rel=1e-12)


@each
def test_draws_are_those_of_pymc_and_say_their_temperature(method):
    model = given()
    step = built(method)
    start = [{"mean": 0.2}, {"mean": 0.4}]
    settings = {"random_seed": 8, "initvals": start, "discard_tuned_samples": False}
    usual, own = (draw(model, step, 60, TUNE, **settings) for draw in (sample, drawn))
    same_draws(usual, own)
    before = own.warmup_sample_stats["temperature"].to_numpy()
    np.testing.assert_array_equal(before, usual.warmup_sample_stats["temperature"].to_numpy())
    np.testing.assert_array_equal(
        own.warmup_posterior["mean"].to_numpy(), usual.warmup_posterior["mean"].to_numpy()
    )
    for chain in before:
        expected = np.repeat([16.0, 4.0, 1.0], [130, 70, TUNE - 200])
        np.testing.assert_array_equal(chain, expected)
    assert (own.sample_stats["temperature"] == 1.0).all()


@pytest.mark.parametrize("method", [TunaMH, PenaltyMH])
def test_a_stage_samples_the_posterior_at_its_temperature(method):
    """Rows of unit variance and a flat prior: the mean has a standard deviation of √(K/N)."""
    model = given()
    hot = 0.25
    step = method(model=model, temperature=[(0, hot), (4_000, 1.0)])
    trace = drawn(model, step, 4_000, 4_500, random_seed=5, discard_tuned_samples=False)
    y = model.rvs_to_values[model["y"]].data
    warm = trace.warmup_posterior["mean"].to_numpy()[:, 500:4_000]
    for draws, k in ((warm, hot), (trace.posterior["mean"].to_numpy(), 1.0)):
        sd = np.sqrt(k / ROWS)
        error = sd / np.sqrt(effective(draws))
        assert abs(draws.mean() - y.mean()) < FAR * error
        # The relative error of a standard deviation of normal draws, by the squares' own ess.
        squares = ((draws - y.mean()) / sd) ** 2
        assert abs(squares.mean() - 1.0) < FAR * np.sqrt(2.0 / effective(squares)) + 1e-3


def effective(draws):
    """Return an effective sample size, of batch means over a hundred batches of a chain."""
    batches = draws[:, : draws.shape[1] // 100 * 100].reshape(draws.shape[0], 100, -1)
    means = batches.mean(axis=2)
    return draws.var() / (means.var() / means.size)


def test_fewer_rows_are_read_where_it_is_hot():
    # The temperature falls where no window of warm-up ends.
    step = BarkerMinibatchMH(model=given(), temperature=[(0, 100.0), (30, 1.0)])
    step.setup_chain(np.random.default_rng(2), 200, 10)
    chain = step.chain
    chain.place(step.reference.centre, np.empty(0))
    rows = chain.advance(70).counts["n_obs"]
    # The first window walks at one scale, at both temperatures.
    assert rows[:30].mean() < 0.5 * rows[30:].mean()


@each
def test_what_was_learned_at_another_temperature_is_forgotten(method):
    model = given()
    step = built(method)
    step.setup_chain(np.random.default_rng(2), TUNE, 10)
    run(step, model.initial_point(), 130)
    state = step.chain.state
    assert not numbers(state.total).any()
    assert not numbers(state.total_counts).any()
    assert not state.warm_up_sum.any()
    fresh = step.program.method.record(step.program.plan)
    assert repr(state.records.test) == repr(fresh)


def test_warm_up_that_ends_early_is_refused():
    step = built(TunaMH)
    message = r"^temperature=\[.*reaches its last temperature at draw 200, after a warm-up of tune="
    with pytest.raises(SettingError, match=message + "199 draws"):
        step.setup_chain(np.random.default_rng(1), 199, 10)
    with pytest.raises(SettingError, match=message + "0 draws"):
        mh.sample(step, 10, tune=0)
    step.setup_chain(np.random.default_rng(1), 200, 10)
