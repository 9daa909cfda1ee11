"""Hierarchies in many spellings: what rows meet only in products, and other joint priors.

NUTS samples most of them in the other spelling, centred, in which its path is short; so that the
figures owe nothing to the map that is tested. Either spelling has z among its variables.
"""

from dataclasses import dataclass
from functools import partial

import bambi as bmb
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit


def _groups(seed, rows, groups):
    """Return a generator, a group for every row, and a covariate."""
    rng = np.random.default_rng(seed)
    return rng, rng.integers(0, groups, rows), rng.uniform(-1.0, 1.0, rows)


def _effects(name, location, scale, shape, *, centred):
    """Return location + scale × z, where z is called `name`."""
    if not centred:
        return location + scale * pm.Normal(name, shape=shape)
    effects = pm.Normal(f"{name}_scaled", location, scale, shape=shape)
    pm.Deterministic(name, (effects - location) / scale)
    return effects


def heavy_tailed(rows=20_000, groups=12, *, centred=False):
    """Effects with Student-t tails."""
    rng, g, x = _groups(301, rows, groups)
    true = -0.3 + 0.7 * rng.standard_t(4, groups)
    y = (rng.random(rows) < expit(true[g] + 0.5 * x)).astype(int)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        if centred:
            effect = pm.StudentT("effect", nu=4, mu=mu, sigma=tau, shape=groups)
            pm.Deterministic("z", (effect - mu) / tau)
        else:
            z = pm.StudentT("z", nu=4, shape=groups)
            effect = pm.Deterministic("effect", mu + tau * z)
        pm.Bernoulli("y", logit_p=effect[g] + pm.Normal("b") * x, observed=y)
    return model


def correlated(rows=5_000, groups=10, *, centred=False, last=False):
    """Varying intercepts and slopes, with a Cholesky factor."""
    rng, g, x = _groups(302, rows, groups)
    true = rng.multivariate_normal([0.2, -0.4], [[0.5, 0.15], [0.15, 0.3]], groups)
    y = (rng.random(rows) < expit(true[g, 0] + true[g, 1] * x)).astype(int)
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=2)
        scales = pm.Exponential.dist(1.0, shape=2)
        chol, corr, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=scales)
        pm.Deterministic("correlation", corr[0, 1])
        if centred:
            effect = pm.MvNormal("z_scaled", mu, chol=chol, shape=(groups, 2))
            first = (effect[:, 0] - mu[0]) / chol[0, 0]
            second = (effect[:, 1] - mu[1] - chol[1, 0] * first) / chol[1, 1]
            pm.Deterministic("z", pt.stack([first, second], axis=1))
        elif last:
            across = pm.Normal("across", shape=(2, groups))
            pm.Deterministic("z", across.T)
            effect = mu + (chol @ across).T
        else:
            effect = mu + pm.Normal("z", shape=(groups, 2)) @ chol.T
        effect = pm.Deterministic("effect", effect)
        pm.Bernoulli("y", logit_p=effect[g, 0] + effect[g, 1] * x, observed=y)
    return model


def nested(rows=4_000, groups=20, regions=4, *, centred=False):
    """Groups in regions, both non-centred."""
    rng, g, x = _groups(303, rows, groups)
    region = np.arange(groups) % regions
    true = 0.8 * rng.standard_normal(regions)[region] + 0.5 * rng.standard_normal(groups)
    y = true[g] + 0.5 * x + rng.standard_normal(rows)
    with pm.Model() as model:
        mu, b = pm.Normal("mu", 0.0, 2.0), pm.Normal("b")
        upper, tau = pm.HalfNormal("upper", 1.0), pm.HalfNormal("tau", 1.0)
        level = _effects("v", mu, upper, regions, centred=centred)[region]
        effect = _effects("z", level, tau, groups, centred=centred)
        pm.Normal("y", effect[g] + b * x, pm.HalfNormal("sigma", 2.0), observed=y)
    return model


def crossed(rows=4_000, groups=20, others=8, *, centred=False):
    """Two factors whose groups meet."""
    rng, g, _ = _groups(304, rows, groups)
    h = rng.integers(0, others, rows)
    true = 0.3 + 0.7 * rng.standard_normal(groups)[g] + 0.5 * rng.standard_normal(others)[h]
    y = (rng.random(rows) < expit(true)).astype(int)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        tau, spread = pm.HalfNormal("tau", 1.0), pm.HalfNormal("spread", 1.0)
        one = _effects("z", mu, tau, groups, centred=centred)
        other = _effects("v", 0.0, spread, others, centred=centred)
        pm.Bernoulli("y", logit_p=one[g] + other[h], observed=y)
    return model


def precision(rows=4_000, groups=15, *, centred=False):
    """Counts, with the precision of the effects."""
    rng, g, x = _groups(305, rows, groups)
    y = rng.poisson(np.exp(0.5 + 0.5 * rng.standard_normal(groups)[g] + 0.4 * x))
    with pm.Model() as model:
        mu, b = pm.Normal("mu"), pm.Normal("b")
        kappa = pm.Gamma("kappa", 2.0, 0.5)
        if centred:
            line = _effects("z", mu, 1.0 / pt.sqrt(kappa), groups, centred=True)[g]
        else:
            line = mu + pm.Normal("z", shape=groups)[g] / pt.sqrt(kappa)
        pm.Poisson("y", pt.exp(line + b * x), observed=y)
    return model


