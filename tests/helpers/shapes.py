"""Models with shape parameters, in their own variables and in reciprocals: each is built once."""

from functools import cache

import numpy as np
import pymc as pm

from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape, shape_variables

_MORE = ("1/more", "1/√more")
#: Shapes with a shift or an interval: the shape at κ, and the words of κ and of its root.
PLACED = {
    "shift": (lambda: 2.5 + pm.HalfCauchy("more", 2.5), lambda k: 2.5 + 1.0 / k, _MORE),
    "shift by one": (lambda: 1 + pm.Exponential("more", 0.1), lambda k: 1.0 + 1.0 / k, _MORE),
    "above": (
        lambda: pm.TruncatedNormal("more", 0.0, 9.0, lower=2.0),
        lambda k: 2.0 + 1.0 / k,
        ("1/(more - lower)", "1/√(more - lower)"),
    ),
    "interval": (
        lambda: pm.Uniform("more", 2.0, 60.0),
        lambda k: (60.0 + 2.0 * k) / (1.0 + k),
        ("(upper - more)/(more - lower)", "√((upper - more)/(more - lower))"),
    ),
}


@cache
def negative_binomial(rows=60, shape=None, seed=1, prior=None):
    """Return counts, Poisson unless a shape is given, and their model."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    mu = np.exp(1.0 + 0.3 * x)
    y = rng.poisson(mu if shape is None else mu * rng.gamma(shape, 1.0 / shape, rows))
    with pm.Model() as model:
        alpha = prior() if prior else pm.HalfCauchy("alpha", 2.5)
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        pm.NegativeBinomial("y", mu=pm.math.exp(b[0] + b[1] * x), alpha=alpha, observed=y)
    return model


@cache
def student(rows=60, nu=None, seed=2, prior=None, by="sigma"):
    """Return normal noise, or with a number of degrees of freedom, and its model."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    noise = rng.standard_normal(rows) if nu is None else rng.standard_t(nu, rows)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        sigma = pm.HalfNormal("sigma", 1.0)
        free = prior() if prior else pm.Gamma("nu", 2.0, 0.1)
        scale = {by: sigma if by == "sigma" else sigma**-2}
        pm.StudentT("y", nu=free, mu=b[0] + b[1] * x, **scale, observed=1.0 + 0.3 * x + noise)
    return model


@cache
def shapes_of_groups(rows=60, groups=3, seed=3):
    """Return a negative binomial with a shape for each group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, rows)
    with pm.Model() as model:
        mu = pm.HalfNormal("mu", 5.0)
        alpha = pm.Exponential("alpha", 0.1, shape=groups)
        y = rng.poisson(3.0, rows)
        pm.NegativeBinomial("y", mu=mu, alpha=alpha[group], observed=y)
    return model


@cache
def gamma(rows=60, seed=4):
    """Return a gamma regression, whose shape is far from infinity where it is large."""
    rng = np.random.default_rng(seed)
    with pm.Model() as model:
        shape, mu = pm.HalfNormal("shape", 10.0), pm.HalfNormal("mu", 1.0)
        pm.Gamma("y", alpha=shape, beta=shape / mu, observed=rng.gamma(5.0, 0.2, rows))
    return model


@cache
def own(model):
    """Return a split model in its own variables."""
    return factorize(model, model.value_vars, min_rows=1)


@cache
def reciprocal(model, power=1):
    """Return a split model with the reciprocal of its first shape among its coordinates."""
    found = in_inverse_shape(own(model), shape_variables(own(model))[0], power)
    assert found is not None
    return found
