"""Models with a variable that data do not tell from an end of its support; each is built once."""

from functools import cache

import numpy as np
import pymc as pm

BACKGROUND, INFLATION, LAPSE = "background", "zero inflation", "lapse"


@cache
def background_data(rows, background):
    """Return known rates, and counts with a background."""
    rng = np.random.default_rng(1)
    rates = np.exp(0.5 + 0.7 * rng.standard_normal(rows))
    return rates, rng.poisson(background + rates)


@cache
def known_rates(rows=2_000, background=0.02):
    """Return a background of counts whose other rates are known."""
    rates, y = background_data(rows, background)
    with pm.Model() as model:
        pm.Poisson("y", pm.HalfNormal("u", 1.0) + rates, observed=y)
    return model


@cache
def background_rate(rows=2_000, background=0.02):
    """Return a Poisson regression with a background."""
    rates, y = background_data(rows, background)
    with pm.Model() as model:
        u, b = pm.HalfNormal("u", 1.0), pm.Normal("b", 0.0, 2.0, shape=2)
        pm.Poisson("y", u + pm.math.exp(b[0] + b[1] * np.log(rates)), observed=y)
    return model


#: Groups of normal rows with a known noise.
GROUPS, NOISE = 6, 2.0


@cache
def background_beside_groups(rows=1_000):
    """Return a model of two unrelated data sets, and the means of groups of the second.

    Counts have a background and known rates; normal rows have effects of groups with one scale.
    """
    rates, y = background_data(rows, 0.02)
    rng, group = np.random.default_rng(8), np.arange(rows) % GROUPS
    z = 0.5 * rng.standard_normal(GROUPS)[group] + NOISE * rng.standard_normal(rows)
    with pm.Model() as model:
        pm.Poisson("y", pm.HalfNormal("u", 1.0) + rates, observed=y)
        effects = pm.Normal("a", 0.0, pm.HalfNormal("tau", 1.0), shape=GROUPS)
        pm.Normal("z", effects[group], NOISE, observed=z)
    return model, np.array([z[group == k].mean() for k in range(GROUPS)])


@cache
def zero_inflation(rows=2_000):
    """Return counts without more zeros than Poisson counts have."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(rows)
    with pm.Model() as model:
        share, b = pm.Beta("share", 1.0, 1.0), pm.Normal("b", 0.0, 2.0, shape=2)
        mu, y = pm.math.exp(b[0] + b[1] * x), rng.poisson(np.exp(1.0 + 0.3 * x))
        pm.ZeroInflatedPoisson("y", share, mu, observed=y)
    return model


@cache
def lapses(rows=2_000):
    """Return answers of a person who never lapses, with a rate of lapses."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal(rows)
    with pm.Model() as model:
        b, lapse = pm.Normal("b", 0.0, 2.0, shape=2), pm.Beta("lapse", 1.0, 10.0)
        p = 0.5 * lapse + (1.0 - lapse) * pm.math.sigmoid(b[0] + b[1] * x)
        y = rng.random(rows) < 1.0 / (1.0 + np.exp(-0.3 - 2.0 * x))
        pm.Bernoulli("y", p=p, observed=y.astype(int))
    return model


MODELS = {BACKGROUND: background_rate, INFLATION: zero_inflation, LAPSE: lapses}
