"""Regressions that people asked about."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.interpolate import BSpline

from benchmarks.public_models.record import asked_in


@asked_in("quantile regressions of brms (`asym_laplace`)")
def quantile(rng, rows=50_000, *, b=(0.5, -0.3, 0.2)):
    """Regression of a quantile, .9, by the asymmetric Laplace law."""
    X = rng.normal(size=(rows, 3))
    y = 1.0 + X @ b + rng.gumbel(size=rows)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, 2.0, shape=3)
        s = pm.HalfNormal("s", 2.0)
        pm.AsymmetricLaplace("y", mu=a + X @ b, b=1.0 / s, q=0.9, observed=y)
    return model


@asked_in("Towards Data Science, price elasticity by product")
def elasticity(rng, rows=100_000, products=80, categories=6, weeks=26, *, sb=0.4, sw=0.2, s=0.5):
    """Price elasticities: products' slopes around those of categories, effects of weeks."""
    category = rng.integers(0, categories, products)
    product, week = rng.integers(0, products, rows), rng.integers(0, weeks, rows)
    by_category = -2.0 + 0.5 * rng.normal(size=categories)
    slope = by_category[category] + sb * rng.normal(size=products)
    intercept, price = 3.0 + rng.normal(size=products), 0.3 * rng.normal(size=rows)
    season = sw * rng.normal(size=(categories, weeks))
    line = intercept[product] + slope[product] * price
    y = line + season[category[product], week] + s * rng.normal(size=rows)
    with pm.Model() as model:
        mu = pm.Normal("mu_cat", -2.0, 1.0, shape=categories)
        sb, zb = pm.HalfNormal("sb", 1.0), pm.Normal("zb", 0.0, 1.0, shape=products)
        alpha = pm.Normal("alpha", 3.0, 3.0, shape=products)
        sw, zw = pm.HalfNormal("sw", 0.5), pm.Normal("zw", 0.0, 1.0, shape=(categories, weeks))
        s, slope = pm.HalfNormal("s", 1.0), mu[category] + sb * zb
        line = alpha[product] + slope[product] * price
        pm.Normal("y", line + (sw * zw)[category[product], week], s, observed=y)
    return model


@asked_in("[Cross Validated](https://stats.stackexchange.com/questions/500260)")
def media_mix(
    rng,
    places=200,
    weeks=150,
    channels=3,
    lags=6,
    *,
    adstock=(0.3, 0.5, 0.7),
    lam=(1.0, 0.7, 1.5),
    beta=(0.6, 0.4, 0.8),
    sg=0.3,
    s=0.4,
):
    """Media mix of 200 places: geometric adstock over six weeks, logistic saturation."""
    rows, place = places * weeks, np.repeat(np.arange(places), weeks)
    spent = rng.gamma(1.5, 0.6, (places, weeks + lags, channels))
    spends = [spent[:, lags - lag : lags - lag + weeks] for lag in range(lags)]
    lagged = np.stack(spends, axis=-1).reshape(rows, channels, lags)

    def response(adstock, lam, beta, exp=pt.exp):
        weights = adstock[:, None] ** np.arange(lags)
        total = (lagged * (weights / weights.sum(axis=1, keepdims=True))).sum(axis=-1)
        falls = exp(-lam * total)
        return ((1.0 - falls) / (1.0 + falls) * beta).sum(axis=1)

    intercept = 2.0 + sg * rng.normal(size=places)
    effects = response(*map(np.array, (adstock, lam, beta)), exp=np.exp)
    y = intercept[place] + effects + s * rng.normal(size=rows)
    with pm.Model() as model:
        adstock = pm.Beta("adstock", 2.0, 3.0, shape=channels)
        lam = pm.Gamma("lam", 3.0, 2.0, shape=channels)
        beta = pm.HalfNormal("beta", 1.0, shape=channels)
        mu, sg = pm.Normal("mu", 2.0, 1.0), pm.HalfNormal("sg", 0.5)
        z, s = pm.Normal("z", 0.0, 1.0, shape=places), pm.HalfNormal("s", 1.0)
        pm.Normal("y", (mu + sg * z)[place] + response(adstock, lam, beta), s, observed=y)
    return model


def spline(x, columns=10, degree=3):
    """Return a basis of B-splines with knots at quantiles."""
    inner = np.quantile(x, np.linspace(0.0, 1.0, columns - degree + 1))
    knots = np.r_[[inner[0]] * degree, inner, [inner[-1]] * degree]
    return BSpline.design_matrix(x, knots, degree).toarray()


@asked_in("Bambi's `bs()`, and Prophet")
def energy(rng, rows=52_000, *, s=0.1, nu=4.0):
    """Hourly load: a spline of temperature, hours of the week, Student's errors."""
    hour = np.arange(rows)
    of_week, waves = hour % 168, [2.0 * np.pi * hour / period for period in (8_760, 24)]
    temperature = 12.0 + 10.0 * np.sin(waves[0]) + 5.0 * np.sin(waves[1])
    temperature += 2.0 * rng.normal(size=rows)
    season = 0.3 * np.sin(waves[1]) - 0.2 * (of_week > 120)
    y = 1.0 + 0.001 * (temperature - 15.0) ** 2 + season + s * rng.standard_t(nu, rows)
    with pm.Model() as model:
        a, step = pm.Normal("a", 1.0, 2.0), pm.HalfNormal("step", 0.5)
        first = pm.Normal.dist(0.0, 1.0)
        w = pm.GaussianRandomWalk("w", mu=0.0, sigma=step, init_dist=first, steps=9)
        tau, z = pm.HalfNormal("tau", 0.5), pm.ZeroSumNormal("z", shape=168)
        s, nu = pm.HalfNormal("s", 0.5), pm.Gamma("nu", 2.0, 0.1)
        mu = a + pt.dot(spline(temperature), w) + tau * z[of_week]
        pm.StudentT("y", nu=nu, mu=mu, sigma=s, observed=y)
    return model
