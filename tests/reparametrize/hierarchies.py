"""Small hierarchies in the spellings that people use, each with what rows are linear in.

Some are those whose posteriors are held against NUTS, with few rows.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import pymc as pm

from law.statistical import hierarchies

N, G = 40, 5
RNG = np.random.default_rng(23)
g = RNG.integers(0, G, N)
h = RNG.integers(0, 3, N)
x, w = RNG.normal(size=(2, N))
X = RNG.normal(size=(N, 6))
y = RNG.normal(size=N)
ones = RNG.integers(0, 2, N)


def _bernoulli(eta):
    pm.Bernoulli("y", logit_p=eta, observed=ones)


def _level():
    return pm.Normal("mu"), pm.HalfNormal("tau"), pm.Normal("b")


def _spelled(effect):
    def model():
        with pm.Model() as built:
            mu, tau, b = _level()
            z = pm.Normal("z", shape=G)
            _bernoulli(effect(mu, tau, z) + b * x)
        return built

    return model


def with_potential():
    with pm.Model() as built:
        mu, tau, b = _level()
        z = pm.Normal("z", shape=G)
        pm.Potential("sums_to_zero", -0.5 * (z.sum() / 0.01) ** 2)
        _bernoulli((mu + tau * z)[g] + b * x)
    return built


def student_rows():
    with pm.Model() as built:
        mu, tau, b = _level()
        z = pm.StudentT("z", nu=4, shape=G)
        sigma = pm.HalfNormal("sigma")
        pm.StudentT("y", nu=5, mu=mu + tau * z[g] + b * x, sigma=sigma, observed=y)
    return built


def uniform_scale():
    with pm.Model() as built:
        spread = pm.Uniform("spread", 0.0, 10.0)
        _bernoulli(spread * pm.Normal("z", shape=G)[g] + pm.Normal("b") * x)
    return built


def shared_scale():
    with pm.Model() as built:
        mu, tau, _ = _level()
        z, v = pm.Normal("z", shape=G), pm.Normal("v", shape=3)
        _bernoulli(mu + tau * z[g] + tau * v[h])
    return built


def slopes():
    with pm.Model() as built:
        mu = pm.Normal("mu", shape=2)
        tau = pm.HalfNormal("tau", shape=2)
        z = pm.Normal("z", shape=(G, 2))
        effect = pm.Deterministic("effect", mu + tau * z)
        _bernoulli(effect[g, 0] + effect[g, 1] * x)
    return built


def horseshoe():
    with pm.Model() as built:
        tau, sigma = pm.HalfCauchy("tau", 1.0), pm.HalfNormal("sigma")
        lam = pm.HalfCauchy("lam", 1.0, shape=6)
        z = pm.Normal("z", shape=6)
        pm.Normal("y", X @ (z * lam * tau), sigma, observed=y)
    return built


def home_and_away():
    with pm.Model() as built:
        mu, tau, _ = _level()
        z = pm.Normal("z", shape=G)
        skill = tau * z
        _bernoulli(mu + skill[g] - skill[h])
    return built


def zero_sum():
    with pm.Model() as built:
        mu, tau, b = _level()
        z = pm.ZeroSumNormal("z", shape=G)
        _bernoulli(mu + tau * z[g] + b * x)
    return built


def scale_of_each(scaled_first):
    def model():
        with pm.Model() as built:
            mu, b = pm.Normal("mu"), pm.Normal("b")
            tau = pm.HalfNormal("tau", shape=G)
            z = pm.Normal("z", shape=G)
            effect = (tau * z)[g] if scaled_first else tau[g] * z[g]
            _bernoulli(mu + effect + b * x)
        return built

    return model


def scales_of_two_kinds():
    with pm.Model() as built:
        spread, b = pm.HalfNormal("spread"), pm.Normal("b")
        tau, z = pm.HalfNormal("tau", shape=G), pm.Normal("z", shape=G)
        _bernoulli(spread * tau[g] * z[g] * w + b * x)
    return built


@dataclass(frozen=True)
class Spelling:
    """A model, and what the chain has in the place of its variables."""

    build: object
    words: tuple[str, ...]


LEVEL = ("mu + tau × z",)
SPELLINGS = {
    "scaled, then chosen": Spelling(_spelled(lambda mu, tau, z: (mu + tau * z)[g]), LEVEL),
    "chosen, then scaled": Spelling(_spelled(lambda mu, tau, z: mu + tau * z[g]), LEVEL),
    "scale behind": Spelling(_spelled(lambda mu, tau, z: mu + z[g] * tau), LEVEL),
    "a deterministic": Spelling(
        _spelled(lambda mu, tau, z: pm.Deterministic("effect", mu + tau * z)[g]), LEVEL
    ),
    "times data": Spelling(_spelled(lambda mu, tau, z: tau * z[g] * w), ("tau × z",)),
    "a potential": Spelling(with_potential, LEVEL),
    "student rows": Spelling(student_rows, LEVEL),
    "crossed": Spelling(partial(hierarchies.crossed, N), ("tau × z", "spread × v")),
    "shared scale": Spelling(shared_scale, ("tau × z", "tau × v")),
    "uniform scale": Spelling(uniform_scale, ("spread × z",)),
    "nested": Spelling(partial(hierarchies.nested, N), ("upper × v", "tau × z")),
    "slopes": Spelling(slopes, ("mu + tau × z", "mu + tau × z")),
    "correlated": Spelling(partial(hierarchies.correlated, N), ("mu + f(chol) × z",)),
    "correlated, groups last": Spelling(
        partial(hierarchies.correlated, N, last=True), ("mu + f(chol) × across",)
    ),
    "ridge": Spelling(partial(hierarchies.ridge, N), ("tau × z",)),
    "horseshoe": Spelling(horseshoe, ("f(tau, lam) × z",) * 6),
    "Gaussian process": Spelling(
        partial(hierarchies.gaussian_process, N, 5), ("f(eta, ell) × z",) * 5
    ),
    "Matérn process": Spelling(
        partial(hierarchies.gaussian_process, N, 5, covariance=pm.gp.cov.Matern52),
        ("f(eta, ell) × z",) * 5,
    ),
    "two likelihoods": Spelling(partial(hierarchies.two_likelihoods, N, N), LEVEL),
    "precision": Spelling(partial(hierarchies.precision, N), ("mu + kappa × z",)),
    "home and away": Spelling(home_and_away, ("tau × z",)),
    "location scaled too": Spelling(
        _spelled(lambda mu, tau, z: tau * (mu + z[g])), ("tau × mu", "tau × z")
    ),
    "location scaled too, one by one": Spelling(
        _spelled(lambda mu, tau, z: tau * mu + (tau * z)[g]), ("tau × mu", "tau × z")
    ),
    "sum of zero": Spelling(zero_sum, ("tau × z",)),
    "scale of each": Spelling(scale_of_each(True), ("tau × z",) * G),
    "scale of each, chosen first": Spelling(scale_of_each(False), ("tau × z",) * G),
    "scales of two kinds": Spelling(scales_of_two_kinds, ("f(spread, tau) × z",) * G),
}
