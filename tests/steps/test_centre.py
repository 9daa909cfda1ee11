"""Steps around a centre that nobody sought, and chains that find no other."""

import math
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_minibatch_mh as mb
from helpers.zoo import METHODS, drawn, sample
from pymc_minibatch_mh import PenaltyMH, RandomWalk, TunaMH
from pymc_minibatch_mh.reference import target

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

    for name in ("find_mode", "find_centre", "mode_near_mean"):
        monkeypatch.setattr(target, name, refuse)


def test_the_model_has_no_mode(model):
    with pytest.raises(mb.errors.ModeError, match="beta"):
        TunaMH(model=model)


@pytest.mark.parametrize("method", [TunaMH, PenaltyMH])
def test_no_mode_is_sought(model, method, no_search):
    step = method(model=model, centre="start", initial_point=POINT, proposal=WALK)
    trace = drawn(model, step, 120, 120, initvals=POINT, random_seed=62)
    np.testing.assert_array_equal(step.reference.centre, START)
    np.testing.assert_array_equal(step.reference.factor, np.eye(SIZE))
    assert step.reference.order == 0
    assert 0.05 < trace["sample_stats"]["accepted_share"].mean() < 1.0
    assert (trace["sample_stats"]["scaling"] == 0.05).all()


def test_files_of_another_centre_are_refused(model, tmp_path):
    step = PenaltyMH(model=model, centre="start", initial_point=POINT)
    step.save(tmp_path / "step.npz")
    again = PenaltyMH(
        model=model, centre="start", initial_point=POINT, prepared=tmp_path / "step.npz"
    )
    again.sampling_state = step.sampling_state
    with pytest.raises(mb.errors.StaleDataError, match="differs in the centre"):
        PenaltyMH(
            model=model, centre="start", covariance=2.0 * np.eye(SIZE), initial_point=POINT,
            prepared=tmp_path / "step.npz",
        )  # fmt: skip


@pytest.mark.parametrize(("limit", "share"), [(0.0, 1.0), ("auto", 1.0), (math.inf, 0.0)])
def test_rows_are_drawn_up_to_the_limit_that_was_set(model, limit, share):
    step = TunaMH(
        model=model, centre="start", initial_point=POINT, chi=1.0, full_pass_above=limit,
        proposal=RandomWalk(0.02, "identity", adapt=False),
    )  # fmt: skip
    trace = drawn(model, step, 40, 0, initvals=POINT, random_seed=65)
    # A short step of the walk may need fewer rows than the limit that is found.
    full, rows = (trace["sample_stats"][name].values for name in ("full_pass", "n_obs"))
    assert full.mean() >= 0.9 if limit == "auto" else full.mean() == share
    np.testing.assert_array_equal(full.astype(bool), rows == ROWS)


@cache
def plateau():
    """A posterior with a peak at x = 0, and beside it a plain on which it has no scale."""
    data = np.random.default_rng(0).normal(0.3, 1.0, 2_000)
    with pm.Model() as model:
        x, level = pm.Flat("x"), pm.Normal("level")
        plain = pt.switch((x > 5.0) & (x < 50.0), 1e-3, 0.0)
        pm.Potential("shape", pt.log(pt.exp(-50.0 * x**2) + plain))
        pm.Normal("y", level, 1.0, observed=data)
    return model


@pytest.mark.parametrize("method", ["TunaMH", "PenaltyMH"])
def test_a_run_goes_on_with_the_old_centre_and_says_why(method, caplog):
    model = plateau()
    step = METHODS[method](model=model)
    centre = step.reference.centre.copy()
    settings = {"initvals": {"x": 20.0}, "quiet": False, "compute_convergence_checks": True}
    trace = sample(model, step, 100, 200, chains=1, random_seed=1, progressbar=False, **settings)
    assert (trace.posterior["x"] > 5.0).all()
    np.testing.assert_array_equal(step.reference.centre, centre)
    told = [record.message for record in caplog.records if "The old one stays" in record.message]
    assert len(told) == 1
    assert told[0].startswith(f"{type(step).__name__}: warm-up ended far from the centre")
    assert "'x': data and priors do not determine it" in told[0]
