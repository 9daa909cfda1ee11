"""The log-likelihood of chosen rows is PyMC's own, at every draw."""

import numpy as np
import pymc as pm
import pytest

from diagnostics.after.traces import regression, regression_trace, trace_of
from helpers.models import FAMILIES
from pymc_minibatch_mh import log_likelihood

CHOSEN = [1_999, 3, 3, 700]


@pytest.fixture(scope="module")
def model():
    return regression()


def of_pymc(trace, model, name):
    return pm.compute_log_likelihood(
        trace, var_names=[name], model=model, extend_inferencedata=False, progressbar=False
    )[name].to_numpy()


def test_chosen_rows_have_pymcs_log_likelihood(model):
    trace = regression_trace(draws=20)
    own = log_likelihood(trace, CHOSEN, model=model)["log_likelihood"]["y"]
    assert own.dims == ("chain", "draw", "y_dim_0")
    assert own.name == "y"
    np.testing.assert_array_equal(own["y_dim_0"], CHOSEN)
    whole = of_pymc(trace, model, "y")
    np.testing.assert_allclose(own, whole[..., CHOSEN], rtol=1e-12)
    # Neighbouring rows and draws are told apart by this tolerance.
    assert not np.allclose(own, whole[..., np.array(CHOSEN) - 1], rtol=1e-3)
    assert not np.allclose(own, np.roll(whole, 1, axis=1)[..., CHOSEN], rtol=1e-3)


@pytest.mark.parametrize(
    "name", ["noncentred", pytest.param("zero_inflated_poisson", marks=pytest.mark.slow)]
)
def test_families_have_pymcs_log_likelihood(model_of, name):
    model = model_of(name)
    assert name in FAMILIES
    with model:
        free = [rv.name for rv in model.free_RVs]
        prior = pm.sample_prior_predictive(5, var_names=free, random_seed=3)["prior"]
    trace = trace_of({rv: prior[rv].to_numpy() for rv in free})
    own = log_likelihood(trace, CHOSEN[1:], model=model)["log_likelihood"]["y"]
    np.testing.assert_allclose(own, of_pymc(trace, model, "y")[..., CHOSEN[1:]], rtol=1e-10)


def test_rows_carry_the_models_coordinates():
    labels = [f"row {k}" for k in range(30)]
    with pm.Model(coords={"flight": labels}) as model:
        pm.Normal("y", pm.Normal("mu"), observed=np.arange(30.0), dims="flight")
    trace = trace_of({"mu": np.zeros((1, 2))})
    own = log_likelihood(trace, [7, 2], model=model)["log_likelihood"]["y"]
    assert own["flight"].to_numpy().tolist() == ["row 7", "row 2"]
