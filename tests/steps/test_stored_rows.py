"""Steps on stored rows sample what steps on rows in memory sample, and stop where they must."""

import warnings
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
from scipy.special import log_expit

from helpers.zoo import drawn, sample
from law.statistical.budget import VERY_FAR
from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, PenaltyMH, ScalableSubsamplingMH, TunaMH
from pymc_minibatch_mh.bounds.block_tables import BLOCK
from pymc_minibatch_mh.bounds.smooth_bounds import SmoothRows
from pymc_minibatch_mh.chain import chain as warmup
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.program import SamplerSpec
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.native.bound_tables import END, NEXT, TOTAL
from pymc_minibatch_mh.native.moves import JOINT
from robustness.conformance.harness import run
from steps import stored

MODELS = ("logistic", "heavy_tails", "offsets", "large_counts", "groups", "no_change", "some_zeros")


ON_BATCHES = {"penalty": PenaltyMH, "barker": BarkerMinibatchMH, "austere": AustereMH}
METHODS = {"tuna": partial(TunaMH, taylor_order=2)} | ON_BATCHES


@cache
def written(name):
    """Return a model in memory and on stored rows, and the storage, for all methods."""
    return getattr(stored, name)()


@cache
def steps(name, method="tuna"):
    """Return the steps of a model in memory and on stored rows, and the storage."""
    in_memory, on_disk, storage = written(name)
    return METHODS[method](model=in_memory), METHODS[method](model=on_disk), storage


# What is prepared.


