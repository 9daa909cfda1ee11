"""What only exact methods have: bounds of one's own, violations, the region they hold in."""

import re

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from helpers.altered import with_tables
from helpers.zoo import EXACT, drawn, sample
from pymc_minibatch_mh import Bounds, RandomWalk, TunaMH
from pymc_minibatch_mh.errors import BoundViolationError

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

ROWS = 2_000
RNG = np.random.default_rng(61)
X = np.column_stack([np.ones(ROWS), RNG.uniform(-1.0, 1.0, ROWS)])
Y = (RNG.random(ROWS) < expit(X @ [0.3, -0.8])).astype(np.int8)
NORMS = np.sqrt((X**2).sum(axis=1))


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Bernoulli("y", logit_p=X @ beta, observed=Y)
    return model


def distance(position, new):
    """Lipschitz metric of a logistic regression without control variates."""
    return np.sqrt(((new - position) ** 2).sum())


def cubic_around(centre):
    """Bounds of order two by hand, for the centre that the expansion is made at."""
    origin = centre["beta"]

    def metric(position, new):
        a = np.sqrt(((position - origin) ** 2).sum())
        b = np.sqrt(((new - origin) ** 2).sum())
        return (a**3 + b**3) / 6.0

    return Bounds(np.sqrt(3.0) / 18.0 * NORMS**3, metric)


@pytest.fixture(scope="module")
def given(model):
    """A step with bounds of one's own that depend on the centre."""
    return TunaMH(model=model, bounds=cubic_around)


@pytest.fixture(scope="module")
def derived(model):
    return TunaMH(model=model)


def moments(trace):
    draws = trace.posterior["beta"].to_numpy().reshape(-1, 2)
    return draws.mean(axis=0), draws.std(axis=0)


def test_bounds_of_ones_own_give_the_same_posterior(model, given, derived):
    traces = [drawn(model, step, 16_000, 500, random_seed=5) for step in (given, derived)]
    (mean, sd), (other, other_sd) = map(moments, traces)
    assert np.abs(mean - other).max() < 0.06 * sd.min()
    np.testing.assert_allclose(sd, other_sd, rtol=0.04)
    for trace in traces:
        assert 0.0 < float(trace.sample_stats["bound_ratio"].max()) <= 1.0
        assert float(trace.sample_stats["accepted_share"].mean()) > 0.9
    certified = [trace.sample_stats["certified"].to_numpy() for trace in traces]
    assert not certified[0].any()
    assert certified[1].all()


VIOLATED = r"'y': row \d+ changes by .* times its bound"


@pytest.mark.parametrize("method", EXACT)
def test_bounds_that_are_too_small_are_found_before_sampling(model, method):
    with pytest.raises(BoundViolationError, match=VIOLATED):
        EXACT[method](model=model, bounds=lambda centre: scaled(centre, 0.05))


@pytest.mark.parametrize("method", EXACT)
def test_a_violated_bound_ends_the_chain_by_name(model_of, prepared, method):
    step = with_tables(prepared("bernoulli_logit", method), 0.05)
    with pytest.raises(BoundViolationError, match=VIOLATED):
        sample(model_of("bernoulli_logit"), step, 8_000, 200, random_seed=7)


def scaled(centre, factor):
    bounds = cubic_around(centre)
    return Bounds(factor * np.asarray(bounds.c), bounds.metric)


def test_unverified_bounds_are_told_of(model, caplog):
    with caplog.at_level("WARNING", logger="pymc"):
        TunaMH(model=model, bounds=cubic_around)
    assert "'y': bounds= are unverified" in caplog.text


def test_a_tolerated_violation_marks_the_trace(model):
    step = TunaMH(model=model, bounds=lambda c: scaled(c, 0.05), on_violation="warn")
    trace = sample(model, step, 4_000, 200, random_seed=7, keep_warning_stat=True)
    assert float(trace.sample_stats["bound_ratio"].max()) > 1.0
    assert not trace.sample_stats["certified"].any()
    messages = [w.message for w in trace.sample_stats["warning"].to_numpy().ravel() if w]
    assert len(messages) == 2
    assert all("not exact" in message and "'y': row" in message for message in messages)


