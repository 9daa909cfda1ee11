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


def log_gamma(log_x, shape, rate):
    """Return the log-density of the logarithm of a variable with a gamma distribution."""
    return shape * log_x - rate * np.exp(log_x)


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


def five_answers(groups=24):
    """Effects of groups of five rows each, around an unknown level, under a logit."""
    group = np.repeat(np.arange(groups), 5)

    def build():
        with pm.Model() as model:
            level, tau = pm.Normal("level", -0.5, 0.5), pm.Gamma("tau", 8.0, 10.0)
            effect = pm.Normal("effect", level, tau, shape=groups)
            pm.Bernoulli("y", logit_p=effect[group], observed=np.arange(group.size) % 2)
        return model

    def prior(rng):
        level, log_tau = rng.normal(-0.5, 0.5), np.log(rng.gamma(8.0, 1.0 / 10.0))
        return np.r_[level, log_tau, rng.normal(level, np.exp(log_tau), groups)]

    def log_prior(draws):
        level, log_tau, effects = draws[:, :1], draws[:, 1:2], draws[:, 2:]
        top = norm.logpdf(level, -0.5, 0.5) + log_gamma(log_tau, 8.0, 10.0)
        return top[:, 0] + norm.logpdf(effects, level, np.exp(log_tau)).sum(-1)

    def observe(theta, rng):
        return {"y": rng.random(group.size) < expit(theta[2:][group])}

    def log_likelihood(draws, data):
        return bernoulli_sum(draws[:, 2:][:, group], data["y"])

    names = ("level", "log tau", *(f"effect[{k}]" for k in range(groups)))
    return Simulator(build, prior, log_prior, observe, log_likelihood, names)


def crossed_counts(rows=400, sizes=(8, 5)):
    """Counts with effects of two crossed factors of unknown spread.

    The model is not centred: parameters are the effects, which the step has in their place.
    """
    rng = np.random.default_rng(54)
    (g, h), x = (rng.integers(0, size, rows) for size in sizes), rng.uniform(-1.0, 1.0, rows)

    def build():
        with pm.Model() as model:
            b = pm.Normal("b", 0.3, 0.2, shape=2)
            tau = pm.Gamma("tau", 8.0, 20.0, shape=2)
            u, v = (pm.Normal(k, 0.0, 1.0, shape=size) for k, size in zip("uv", sizes, strict=True))
            mu = pm.math.exp(b[0] + b[1] * x + tau[0] * u[g] + tau[1] * v[h])
            pm.Poisson("y", mu, observed=np.arange(rows) % 4)
        return model

    draw_b, log_b = normal_prior(0.3, 0.2, size=2)

    def prior(rng):
        tau = rng.gamma(8.0, 1.0 / 20.0, 2)
        return np.r_[draw_b(rng), np.log(tau), rng.normal(0.0, np.repeat(tau, sizes))]

    def log_prior(draws):
        log_tau, effects = draws[:, 2:4], draws[:, 4:]
        spread = norm.logpdf(effects, 0.0, np.repeat(np.exp(log_tau), sizes, axis=1))
        return log_b(draws[:, :2]) + log_gamma(log_tau, 8.0, 20.0).sum(-1) + spread.sum(-1)

    def mean(theta):
        u, v = theta[..., 4 : 4 + sizes[0]], theta[..., 4 + sizes[0] :]
        return np.exp(theta[..., :1] + theta[..., 1:2] * x + u[..., g] + v[..., h])

    def observe(theta, rng):
        return {"y": rng.poisson(mean(theta))}

    def log_likelihood(draws, data):
        return poisson_law.logpmf(data["y"], mean(draws)).sum(-1)

    effects = (f"{k}[{i}]" for k, size in zip("uv", sizes, strict=True) for i in range(size))
    names = "b[0]", "b[1]", "log tau[0]", "log tau[1]", *effects
    return Simulator(build, prior, log_prior, observe, log_likelihood, names)


SIMULATORS = {f.__name__: f for f in (two_likelihoods, poisson, student_scales, grouped)}
#: Models of which every effect of a group moves by itself.
BY_ELEMENTS = {f.__name__: f for f in (five_answers, crossed_counts)}
