import numpy as np
import pymc as pm
import pytest
from pytensor.compile.ops import wrap_py
from pytensor.tensor.type import dscalar

from pymc_minibatch_mh import Rows
from pymc_minibatch_mh.diagnostics import forecast
from pymc_minibatch_mh.diagnostics.forecast import (
    effective_draws,
    forecast_nuts,
    seconds_per_call,
)


def test_a_coordinate_that_never_moved_has_no_effective_draws():
    draws = np.random.default_rng(0).standard_normal((4, 125, 2))
    draws[:, :, 1] = 1.0
    free, stuck = effective_draws(draws)
    assert free > 300
    assert stuck == 0.0


def test_chains_that_disagree_have_few_effective_draws():
    draws = np.random.default_rng(0).standard_normal((4, 125, 1))
    assert effective_draws(draws + np.arange(4.0)[:, None, None])[0] < 20


def test_a_model_without_a_gradient_has_no_forecast_of_nuts():
    opaque = wrap_py(itypes=[dscalar], otypes=[dscalar])(lambda x: np.asarray(-(x**2)))
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("opaque", opaque(x))
    with pm.Model() as discrete:
        pm.Poisson("k", 3.0)
    rows = Rows(y=np.ones(2_000))
    with pm.Model() as stored:
        pm.Normal("y", pm.Flat("mu"), observed=rows.data("y"))
    for one in (model, discrete, stored):
        assert forecast_nuts(one, one.initial_point(), None) is None
        assert forecast_nuts(one, one.initial_point(), None, timed=False) is None


@pytest.mark.usefixtures("no_compilation")
def test_gradients_of_nuts_are_counted_without_compiling_anything():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    covariance, start = np.array([[1.0, 0.8], [0.8, 1.0]]), {}
    found = forecast_nuts(model, start, covariance, timed=False)
    assert found.condition_number == pytest.approx(9.0)
    assert found.gradients_per_effective_draw == pytest.approx(15.0)
    unknown = forecast_nuts(model, start, None, timed=False)
    assert unknown.gradients_per_effective_draw == pytest.approx(5.0)
    effects = forecast_nuts(model, start, "effects", timed=False)
    assert effects.gradients_per_effective_draw == pytest.approx(119.0)
    said = "119.0 per effective draw, the fewest measured for a hierarchy"
    assert ("gradients", said) in effects.lines()


def test_a_gradient_is_compiled_and_timed():
    with pm.Model() as model:
        pm.Normal("x")
    found = forecast_nuts(model, model.initial_point(), np.eye(1))
    assert found.gradients_per_effective_draw == pytest.approx(5.0)
    seconds = found.gradient_microseconds / 1e6
    assert 0.0 < seconds < found.compile_seconds
    assert found.ess_per_second == pytest.approx(1.0 / (5.0 * (seconds + 25e-6)))


def test_the_time_of_a_gradient_is_not_that_of_its_compilation(monkeypatch):
    # A clock that only the function moves: a minute in its first call, then 3 ms or more.
    clock = {"now": 0.0, "calls": 0}

    def function(_):
        clock["now"] += 0.003 + 0.001 * (clock["calls"] % 3) if clock["calls"] else 60.0
        clock["calls"] += 1

    monkeypatch.setattr(forecast.time, "perf_counter", lambda: clock["now"])
    first, usual = seconds_per_call(function, np.zeros(1))
    assert first == pytest.approx(60.0)
    assert usual == pytest.approx(0.003)
    assert clock["calls"] > forecast.MIN_TIMED
