"""Models of choices, ratings and presence, which people asked about."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered
from scipy.special import expit

from benchmarks.public_models.record import asked_in, on_github


@asked_in("notebook “Mixed logit” of PyMC-Marketing")
def mixed_logit(
    rng,
    rows=40_000,
    alternatives=4,
    people=120,
    *,
    asc=(0.3, -0.2, 0.1),
    mu_price=-1.0,
    sd_price=0.4,
    quality=0.5,
):
    """Conjoint choices: a mixed logit with respondents' own price coefficients."""
    price, good = rng.normal(size=(2, rows, alternatives))
    person = rng.integers(0, people, rows)
    slope = mu_price + sd_price * rng.normal(size=people)
    utility = np.r_[0.0, asc] + slope[person][:, None] * price + quality * good
    choice = (utility + rng.gumbel(size=utility.shape)).argmax(axis=1)
    with pm.Model() as model:
        asc = pm.Normal("asc", 0.0, 1.0, shape=alternatives - 1)
        mu, sd = pm.Normal("mu_price", 0.0, 1.0), pm.HalfNormal("sd_price", 1.0)
        z, quality = pm.Normal("z", 0.0, 1.0, shape=people), pm.Normal("quality", 0.0, 1.0)
        own = (mu + sd * z)[person][:, None] * price
        utility = pt.concatenate([[0.0], asc])[None, :] + own + quality * good
        pm.Categorical("choice", p=pm.math.softmax(utility, axis=1), observed=choice)
    return model


@asked_in("[Stan's forum](https://discourse.mc-stan.org/t/9384)")
def occupancy(rng, rows=30_000, visits=5, *, a0=-0.3, a=(0.8, -0.4), d0=-0.5, d1=0.6):
    """Occupancy of sites that were visited five times: presence is summed out."""
    Z, W = rng.normal(size=(rows, 2)), rng.normal(size=(rows, visits))
    present = rng.random(rows) < expit(a0 + Z @ a)
    seen = (rng.random((rows, visits)) < expit(d0 + d1 * W)) & present[:, None]

    def logp(y, site, visit):
        detected = (y * visit - pt.softplus(visit)).sum(axis=1)
        there, absent = detected - pt.softplus(-site), -pt.softplus(site)
        return pt.switch(pt.gt(y.sum(axis=1), 0), there, pt.logaddexp(there, absent))

    with pm.Model() as model:
        a0, a = pm.Normal("a0", 0.0, 2.0), pm.Normal("a", 0.0, 1.0, shape=2)
        d0, d1 = pm.Normal("d0", 0.0, 2.0), pm.Normal("d1", 0.0, 1.0)
        predictors = a0 + Z @ a, d0 + d1 * W
        form = {"logp": logp, "signature": "(),(k)->(k)"}
        pm.CustomDist("y", *predictors, **form, observed=seen.astype(int))
    return model


@asked_in("[Stan's forum](https://discourse.mc-stan.org/t/13509)")
def raters(rng, rows=20_000, people=15, essays=60):
    """Essays' marks: a cumulative probit with raters' own thresholds and precision."""
    rater, essay = rng.integers(0, people, rows), rng.integers(0, essays, rows)
    quality, precision = rng.normal(size=essays), np.exp(0.3 * rng.normal(size=people))
    start = np.array([-1.0, 0.0, 1.0])
    cuts = np.sort(1.2 * start + 0.3 * rng.normal(size=(people, 3)), axis=1)
    latent = precision[rater] * quality[essay] + rng.normal(size=rows)
    mark = (latent[:, None] > cuts[rater]).sum(axis=1)
    with pm.Model() as model:
        q, ld = pm.Normal("q", 0.0, 1.0, shape=essays), pm.Normal("ld", 0.0, 0.5, shape=people)
        several = {"transform": ordered, "initval": np.tile(start, (people, 1))}
        c = pm.Normal("c", start, 1.0, shape=(people, 3), **several)
        eta = pm.math.exp(ld)[rater] * q[essay]
        pm.OrderedProbit("y", eta=eta, cutpoints=c[rater], compute_p=False, observed=mark)
    return model


@on_github("paul-buerkner/brms", 1191)
def ordered_beta(rng, rows=50_000, *, a=0.3, b=(0.6, -0.3), xi=-2.0, kappa=4.2, phi=6.0):
    """Slider ratings with zeros and ones: an ordered beta regression."""
    X = rng.normal(size=(rows, 2))
    eta = a + X @ b
    latent, mean = eta + rng.logistic(size=rows), expit(eta)
    share = np.clip(rng.beta(mean * phi, (1.0 - mean) * phi), 1e-6, 1.0 - 1e-6)
    y = np.where(latent < xi, 0.0, np.where(latent > xi + kappa, 1.0, share))

    def logp(y, eta, low, high, phi):
        mean, inside = pm.math.sigmoid(eta), pt.clip(y, 1e-6, 1.0 - 1e-6)
        between = pt.log(pm.math.sigmoid(eta - low) - pm.math.sigmoid(eta - high))
        beta = pm.logp(pm.Beta.dist(mean * phi, (1.0 - mean) * phi), inside)
        above = pt.switch(pt.eq(y, 1.0), -pt.softplus(high - eta), between + beta)
        return pt.switch(pt.eq(y, 0.0), -pt.softplus(eta - low), above)

    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 1.0, shape=2)
        xi, kappa = pm.Normal("xi", -2.0, 1.0), pm.HalfNormal("kappa", 4.0)
        phi = pm.Gamma("phi", 2.0, 0.2)
        pm.CustomDist("y", a + X @ b, xi, xi + kappa, phi, logp=logp, observed=y)
    return model
