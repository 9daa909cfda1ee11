"""Free variables that a trace lacks are solved for, or named; axes may have another order."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr

from models.adversary.subject import STABLE
from pymc_minibatch_mh.diagnostics.draws import posterior_draws
from pymc_minibatch_mh.errors import SettingError

GROUPS = 4


def hierarchy(effect):
    """Return a model with the effect of groups ``alpha`` that a function writes."""
    with pm.Model(coords={"group": range(GROUPS), "slope": range(GROUPS)}) as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        z = pm.Normal("z", dims="group")
        pm.Deterministic("alpha", effect(mu, tau, z), dims="group")
    return model


def trace_without(model, *names):
    with model:
        drawn = pm.sample_prior_predictive(8, random_seed=1, compile_kwargs={"mode": STABLE})
    drawn = drawn["prior"].to_dataset()
    return drawn, xr.DataTree.from_dict({"posterior": drawn.drop_vars(names)})


#: Deterministics that tell z, whatever the other operations on the way.
TELLING = {
    "a scale": lambda mu, tau, z: tau * z,
    "a location": lambda mu, tau, z: mu + z,
    "both": lambda mu, tau, z: mu + tau * z,
    "a quotient": lambda mu, tau, z: (mu - z) / pt.sqrt(tau),
    "constants": lambda mu, tau, z: 3.0 - np.arange(1.0, GROUPS + 1.0) * z,
}
#: Those that do not, entry by entry.
SILENT = {
    "nearly a line": lambda mu, tau, z: 1e3 + z + 1e-4 * tau * z**2,
    "a curve": lambda mu, tau, z: tau * pt.exp(z),
    "sums": lambda mu, tau, z: tau * z.cumsum(),
    "other entries": lambda mu, tau, z: tau * z[::-1],
    "zeros": lambda mu, tau, z: mu + z * np.array([0.0, 1.0, 1.0, 1.0]),
    "another variable": lambda mu, tau, z: mu + tau * np.ones(GROUPS),
}


@pytest.mark.parametrize("case", TELLING)
def test_a_variable_is_solved_for(case):
    model = hierarchy(TELLING[case])
    drawn, trace = trace_without(model, "z")
    np.testing.assert_allclose(posterior_draws(trace, model)["z"], drawn["z"], rtol=1e-9)


def test_one_that_is_found_helps_to_find_another():
    with pm.Model() as model:
        w = pm.Normal("w")
        scale = pm.Deterministic("scale", 2.0 * w)
        pm.Deterministic("alpha", scale * pm.Normal("z", shape=GROUPS))
    drawn, trace = trace_without(model, "w", "z")
    np.testing.assert_allclose(posterior_draws(trace, model)["z"], drawn["z"], rtol=1e-9)


@pytest.mark.parametrize("case", SILENT)
def test_a_variable_that_no_deterministic_tells_is_named(case):
    model = hierarchy(SILENT[case])
    _, trace = trace_without(model, "z")
    with pytest.raises(SettingError, match="'z' is a free variable of the model, but not in the"):
        posterior_draws(trace, model)