def bambi(rows=2_000, groups=8, *, centred=False):
    """A negative binomial regression with an intercept for every group, as Bambi builds it."""
    rng, g, x = _groups(306, rows, groups)
    mean = np.exp(0.8 + 0.5 * rng.standard_normal(groups)[g] + 0.4 * x)
    data = pd.DataFrame({"x": x, "g": pd.Categorical(g)})
    data["y"] = rng.poisson(mean * rng.gamma(2.0, 0.5, rows))
    built = bmb.Model("y ~ x + (1|g)", data, family="negativebinomial", noncentered=not centred)
    built.build()
    model = built.backend.model
    if centred:
        with model:
            pm.Deterministic("1|g_offset", model["1|g"] / model["1|g_sigma"])
    return model


def ridge(rows=3_000, columns=12, *, centred=False):
    """Coefficients with a common scale."""
    rng = np.random.default_rng(307)
    X = rng.normal(size=(rows, columns))
    y = X @ (0.4 * rng.standard_normal(columns)) + 1.5 * rng.standard_normal(rows)
    with pm.Model() as model:
        tau, sigma = pm.HalfCauchy("tau", 1.0), pm.HalfNormal("sigma", 3.0)
        beta = _effects("z", 0.0, tau, columns, centred=centred)
        pm.Normal("y", X @ beta, sigma, observed=y)
    return model


def gaussian_process(rows=4_000, functions=10, *, centred=False, covariance=pm.gp.cov.ExpQuad):
    """A smooth curve in a basis of its own."""
    rng = np.random.default_rng(309)
    x = rng.uniform(-1.0, 1.0, rows)
    y = (rng.random(rows) < expit(1.2 * np.sin(3.0 * x))).astype(int)
    with pm.Model() as model:
        eta, ell = pm.Exponential("eta", 1.0), pm.InverseGamma("ell", 5.0, 3.0)
        cov = eta**2 * covariance(1, ls=ell)
        phi, psd = pm.gp.HSGP(m=[functions], L=[2.0], cov_func=cov).prior_linearized(x[:, None])
        weights = _effects("z", 0.0, pt.sqrt(psd), functions, centred=centred)
        pm.Bernoulli("y", logit_p=phi @ weights, observed=y)
    return model


def two_likelihoods(rows=3_000, more_rows=2_000, groups=10, *, centred=False):
    """Answers and measurements that depend on the same effects."""
    rng, g, x = _groups(310, rows, groups)
    h = rng.integers(0, groups, more_rows)
    true = 0.2 + 0.6 * rng.standard_normal(groups)
    seen = (rng.random(rows) < expit(true[g] + 0.7 * x)).astype(int)
    with pm.Model() as model:
        mu, tau, b = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0), pm.Normal("b")
        effect = _effects("z", mu, tau, groups, centred=centred)
        pm.Bernoulli("seen", logit_p=effect[g] + b * x, observed=seen)
        pm.Normal("measured", effect[h], 1.3, observed=rng.normal(true[h], 1.3))
    return model


def softmax(rows=4_000, groups=8, *, centred=False):
    """Three categories whose scores differ between groups."""
    rng, g, x = _groups(311, rows, groups)
    true = [0.3, -0.2] + 0.6 * rng.standard_normal((groups, 2))
    scores = np.column_stack([np.zeros(rows), true[g] + np.outer(x, [0.5, -0.5])])
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    with pm.Model() as model:
        mu, b = pm.Normal("mu", 0.0, 2.0, shape=2), pm.Normal("b", shape=2)
        tau = pm.HalfNormal("tau", 1.0, shape=2)
        others = _effects("z", mu, tau, (groups, 2), centred=centred)[g] + x[:, None] * b
        logits = pt.concatenate([pt.zeros_like(others[:, :1]), others], axis=1)
        pm.Categorical("y", logit_p=logits, observed=y)
    return model


@dataclass(frozen=True)
class Hierarchy:
    """A model, and the posterior that it has as others do."""

    build: object
    posterior: str


HIERARCHIES = {
    f.__name__: Hierarchy(f, f.__name__)
    for f in (
        heavy_tailed, correlated, nested, crossed, precision, bambi, ridge,
        gaussian_process, two_likelihoods, softmax,
    )
} | {
    "heavy_tailed_centred": Hierarchy(partial(heavy_tailed, centred=True), "heavy_tailed"),
    "correlated_last": Hierarchy(partial(correlated, last=True), "correlated"),
}  # fmt: skip
#: What NUTS samples as it is: without much data for every effect, centring is no help.
AS_THEY_ARE = ("gaussian_process",)

#: Variables that are compared on the log scale, on which their tails are short.
POSITIVE = {
    "tau", "upper", "spread", "sigma", "kappa", "alpha", "1|g_sigma", "eta", "ell",
    "chol_stds",
}  # fmt: skip
#: What says the same as others, or is the same in all draws.
LEFT_OUT = {"across", "chol", "chol_corr", "z_scaled", "v_scaled"}


def coordinates(trace):
    """Return the draws of every number: name -> array of shape (chains, draws)."""
    draws = {}
    for name, values in trace.posterior.data_vars.items():
        cells = values.to_numpy().reshape(*values.shape[:2], -1)
        cells = np.log(cells) if name in POSITIVE else cells
        # Bambi keeps the mean of every row.
        if name not in LEFT_OUT and cells.shape[2] < 1_000:
            draws |= {f"{name}[{k}]": cells[..., k] for k in range(cells.shape[2])}
    return draws
