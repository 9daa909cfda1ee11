"""Regressions: one observation a row, any family."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from forms.form import GROUPS, Section

real = Section("Real responses")
counted = Section("Counts and proportions")
classed = Section("Classes")


def line(d):
    return pm.Normal("a") + pm.Normal("b") * d.x


def rate(d):
    return pm.math.exp(line(d))


def slopes(size=3):
    return pm.Normal("b", shape=size)


@real.accepts("one predictor", 'pm.Normal("y", a + b * x, sigma, observed=y)')
def one_predictor(d):
    pm.Normal("y", line(d), pm.HalfNormal("s"), observed=d.y)


@real.accepts("design matrix", 'pm.Normal("y", X @ b, sigma, observed=y)')
def design_matrix(d):
    pm.Normal("y", d.X @ slopes(), pm.HalfNormal("s"), observed=d.y)


@real.accepts("scale with a regression of its own", 'pm.Normal("y", X @ b, pm.math.exp(X @ c))')
def heteroscedastic(d):
    scale = pm.math.exp(pm.math.dot(d.X, pm.Normal("c", shape=3)))
    pm.Normal("y", pm.math.dot(d.X, slopes()), scale, observed=d.y)


@real.accepts("known weights of rows", 'pm.Normal("y", X @ b, sigma / np.sqrt(w))')
def weighted(d):
    pm.Normal("y", d.X @ slopes(), pm.HalfNormal("s") / pt.sqrt(d.weights), observed=d.y)


@real.accepts("Student-t", 'pm.StudentT("y", nu, X @ b, sigma)')
def student(d):
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=d.X @ slopes(), sigma=pm.HalfNormal("s"), observed=d.y)


@real.accepts("Cauchy", 'pm.Cauchy("y", a + b * x, scale)')
def cauchy(d):
    pm.Cauchy("y", line(d), pm.HalfNormal("s"), observed=d.y)


@real.accepts("Logistic", 'pm.Logistic("y", a + b * x, s)')
def logistic(d):
    pm.Logistic("y", line(d), pm.HalfNormal("s"), observed=d.y)


@real.accepts("Laplace", 'pm.Laplace("y", a + b * x, s)')
def laplace(d):
    pm.Laplace("y", line(d), pm.HalfNormal("s"), observed=d.y)


@real.accepts("asymmetric Laplace, quantile regression", 'pm.AsymmetricLaplace("y", q=0.3, mu=mu)')
def quantile(d):
    pm.AsymmetricLaplace("y", q=0.3, mu=line(d), b=1.2, observed=d.y)


@real.accepts("skew normal", 'pm.SkewNormal("y", mu, sigma, alpha)')
def skew_normal(d):
    pm.SkewNormal("y", mu=line(d), sigma=1.0, alpha=pm.Normal("skew"), observed=d.y)


@real.accepts("exponentially modified Gaussian", 'pm.ExGaussian("y", mu, sigma, nu)')
def ex_gaussian(d):
    pm.ExGaussian("y", mu=line(d), sigma=pm.HalfNormal("s"), nu=pm.HalfNormal("nu"), observed=d.y)


@real.accepts("Gumbel", 'pm.Gumbel("y", mu, beta)')
def gumbel(d):
    pm.Gumbel("y", line(d), pm.HalfNormal("s"), observed=d.y)


@real.accepts("Moyal", 'pm.Moyal("y", mu, sigma)')
def moyal(d):
    pm.Moyal("y", line(d), pm.HalfNormal("s"), observed=d.y)


@real.accepts("von Mises, angles", 'pm.VonMises("y", mu, kappa)')
def von_mises(d):
    pm.VonMises("y", line(d), pm.HalfNormal("kappa"), observed=d.y)


@real.accepts("log-normal", 'pm.LogNormal("y", X @ b, sigma)')
def log_normal(d):
    pm.LogNormal("y", d.X @ slopes(), pm.HalfNormal("s"), observed=d.positive)


@real.accepts("gamma by mean and shape", 'pm.Gamma("y", alpha, alpha / pm.math.exp(X @ b))')
def gamma(d):
    alpha = pm.HalfNormal("alpha")
    pm.Gamma("y", alpha=alpha, beta=alpha / pm.math.exp(d.X @ slopes()), observed=d.positive)


@real.accepts("inverse gamma", 'pm.InverseGamma("y", alpha, pm.math.exp(a + b * x))')
def inverse_gamma(d):
    pm.InverseGamma("y", pm.HalfNormal("alpha"), rate(d), observed=d.positive)


@real.accepts("exponential", 'pm.Exponential("y", pm.math.exp(a + b * x))')
def exponential(d):
    pm.Exponential("y", rate(d), observed=d.positive)


@real.accepts("Weibull", 'pm.Weibull("y", alpha, pm.math.exp(a + b * x))')
def weibull(d):
    pm.Weibull("y", alpha=pm.HalfNormal("k"), beta=rate(d), observed=d.positive)


@real.accepts("inverse Gaussian", 'pm.Wald("y", mu=pm.math.exp(a + b * x), lam=lam)')
def wald(d):
    pm.Wald("y", mu=rate(d), lam=pm.HalfNormal("lam"), observed=d.positive)


@real.accepts("beta by mean and precision", 'pm.Beta("y", mu * phi, (1 - mu) * phi)')
def beta(d):
    mu, phi = pm.math.invlogit(d.X @ slopes()), pm.HalfNormal("phi")
    pm.Beta("y", alpha=mu * phi, beta=(1.0 - mu) * phi, observed=d.share)


@real.accepts("logit-normal", 'pm.LogitNormal("y", a + b * x, sigma)')
def logit_normal(d):
    pm.LogitNormal("y", line(d), pm.HalfNormal("s"), observed=d.share)


@real.accepts("Kumaraswamy", 'pm.Kumaraswamy("y", a, b)')
def kumaraswamy(d):
    pm.Kumaraswamy("y", pm.HalfNormal("k"), rate(d), observed=d.share)


@real.accepts("Pareto", 'pm.Pareto("y", alpha, m)')
def pareto(d):
    pm.Pareto("y", alpha=rate(d), m=0.05, observed=d.positive)


@counted.accepts("logistic regression", 'pm.Bernoulli("y", logit_p=X @ b)')
def bernoulli_logit(d):
    pm.Bernoulli("y", logit_p=d.X @ slopes(), observed=d.ones)


@counted.accepts("probit", 'pm.Bernoulli("y", p=pm.math.invprobit(X @ b))')
def bernoulli_probit(d):
    pm.Bernoulli("y", p=pm.math.invprobit(d.X @ slopes()), observed=d.ones)


@counted.accepts("complementary log-log", 'pm.Bernoulli("y", p=1 - pm.math.exp(-pm.math.exp(eta)))')
def bernoulli_cloglog(d):
    pm.Bernoulli("y", p=1.0 - pm.math.exp(-rate(d)), observed=d.ones)


@counted.accepts("lapse rate", 'pm.Bernoulli("y", p=e / 2 + (1 - e) * pm.math.sigmoid(eta))')
def lapse(d):
    e = pm.Beta("e", 1, 9)
    pm.Bernoulli("y", p=e / 2 + (1 - e) * pm.math.sigmoid(line(d)), observed=d.ones)


@counted.accepts("binomial", 'pm.Binomial("y", n=trials, logit_p=X @ b)')
def binomial(d):
    pm.Binomial("y", n=d.trials, logit_p=d.X @ slopes(), observed=d.counts)


@counted.accepts("beta-binomial", 'pm.BetaBinomial("y", alpha, beta, n=trials)')
def beta_binomial(d):
    pm.BetaBinomial("y", n=d.trials, alpha=rate(d), beta=pm.HalfNormal("c"), observed=d.counts)


@counted.accepts("Poisson with exposure", 'pm.Poisson("y", exposure * pm.math.exp(X @ b))')
def poisson(d):
    pm.Poisson("y", d.weights * pm.math.exp(d.X @ slopes()), observed=d.counts)


@counted.accepts("negative binomial", 'pm.NegativeBinomial("y", mu, alpha)')
def negative_binomial(d):
    pm.NegativeBinomial("y", mu=rate(d), alpha=pm.HalfNormal("alpha"), observed=d.counts)


@counted.accepts("negative binomial by n and p", 'pm.NegativeBinomial("y", n=n, p=n / (n + mu))')
def negative_binomial_by_probability(d):
    n = pm.HalfNormal("n")
    pm.NegativeBinomial("y", n=n, p=n / (n + rate(d)), observed=d.counts)


@counted.accepts(
    "negative binomial with a logistic p",
    'pm.NegativeBinomial("y", n=n, p=pm.math.sigmoid(X @ b))',
)
def negative_binomial_with_logistic_probability(d):
    p = pm.math.sigmoid(line(d))
    pm.NegativeBinomial("y", n=pm.HalfNormal("n"), p=p, observed=d.counts)


@counted.accepts("geometric", 'pm.Geometric("y", pm.math.sigmoid(a + b * x))')
def geometric(d):
    pm.Geometric("y", pm.math.sigmoid(line(d)), observed=d("tries", d.raw.counts + 1))


@counted.accepts("discrete Weibull", 'pm.DiscreteWeibull("y", q, beta)')
def discrete_weibull(d):
    pm.DiscreteWeibull("y", pm.math.sigmoid(line(d)), pm.HalfNormal("k"), observed=d.counts)


@counted.accepts("zero-inflated Poisson", 'pm.ZeroInflatedPoisson("y", psi, mu)')
def zero_inflated_poisson(d):
    pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 2, 2), mu=rate(d), observed=d.counts)


@counted.accepts(
    "zero inflation with a regression of its own",
    'pm.ZeroInflatedPoisson("y", pm.math.sigmoid(X @ c), pm.math.exp(X @ b))',
)
def zero_inflated_regression(d):
    psi = pm.math.sigmoid(d.X @ pm.Normal("c", shape=3))
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(d.X @ slopes()), observed=d.counts)


@counted.accepts("zero-inflated binomial", 'pm.ZeroInflatedBinomial("y", psi, trials, p)')
def zero_inflated_binomial(d):
    p = pm.math.sigmoid(line(d))
    pm.ZeroInflatedBinomial("y", psi=pm.Beta("psi", 2, 2), n=d.trials, p=p, observed=d.counts)


@counted.accepts(
    "zero-inflated negative binomial", 'pm.ZeroInflatedNegativeBinomial("y", psi, mu, alpha)'
)
def zero_inflated_negative_binomial(d):
    alpha = pm.HalfNormal("alpha")
    pm.ZeroInflatedNegativeBinomial("y", 0.8, mu=rate(d), alpha=alpha, observed=d.counts)


@counted.accepts("hurdle Poisson", 'pm.HurdlePoisson("y", psi, mu)')
def hurdle_poisson(d):
    pm.HurdlePoisson("y", psi=pm.Beta("psi", 2, 2), mu=rate(d), observed=d.counts)


@counted.accepts("hurdle negative binomial", 'pm.HurdleNegativeBinomial("y", psi, mu, alpha)')
def hurdle_negative_binomial(d):
    alpha = pm.HalfNormal("alpha")
    pm.HurdleNegativeBinomial("y", 0.8, mu=rate(d), alpha=alpha, observed=d.counts)


@counted.accepts("hurdle gamma", 'pm.HurdleGamma("y", psi, alpha, beta)')
def hurdle_gamma(d):
    amount = d("amount", d.raw.positive * d.raw.ones)
    pm.HurdleGamma("y", psi=pm.Beta("psi", 2, 2), alpha=2.0, beta=rate(d), observed=amount)


@counted.accepts("hurdle log-normal", 'pm.HurdleLogNormal("y", psi, mu, sigma)')
def hurdle_log_normal(d):
    amount = d("amount", d.raw.positive * d.raw.ones)
    sigma = pm.HalfNormal("s")
    pm.HurdleLogNormal("y", psi=pm.Beta("psi", 2, 2), mu=line(d), sigma=sigma, observed=amount)


@classed.accepts("logits of each row", 'pm.Categorical("y", logit_p=X @ B)')
def categorical_logits(d):
    pm.Categorical("y", logit_p=d.X @ pm.Normal("B", shape=(3, 3)), observed=d.classes)


@classed.accepts("softmax of each row", 'pm.Categorical("y", p=pm.math.softmax(X @ B, axis=-1))')
def categorical_softmax(d):
    logits = pm.math.dot(d.X, pm.Normal("B", shape=(3, 3)))
    pm.Categorical("y", p=pm.math.softmax(logits, axis=-1), observed=d.classes)


@classed.accepts(
    "softmax against a reference class", "pt.concatenate([pt.zeros((N, 1)), X @ B], axis=1)"
)
def categorical_reference(d):
    logits = pt.concatenate([pt.zeros((d.n, 1)), d.X @ pm.Normal("B", shape=(3, 2))], axis=1)
    pm.Categorical("y", p=pm.math.softmax(logits, axis=1), observed=d.classes)


@classed.accepts("shared probabilities", 'pm.Categorical("y", p=pm.Dirichlet("p", ...))')
def categorical_shared(d):
    pm.Categorical("y", p=pm.Dirichlet("p", np.ones(3)), observed=d.classes)


@classed.accepts("probabilities of groups", 'pm.Categorical("y", p=P[g])', trap=GROUPS)
def categorical_groups(d):
    pm.Categorical("y", p=pm.Dirichlet("P", np.ones((4, 3)))[d.g], observed=d.classes)


def ordered():
    return pm.Normal("c", [-1.0, 1.0], transform=pm.distributions.transforms.ordered, shape=2)


@classed.accepts("ordered logistic", 'pm.OrderedLogistic("y", eta=X @ b, cutpoints=c)')
def ordered_logistic(d):
    pm.OrderedLogistic("y", eta=d.X @ slopes(), cutpoints=ordered(), observed=d.classes)


@classed.accepts("ordered probit", 'pm.OrderedProbit("y", eta=X @ b, cutpoints=c)')
def ordered_probit(d):
    pm.OrderedProbit("y", eta=d.X @ slopes(), cutpoints=ordered(), observed=d.classes)


@classed.accepts("cutpoints from a simplex", "pm.math.logit(pt.cumsum(p)[:-1])")
def ordered_simplex(d):
    p = pm.Dirichlet("p", np.ones(3))
    cuts = pm.math.logit(pt.cumsum(p)[:-1])
    pm.OrderedLogistic("y", eta=pm.Normal("b") * d.x, cutpoints=cuts, observed=d.classes)


@classed.accepts("cutpoints from widths", "pt.concatenate([[0.0], pt.cumsum(widths)])")
def ordered_widths(d):
    cuts = pt.concatenate([[0.0], pt.cumsum(pm.HalfNormal("w", shape=1))])
    pm.OrderedLogistic("y", eta=line(d), cutpoints=cuts, observed=d.classes)


@classed.accepts("ordered logistic without its probabilities", "compute_p=False")
def ordered_without_p(d):
    pm.OrderedLogistic("y", d.X @ slopes(), ordered(), compute_p=False, observed=d.classes)


@classed.accepts("multinomial", 'pm.Multinomial("y", n=9, p=pm.math.softmax(X @ B, axis=1))')
def multinomial(d):
    p = pm.math.softmax(d.X @ pm.Normal("B", shape=(3, 3)), axis=1)
    pm.Multinomial("y", n=9, p=p, observed=d.tallies)


@classed.accepts("multinomial, trials of each row", 'pm.Multinomial("y", n=totals, p=p)')
def multinomial_trials(d):
    totals = d("totals", d.raw.tallies.sum(1))
    pm.Multinomial("y", n=totals, p=pm.Dirichlet("p", np.ones(3)), observed=d.tallies)


@classed.accepts("Dirichlet-multinomial", 'pm.DirichletMultinomial("y", n=9, a=pm.math.exp(X @ B))')
def dirichlet_multinomial(d):
    a = pm.math.exp(d.X @ pm.Normal("B", shape=(3, 3)))
    pm.DirichletMultinomial("y", n=9, a=a, observed=d.tallies)


@classed.accepts("Dirichlet, shares of each row", 'pm.Dirichlet("y", a=pm.math.exp(X @ B))')
def dirichlet(d):
    pm.Dirichlet("y", a=pm.math.exp(d.X @ pm.Normal("B", shape=(3, 3))), observed=d.simplex)


@classed.accepts("ordered multinomial", 'pm.OrderedMultinomial("y", eta=eta, cutpoints=c, n=9)')
def ordered_multinomial(d):
    pm.OrderedMultinomial("y", eta=line(d), cutpoints=ordered(), n=9, observed=d.tallies)
