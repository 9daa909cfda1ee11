"""Rows without a bound: every update evaluates them, if they are few."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.integrate import trapezoid

from pymc_minibatch_mh import ConfidenceMH, TunaMH, sample
from pymc_minibatch_mh.bounds.bound_check import BoundedPosterior
from pymc_minibatch_mh.bounds.bounds_pass import (
    MOST_UNBOUNDED,
    MOST_UNBOUNDED_IN_TRIAL,
    BoundsPass,
    _Bounded,
)
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.plan import bound_sources
from pymc_minibatch_mh.structure.row_function import row_functions

SPREAD, ROWS = 0.01, 1_000


def log_density(x, shift):
    """Return the log of a log-normal law that starts at a shift, beside a constant rate."""
    since = x - shift
    log = pt.log(pt.switch(since > 0.0, since, 1.0))
    own = pt.switch(since > 0.0, -2.0 * (log + 1.0) ** 2 - log, -np.inf)
    return pt.logaddexp(own, np.log(0.1))


def jumping(x):
    """Return a model whose rows jump where the shift passes them."""
    with pm.Model() as model:
        shift = pm.Normal("shift", 0.0, 1.0, initval=0.0)
        pm.CustomDist("x", shift, logp=log_density, observed=x)
    return model


def around_zero(model, spread=SPREAD):
    """Return the pass for the bounds of a model around zero, in a metric of one width."""
    parts = factorize(model, model.value_vars, min_rows=1)
    one = np.eye(parts.size)
    nothing = np.zeros(parts.size)
    reference = Reference(nothing, spread * one, one / spread, nothing, one, 2, 1.0)
    return BoundsPass(row_functions(parts), reference, (parts.lower, parts.upper))


def apart(near):
    """Return places of rows: some near zero, all others at a distance of 1 or more."""
    return np.r_[near, np.linspace(1.0, 2.0, ROWS - len(near))]


def poles(x):
    """Return a model with a pole of each row: log |x - b|."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.CustomDist("x", b, logp=lambda x, b: 0.5 * pt.log(pt.sqr(x - b)), observed=x)
    return model


def test_rows_without_a_bound_are_evaluated_in_every_update():
    tables = around_zero(poles(apart([0.001, -0.002, 0.003]))).tables()
    np.testing.assert_array_equal(tables.heavy, [0, 1, 2])
    np.testing.assert_array_equal(tables.unbounded, [0, 1, 2])
    assert np.isinf(tables.c[:, :3]).all()
    assert np.isfinite(tables.c[:, 3:]).all()
    totals = tables.c[:, 3:].sum(axis=1, dtype=np.float64)
    np.testing.assert_allclose(tables.headers[:, TOTAL], totals)


def test_rows_without_a_bound_in_a_larger_region_are_evaluated_in_all():
    # Radii are 2.6, 4.9 and 7.1 times the spread: one row in each ring.
    tables = around_zero(poles(apart([0.01, 0.04]))).tables()
    # Another row in every update costs less than a pass in 1 % of them.
    assert tables.headers[-1, 0] > 4.0
    np.testing.assert_array_equal(tables.heavy, [0, 1])
    # Also where all rows have bounds in the smallest region.
    np.testing.assert_array_equal(around_zero(poles(apart([0.04]))).tables().heavy, [0])


def test_rows_that_are_drawn_anyway_are_evaluated_beside_those_without_a_bound():
    # The second row is just outside of the region, and its bound huge.
    tables = around_zero(poles(apart([0.001, 0.0715]))).tables()
    np.testing.assert_array_equal(tables.unbounded, [0])
    np.testing.assert_array_equal(tables.heavy, [0, 1])
    assert around_zero(poles(apart([0.0715]))).tables().heavy.size == 0


def test_a_region_with_many_more_rows_without_a_bound_is_left_out():
    tables = around_zero(poles(apart([0.01, *np.full(20, 0.04)]))).tables()
    assert tables.headers[-1, 0] < 4.0
    np.testing.assert_array_equal(tables.unbounded, [0])


def test_many_rows_without_a_bound_are_refused():
    few = int(MOST_UNBOUNDED * ROWS)
    assert around_zero(poles(apart(np.full(few, 0.001)))).tables().heavy.size == few
    with pytest.raises(BoundsError, match="'x' has no proved bound: in row 0"):
        around_zero(poles(apart(np.full(few + 1, 0.001)))).tables()


