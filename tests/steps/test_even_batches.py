"""Tests on batches of stored rows sample what they sample in memory, and stop where they must."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, OwnTestMH, PenaltyMH
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import Program
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels import roles as entry
from pymc_minibatch_mh.kernels.draw import END, NEXT
from pymc_minibatch_mh.likelihood.stored import Rows
from pymc_minibatch_mh.plan import plan
from steps import stored
from steps.test_supplies import GoneError, assert_all_rows_say_the_same, chain_of

STEPS = {"penalty": PenaltyMH, "barker": BarkerMinibatchMH, "austere": AustereMH}


@cache
def written(model):
    """Return a model in memory and on stored rows, and the storage, for all methods."""
    return getattr(stored, model)()


@cache
def steps(name, model):
    """Return the steps of a model in memory and on stored rows, and the storage."""
    in_memory, on_disk, storage = written(model)
    return STEPS[name](model=in_memory), STEPS[name](model=on_disk), storage


@pytest.mark.parametrize("model", ["logistic", "offsets", "rare_group"])
def test_remainders_are_measured_as_those_in_memory(model):
    own, other, _ = steps("penalty", model)
    np.testing.assert_allclose(own.reference.centre, other.reference.centre, rtol=1e-9)
    one, again = own.plan.calibration, other.plan.calibration
    for what in ("kappa", "skewness", "third_absolute"):
        assert getattr(one, what) == pytest.approx(getattr(again, what), rel=1e-6)
    np.testing.assert_array_equal(own.plan.heavy, other.plan.heavy)
    assert (own.plan.heavy.size > 0) == (model == "rare_group")


def test_a_step_keeps_nothing_of_every_row():
    _, step, _ = steps("penalty", "logistic")
    chain = chain_of(step, 1)
    chain.advance(5)
    assert step.tables is None
    assert max(part.size for part in (chain._pool.rows, chain._pool.c)) == 2 * 4_096
    assert step.plan.n_rows == 20_003


@pytest.mark.parametrize("name", STEPS)
def test_decisions_are_those_of_the_same_rows_in_memory(name):
    """With every row read, a batch is all rows: what differs is where they lie."""
    found = []
    for step in steps(name, "rare_group")[:2]:
        program = step.program
        method = program.method.with_full_passes_above(2.0)
        all_rows = Program(program.plan, method, program.proposal)
        chain = Chain(all_rows, np.random.default_rng(3), adapting=False)
        chain.state.started, chain.state.supply_key = True, 1
        found.append(chain.advance(60))
    assert (found[0].counts[:, entry.FULL_PASS] == 1.0).all()
    np.testing.assert_allclose(*(draws.positions for draws in found), rtol=1e-7)
    np.testing.assert_allclose(*(x.counts[:, entry.LOG_RATIO] for x in found), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", STEPS)
def test_rows_that_every_update_reads_are_read_where_they_lie(name):
    step = steps(name, "rare_group")[1]
    heavy, chain = step.plan.heavy, chain_of(step, 4)
    draws = chain.advance(300)
    pool, columns = chain._pool, step.target.source.columns
    np.testing.assert_array_equal(pool.rows[pool.heavy], heavy)
    for own, column in zip(pool._placed._source.columns, columns, strict=True):
        np.testing.assert_array_equal(own.values[pool.heavy], column.read(heavy))
        some = np.arange(0, 4_096, 7)
        np.testing.assert_array_equal(own.values[some], column.read(pool.rows[some]))
    assert not np.isin(pool.rows[:4_096], heavy).any()
    assert draws.counts[:, entry.N_OBS].min() >= heavy.size + 100


def test_rows_that_arrive_are_measured_with_the_others():
    arrays = stored.logistic(9_000)[2]._arrays

    def model_of(count):
        rows = Rows(**{name: values[:count] for name, values in arrays.items()})
        with pm.Model() as model:
            a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
            pm.Bernoulli("y", logit_p=a + b * rows.data("x"), observed=rows.data("y"))
        return model

    first = PenaltyMH(model=model_of(8_900))
    step = PenaltyMH(model=model_of(9_000), prepared=first)
    np.testing.assert_array_equal(step.reference.centre, first.reference.centre)
    assert step.plan.calibration.kappa != first.plan.calibration.kappa
    same = PenaltyMH(model=model_of(8_900), prepared=first)
    assert same.plan.calibration == first.plan.calibration
    assert np.isfinite(chain_of(step, 1).advance(20).positions).all()


# What goes wrong.


@pytest.mark.parametrize("name", STEPS)
def test_what_a_storage_raises_reaches_the_user_and_the_chain_goes_on(name):
    _, step, storage = steps(name, "logistic")
    chain, twin = chain_of(step, 8), chain_of(step, 8)
    expected = twin.advance(400).positions
    # Waits for what is being fetched.
    chain.advance(1)
    storage.error = GoneError("no such disk")
    try:
        with pytest.raises(GoneError, match="no such disk"):
            chain.advance(2_000)
        assert chain.state.supplies[0, NEXT] == chain.state.supplies[0, END]
        # Of the same rows its twin was there as well: no move was decided by fewer.
        assert (expected == chain.position).all(axis=1).any()
    finally:
        storage.error = None
    assert np.isfinite(chain.advance(50).positions).all()


# What is refused, and what is not.


@pytest.mark.parametrize("name", STEPS)
def test_full_passes_that_are_forecast_are_refused(name):
    """Without control variates no batch decides; with as many rows as it takes, one does."""
    _, model, _ = stored.logistic()
    with pytest.raises(SettingError, match=r"^'y': batches from 4,096 rows on .* 20,003 stored"):
        STEPS[name](model=model, taylor_order=0)
    step = STEPS[name](model=model, taylor_order=2)
    assert step.program.method.most_drawn(step.plan) == 4_096.0
    with pytest.raises(SettingError, match=r"from 60 .*: 10,000 of .*full_pass_above="):
        STEPS[name](model=model, full_pass_above=60)


def test_a_larger_limit_is_forecast_by():
    _, model, _ = stored.scalar()
    with pytest.raises(SettingError, match=r"batches from 110 rows on"):
        AustereMH(model=model, batch_size=100, full_pass_above=110)
    assert AustereMH(model=model, batch_size=100, full_pass_above=1_400) is not None


def test_a_forecast_is_about_what_chains_do(monkeypatch):
    """Batches that grow look by look, some of them to the limit."""
    _, model, _ = stored.logistic()
    monkeypatch.setattr(plan, "require_few", lambda *_: None)
    step = AustereMH(model=model, taylor_order=1)
    method = step.program.method.with_full_passes_above(600.0)
    rng = np.random.default_rng(1)
    forecast = method._full_passes(step.plan, 600.0, rng) / 10_000
    program = Program(step.plan, method, step.program.proposal)
    chain = Chain(program, np.random.default_rng(3), adapting=True)
    chain.state.started = True
    chain.advance(300)
    chain.stop_adapting()
    seen = chain.advance(3_000).counts[:, entry.FULL_PASS].mean()
    assert 0.01 < forecast < 0.9
    assert 0.3 < seen / forecast < 3.0


def test_a_test_that_reads_all_rows_at_every_update_is_refused():
    _, model, _ = stored.scalar()
    with pytest.raises(SettingError, match="all"):
        AustereMH(model=model, epsilon=0.0)


def test_a_test_of_ones_own_draws_ahead_as_well():
    def sample_size(noise, n, total, numbers):
        return n + 150

    def decide_batch(log_ratio, variance, skewness, n, total, uniform, numbers):
        probability = np.exp(min(0.0, log_ratio - 0.5 * variance))
        return (1.0 if uniform < probability else 0.0), probability, 0.0

    _, model, _ = stored.logistic()
    step = OwnTestMH(sample_size, decide_batch, controls="noise", model=model)
    draws = chain_of(step, 3).advance(100)
    assert (draws.counts[:, entry.N_OBS] == 150.0).all()


def test_all_rows_say_of_a_move_what_they_say_in_memory():
    """The move is one of the rows that every update reads, which decide on it."""
    jump = np.array([0.02, -1.5, 0.02])
    accepted = assert_all_rows_say_the_same(steps("penalty", "rare_group")[:2], jump, 1.0)
    assert 0.1 < accepted < 0.9
