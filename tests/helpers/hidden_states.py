"""Observations of several rows with one hidden state, summed over as pymc_extras sums over it."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from scipy.special import expit


def summed_over(state, rows, n_states):
    """Log-density that sums over a state: distributions of the state and of its rows."""

    def logp(value, *parameters):
        size = value.shape[0]
        hidden = state(size, *parameters)
        known = hidden.type("known")
        joint = pm.logp(hidden, known) + pm.logp(rows(known, *parameters), value).sum(axis=-1)
        every = pt.moveaxis(pt.full((size, n_states), pt.arange(n_states)), -1, 0)
        return pt.logsumexp(vectorize_graph(joint, {known: every}), axis=0)

    return logp


def occupancy(rng, sites=2_000, visits=5):
    """Presence at sites that are visited; absent animals are never seen."""
    x, w = rng.normal(size=sites), rng.normal(size=(sites, visits))
    present = rng.random(sites) < expit(0.3 + 0.8 * x)
    seen = (rng.random((sites, visits)) < expit(-0.5 + 0.6 * w)) & present[:, None]
    logp = summed_over(
        lambda size, eta, chance: pm.Bernoulli.dist(logit_p=eta, size=size),
        lambda z, eta, chance: pm.Bernoulli.dist(z[:, None] * pm.math.sigmoid(chance)),
        2,
    )
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2, shape=2), pm.Normal("b", 0, 2, shape=2)
        pm.CustomDist(
            "y", a[0] + a[1] * x, b[0] + b[1] * w, logp=logp, signature="(),(v)->(v)",
            observed=seen.astype(int),
        )  # fmt: skip
    return model


def classes(rng, persons=2_000, rows=10):
    """Persons of two classes with several values each."""
    x, first = rng.normal(size=(persons, rows)), rng.random(persons) < 0.4
    values = np.where(first, 1.5, -1.0)[:, None] + 0.5 * x + 0.8 * rng.normal(size=x.shape)
    logp = summed_over(
        lambda size, mean, p, low, high, sd: pm.Bernoulli.dist(p, size=size),
        lambda z, mean, p, low, high, sd: pm.Normal.dist(
            pt.stack([low, high])[z][:, None] + mean, sd
        ),
        2,
    )
    with pm.Model() as model:
        p, b, s = pm.Beta("p", 2, 2), pm.Normal("b"), pm.HalfNormal("s", 1)
        mu = pm.Normal("mu", [-1.0, 1.0], 1.0, shape=2)
        pm.CustomDist(
            "y", b * x, p, mu[0], mu[1], s, logp=logp, signature="(v),(),(),(),()->(v)",
            observed=values,
        )  # fmt: skip
    return model


def counts(rng, sites=2_000, visits=3, most=40):
    """Numbers of animals at sites, each of which a visit may count (an N-mixture)."""
    x, w = rng.normal(size=sites), rng.normal(size=(sites, visits))
    animals = np.minimum(rng.poisson(np.exp(1.4 + 0.3 * x)), most)
    seen = rng.binomial(animals[:, None], expit(-0.2 + 0.5 * w))
    number = np.arange(most + 1.0)

    def state(size, eta, chance):
        weights = number * eta[:, None] - pt.gammaln(number + 1.0)
        return pm.Categorical.dist(logit_p=weights, size=size)

    def rows(z, eta, chance):
        return pm.Binomial.dist(z[:, None], pm.math.sigmoid(chance))

    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 2, shape=2), pm.Normal("b", 0, 2, shape=2)
        pm.CustomDist(
            "y", a[0] + a[1] * x, b[0] + b[1] * w, logp=summed_over(state, rows, most + 1),
            signature="(),(v)->(v)", observed=seen,
        )  # fmt: skip
    return model


STATES = {"occupancy": occupancy, "classes": classes, "counts": counts}