SHOWN = re.compile(r"row (\d+) changes by (\S+) times .* from \[(.*)\] to \[(.*)\] \(uncon")


def shown(message):
    """Return the ratio that a message names, and that of its row in the move that it shows."""
    row, ratio, here, there = SHOWN.search(message).groups()
    here, there = (np.array(text.split(), dtype=float) for text in (here, there))
    x, y = X[int(row)], Y[int(row)]
    change = np.diff([y * (x @ beta) - np.logaddexp(0.0, x @ beta) for beta in (here, there)])
    return float(ratio), abs(float(change[0])) / (LOW * NORMS[int(row)] * distance(here, there))


#: Share of a valid bound that hundreds of rows exceed in every move.
LOW = 0.02


@pytest.fixture(scope="module")
def too_low(model):
    """A step that goes on although its bounds are far too small."""
    bounds = Bounds(LOW * NORMS, distance)
    settings = {"proposal": RandomWalk(), "updates_per_draw": 5}
    return TunaMH(model=model, taylor_order=0, bounds=bounds, on_violation="warn", **settings)


def test_a_message_shows_row_ratio_and_move_of_the_worst_violation(model, too_low):
    too_low.setup_chain(np.random.default_rng(13), 0, 40)
    point = model.initial_point()
    for _ in range(40):
        point, (stats,) = too_low.step(point)
        ratio, own = shown(too_low.chain.state.violation)
        assert ratio == pytest.approx(float(stats["bound_ratio"]), rel=0.005)
        assert ratio == pytest.approx(own, rel=0.01)


def raises(position, new):
    if position[0] < np.inf:
        raise ValueError("no metric")
    return 1.0


def one_way(position, new):
    return 1e3 if position[0] < new[0] else np.nan


def test_the_metric_follows_the_centre(given):
    chain = given.chain.copy()
    here = chain.plan.tables.arrays
    chain.move_centre(chain.plan.at(away_from(given.reference)))
    there = chain.plan.tables.arrays
    assert chain.kernel_state().record.posterior.bounds.metric == there.metric != here.metric
    np.testing.assert_array_equal(there.c, here.c)
    chain.move_centre(given.plan)
    np.testing.assert_array_equal(chain.plan.tables.headers, here.headers)


def away_from(reference):
    return reference._replace(centre=reference.centre + reference.factor.sum(axis=1))


def test_outside_of_the_region_all_rows_decide(model_of, prepared):
    step = prepared("poisson_exposure", "TunaMH")
    step.setup_chain(np.random.default_rng(9), 0, 10)
    far = step.reference.centre + 3.0 * step.tables.headers[-1, 0] * step.reference.factor[:, 0]
    _, (stats,) = step.step({"b": far})
    assert stats["full_pass"] == 1
    assert stats["n_obs"] == step.target.source.n_rows


def test_a_default_start_far_off_is_left_in_warm_up_only(model_of, prepared):
    step = prepared("student_fixed", "TunaMH")
    model = model_of("student_fixed")
    start = model.initial_point()
    away = {}
    for tune in (100, 0):
        step.setup_chain(np.random.default_rng(10), tune, 10)
        moved, _ = step.step(dict(start))
        gap = step.reference.whitener @ (
            step.target.factorization.ravel(moved) - step.reference.centre
        )
        away[tune] = np.sqrt((gap**2).sum())
    assert away[100] < 12.0 < away[0]
    chosen = {name: value + 0.01 for name, value in start.items()}
    step.setup_chain(np.random.default_rng(10), 100, 10)
    moved, _ = step.step(dict(chosen))
    gap = step.reference.whitener @ (step.target.factorization.ravel(moved) - step.reference.centre)
    assert np.sqrt((gap**2).sum()) > 12.0
