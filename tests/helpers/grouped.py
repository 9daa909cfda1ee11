"""Small models with groups, which tests of elements share."""

from functools import cache

import numpy as np
import pymc as pm
from scipy.special import expit

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.plan.plan import Requirements
from pymc_minibatch_mh.plan.prepare import ReadingSettings, read_model
from pymc_minibatch_mh.reference.arrow_reference import find_grouped
from pymc_minibatch_mh.reference.target import Target


def _late(rng, predictor):
    return (rng.random(predictor.size) < expit(predictor)).astype(np.int64)


def _crossed(likelihood, n=1_500):
    rng = np.random.default_rng(5)
    g, h, x = rng.integers(0, 20, n), rng.integers(0, 7, n), rng.normal(size=n)
    eta = 0.2 + 0.3 * x + 0.5 * rng.normal(size=20)[g] + 0.4 * rng.normal(size=7)[h]
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 2.0, shape=2)
        tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
        u, v = pm.Normal("u", 0.0, 1.0, shape=20), pm.Normal("v", 0.0, omega, shape=7)
        likelihood(rng, eta, b[0] + b[1] * x + tau * u[g] + v[h])
    return model


def logistic():
    return _crossed(lambda rng, eta, p: pm.Bernoulli("y", logit_p=p, observed=_late(rng, eta)))


def poisson():
    return _crossed(
        lambda rng, eta, p: pm.Poisson("y", pm.math.exp(p), observed=rng.poisson(np.exp(eta)))
    )


def normal():
    def likelihood(rng, eta, p):
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Normal("y", p, sigma, observed=eta + 0.7 * rng.normal(size=eta.size))

    return _crossed(likelihood)


def student():
    def likelihood(rng, eta, p):
        y = eta + 0.7 * rng.standard_t(4.0, size=eta.size)
        pm.StudentT("y", nu=4.0, mu=p, sigma=pm.HalfNormal("sigma", 1.0), observed=y)

    return _crossed(likelihood)


def negative_binomial():
    def likelihood(rng, eta, p):
        y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta)))
        alpha = pm.HalfNormal("alpha", 5.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(p), alpha=alpha, observed=y)

    return _crossed(likelihood)


def slopes():
    """Return intercepts and slopes of one index, with locations and scales of their own."""
    rng, n = np.random.default_rng(6), 1_500
    g, x = rng.integers(0, 15, n), rng.normal(size=n)
    eta = (0.2 + 0.5 * rng.normal(size=15))[g] + (0.3 + 0.3 * rng.normal(size=15))[g] * x
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0, shape=2), pm.HalfNormal("tau", 1.0, shape=2)
        a = pm.Normal("a", mu[0], tau[0], shape=15)
        c = pm.StudentT("c", nu=5.0, mu=mu[1], sigma=tau[1], shape=15)
        pm.Poisson("y", pm.math.exp(a[g] + c[g] * x), observed=rng.poisson(np.exp(eta)))
    return model


def correlated():
    """Return intercepts and slopes of one index that are correlated, beside other groups."""
    rng, n = np.random.default_rng(8), 1_500
    g, h, x = rng.integers(0, 12, n), rng.integers(0, 6, n), rng.normal(size=n)
    effect = rng.normal(size=(12, 2)) @ np.array([[0.7, 0.4], [0.0, 0.4]])
    eta = effect[g, 0] + (0.3 + effect[g, 1]) * x + 0.3 * rng.normal(size=6)[h]
    with pm.Model() as model:
        mu, v = pm.Normal("mu", 0.0, 2.0, shape=2), pm.Normal("v", 0.0, 0.5, shape=6)
        scale = pm.HalfNormal.dist(1.0, shape=2)
        root, _, _ = pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=scale)
        u = mu + pm.Normal("z", 0.0, 1.0, shape=(12, 2)) @ root.T
        pm.Bernoulli("y", logit_p=u[g, 0] + u[g, 1] * x + v[h], observed=_late(rng, eta))
    return model


def over_time():
    """Return weekly effects, each of which is around that of the week before."""
    rng, n = np.random.default_rng(10), 1_200
    week, x = rng.integers(0, 17, n), rng.normal(size=n)
    eta = -0.3 + 0.4 * x + np.cumsum(0.3 * rng.normal(size=17))[week]
    with pm.Model() as model:
        b, sigma = pm.Normal("b", 0.0, 1.0), pm.HalfNormal("sigma", 1.0)
        start = pm.Normal.dist(0.0, 2.0)
        walk = pm.GaussianRandomWalk("walk", sigma=sigma, init_dist=start, shape=17)
        pm.Bernoulli("y", logit_p=walk[week] + b * x, observed=_late(rng, eta))
    return model


