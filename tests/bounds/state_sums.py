"""Models whose rows sum over many states: counts by their series, numbers of animals, claims."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit


def conway_maxwell(rows=400, top=11):
    """Counts with a normaliser that is a sum of few terms, and a constant of each."""
    rng = np.random.default_rng(1)
    x, k = rng.normal(size=rows), np.arange(top + 1.0)

    def logp(value, eta, nu):
        total = pt.logsumexp(k * eta[:, None] - nu * pt.gammaln(k + 1.0), axis=1)
        return value * eta - nu * pt.gammaln(value + 1.0) - total

    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        nu = pm.HalfNormal("nu", 2.0)
        observed = np.minimum(rng.poisson(np.exp(0.9 + 0.3 * x)), top)
        pm.CustomDist("y", a + b * x, nu, logp=logp, observed=observed)
    return model


def animals(rows=400, most=9, visits=2):
    """Numbers of animals at sites, of which visits count some: states may be impossible."""
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=rows), rng.normal(size=(rows, visits))
    number = np.arange(most + 1.0)
    there = np.minimum(rng.poisson(np.exp(1.0 + 0.3 * x)), most)

    def logp(value, eta, chance):
        weights = number * eta[:, None] - pt.gammaln(number + 1.0)
        seen = pm.logp(
            pm.Binomial.dist(number[None, :, None], logit_p=chance[:, None, :]), value[:, None, :]
        ).sum(axis=-1)
        return pt.logsumexp(weights + seen, axis=1) - pt.logsumexp(weights, axis=1)

    with pm.Model() as model:
        a, b = pm.Normal("a", shape=2), pm.Normal("b", shape=2)
        pm.CustomDist(
            "y", a[0] + a[1] * x, b[0] + b[1] * w, logp=logp, signature="(),(v)->(v)",
            observed=rng.binomial(there[:, None], expit(-0.2 + 0.5 * w)),
        )  # fmt: skip
    return model


def claims(rows=400, terms=9):
    """Sums of gamma distributed claims, most of them none, by a series with functions of k."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=rows)
    number = rng.poisson(np.exp(0.3 * x))
    y = np.where(number > 0, rng.gamma(np.maximum(1.5 * number, 1e-9), 0.7), 0.0)

    def logp(value, eta, shape):
        k, some = np.arange(1.0, terms + 1.0), pt.switch(pt.gt(value, 0.0), value, 1.0)
        each = k * eta[:, None] - pt.gammaln(k + 1.0) - pt.gammaln(k * shape)
        each = each + (k * shape - 1.0) * pt.log(some)[:, None]
        return pt.switch(pt.gt(value, 0.0), pt.logsumexp(each, axis=1) - some, 0.0) - pt.exp(eta)

    with pm.Model() as model:
        a, b, shape = pm.Normal("a"), pm.Normal("b"), pm.HalfNormal("shape", 2.0)
        pm.CustomDist("y", a + b * x, shape, logp=logp, observed=y)
    return model


def sites(rows=400, visits=4):
    """Sites that are visited, where absent animals are never seen: two states, many predictors."""
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=rows), rng.normal(size=(rows, visits))
    present = rng.random(rows) < expit(0.3 + 0.8 * x)
    seen = (rng.random((rows, visits)) < expit(-0.5 + 0.6 * w)) & present[:, None]

    def logp(value, eta, chance):
        there = (value * chance - pt.softplus(chance)).sum(axis=1) - pt.softplus(-eta)
        both = pt.logaddexp(there, -pt.softplus(eta))
        return pt.switch(pt.gt(value.sum(axis=1), 0), there, both)

    with pm.Model() as model:
        a, b = pm.Normal("a", shape=2), pm.Normal("b", shape=2)
        pm.CustomDist(
            "y", a[0] + a[1] * x, b[0] + b[1] * w, logp=logp, signature="(),(v)->(v)",
            observed=seen.astype(int),
        )  # fmt: skip
    return model


STATE_SUMS = {
    "sites": sites,
    "conway_maxwell": conway_maxwell,
    "animals": animals,
    "claims": claims,
}
