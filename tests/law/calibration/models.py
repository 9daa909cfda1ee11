"""Models that simulate their own data, with priors that say as much as the rows.

A mistake in a prior, a Jacobian or a likelihood then moves the posterior by a large part of its
width. Covariates are fixed: only parameters and observations are drawn anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pymc as pm
from scipy.special import expit, xlogy
from scipy.stats import norm
from scipy.stats import poisson as poisson_law
from scipy.stats import t as student_law

from helpers import models


@dataclass(frozen=True)
class Simulator:
    """A model, how unconstrained parameters and observations are drawn, and their log-densities.

    Log-densities are of draws of shape (L, d), up to a constant; `observe` returns the observations
    by the names of variables; `names` are those of what is ranked: the d parameters, or some
    quantities of the draws, shape (L, q).
    """

    build: Callable
    prior: Callable
    log_prior: Callable
    observe: Callable
    log_likelihood: Callable
    names: tuple[str, ...]
    quantities: Callable = lambda draws: draws


def normal_prior(mean, sd, size=None):
    """Return how independent normal parameters are drawn, and their log-density."""
    return (
        lambda rng: rng.normal(mean, sd, size),
        lambda draws: norm.logpdf(draws, mean, sd).sum(-1),
    )


def bernoulli_sum(logit, y):
    """Return the log-likelihood of 0/1 outcomes, summed over the last axis."""
    return xlogy(y, expit(logit)).sum(-1) + xlogy(1 - y, expit(-logit)).sum(-1)


def two_likelihoods():
    """A logistic regression and a normal sample that share their level."""
    model = models.two_likelihoods()
    rows, more = (model.rvs_to_values[model[name]].data.size for name in ("seen", "measured"))
    x = np.random.default_rng(13).standard_normal(rows)

    prior, log_prior = normal_prior(0.0, [0.02, 0.03])

    def observe(theta, rng):
        return {
            "seen": rng.random(rows) < expit(theta[0] + theta[1] * x),
            "measured": rng.normal(theta[0], 1.2, more),
        }

    def log_likelihood(draws, data):
        level, slope = draws.T[:, :, None]
        squares = ((data["measured"] - level) ** 2).sum(-1)
        return bernoulli_sum(level + slope * x, data["seen"]) - 0.5 * squares / 1.2**2

    names = "level", "slope"
    return Simulator(models.two_likelihoods, prior, log_prior, observe, log_likelihood, names)


def poisson(rows=1_500):
    """Counts with a log link."""
    x = np.random.default_rng(51).uniform(-1.0, 1.0, rows)

    def build():
        with pm.Model() as model:
            level = pm.Normal("level", 0.5, 0.03)
            slope = pm.Normal("slope", 0.6, 0.05)
            mu = pm.math.exp(level + slope * x)
            pm.Poisson("counts", mu=mu, observed=np.arange(rows) % 4)
        return model

    prior, log_prior = normal_prior([0.5, 0.6], [0.03, 0.05])

    def observe(theta, rng):
        return {"counts": rng.poisson(np.exp(theta[0] + theta[1] * x))}

    def log_likelihood(draws, data):
        level, slope = draws.T[:, :, None]
        return poisson_law.logpmf(data["counts"], np.exp(level + slope * x)).sum(-1)

    return Simulator(build, prior, log_prior, observe, log_likelihood, ("level", "slope"))


def student_scales(rows=1_500):
    """Heavy tails, whose scale is unknown in each of two groups."""
    rng = np.random.default_rng(52)
    group, any_data = rng.integers(0, 2, rows), rng.standard_t(4, rows)

    def build():
        with pm.Model() as model:
            sigma = pm.LogNormal("sigma", 0.0, 0.05, shape=2)
            pm.StudentT("y", nu=4, mu=0.0, sigma=sigma[group], observed=any_data)
        return model

    prior, log_prior = normal_prior(0.0, 0.05, size=2)

    def observe(theta, rng):
        return {"y": np.exp(theta[group]) * rng.standard_t(4, rows)}

    def log_likelihood(draws, data):
        return student_law.logpdf(data["y"], 4, 0.0, np.exp(draws[:, group])).sum(-1)

    return Simulator(
        build, prior, log_prior, observe, log_likelihood, ("log sigma[0]", "log sigma[1]")
    )


def grouped(rows=1_800, groups=5):
    """Intercepts of groups with an unknown spread, under a logit."""
    group = np.random.default_rng(53).integers(0, groups, rows)

    def build():
        with pm.Model() as model:
            tau = pm.LogNormal("tau", -0.7, 0.25)
            effect = pm.Normal("effect", 0.0, tau, shape=groups)
            pm.Bernoulli("y", logit_p=effect[group], observed=np.arange(rows) % 2)
        return model

    def prior(rng):
        log_tau = rng.normal(-0.7, 0.25)
        return np.append(log_tau, rng.normal(0.0, np.exp(log_tau), groups))

    def log_prior(draws):
        log_tau, effects = draws[:, 0], draws[:, 1:]
        spread = norm.logpdf(effects, 0.0, np.exp(log_tau)[:, None]).sum(-1)
        return norm.logpdf(log_tau, -0.7, 0.25) + spread

    def observe(theta, rng):
        return {"y": rng.random(rows) < expit(theta[1:][group])}

    def log_likelihood(draws, data):
        ones = np.bincount(group, data["y"], groups)
        zeros = np.bincount(group, 1 - data["y"], groups)
        effects = draws[:, 1:]
        return xlogy(ones, expit(effects)).sum(-1) + xlogy(zeros, expit(-effects)).sum(-1)

    names = ("log tau", *(f"effect[{k}]" for k in range(groups)))
    return Simulator(build, prior, log_prior, observe, log_likelihood, names)


def persons(family, groups=200):
    """Three observations of each person, whose effect is integrated out."""
    person, centred = np.repeat(np.arange(groups), 3), family == "poisson"
    # Counts of scales much larger than this are so large that nodes do not cover their effects.
    usual = -0.6 if centred else -0.3

    def build(y):
        with pm.Model() as model:
            mu, tau = pm.Normal("mu", 0.2, 0.15), pm.LogNormal("tau", usual, 0.15)
            if centred:
                line = pm.Normal("a", mu, tau, shape=groups)[person]
                pm.Poisson("y", pm.math.exp(line), observed=y)
            else:
                line = (mu + tau * pm.Normal("z", shape=groups))[person]
                pm.Bernoulli("y", logit_p=line, observed=y)
        return model

    def parts(draws):
        """Return mean and scale, shape (L, 1), effects and standardised effects, (L, groups)."""
        mu, tau, effects = draws[:, :1], np.exp(draws[:, 1:2]), draws[:, 2:]
        if centred:
            return mu, tau, effects, (effects - mu) / tau
        return mu, tau, mu + tau * effects, effects

    def prior(rng):
        mu, log_tau = rng.normal(0.2, 0.15), rng.normal(usual, 0.15)
        z = rng.standard_normal(groups)
        return np.array([mu, log_tau, *(mu + np.exp(log_tau) * z if centred else z)])

    def log_prior(draws):
        shared = norm.logpdf(draws[:, 0], 0.2, 0.15) + norm.logpdf(draws[:, 1], usual, 0.15)
        _, tau, _, z = parts(draws)
        return shared + norm.logpdf(z).sum(-1) - (groups * np.log(tau[:, 0]) if centred else 0.0)

    def observe(theta, rng):
        line = parts(theta[None])[2][0, person]
        return {"y": rng.poisson(np.exp(line)) if centred else rng.binomial(1, expit(line))}

    def log_likelihood(draws, data):
        line = parts(draws)[2][:, person]
        if centred:
            return poisson_law.logpmf(data["y"], np.exp(line)).sum(-1)
        return bernoulli_sum(line, data["y"])

    def quantities(draws):
        _, tau, _, z = parts(draws)
        ranked = draws[:, 0], tau[:, 0], z[:, 0], z[:, 0] * tau[:, 0], (z**2).sum(axis=1)
        return np.column_stack(ranked)

    names = "mu", "tau", "z[0]", "z[0] tau", "sum of z²"
    return Simulator(build, prior, log_prior, observe, log_likelihood, names, quantities)


SIMULATORS = {f.__name__: f for f in (two_likelihoods, poisson, student_scales, grouped)}
#: Small groups, which are prepared anew for each data set: nodes belong to data.
PERSONS = {family: partial(persons, family) for family in ("bernoulli", "poisson")}