@pytest.mark.parametrize("name", MODELS)
def test_stored_rows_are_prepared_as_rows_in_memory(name):
    own, other, _ = steps(name)
    np.testing.assert_allclose(own.reference.centre, other.reference.centre, rtol=1e-9)
    headers = [step.tables.headers for step in (own, other)]
    np.testing.assert_array_equal(*(h[:, :TOTAL] for h in headers))
    np.testing.assert_allclose(*(h[:, TOTAL] for h in headers), rtol=1e-6, atol=1e-12)
    n_rows = other.plan.n_rows
    assert other.tables.largest.shape == (len(headers[0]), -(-n_rows // BLOCK))
    rows = np.unique(np.random.default_rng(1).integers(0, n_rows, 2_000))
    for table, c in enumerate(own.tables.c):
        np.testing.assert_allclose(other.tables.of(table, rows), c[rows], rtol=1e-5, atol=1e-12)


# Where chains go on.


def test_a_chain_around_another_centre_is_taken_up_with_other_tables():
    """Around the mean of warm-up there may be more tables, or fewer, than around the mode."""
    _, model, _ = stored.logistic()
    step, other = TunaMH(model=model), TunaMH(model=model)
    start = model.initial_point()
    for own in (step, other):
        own.setup_chain(np.random.default_rng(4), 300, 300)
    kinds = SmoothRows.table_kinds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warmup, "MIN_SHIFT", 0.0)
        patch.setattr(SmoothRows, "table_kinds", lambda *own: [*kinds(*own), (1, JOINT)][-1:] * 2)
        _, point = run(step, start, 201, stop_at=200)
        state = step.sampling_state
        assert len(state.chain_state.supplies) != len(other.tables.headers)
        other.sampling_state = state
    one, again = (run(own, point, 60)[0] for own in (step, other))
    np.testing.assert_array_equal(one, again)


# What is sampled.


@cache
def scalar_step(cls=TunaMH):
    _, model, _ = stored.scalar()
    return model, cls(model=model, taylor_order=0)


def chain_of(step, seed):
    return chain_by(step.program, seed)


def chain_by(program, seed):
    chain = Chain(program, np.random.default_rng(seed), adapting=False)
    chain.state.started = True
    return chain


def exact_moments():
    """Return mean and standard deviation of the coefficient, by quadrature."""
    arrays = stored.scalar()[2]._arrays
    b = np.linspace(-0.5, 2.0, 2_001)
    eta = np.outer(b, arrays["x"])
    log_density = np.where(arrays["y"] == 1, log_expit(eta), log_expit(-eta)).sum(axis=1) - b**2 / 2
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ b
    return mean, np.sqrt(weights @ (b - mean) ** 2)


def sampled(model, step, draws, tune, by=drawn, **settings):
    with warnings.catch_warnings():
        # PyMC leaves what it cannot evaluate as a whole out of a trace.
        warnings.filterwarnings("ignore", "Could not extract data", UserWarning)
        return by(model, step, draws, tune, **settings)


def test_posterior_is_that_of_quadrature():
    model, step = scalar_step()
    trace = sampled(model, step, 12_000, 500, chains=1, random_seed=3)
    assert 10.0 < float(trace.sample_stats["n_obs"].mean()) < 1_000.0
    mean, sd = exact_moments()
    draws = trace.posterior["b"].to_numpy().ravel()
    # Means of batches much longer than the chain remembers.
    batches = draws.reshape(40, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(len(batches))
    assert error < 0.05 * sd
    assert abs(draws.mean() - mean) < VERY_FAR * error


# All rows.


def test_chains_far_out_decide_by_all_rows_as_in_memory():
    own, other, _ = steps("heavy_tails")
    assert np.isfinite(own.tables.headers[:, 0]).all()
    found = []
    for step in (own, other):
        chain = chain_of(step, 8)
        chain.state.supply_key = 1
        chain.place(np.array([30.0]), np.zeros(0))
        found.append(chain.advance(20))
    passes = [draws.counts["full_pass"] for draws in found]
    assert (passes[0] == 1.0).all()
    np.testing.assert_array_equal(*passes)
    np.testing.assert_allclose(*(draws.positions for draws in found), rtol=1e-9)
    np.testing.assert_allclose(*(draws.counts["log_ratio"] for draws in found), rtol=1e-8)


class GoneError(OSError):
    """What a storage of one's own raises."""


def with_full_passes_above(sampler, rows):
    """Return a sampler whose test reads all rows above a number of them."""
    return replace(sampler, method=replace(sampler.method, full_pass_above=rows))


def by_all_rows(cls, model):
    """Return a program whose test reads all rows at once, be it on batches or not."""
    program = cls(model=model, updates_per_draw=500).program
    return replace(program, sampler=with_full_passes_above(program.sampler, 2.0))


@pytest.mark.parametrize("cls", [ScalableSubsamplingMH, PenaltyMH])
def test_no_update_follows_a_pass_that_has_failed(cls):
    """All moves are decided by all rows here, and those that were tried are counted."""
    _, model, storage = stored.heavy_tails()
    chain = chain_by(by_all_rows(cls, model), 8)
    chain.place(np.array([30.0]), np.zeros(0))
    change, positions = chain.plan.target.full_data.change, []

    def failing(order, ends):
        positions.append(ends[0].copy())
        if len(positions) > 3:
            storage.error = GoneError("no such disk")
        return change(order, ends)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain.plan.target.full_data, "change", failing)
        with pytest.raises(GoneError, match="no such disk"):
            chain.advance(2)
    assert len(positions) == 4
    assert chain.state.window["tried"].sum() == 3
    np.testing.assert_array_equal(chain.position, positions[-1])
    storage.error = None
    assert np.isfinite(chain.advance(1).positions).all()


def test_data_that_were_edited_end_sampling():
    _, model, storage = stored.scalar()
    step = TunaMH(model=model, taylor_order=0)
    storage.edited = {"x": 30.0}
    with pytest.raises(SourceError, match=r"^row [\d,]+ of 'y' has changed since it was bounded"):
        sample(model, step, 500, 0, chains=1, random_seed=1)


# What is refused.


# Tests on batches.


@pytest.mark.parametrize("name", ON_BATCHES)
def test_decisions_are_those_of_the_same_rows_in_memory(name):
    """With every row read, a batch is all rows: what differs is where they lie."""
    found = []
    for step in steps("rare_group", name)[:2]:
        program = step.program
        all_rows = SamplerSpec(program.plan, with_full_passes_above(program.sampler, 2.0))
        chain = Chain(all_rows, np.random.default_rng(3), adapting=False)
        chain.state.started, chain.state.supply_key = True, 1
        found.append(chain.advance(60))
    assert (found[0].counts["full_pass"] == 1.0).all()
    np.testing.assert_allclose(*(draws.positions for draws in found), rtol=1e-7)
    np.testing.assert_allclose(*(x.counts["log_ratio"] for x in found), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ON_BATCHES)
def test_rows_that_every_update_reads_are_read_where_they_lie(name):
    step = steps("rare_group", name)[1]
    heavy, chain = step.plan.heavy, chain_of(step, 4)
    draws = chain.advance(300)
    pool, columns = chain._pool, step.target.source.columns
    np.testing.assert_array_equal(pool.rows[pool.heavy], heavy)
    for own, column in zip(pool._placed._source.columns, columns, strict=True):
        np.testing.assert_array_equal(own.values[pool.heavy], column.read(heavy))
        some = np.arange(0, 4_096, 7)
        np.testing.assert_array_equal(own.values[some], column.read(pool.rows[some]))
    assert not np.isin(pool.rows[:4_096], heavy).any()
    assert draws.counts["n_obs"].min() >= heavy.size + 100


# What goes wrong.


@pytest.mark.parametrize("name", ON_BATCHES)
def test_what_a_storage_raises_reaches_the_user_and_the_chain_goes_on(name):
    _, step, storage = steps("logistic", name)
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


@pytest.mark.parametrize("name", ON_BATCHES)
def test_full_passes_that_are_forecast_are_refused(name):
    """Without control variates no batch decides; with as many rows as it takes, one does."""
    _, model, _ = stored.logistic()
    with pytest.raises(
        SettingError,
        match=r"^'y': .* all 20,003 stored rows, because their batches exceed 4,096 rows",
    ):
        ON_BATCHES[name](model=model, taylor_order=0)
    step = ON_BATCHES[name](model=model, taylor_order=2)
    assert step.program.method.most_drawn(step.plan) == 4_096.0
    with pytest.raises(SettingError, match=r"10,000 would .* exceed 60 rows.*full_pass_above="):
        ON_BATCHES[name](model=model, full_pass_above=60)
