"""Steps around a centre that nobody sought."""

import math

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import pymc_minibatch_mh as mb
from conformance.harness import run
from pymc_minibatch_mh import (
    BarkerMinibatchMH,
    FactorizedMH,
    PenaltyMH,
    RandomWalk,
    SettingError,
    TunaMH,
)
from pymc_minibatch_mh.expansion import target
from zoo import sample

ROWS, SIZE = 4_000, 3
RNG = np.random.default_rng(61)
X = np.column_stack([RNG.standard_normal((ROWS, SIZE - 1)), np.zeros(ROWS)])
Y = RNG.random(ROWS) < 1.0 / (1.0 + np.exp(-X @ [0.5, -0.4, 0.0]))
START = np.array([0.4, -0.3, 7.0])
POINT = {"beta": START}
WALK = RandomWalk(0.05, "identity", adapt=False)


@pytest.fixture(scope="module")
def model():
    """A posterior without a mode: no row depends on the last coordinate, whose prior is flat."""
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=SIZE)
        pm.Bernoulli("y", logit_p=X @ beta, observed=Y)
    return model


@pytest.fixture
def no_search(monkeypatch):
    def refuse(*_):
        raise AssertionError("a mode was sought")

    for name in ("find_mode", "find_centre", "smoothed"):
        monkeypatch.setattr(target, name, refuse)


def test_the_model_has_no_mode(model):
    with pytest.raises(mb.ModeError, match="beta"):
        TunaMH(model=model)


@pytest.mark.parametrize("method", [TunaMH, FactorizedMH, BarkerMinibatchMH, PenaltyMH])
def test_no_mode_is_sought(model, method, no_search):
    # Where each row has a veto, only short moves are accepted.
    scale = 1e-3 if method is FactorizedMH else 0.05
    walk = RandomWalk(scale, "identity", adapt=False)
    step = method(model=model, centre="start", initial_point=POINT, proposal=walk)
    trace = sample(model, step, 120, 120, initvals=POINT, random_seed=62)
    np.testing.assert_array_equal(step.surrogate.centre, START)
    np.testing.assert_array_equal(step.surrogate.factor, np.eye(SIZE))
    assert step.surrogate.order == 0
    assert 0.05 < trace["sample_stats"]["accepted_share"].mean() < 1.0
    assert (trace["sample_stats"]["scaling"] == scale).all()


def test_bounds_are_those_of_the_distance_that_was_asked_for(model):
    step = TunaMH(model=model, centre="start", initial_point=POINT)
    norms = np.linalg.norm(X, axis=1)
    # A logistic row changes by its norm times the distance at most.
    assert (step.tables.c[-1] >= norms * (1.0 - 1e-6)).all()
    assert step.tables.c[-1].sum() < 1.01 * norms.sum()
    wide = TunaMH(model=model, centre="start", covariance=4.0 * np.eye(SIZE), initial_point=POINT)
    np.testing.assert_allclose(wide.tables.c[-1], 2.0 * step.tables.c[-1], rtol=1e-5)


def test_chains_start_at_the_centre(model):
    step = TunaMH(model=model, centre="start", initial_point=POINT, proposal=WALK)
    trace = mb.sample(
        step, 1, tune=0, chains=2, random_seed=1, progressbar=False,
        compute_convergence_checks=False,
    )  # fmt: skip
    assert np.abs(trace["posterior"]["beta"] - START).max() < 0.5


def test_the_centre_stays_in_warm_up(model, no_search):
    step = PenaltyMH(model=model, centre="start", initial_point=POINT)
    sample(
        model, step, 5, 400, initvals={"beta": START + np.array([2.0, 2.0, 50.0])}, random_seed=63
    )
    np.testing.assert_array_equal(step.surrogate.centre, START)


def test_a_step_goes_on_in_another_process(model):
    step = TunaMH(model=model, centre="start", covariance=0.01 * np.eye(SIZE), initial_point=POINT)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    np.testing.assert_array_equal(other.target.covariance, step.target.covariance)
    for one in (step, other):
        one.setup_chain(np.random.default_rng(64), 60, 60)
    start = {"beta": START}
    np.testing.assert_array_equal(run(step, start, 60)[0], run(other, start, 60)[0])


def test_states_and_files_of_another_centre_are_refused(model, tmp_path):
    step = PenaltyMH(model=model, centre="start", initial_point=POINT)
    wide = PenaltyMH(
        model=model, centre="start", covariance=2.0 * np.eye(SIZE), initial_point=POINT
    )
    with pytest.raises(SettingError, match="differs in the centre"):
        step.sampling_state = wide.sampling_state
    step.save(tmp_path / "step.npz")
    again = PenaltyMH(
        model=model, centre="start", initial_point=POINT, prepared=tmp_path / "step.npz"
    )
    again.sampling_state = step.sampling_state
    with pytest.raises(mb.StaleDataError, match="differs in the centre"):
        PenaltyMH(
            model=model, centre="start", covariance=2.0 * np.eye(SIZE), initial_point=POINT,
            prepared=tmp_path / "step.npz",
        )  # fmt: skip


def test_a_state_of_another_limit_is_refused(model):
    step, other = (
        TunaMH(model=model, centre="start", initial_point=POINT, full_pass_above=limit)
        for limit in ("auto", math.inf)
    )
    with pytest.raises(SettingError, match="differs in full_pass_above"):
        step.sampling_state = other.sampling_state


@pytest.mark.parametrize(("limit", "share"), [(0.0, 1.0), ("auto", 1.0), (math.inf, 0.0)])
def test_rows_are_drawn_up_to_the_limit_that_was_set(model, limit, share):
    step = TunaMH(
        model=model, centre="start", initial_point=POINT, chi=1.0, full_pass_above=limit,
        proposal=RandomWalk(0.02, "identity", adapt=False),
    )  # fmt: skip
    trace = sample(model, step, 40, 0, initvals=POINT, random_seed=65)
    assert trace["sample_stats"]["full_pass"].mean() == share
    rows = trace["sample_stats"]["n_obs"].values
    assert (rows == ROWS).all() == bool(share)
