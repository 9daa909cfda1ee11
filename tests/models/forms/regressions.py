"""Regressions: one observation a row, any family."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from models.forms.form import GROUPS, Section

real = Section("Real responses")
counted = Section("Counts and proportions")
classed = Section("Classes")


def line(d):
    return pm.Normal("a") + pm.Normal("b") * d.x


def rate(d):
    return pm.math.exp(line(d))


def slopes(size=3):
    return pm.Normal("b", shape=size)


real.forms_of(
    {
        "one predictor": lambda d: pm.Normal("y", line(d), pm.HalfNormal("s"), observed=d.y),
        "design matrix": lambda d: pm.Normal("y", d.X @ slopes(), pm.HalfNormal("s"), observed=d.y),
        "known weights of rows": lambda d: pm.Normal(
            "y", d.X @ slopes(), pm.HalfNormal("s") / pt.sqrt(d.weights), observed=d.y
        ),
        "Cauchy": lambda d: pm.Cauchy("y", line(d), pm.HalfNormal("s"), observed=d.y),
        "Logistic": lambda d: pm.Logistic("y", line(d), pm.HalfNormal("s"), observed=d.y),
        "Laplace": lambda d: pm.Laplace("y", line(d), pm.HalfNormal("s"), observed=d.y),
        "asymmetric Laplace, quantile regression": lambda d: pm.AsymmetricLaplace(
            "y", q=0.3, mu=line(d), b=1.2, observed=d.y
        ),
        "skew normal": lambda d: pm.SkewNormal(
            "y", mu=line(d), sigma=1.0, alpha=pm.Normal("skew"), observed=d.y
        ),
        "exponentially modified Gaussian": lambda d: pm.ExGaussian(
            "y", mu=line(d), sigma=pm.HalfNormal("s"), nu=pm.HalfNormal("nu"), observed=d.y
        ),
        "Gumbel": lambda d: pm.Gumbel("y", line(d), pm.HalfNormal("s"), observed=d.y),
        "Moyal": lambda d: pm.Moyal("y", line(d), pm.HalfNormal("s"), observed=d.y),
        "von Mises, angles": lambda d: pm.VonMises(
            "y", line(d), pm.HalfNormal("kappa"), observed=d.y
        ),
        "von Mises with a mean on the circle": lambda d: pm.VonMises(
            "y", pm.VonMises("mu", 0.0, 1.0), pm.HalfNormal("kappa"), observed=d.y
        ),
        "log-normal": lambda d: pm.LogNormal(
            "y", d.X @ slopes(), pm.HalfNormal("s"), observed=d.positive
        ),
        "inverse gamma": lambda d: pm.InverseGamma(
            "y", pm.HalfNormal("alpha"), rate(d), observed=d.positive
        ),
        "exponential": lambda d: pm.Exponential("y", rate(d), observed=d.positive),
        "Weibull": lambda d: pm.Weibull(
            "y", alpha=pm.HalfNormal("k"), beta=rate(d), observed=d.positive
        ),
        "inverse Gaussian": lambda d: pm.Wald(
            "y", mu=rate(d), lam=pm.HalfNormal("lam"), observed=d.positive
        ),
        "logit-normal": lambda d: pm.LogitNormal(
            "y", line(d), pm.HalfNormal("s"), observed=d.share
        ),
        "Kumaraswamy": lambda d: pm.Kumaraswamy("y", pm.HalfNormal("k"), rate(d), observed=d.share),
        "Pareto": lambda d: pm.Pareto("y", alpha=rate(d), m=0.05, observed=d.positive),
    }
)


@real.form("scale with a regression of its own")
def heteroscedastic(d):
    scale = pm.math.exp(pm.math.dot(d.X, pm.Normal("c", shape=3)))
    pm.Normal("y", pm.math.dot(d.X, slopes()), scale, observed=d.y)


@real.form("Student-t")
def student(d):
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=d.X @ slopes(), sigma=pm.HalfNormal("s"), observed=d.y)


@real.form("gamma by mean and shape")
def gamma(d):
    alpha = pm.HalfNormal("alpha")
    pm.Gamma("y", alpha=alpha, beta=alpha / pm.math.exp(d.X @ slopes()), observed=d.positive)


@real.form("beta by mean and precision")
def beta(d):
    mu, phi = pm.math.invlogit(d.X @ slopes()), pm.HalfNormal("phi")
    pm.Beta("y", alpha=mu * phi, beta=(1.0 - mu) * phi, observed=d.share)


counted.forms_of(
    {
        "logistic regression": lambda d: pm.Bernoulli("y", logit_p=d.X @ slopes(), observed=d.ones),
        "probit": lambda d: pm.Bernoulli("y", p=pm.math.invprobit(d.X @ slopes()), observed=d.ones),
        "complementary log-log": lambda d: pm.Bernoulli(
            "y", p=1.0 - pm.math.exp(-rate(d)), observed=d.ones
        ),
        "binomial": lambda d: pm.Binomial(
            "y", n=d.trials, logit_p=d.X @ slopes(), observed=d.counts
        ),
        "beta-binomial": lambda d: pm.BetaBinomial(
            "y", n=d.trials, alpha=rate(d), beta=pm.HalfNormal("c"), observed=d.counts
        ),
        "Poisson with exposure": lambda d: pm.Poisson(
            "y", d.weights * pm.math.exp(d.X @ slopes()), observed=d.counts
        ),
        "negative binomial": lambda d: pm.NegativeBinomial(
            "y", mu=rate(d), alpha=pm.HalfNormal("alpha"), observed=d.counts
        ),
        "geometric": lambda d: pm.Geometric(
            "y", pm.math.sigmoid(line(d)), observed=d("tries", d.raw.counts + 1)
        ),
        "discrete Weibull": lambda d: pm.DiscreteWeibull(
            "y", pm.math.sigmoid(line(d)), pm.HalfNormal("k"), observed=d.counts
        ),
        "zero-inflated Poisson": lambda d: pm.ZeroInflatedPoisson(
            "y", psi=pm.Beta("psi", 2, 2), mu=rate(d), observed=d.counts
        ),
        "hurdle Poisson": lambda d: pm.HurdlePoisson(
            "y", psi=pm.Beta("psi", 2, 2), mu=rate(d), observed=d.counts
        ),
    }
)


@counted.form("lapse rate")
def lapse(d):
    e = pm.Beta("e", 1, 9)
    pm.Bernoulli("y", p=e / 2 + (1 - e) * pm.math.sigmoid(line(d)), observed=d.ones)


@counted.form("negative binomial by n and p")
def negative_binomial_by_probability(d):
    n = pm.HalfNormal("n")
    pm.NegativeBinomial("y", n=n, p=n / (n + rate(d)), observed=d.counts)


@counted.form("negative binomial with a logistic p")
def negative_binomial_with_logistic_probability(d):
    p = pm.math.sigmoid(line(d))
    pm.NegativeBinomial("y", n=pm.HalfNormal("n"), p=p, observed=d.counts)


@counted.form("zero inflation with a regression of its own")
def zero_inflated_regression(d):
    psi = pm.math.sigmoid(d.X @ pm.Normal("c", shape=3))
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(d.X @ slopes()), observed=d.counts)


@counted.form("zero-inflated binomial")
def zero_inflated_binomial(d):
    p = pm.math.sigmoid(line(d))
    pm.ZeroInflatedBinomial("y", psi=pm.Beta("psi", 2, 2), n=d.trials, p=p, observed=d.counts)


@counted.form("zero-inflated negative binomial")
def zero_inflated_negative_binomial(d):
    alpha = pm.HalfNormal("alpha")
    pm.ZeroInflatedNegativeBinomial("y", 0.8, mu=rate(d), alpha=alpha, observed=d.counts)


@counted.form("hurdle negative binomial")
def hurdle_negative_binomial(d):
    alpha = pm.HalfNormal("alpha")
    pm.HurdleNegativeBinomial("y", 0.8, mu=rate(d), alpha=alpha, observed=d.counts)


@counted.form("hurdle gamma")
def hurdle_gamma(d):
    amount = d("amount", d.raw.positive * d.raw.ones)
    pm.HurdleGamma("y", psi=pm.Beta("psi", 2, 2), alpha=2.0, beta=rate(d), observed=amount)


@counted.form("hurdle log-normal")
def hurdle_log_normal(d):
    amount = d("amount", d.raw.positive * d.raw.ones)
    sigma = pm.HalfNormal("s")
    pm.HurdleLogNormal("y", psi=pm.Beta("psi", 2, 2), mu=line(d), sigma=sigma, observed=amount)


classed.forms_of(
    {
        "logits of each row": lambda d: pm.Categorical(
            "y", logit_p=d.X @ pm.Normal("B", shape=(3, 3)), observed=d.classes
        ),
        "shared probabilities": lambda d: pm.Categorical(
            "y", p=pm.Dirichlet("p", np.ones(3)), observed=d.classes
        ),
        "ordered logistic": lambda d: pm.OrderedLogistic(
            "y", eta=d.X @ slopes(), cutpoints=ordered(), observed=d.classes
        ),
        "ordered probit": lambda d: pm.OrderedProbit(
            "y", eta=d.X @ slopes(), cutpoints=ordered(), observed=d.classes
        ),
        "ordered probit between known thresholds": lambda d: pm.OrderedProbit(
            "y",
            eta=line(d),
            cutpoints=pt.stack([-1.0, pm.Normal("c", 0.2, 0.3)]),
            sigma=pm.HalfNormal("s"),
            compute_p=False,
            observed=d.classes,
        ),
        "ordered logistic without its probabilities": lambda d: pm.OrderedLogistic(
            "y", d.X @ slopes(), ordered(), compute_p=False, observed=d.classes
        ),
        "Dirichlet, shares of each row": lambda d: pm.Dirichlet(
            "y", a=pm.math.exp(d.X @ pm.Normal("B", shape=(3, 3))), observed=d.simplex
        ),
        "ordered multinomial": lambda d: pm.OrderedMultinomial(
            "y", eta=line(d), cutpoints=ordered(), n=9, observed=d.tallies
        ),
    }
)


@classed.form("softmax of each row")
def categorical_softmax(d):
    logits = pm.math.dot(d.X, pm.Normal("B", shape=(3, 3)))
    pm.Categorical("y", p=pm.math.softmax(logits, axis=-1), observed=d.classes)


@classed.form("softmax against a reference class")
def categorical_reference(d):
    logits = pt.concatenate([pt.zeros((d.n, 1)), d.X @ pm.Normal("B", shape=(3, 2))], axis=1)
    pm.Categorical("y", p=pm.math.softmax(logits, axis=1), observed=d.classes)


@classed.form("coefficients of each person, in data of each class")
def categorical_people(d):
    price = (pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=4))[d.g]
    p = pm.math.softmax(pm.Normal("B", shape=3) + price[:, None] * d.X, axis=1)
    pm.Categorical("y", p=p, observed=d.classes)


@classed.form("probabilities of groups", trap=GROUPS)
def categorical_groups(d):
    pm.Categorical("y", p=pm.Dirichlet("P", np.ones((4, 3)))[d.g], observed=d.classes)


def ordered():
    return pm.Normal("c", [-1.0, 1.0], transform=pm.distributions.transforms.ordered, shape=2)


@classed.form("cutpoints from a simplex")
def ordered_simplex(d):
    p = pm.Dirichlet("p", np.ones(3))
    cuts = pm.math.logit(pt.cumsum(p)[:-1])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * d.x, cutpoints=cuts, observed=d.classes)


@classed.form("cutpoints from widths")
def ordered_widths(d):
    cuts = pt.concatenate([[0.0], pt.cumsum(pm.HalfNormal("w", shape=1))])
    pm.OrderedLogistic("y", eta=line(d), cutpoints=cuts, observed=d.classes)


@classed.form("multinomial")
def multinomial(d):
    p = pm.math.softmax(d.X @ pm.Normal("B", shape=(3, 3)), axis=1)
    pm.Multinomial("y", n=9, p=p, observed=d.tallies)


@classed.form("multinomial, trials of each row")
def multinomial_trials(d):
    totals = d("totals", d.raw.tallies.sum(1))
    pm.Multinomial("y", n=totals, p=pm.Dirichlet("p", np.ones(3)), observed=d.tallies)


@classed.form("Dirichlet-multinomial")
def dirichlet_multinomial(d):
    a = pm.math.exp(d.X @ pm.Normal("B", shape=(3, 3)))
    pm.DirichletMultinomial("y", n=9, a=a, observed=d.tallies)
