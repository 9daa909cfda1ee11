"""Families of vectors, too slow for long references, around which bounds are put to the test."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

SPREAD = np.array([[1.0, 0.0], [0.6, 0.8]])


def data(rows, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    noise = rng.normal(size=(rows, 2)) @ SPREAD.T
    return rng, x, np.stack([0.5 * x, -0.3 * x], axis=1) + noise


def factor(name="L"):
    spread = pm.Exponential.dist(1.0, shape=2)
    return pm.LKJCholeskyCov(name, n=2, eta=2.0, sd_dist=spread, compute_corr=True)[0]


def correlated(rows):
    _, x, y = data(rows, 141)
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.MvNormal("y", b * x[:, None], chol=factor(), observed=y)
    return model


def heavy_tailed(rows):
    rng, x, y = data(rows, 142)
    y /= np.sqrt(rng.gamma(2.0, 0.5, rows))[:, None]
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.MvStudentT("y", nu=4.0, mu=b * x[:, None], chol=factor(), observed=y)
    return model


def one_factor(rows):
    rng, _, _ = data(rows, 143)
    shared, own = rng.normal(size=(rows, 1)), rng.normal(size=(rows, 2))
    y = shared * np.array([0.9, 0.7]) + own * np.array([0.6, 0.8])
    with pm.Model() as model:
        w = pm.Normal("w", shape=(2, 1))
        cov = w @ w.T + pt.diag(pm.HalfNormal("own", shape=2))
        pm.MvNormal("y", pm.Normal("m", shape=2), cov=cov, observed=y)
    return model


def slopes_of_groups(rows, groups=8):
    rng = np.random.default_rng(144)
    x, g = rng.normal(size=rows), rng.integers(0, groups, rows)
    effects = rng.normal(size=(groups, 2)) @ SPREAD.T
    y = effects[g, 0] + effects[g, 1] * x + rng.normal(size=rows)
    with pm.Model() as model:
        effect = (factor("known") @ pm.Normal("z", shape=(2, groups))).T
        pm.Normal("y", effect[g, 0] + effect[g, 1] * x, 1.0, observed=y)
    return model


VECTORS = {f.__name__: f for f in (correlated, heavy_tailed, one_factor, slopes_of_groups)}