def two_terms():
    """Return a model of which one of two likelihoods reads no group."""
    rng, n = np.random.default_rng(7), 1_200
    g, x = rng.integers(0, 15, n), rng.normal(size=n)
    with pm.Model() as model:
        b, tau = pm.Normal("b", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        a = pm.Normal("a", 0.0, tau, shape=15)
        pm.Bernoulli("y", logit_p=b + a[g], observed=_late(rng, 0.5 * rng.normal(size=15)[g]))
        pm.Bernoulli("other", logit_p=b * x, observed=_late(rng, 0.4 * x))
    return model


def contests():
    """Return wins of home teams by skills that add up to zero, of which a row reads two."""
    rng, n = np.random.default_rng(14), 1_500
    home = rng.integers(0, 12, n)
    away = (home + rng.integers(1, 12, n)) % 12
    true = 0.6 * rng.normal(size=12)
    with pm.Model() as model:
        level, sd = pm.Normal("level", 0.0, 1.0), pm.HalfNormal("sd", 1.0)
        skill = sd * pm.ZeroSumNormal("skill", shape=12)
        won = _late(rng, true[home] - true[away])
        pm.Bernoulli("y", logit_p=level + skill[home] - skill[away], observed=won)
    return model


def at_grounds():
    """Return points by the skills of both teams, beside effects of where they play, and a slope.

    Teams mostly play at a ground of their own, whose effect is hard to tell from their skill.
    """
    rng, n = np.random.default_rng(16), 1_500
    home, x = rng.integers(0, 9, n), rng.normal(size=n)
    away = (home + rng.integers(1, 9, n)) % 9
    ground = np.where(rng.random(n) < 0.8, home, rng.integers(0, 14, n))
    with pm.Model() as model:
        b, tau = pm.Normal("b", 0.0, 2.0, shape=2), pm.HalfNormal("tau", 1.0)
        skill = pm.Normal("skill", 0.0, 0.5, shape=9)
        z = pm.Normal("z", b[0], tau, shape=14)
        eta = b[1] * x + z[ground] + skill[home] - skill[away]
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(0.2 + 0.3 * x)))
    return model


MODELS = {
    made.__name__: made
    for made in (
        logistic,
        poisson,
        normal,
        student,
        negative_binomial,
        slopes,
        correlated,
        over_time,
        two_terms,
        contests,
        at_grounds,
    )
}


def three_factors():
    rng, n = np.random.default_rng(11), 1_100
    ids = [rng.integers(0, size, n) for size in (9, 6, 4)]
    with pm.Model() as model:
        z = [pm.Normal(f"z{k}", 0.0, 0.7, shape=size) for k, size in enumerate((6, 9, 4))]
        eta = pm.Normal("b", 0.0, 1.0) + z[0][ids[1]] + z[1][ids[0]] + z[2][ids[2]]
        pm.Bernoulli("y", logit_p=eta, observed=_late(rng, rng.normal(size=n)))
    return model


def one_slope():
    """Return a model whose groups differ in slopes alone."""
    rng, n = np.random.default_rng(12), 1_100
    g, x = rng.integers(0, 10, n), rng.normal(size=n)
    with pm.Model() as model:
        b, tau = pm.Normal("b", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        c = pm.Normal("c", 0.5, tau, shape=10)
        pm.Poisson("y", pm.math.exp(b + c[g] * x), observed=rng.poisson(np.exp(0.2 + 0.5 * x)))
    return model


def other_index():
    """Return a model of which two likelihoods choose of the same effects by indices of their own.

    Groups are counted from the end in one of them.
    """
    rng, n = np.random.default_rng(13), 1_200
    g, h = rng.integers(-10, 0, n), rng.integers(0, 10, n - 100)
    with pm.Model() as model:
        b, sigma = pm.Normal("b", 0.0, 2.0), pm.HalfNormal("sigma", 1.0)
        z, tau = pm.Normal("z", 0.0, 1.0, shape=10), pm.HalfNormal("tau", 1.0)
        pm.Normal("y", b + tau * z[g], sigma, observed=rng.normal(size=n))
        pm.Bernoulli("late", logit_p=tau * z[h], observed=_late(rng, rng.normal(size=n - 100)))
    return model


#: Models that steps are tested on elsewhere, and others whose sums alone are.
SUMMED = MODELS | {made.__name__: made for made in (three_factors, one_slope, other_index)}

#: Models that between them have crossed factors, signs that matter or not, slopes, and rows that
#: read no group, or two of one. Correlated effects, whose prior compiles for longest, are among the
#: exact laws that are always tested.
FAST = ("logistic", "normal", "slopes", "over_time", "two_terms", "at_grounds")


@cache
def step_of(name):
    """Return a step on one of these models, of which every element moves by itself."""
    with MODELS[name]():
        step = TunaMH(blocks=True, rng=1)
    assert step.plan.elements is not None
    return step


def target_of(model):
    reading = ReadingSettings()
    point = model.initial_point()
    return Target(read_model(model, model.value_vars, point, reading, Requirements()).compiled)


@cache
def expanded(name):
    """Return the target of one of these models, and the expansions that a step has."""
    if name in MODELS:
        step = step_of(name)
        return step.target, step.plan.elements
    model = SUMMED[name]()
    target = target_of(model)
    return target, find_grouped(target, target.factorization.ravel(model.initial_point()))