@pytest.mark.parametrize("extra", [-8, 8])
def test_a_trial_refuses_a_quarter_of_rows_without_a_bound(extra):
    many = int(MOST_UNBOUNDED_IN_TRIAL * ROWS) + extra
    passes = around_zero(poles(apart(np.full(many, 0.001))))
    if extra < 0:
        passes.rows_in_trial()
        return
    with pytest.raises(BoundsError, match="'x' has no proved bound: in row 0"):
        passes.rows_in_trial()


def test_a_trial_forecasts_rows_also_where_a_few_have_no_bound():
    passes = around_zero(poles(apart([])))
    assert 0.0 < passes.rows_in_trial() == pytest.approx(min(passes.forecast(), ROWS))
    some = around_zero(poles(apart(np.full(30, 0.001)))).rows_in_trial()
    assert passes.rows_in_trial() < some < ROWS


def test_operands_of_a_condition_are_not_blamed():
    """As in a drift diffusion, a root that may have no value chooses between two series."""

    def log_density(x, b):
        return -pt.sqr(x) * pt.switch(pt.sqrt(b) < 0.01, pt.exp(b), pt.exp(2.0 * b))

    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.CustomDist("x", b, logp=log_density, observed=apart([]))
    with pytest.raises(BoundsError, match="order 3 of a condition on the parameters are unbounded"):
        around_zero(model).tables()


def test_regions_are_worth_their_rows_or_not():
    c = np.zeros((3, 2, 100), np.float32)
    c[1, 0, :2], c[2, 1, :9] = np.inf, np.inf
    bounded = _Bounded([1.0, 2.0, 3.0], c)
    assert bounded.regions_worth(lambda radius: 0.02) == [0, 1]
    assert bounded.regions_worth(lambda radius: 0.01) == [0]
    assert bounded.regions_worth(lambda radius: 0.09) == [0, 1, 2]


def test_influential_rows_are_added_to_those_without_a_bound(monkeypatch):
    tables = around_zero(poles(apart([0.001]))).tables()
    monkeypatch.setattr(bound_sources, "heavy_rows", lambda *_: np.array([7]))
    monkeypatch.setattr(BoundedPosterior, "seeded_moves", lambda _: [])
    target = type("Target", (), {"covariance": None})()
    tables_of_step = bound_sources.with_heavy_rows(target, None, tables)
    np.testing.assert_array_equal(tables_of_step.heavy, [0, 7])


@pytest.fixture(scope="module")
def contaminated():
    """Return places of rows, of which some lie on both sides of the shift."""
    rng = np.random.default_rng(3)
    return np.r_[0.3 + np.exp(-1.0 + 0.5 * rng.normal(size=4_000)), rng.uniform(-4.0, 4.0, 1_600)]


@pytest.fixture(scope="module")
def model(contaminated):
    """Return the model of rows that jump."""
    return jumping(contaminated)


@pytest.fixture(scope="module")
def step(model):
    """Return a step on rows that jump."""
    return TunaMH(model=model)


def test_the_posterior_of_jumps_is_exact(contaminated, step):
    assert 0 < step.tables.unbounded.size < 0.05 * contaminated.size
    trace = sample(step, draws=6_000, tune=1_000, chains=2, cores=1, random_seed=1, quiet=True)
    draws = trace["posterior"]["shift"].to_numpy().ravel()
    grid = np.linspace(0.2, 0.4, 2_001)
    since = contaminated[:, None] - grid[None]
    with np.errstate(all="ignore"):
        rate = np.exp(-2.0 * (np.log(since) + 1.0) ** 2) / since
    rate = np.where(since > 0.0, rate, 0.0)
    log = np.log(rate + 0.1).sum(axis=0) - 0.5 * grid**2
    density = np.exp(log - log.max())
    density /= trapezoid(density, grid)
    mean = trapezoid(grid * density, grid)
    sd = np.sqrt(trapezoid((grid - mean) ** 2 * density, grid))
    assert abs(draws.mean() - mean) < 0.15 * sd
    assert draws.std() == pytest.approx(sd, rel=0.15)


def test_a_test_without_draws_by_bounds_evaluates_rows_without_a_bound(model, step):
    program = ConfidenceMH(model=model).program
    bounds = program.sampler.likelihood(program.plan)[2]
    np.testing.assert_array_equal(bounds.heavy, step.tables.unbounded)
    largest = program.method.record(program.plan).largest
    assert (largest > 0.0).all()
    assert np.isfinite(largest).all()
