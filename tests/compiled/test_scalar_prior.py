"""The prior part as an expression of scalars is the prior part."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.sparse import csr_matrix

from compiled.fitted import rows_of
from helpers.models import FAMILIES
from helpers.tiers import fast
from pymc_minibatch_mh.compiled import prior as compiled_prior
from pymc_minibatch_mh.compiled.prior import GraphPrior, ScalarPrior
from pymc_minibatch_mh.expressions.graph import LoweringError
from pymc_minibatch_mh.model.factorization import factorize

NOTHING = np.empty(0)


def assert_same(parts, position):
    found, expected = ScalarPrior(parts), GraphPrior(parts)
    for hessian in (False, True):
        ours = found.derivatives(position, NOTHING, hessian=hessian)
        theirs = expected.derivatives(position, NOTHING, hessian=hessian)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    context = np.zeros(1, dtype=np.int64)
    assert found.compiled()(position, context) == pytest.approx(theirs[0], rel=1e-12)


@pytest.mark.parametrize("name", fast(FAMILIES))
def test_prior_parts_of_families(name):
    found = rows_of(name)
    assert_same(found.parts, found.position)


def parts_with(prior):
    """Return a split model whose prior part is that of `prior(z)`, z of three numbers."""
    x = np.random.default_rng(3).normal(size=100)
    with pm.Model() as model:
        z = pm.Normal("z", 0.0, 2.0, shape=3)
        prior(z)
        pm.Normal("y", z[0] + z[1] * x, 1.0, observed=x)
    return factorize(model, model.value_vars, min_rows=1)


PRIORS = {
    "scales": lambda z: [pm.HalfNormal("s", 2.0), pm.HalfCauchy("c", 1.0), pm.Gamma("g", 2, 3)],
    "bounded": lambda z: [pm.Beta("b", 2.0, 3.0), pm.Uniform("u", -1.0, 4.0)],
    "hierarchy": lambda z: pm.Normal("a", z[0], pt.exp(z[1]), shape=5),
    "student": lambda z: pm.StudentT("t", nu=4, mu=z[0], sigma=2.0, shape=2),
    "correlated": lambda z: pm.MvNormal("m", [0.0, 1.0], cov=[[2.0, 0.5], [0.5, 1.0]]),
    "potential": lambda z: pm.Potential("q", -pt.log1p(pt.exp(z[2])) - pt.sqr(z @ z)),
    "simplex": lambda z: pm.Dirichlet("p", [2.0, 0.5, 1.0, 4.0]),
    "mixture": lambda z: pm.NormalMixture("k", [0.3, 0.7], [-1.0, 2.0], [1.0, 0.5]),
    "effects": lambda z: pm.Normal("a", z[0], pt.exp(z[1]), shape=50),
    "zero sum": lambda z: pm.ZeroSumNormal("a", pt.exp(z[1]), shape=20),
    "walk": lambda z: pm.GaussianRandomWalk("r", 0.5, init_dist=pm.Normal.dist(), steps=4),
}


@pytest.mark.parametrize("name", list(PRIORS))
def test_small_priors(name):
    parts = parts_with(PRIORS[name])
    assert_same(parts, 0.3 * np.random.default_rng(4).standard_normal(parts.size))


AREAS = np.roll(np.eye(6), 1, axis=1) + np.roll(np.eye(6), -1, axis=1)
PRECISION = 2.0 * (np.diag(AREAS.sum(axis=1)) - 0.9 * AREAS)


@pytest.mark.parametrize("areas", [AREAS, csr_matrix(AREAS)])
def test_effects_of_neighbours_have_the_density_of_their_precision(areas):
    with pm.Model() as model:
        effect = pm.CAR("effect", np.zeros(6), areas, alpha=0.9, tau=2.0)
        pm.Normal("y", effect[np.arange(60) % 6], 1.0, observed=np.zeros(60))
    prior = GraphPrior(factorize(model, model.value_vars, min_rows=1))
    position = np.random.default_rng(6).standard_normal(6)
    _, gradient, hessian = prior.derivatives(position, NOTHING, hessian=True)
    np.testing.assert_allclose(gradient, -PRECISION @ position, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(hessian, -PRECISION, rtol=1e-6, atol=1e-6)
    assert prior.derivatives(position, NOTHING, hessian=False)[1] == pytest.approx(gradient)


@pytest.mark.parametrize("name", ["hierarchy", "student", "correlated"])
def test_curvature_of_many_numbers_is_that_of_the_graph(name, monkeypatch):
    parts = parts_with(PRIORS[name])
    position = 0.3 * np.random.default_rng(4).standard_normal(parts.size)
    expected = GraphPrior(parts).derivatives(position, NOTHING, hessian=True)
    monkeypatch.setattr(compiled_prior, "MAX_COORDINATES", 0)
    for a, b in zip(
        GraphPrior(parts).derivatives(position, NOTHING, hessian=True), expected, strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(
    ("prior", "why"),
    [
        (lambda z: pm.Normal("a", 0.0, 1.0, shape=1_001), "not small"),
        (lambda z: pm.Normal("a", 0.0, 1.0, shape=700), "very many"),
        (lambda z: pm.ZeroSumNormal("a", shape=100), "very many"),
        (lambda z: pm.Potential("q", pt.linalg.det(pt.outer(z, z) + np.eye(3))), "Det"),
        (lambda z: pm.TruncatedNormal("w", z[0], 1.0, lower=0.0), "log_erfc"),
    ],
)
def test_the_rest_is_left_to_a_graph(prior, why):
    with pytest.raises(LoweringError, match=why):
        ScalarPrior(parts_with(prior))
