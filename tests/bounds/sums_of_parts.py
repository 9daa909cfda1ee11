"""Models whose rows are functions of sums of many parts, with few parameters in each part."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

CHANNELS = 3
_SATURATING = {
    "hill": lambda m, x, k: x / (k + x),
    "rise": lambda m, x, k: 1.0 - m.exp(-x / k),
    "tanh": lambda m, x, k: m.tanh(x / k),
}
_OBSERVED = {
    "normal": lambda mu, s, y: pm.Normal("y", mu, pm.HalfNormal("scale", 1.0), observed=y),
    "student": lambda mu, s, y: pm.StudentT(
        "y", nu=4.0, mu=mu, sigma=pm.HalfNormal("scale", 1.0), observed=y
    ),
    "poisson": lambda mu, s, y: pm.Poisson("y", pm.math.exp(mu), observed=s.poisson(np.exp(y))),
    "negative_binomial": lambda mu, s, y: pm.NegativeBinomial(
        "y", mu=pm.math.exp(mu), alpha=pm.HalfNormal("alpha", 3.0), observed=s.poisson(np.exp(y))
    ),
    "bernoulli": lambda mu, s, y: pm.Bernoulli(
        "y", logit_p=mu, observed=y > s.logistic(size=len(y))
    ),
}


def media_mix(rows, shape="hill", response="normal", channels=CHANNELS, groups=4):
    """Saturating channels, with a level of each group."""
    rng = np.random.default_rng(17)
    x, g = rng.gamma(2.0, 0.7, (rows, channels)), np.arange(rows) % groups
    k, weight = rng.uniform(0.6, 1.4, channels), rng.uniform(0.5, 1.2, channels)
    saturating = _SATURATING[shape]
    y = (
        saturating(np, x, k) @ weight
        + 0.3 * rng.normal(size=groups)[g]
        + 0.3 * rng.normal(size=rows)
    )
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 1.0, shape=groups)
        half, size = (
            pm.Gamma("half", 4.0, 4.0, shape=channels),
            pm.HalfNormal("size", 1.0, shape=channels),
        )
        parts = saturating(pt, pm.Data("x", x), half) * size
        _OBSERVED[response](level[pm.Data("g", g)] + parts.sum(axis=1), rng, y)
    return model


def of(shape, response, channels=CHANNELS):
    """Return the model of one shape and response, as a function of rows."""
    return lambda rows: media_mix(rows, shape, response, channels)


SUMS_OF_PARTS = {
    "hill_normal": of("hill", "normal", 5),
    "rise_student": of("rise", "student"),
    "tanh_poisson": of("tanh", "poisson"),
    "hill_negative_binomial": of("hill", "negative_binomial"),
    "rise_bernoulli": of("rise", "bernoulli", 5),
}
