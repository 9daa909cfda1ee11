import numpy as np
import pymc as pm
import pytest
from pytensor.compile.ops import wrap_py
from pytensor.tensor.type import dscalar

from pymc_minibatch_mh.diagnostics.gradient import condition_number, nuts_forecast
from pymc_minibatch_mh.diagnostics.pilot import effective_draws, error_of_mean


def autoregression(phi, length, seed):
    rng = np.random.default_rng(seed)
    values = np.zeros(length)
    for k in range(1, length):
        values[k] = phi * values[k - 1] + rng.standard_normal()
    return values


def test_a_coordinate_that_never_moved_has_no_effective_draws():
    draws = np.column_stack([np.random.default_rng(0).standard_normal(500), np.ones(500)])
    free, stuck = effective_draws(draws)
    assert free > 300
    assert stuck == 0.0


def test_dependent_values_have_a_larger_error():
    # The variance of a mean of n values is that of the innovations over n (1 - φ)².
    n = 20_000
    for phi in (0.0, 0.9):
        expected = 1.0 / ((1.0 - phi) * np.sqrt(n))
        found = [error_of_mean(autoregression(phi, n, seed)) for seed in range(8)]
        # Twenty batches tell the error to a sixth, and the mean of eight to a seventeenth.
        assert np.mean(found) == pytest.approx(expected, rel=0.25)


def test_the_condition_number_knows_no_scales():
    correlation = np.array([[1.0, 0.8], [0.8, 1.0]])
    scales = np.array([1e-3, 50.0])
    covariance = correlation * scales * scales[:, None]
    assert condition_number(covariance) == pytest.approx(1.8 / 0.2)


def test_a_model_without_a_gradient_has_no_forecast_of_nuts():
    opaque = wrap_py(itypes=[dscalar], otypes=[dscalar])(lambda x: np.asarray(-(x**2)))
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Potential("opaque", opaque(x))
    assert nuts_forecast(model, model.initial_point(), None) is None
