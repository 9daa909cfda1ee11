"""Free variables: where they can lie, and that PyMC's own transform leads back to them."""

import numpy as np
import pymc as pm
import pymc.distributions.transforms as tr
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.initial_point import make_initial_point_fn

from pymc_minibatch_mh.model.constant_data import IN_PYTHON
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.model.layout import support_bounds


def support_of(build, **settings):
    with pm.Model() as model:
        variable = build("x", **settings)
    return tuple(end.tolist() for end in support_bounds(model, model.rvs_to_values[variable]))


BOUNDED = {
    "uniform": (lambda *a, **k: pm.Uniform(*a, -3.0, 2.0, **k), (-3.0, 2.0)),
    "uniform vector": (
        lambda *a, **k: pm.Uniform(*a, [-1.0, 0.0], 2.0, shape=2, **k),
        ([-1.0, 0.0], [2.0]),
    ),
    "computed ends": (
        lambda *a, **k: pm.Uniform(*a, -pt.sqrt(4.0), pt.exp(0.0) + 1, **k),
        (-2.0, 2.0),
    ),
    "half-normal": (lambda *a, **k: pm.HalfNormal(*a, 1.0, **k), (0.0, np.inf)),
    "gamma": (lambda *a, **k: pm.Gamma(*a, 2.0, 1.0, **k), (0.0, np.inf)),
    "beta": (lambda *a, **k: pm.Beta(*a, 2.0, 2.0, **k), (0.0, 1.0)),
    "truncated normal": (
        lambda *a, **k: pm.TruncatedNormal(*a, 0.0, 1.0, lower=-1.0, upper=4.0, **k),
        (-1.0, 4.0),
    ),
    "truncated normal on one side": (
        lambda *a, **k: pm.TruncatedNormal(*a, 0.0, 1.0, lower=-1.0, **k),
        (-1.0, np.inf),
    ),
    "truncated": (
        lambda *a, **k: pm.Truncated(*a, pm.Normal.dist(0.0, 1.0), lower=-1.0, upper=2.0, **k),
        (-1.0, 2.0),
    ),
    "triangular": (lambda *a, **k: pm.Triangular(*a, lower=1.0, c=2.0, upper=3.0, **k), (1.0, 3.0)),
}


@pytest.mark.usefixtures("no_compilation")
@pytest.mark.parametrize("name", BOUNDED)
def test_an_untransformed_variable_keeps_its_support(name):
    build, expected = BOUNDED[name]
    assert support_of(build, default_transform=None) == expected


def test_an_end_that_is_random_or_may_be_set_anew_is_unknown():
    with pm.Model() as model:
        top = pm.HalfNormal("top")
        bottom = pm.Data("bottom", -1.0)
        one = pm.Uniform("one", -1.0, top, default_transform=None)
        other = pm.Uniform("other", bottom, 5.0, default_transform=None)
    assert support_bounds(model, model.rvs_to_values[one]) == (-1.0, np.inf)
    assert support_bounds(model, model.rvs_to_values[other]) == (-np.inf, 5.0)


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
@pytest.mark.parametrize("name", DECLARED)
def test_pymc_starts_where_it_is_told_to(name):
    np.testing.assert_allclose(*way_back(DECLARED[name]), rtol=1e-12, atol=1e-14)
