"""FireflyMH as a step: which rows it reads, what its state is, and how it is measured."""

import copy

import numpy as np
import pytest

from helpers.altered import with_tables
from helpers.zoo import sample
from pymc_minibatch_mh import audit, overdispersed_initvals
from pymc_minibatch_mh.native.bound_tables import RADIUS

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")


@pytest.fixture
def step(prepared):
    own = copy.copy(prepared("two_likelihoods", "FireflyMH"))
    own.setup_chain(np.random.default_rng(1), 0, 100)
    return own


@pytest.fixture
def start(step):
    return overdispersed_initvals(step, 1, scale=1.0, random_seed=2)[0]


def brightness(step):
    return step.chain.state.records.test.brightness


def advanced(step, start, draws):
    stats = []
    for _ in range(draws):
        start, (own,) = step.step(start)
        stats.append(own)
    return start, {name: np.array([own[name] for own in stats]) for name in stats[0]}


def test_bright_rows_of_another_place_are_not_used(step, start):
    """As where a chain is taken up at another point: they are drawn anew there."""
    point, _ = advanced(step, start, 20)
    _, stats = advanced(step, point, 1)
    assert stats["full_pass"] == [0]
    _, stats = advanced(step, start, 1)
    assert stats["full_pass"] == [1]


def test_moves_out_of_the_region_read_all_rows(step, start):
    narrow = with_tables(step, 1.0)
    headers = narrow.plan.tables.headers
    headers[:, RADIUS] = np.minimum(headers[:, RADIUS], 1.5)
    narrow.setup_chain(np.random.default_rng(3), 0, 100)
    _, stats = advanced(narrow, start, 400)
    n = step.target.source.n_rows
    outside = (stats["n_bright"] == n) & (stats["full_pass"] == 1)
    assert 0.1 < outside.mean() < 0.9
    assert (stats["n_obs"][outside] == n).all()
    # After an accepted one the bright rows are drawn, when next a pair is inside.
    drawn = ~outside & (stats["full_pass"] == 1)
    assert drawn.any()
    np.testing.assert_array_equal(stats["n_obs"][drawn], n + stats["n_bright"][drawn])
    assert (stats["n_obs"][stats["full_pass"] == 0] < 0.2 * n).all()


@pytest.fixture(scope="module")
def untuned(prepared):
    return prepared("logistic", "FireflyMH", bound="untuned")


def test_untuned_lower_bounds_leave_more_rows_bright(model_of, prepared, untuned):
    model, bright = model_of("logistic"), []
    for own in (untuned, prepared("logistic", "FireflyMH")):
        stats = sample(model, own, 400, 200, random_seed=10).sample_stats
        assert not stats["full_pass"].any()
        assert stats["certified"].all()
        assert float(stats["bound_ratio"].max()) <= 1.0
        bright.append(float(stats["n_bright"].mean()))
    assert bright[0] > 50.0 > 1.0 > bright[1]


def test_an_audit_draws_bright_rows_anew_and_leaves_the_chain_alone(model_of, prepared):
    model, step = model_of("logistic"), prepared("logistic", "FireflyMH")
    trace = sample(model, step, 300, 200, random_seed=9)
    before = copy.deepcopy(step.chain.state)
    found = audit(trace, step, pairs=30, random_seed=1)
    assert step.chain.state == before
    assert (found["pairs"]["rows_read"] >= step.target.source.n_rows).all()
    verdicts = dict(zip(found["check"].values, found["verdict"].values, strict=True))
    assert verdicts["bounds"] == verdicts["bias"] == "ok"
