"""Which rows tests on batches read at every update, where they are kept, and what they change."""

import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from helpers.models import MODELS
from helpers.zoo import drawn
from pymc_minibatch_mh import (
    AustereMH,
    BarkerMinibatchMH,
    ConfidenceMH,
    CustomTestMH,
    PenaltyMH,
    TunaMH,
    audit,
    explain,
)
from pymc_minibatch_mh.reference import mode as taylor
from pymc_minibatch_mh.reference.full_data import MoveMoments

ROWS, MEMBERS = 20_000, 12
METHODS = (BarkerMinibatchMH, PenaltyMH, AustereMH)


def few_members(groups=1, seed=7, rows=ROWS):
    """A regression with 0/1 columns of which few rows have a 1, nearly all alike in outcome."""
    rng = np.random.default_rng(seed)
    x, member = rng.standard_normal((rows, 2)), np.zeros((rows, groups), np.int8)
    members = rng.choice(rows, (groups, MEMBERS), replace=False)
    for column, own in enumerate(members):
        member[own, column] = 1
    y = (rng.random(rows) < expit(x @ [0.7, 0.3] - 0.5)).astype(np.int8)
    y[members[:, 1:]] = 1
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.5)
        slopes = pm.Normal("slopes", 0.0, 2.5, shape=2)
        effects = pm.Normal("effects", 0.0, 2.5, shape=groups)
        logit = level + pm.math.dot(x, slopes) + pm.math.dot(member, effects)
        pm.Bernoulli("y", logit_p=logit, observed=y)
    return model, np.sort(members.ravel())


def by_index(groups=30, rows=ROWS):
    """A hierarchy of large groups and three small ones, found by their index."""
    rng = np.random.default_rng(8)
    group = rng.integers(3, groups, rows)
    members = np.sort(rng.choice(rows, 3 * MEMBERS, replace=False))
    group[members] = np.arange(members.size) % 3
    y = rng.poisson(np.exp(0.3 * rng.standard_normal(groups)[group]))
    y[members] = rng.poisson(0.2, members.size)
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 2.0, shape=groups)
        pm.Poisson("y", mu=pm.math.exp(effect[group]), observed=y)
    return model, members


@pytest.fixture(scope="module")
def rare():
    return few_members()


@pytest.fixture(scope="module")
def step(rare):
    return PenaltyMH(model=rare[0])


@pytest.mark.parametrize("method", METHODS)
def test_members_of_a_rare_group_are_read_at_every_update(rare, method):
    model, members = rare
    step = method(model=model)
    np.testing.assert_array_equal(step.plan.heavy, members)
    np.testing.assert_array_equal(step.program.posterior(np.empty(0)).bounds.heavy, members)
    trace = drawn(model, step, 300, 100, chains=1, random_seed=1)
    assert trace.sample_stats["n_obs"].min() >= len(members) + 100
    assert trace.sample_stats["n_obs"].max() <= ROWS + ROWS // 2
    assert step.plan.n_drawn == ROWS - len(members)


@pytest.mark.parametrize("seed", range(2))
def test_rare_levels_are_found_where_typical_moves_are_few(monkeypatch, seed):
    """The four moves of large data, and ten columns, none of which moves far in all of them."""
    monkeypatch.setattr(taylor, "CALIBRATION_READS", taylor.MIN_MOVES * ROWS)
    model, members = few_members(10, seed)
    assert set(members) <= set(PenaltyMH(model=model).plan.heavy)


@pytest.mark.slow
def test_rare_levels_are_found_among_a_million_rows():
    """Of which a preparation makes four moves only."""
    model, members = few_members(10, rows=taylor.CALIBRATION_READS // taylor.MIN_MOVES)
    np.testing.assert_array_equal(PenaltyMH(model=model).plan.heavy, members)


@pytest.mark.parametrize("order", [1, 2])
def test_small_groups_of_an_index_are_found(order):
    model, members = by_index()
    np.testing.assert_array_equal(PenaltyMH(model=model, taylor_order=order).plan.heavy, members)


class Unread:
    """Passes over rows that are all alike, which count moves."""

    def __init__(self, n_rows):
        self.n_rows, self.all_rows, self.largest_rows = n_rows, 0, 0

    def moves(self, evaluate, moves, centre, largest):
        self.all_rows = len(moves)
        largest.add(largest.of_chunk(np.arange(3), np.zeros((len(moves), 3))))
        return [MoveMoments(1.0, 0.0, 1.0)] * len(moves)

    def differences(self, evaluate, moves, centre, rows):
        self.largest_rows = len(moves)
        return np.zeros((len(moves), rows.size))


@pytest.mark.parametrize(
    ("rows", "moves"), [(1_000, 32), (125_000, 32), (500_000, 8), (10**6, 4), (10**8, 4)]
)
def test_as_many_moves_are_made_as_the_page_says(step, rows, moves):
    passes, rng = Unread(rows), np.random.default_rng(5)
    _, heavy = taylor.calibrate_remainders(passes, None, step.reference, rng, seeks_heavy=True)
    assert heavy.size == 0
    assert (passes.all_rows, passes.largest_rows) == (moves, 32 - moves)


def test_an_outlier_is_found():
    rng = np.random.default_rng(9)
    x = rng.standard_normal(ROWS)
    y = rng.poisson(np.exp(0.1 + 0.1 * x))
    x[77], y[77] = 30.0, 60
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, 2.0), pm.Normal("slope", 0.0, 2.0)
        pm.Poisson("y", mu=pm.math.exp(level + slope * x), observed=y)
    assert PenaltyMH(model=model).plan.heavy.tolist() == [77]


