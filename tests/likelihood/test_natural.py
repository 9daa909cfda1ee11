"""Free variables are given as PyMC takes them: its own transform leads back to the position."""

import numpy as np
import pymc as pm
import pymc.distributions.transforms as tr
import pytensor
import pytest
from pymc.initial_point import make_initial_point_fn

from every import every
from pymc_minibatch_mh.likelihood import factorization as entry
from pymc_minibatch_mh.likelihood.derived import IN_PYTHON
from pymc_minibatch_mh.likelihood.factorization import factorize


def ends_of_others():
    low = pm.Normal("low")
    pm.Uniform("v", low, low + 2.0)


#: One variable for every transform that PyMC chooses by itself, and some that users choose.
DECLARED = {
    "none": lambda: pm.Normal("v", shape=2),
    "log": lambda: pm.HalfNormal("v", shape=2),
    "log odds": lambda: pm.Beta("v", 2.0, 2.0),
    "interval": lambda: pm.Uniform("v", -1.0, 3.0, shape=2),
    "half-open interval": lambda: pm.TruncatedNormal("v", lower=0.0),
    "interval between others": ends_of_others,
    "circular": lambda: pm.VonMises("v", 0.0, 1.0),
    "simplex": lambda: pm.Dirichlet("v", np.ones(3)),
    "ordered": lambda: pm.Normal("v", shape=3, transform=tr.ordered, initval=[-1.0, 0.0, 1.0]),
    "sum to zero": lambda: pm.ZeroSumNormal("v", shape=(3, 4), n_zerosum_axes=2),
    "Cholesky factor": lambda: pm.LKJCholeskyCov("v", eta=2.0, n=3, sd_dist=pm.HalfNormal.dist()),
    "correlations": lambda: pm.LKJCorr("v", eta=2.0, n=3),
    "covariance": lambda: pm.Wishart("v", nu=5, V=np.eye(2)),
    "random walk": lambda: pm.GaussianRandomWalk("v", steps=3, init_dist=pm.Normal.dist()),
}


# PyMC's initial points would be compiled.
@pytensor.config.change_flags(cxx="", mode="FAST_COMPILE")
def way_back(declare):
    """Return a position, and the one that PyMC makes of the free variables there."""
    with pm.Model() as model:
        declare()
        pm.Normal("y", model["v"].sum(), 1.0, observed=np.zeros(3))
    parts = factorize(model, model.value_vars, min_rows=1)
    start = parts.ravel(model.initial_point())
    position = start + np.random.default_rng(8).normal(scale=0.3, size=start.size)
    free = pytensor.function([parts.position], list(parts.natural.values()), mode=IN_PYTHON)
    overrides = dict(zip(parts.natural, free(position), strict=True))
    found = make_initial_point_fn(model=model, overrides=overrides)(0)
    return position, parts.ravel(found)


@pytest.mark.filterwarnings("ignore:The Wishart distribution:UserWarning")
@every("name", DECLARED)
def test_pymc_starts_where_it_is_told_to(name):
    np.testing.assert_allclose(*way_back(DECLARED[name]), rtol=1e-12, atol=1e-14)


def test_value_variables_in_the_place_of_free_ones_are_noticed(monkeypatch):
    monkeypatch.setattr(
        entry, "natural", lambda model, values: {model.values_to_rvs[v].name: v for v in values}
    )
    position, found = way_back(DECLARED["log odds"])
    assert not np.allclose(position, found)
