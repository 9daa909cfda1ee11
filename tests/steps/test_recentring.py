"""A chain whose warm-up ends where no centre can be found."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from zoo import METHODS, sample


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
    told = [record.message for record in caplog.records if "The old one is kept" in record.message]
    assert len(told) == 1
    assert told[0].startswith(f"{type(step).__name__}: warm-up ended far from the centre")
    assert "'x': the log-posterior is flat" in told[0]


def test_the_reason_is_told_once_and_survives_a_saved_state():
    model = plateau()
    step = METHODS["PenaltyMH"](model=model)
    point = model.initial_point() | {"x": np.array(20.0)}
    step.setup_chain(np.random.default_rng(2), tune=200, draws=100)
    for _ in range(200):
        point, _ = step.step(point)
    step.stop_tuning()
    state = step.sampling_state
    warnings = [step.step(point)[1][0]["warning"] for _ in range(5)]
    assert [w is not None for w in warnings] == [True, False, False, False, False]
    assert warnings[0].level == "warn"
    step.sampling_state = state
    assert step.step(point)[1][0]["warning"].message == warnings[0].message