@pytest.mark.parametrize("name", MODELS)
def test_no_row_is_heavy_where_all_are_alike(prepared, name):
    assert prepared(name, "PenaltyMH").plan.heavy.size == 0


def test_what_is_calibrated_are_the_others():
    step = PenaltyMH(model=few_members()[0])
    prepared, target = step.plan, step.target
    (whole, _), (rest, heavy) = (
        taylor.calibrate_remainders(
            target.full_data, 2, prepared.reference, np.random.default_rng(2), seeks_heavy=sought
        )
        for sought in (False, True)
    )
    assert rest.kappa < 0.1 * whole.kappa
    assert rest.skewness < 0.2 * whole.skewness
    rng, centre = np.random.default_rng(3), prepared.reference.centre
    ends = tuple(centre + 0.3 * rng.standard_normal((2, centre.size)))
    (found,) = target.full_data.moves(target.taylor_order, [ends], centre, heavy)
    others = np.delete(np.arange(ROWS), heavy)
    (changes,) = target.full_data.differences(target.taylor_order, [ends], centre, others)
    assert found.variance == pytest.approx(changes.var(ddof=1), rel=1e-9)
    assert found.third_absolute == pytest.approx(
        (np.abs(changes / changes.std()) ** 3).mean(), 1e-3
    )


def test_who_knows_all_rows_reads_none_always(rare):
    model, _ = rare
    step = ConfidenceMH(model=model)
    assert step.plan.heavy is None
    assert step.program.posterior(np.empty(0)).bounds.heavy.size == 0
    assert PenaltyMH(model=model, centre="start").plan.heavy.size == 0


def test_they_are_stored_and_sent_along(rare, step, tmp_path):
    model, members = rare
    step.save(tmp_path / "step.npz")
    read = PenaltyMH(model=model, prepared=tmp_path / "step.npz")
    sent = pickle.loads(cloudpickle.dumps(step))
    for other in (read, sent):
        np.testing.assert_array_equal(other.plan.heavy, members)
        np.testing.assert_array_equal(other.program.posterior(np.empty(0)).bounds.heavy, members)
        assert other.plan.calibration == step.plan.calibration
    assert TunaMH(model=model, prepared=tmp_path / "step.npz").plan.heavy is None


def test_they_belong_to_the_centre_that_a_chain_moves_to(step):
    prepared = step.plan
    elsewhere = prepared.reference._replace(centre=prepared.reference.centre + 1e-3)
    moved = prepared.at(elsewhere)
    assert set(moved.heavy) == set(prepared.heavy)
    assert moved.calibration != prepared.calibration
    assert prepared.at(prepared.reference).heavy is prepared.heavy


def test_explain_counts_them(rare, step):
    _, members = rare
    found = explain(step, draws=200, tune=100, nuts=False, random_seed=1)
    assert found.certificate.n_heavy == len(members)
    shown = " ".join(str(found.details).split())
    assert f"{len(members)} are evaluated in every update; batches are drawn from all" in shown


def test_an_audit_judges_the_rows_that_batches_are_of():
    model, _ = few_members()
    step = PenaltyMH(model=model)
    trace = drawn(model, step, 400, 200, random_seed=2)
    found = audit(trace, step, pairs=20, random_seed=3)
    # Members, twelve of 20,000 and nearly alike, would have a skewness of about forty.
    assert float(np.abs(found["pairs"]["skewness"]).median()) < 10.0


def test_a_test_of_ones_own_is_told_of_the_rows_that_it_draws_from(rare):
    model, members = rare

    def plan(noise, n, total, numbers):
        return n + 100

    def decide_batch(log_ratio, variance, skewness, n, total, uniform, numbers):
        probability = np.exp(min(0.0, log_ratio - 0.5 * variance))
        return (1.0 if uniform < probability else 0.0), probability, float(total)

    step = CustomTestMH(plan, decide_batch, model=model, controls="nothing")
    trace = drawn(model, step, 100, 0, chains=1, random_seed=4)
    assert set(trace.sample_stats["error_estimate"].to_numpy().ravel()) == {ROWS - len(members)}
    assert set(trace.sample_stats["n_obs"].to_numpy().ravel()) == {100 + len(members)}
