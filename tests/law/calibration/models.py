"""Models that simulate their own data, with priors that say as much as the rows.

A mistake in a prior, a Jacobian or a likelihood then moves the posterior by a large part of its
width. Covariates are fixed: only parameters and observations are drawn anew.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
    by the names of variables; `names` are those of the d parameters.
    """

    build: Callable
    prior: Callable
    log_prior: Callable
    observe: Callable
    log_likelihood: Callable
    names: tuple[str, ...]


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


SIMULATORS = {f.__name__: f for f in (two_likelihoods, poisson, student_scales, grouped)}
