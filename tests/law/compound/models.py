"""Models whose variables several steps share, and their posteriors by quadrature."""

import numpy as np
import pymc as pm
from scipy.special import expit, log_expit
from scipy.stats import norm

ROWS = 2_000
NARROW, WIDE, HYPER = 0.2, 0.9, 0.5
CHANCE = 0.3


def data(seed, level, slope, rows=ROWS):
    """Return a covariate and a response."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, rows)
    return x, (rng.random(rows) < expit(level + slope * x)).astype(np.int8)


def shared():
    """A level, a slope, and above the level a mean and a binary width that no row depends on."""
    x, y = data(61, 0.4, -0.7)
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, HYPER)
        wide = pm.Bernoulli("wide", CHANCE)
        level = pm.Normal("level", mean, pm.math.switch(wide, WIDE, NARROW))
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=level + slope * x, observed=y)
    return model


def switched():
    """A binary variable that shifts every row a little."""
    x, y = data(62, 0.4, -0.7, rows=1_500)
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0)
        shifted = pm.Bernoulli("shifted", 0.5)
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli("y", logit_p=level + 0.08 * shifted + slope * x, observed=y)
    return model


def grid(x, y, points=61, width=7.0):
    """Return levels, slopes and the log-likelihood on a grid around its maximum."""
    level, slope = 0.0, 0.0
    design = np.column_stack([np.ones_like(x), x])
    for _ in range(20):
        p = expit(level + slope * x)
        information = design.T @ (design * (p * (1.0 - p))[:, None])
        step = np.linalg.solve(information, design.T @ (y - p))
        level, slope = level + step[0], slope + step[1]
    reach = width * np.sqrt(np.diag(np.linalg.inv(information)))
    levels = level + np.linspace(-reach[0], reach[0], points)
    slopes = slope + np.linspace(-reach[1], reach[1], points)
    sign = 2.0 * y - 1.0
    values = np.array([[log_expit(sign * (a + b * x)).sum() for b in slopes] for a in levels])
    return levels, slopes, values


def expectation(weights, values):
    return float((weights * values).sum() / weights.sum())


def posterior_of_shared():
    """Return the posterior means and standard deviations of `shared`."""
    levels, slopes, values = grid(*data(61, 0.4, -0.7))
    a, b = levels[None, :, None], slopes[None, None, :]
    scale = np.hypot(HYPER, np.array([NARROW, WIDE]))[:, None, None]
    chance = np.array([1.0 - CHANCE, CHANCE])[:, None, None]
    weights = chance * norm.pdf(a, 0.0, scale) * norm.pdf(b) * np.exp(values - values.max())
    shrunk = a * HYPER**2 / scale**2
    spread = HYPER**2 * (1.0 - HYPER**2 / scale**2)
    wide = np.array([0.0, 1.0])[:, None, None]
    moments = {"level": (a, a**2), "slope": (b, b**2), "wide": (wide, wide**2)}
    moments["mean"] = (shrunk, shrunk**2 + spread)
    return _means_and_sds(weights, moments)


def posterior_of_switched():
    """Return the posterior means and standard deviations of `switched`."""
    levels, slopes, values = grid(*data(62, 0.4, -0.7, rows=1_500))
    # With the shift taken into the level, both values of it have one likelihood.
    shift = np.array([0.0, 0.08])[:, None, None]
    a, b = levels[None, :, None] - shift, slopes[None, None, :]
    weights = norm.pdf(a) * norm.pdf(b) * np.exp(values - values.max())
    shifted = np.array([0.0, 1.0])[:, None, None]
    return _means_and_sds(
        weights, {"level": (a, a**2), "slope": (b, b**2), "shifted": (shifted, shifted)}
    )


def _means_and_sds(weights, moments):
    result = {}
    for name, (first, second) in moments.items():
        mean = expectation(weights, first)
        result[name] = (mean, np.sqrt(expectation(weights, second) - mean**2))
    return result
