"""Hierarchies that people asked about."""

import numpy as np
import pymc as pm
from scipy.special import expit

from benchmarks.public_models.record import asked_in, on_github


@asked_in("[Stan's forum](https://discourse.mc-stan.org/t/20201)")
def group_predictors(
    rng,
    rows=300_000,
    countries=150,
    years=30,
    *,
    b=(0.3, -0.2, 0.1, 0.0, 0.4),
    gamma=(-0.5, 0.3, -0.2, 0.1),
    lam=(0.2, -0.1),
    ss=0.3,
    st=0.2,
):
    """A survey of countries and years: a logit whose intercepts have predictors of their own."""
    X = rng.normal(size=(rows, 5))
    Z = np.column_stack([np.ones(countries), rng.normal(size=(countries, 3))])
    G = rng.normal(size=(years, 2))
    country, year = rng.integers(0, countries, rows), rng.integers(0, years, rows)
    by_country = Z @ gamma + ss * rng.normal(size=countries)
    by_year = G @ lam + st * rng.normal(size=years)
    y = rng.random(rows) < expit(by_country[country] + by_year[year] + X @ b)
    with pm.Model() as model:
        b, gamma = pm.Normal("b", 0.0, 1.0, shape=5), pm.Normal("gamma", 0.0, 1.0, shape=4)
        lam = pm.Normal("lam", 0.0, 1.0, shape=2)
        ss, st = pm.HalfNormal("ss", 1.0), pm.HalfNormal("st", 1.0)
        zs = pm.Normal("zs", 0.0, 1.0, shape=countries)
        zt = pm.Normal("zt", 0.0, 1.0, shape=years)
        intercept = (Z @ gamma + ss * zs)[country] + (G @ lam + st * zt)[year]
        pm.Bernoulli("y", logit_p=intercept + X @ b, observed=y.astype(int))
    return model


@asked_in("Stan's forum, “scaling hierarchical models to 100,000 rows”")
def beta_users(rng, rows=100_000, pages=150, *, phi=0.2, kappa=30.0):
    """Conversions of pages: beta laws with a common mean and a Pareto prior of concentration."""
    page = rng.integers(0, pages, rows)
    share = rng.beta(phi * kappa, (1.0 - phi) * kappa, pages)
    y = rng.random(rows) < share[page]
    with pm.Model() as model:
        phi, kappa = pm.Beta("phi", 2.0, 2.0), pm.Pareto("kappa", 1.5, m=1.0)
        theta = pm.Beta("theta", kappa * phi, kappa * (1.0 - phi), shape=pages)
        pm.Bernoulli("y", p=theta[page], observed=y.astype(int))
    return model


@on_github("lme4/lme4", 425)
def rare_filter(
    rng, rows=100_000, users=400, products=26, *, a=-4.2, b=(0.5, -0.3, 0.2), su=0.6, sp=0.3
):
    """Rare clicks: a logit with crossed users and products, 2 % positives."""
    user, product = rng.integers(0, users, rows), rng.integers(0, products, rows)
    X = (rng.random((rows, 3)) < 0.1) * 1.0
    effects = (su * rng.normal(size=users))[user] + (sp * rng.normal(size=products))[product]
    y = rng.random(rows) < expit(a + X @ b + effects)
    with pm.Model() as model:
        a, b = pm.Normal("a", -4.0, 2.0), pm.Normal("b", 0.0, 1.0, shape=3)
        su, sp = pm.HalfNormal("su", 1.0), pm.HalfNormal("sp", 1.0)
        zu = pm.Normal("zu", 0.0, 1.0, shape=users)
        zp = pm.Normal("zp", 0.0, 1.0, shape=products)
        eta = a + X @ b + su * zu[user] + sp * zp[product]
        pm.Bernoulli("y", logit_p=eta, observed=y.astype(int))
    return model


@asked_in("[Cross Validated](https://stats.stackexchange.com/questions/466010)")
def factorization(rng, rows=50_000, users=60, films=40, factors=2, *, s=0.5):
    """Ratings: the product of two factors of users and of films."""
    user, film = rng.integers(0, users, rows), rng.integers(0, films, rows)
    A, B = rng.normal(size=(users, factors)), rng.normal(size=(films, factors))
    y = (A[user] * B[film]).sum(axis=1) + s * rng.normal(size=rows)
    with pm.Model() as model:
        A = pm.Normal("A", 0.0, 1.0, shape=(users, factors), initval=A + 0.01)
        B = pm.Normal("B", 0.0, 1.0, shape=(films, factors), initval=B + 0.01)
        s = pm.HalfNormal("s", 1.0)
        pm.Normal("y", (A[user] * B[film]).sum(axis=1), s, observed=y)
    return model
