"""One tall model per family of likelihoods whose rows have derivatives that can be bounded.

Covariates are bounded and the posteriors about normal, so that a second-order expansion at the
mode leaves a small remainder for every row.
"""

from functools import wraps

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import expit, ndtr, ndtri

#: Name -> function of a number of rows that builds the model.
FAMILIES = {}


def family(seed):
    """Register the declaration of a model, whose data a generator of its own makes up."""

    def register(declare):
        @wraps(declare)
        def build(*sizes, **named):
            with pm.Model() as model:
                declare(np.random.default_rng(seed), *sizes, **named)
            return model

        FAMILIES[declare.__name__] = build
        return build

    return register


def design(rng, rows, columns=3):
    """Return an intercept and covariates in (-1, 1)."""
    return np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, columns - 1))])


@family(101)
def bernoulli_logit(rng, rows=5_000):
    """A design in pm.Data and an int8 response."""
    X = design(rng, rows)
    y = (rng.random(rows) < expit(X @ [-0.4, 1.0, 0.5])).astype(np.int8)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    pm.Bernoulli("y", logit_p=pm.Data("X", X) @ b, observed=y)


@family(102)
def bernoulli_probit(rng, rows=10_000):
    """A probability through pm.math.invprobit."""
    X = design(rng, rows)
    y = (rng.random(rows) < ndtr(X @ [0.2, 0.6, -0.4])).astype(np.int64)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Bernoulli("y", p=pm.math.invprobit(X @ b), observed=y)


@family(103)
def binomial(rng, rows=5_000):
    """Trials that differ from row to row."""
    X = design(rng, rows)
    trials = rng.integers(1, 13, rows)
    y = rng.binomial(trials, expit(X @ [-0.5, 0.7, 0.3]))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Binomial("y", n=trials, logit_p=pt.dot(X, b), observed=y)


@family(104)
def poisson_exposure(rng, rows=10_000):
    """Counts whose mean is proportional to an exposure."""
    X = design(rng, rows)
    exposure = rng.uniform(0.5, 2.0, rows)
    y = rng.poisson(exposure * np.exp(X @ [0.3, 0.6, -0.3]))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Poisson("y", mu=pm.Data("exposure", exposure) * pm.math.exp(X @ b), observed=y)


@family(105)
def negative_binomial(rng, rows=10_000):
    """Overdispersed counts."""
    X = design(rng, rows)
    mean = np.exp(X @ [0.8, 0.5, -0.3])
    y = rng.poisson(mean * rng.gamma(2.0, 0.5, rows))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 2.0, 0.5)
    pm.NegativeBinomial("y", mu=pm.math.exp(pt.dot(X, b)), alpha=alpha, observed=y)


@family(106)
def normal_scale(rng, rows=10_000):
    """A regression with an unknown scale."""
    X = design(rng, rows)
    y = X @ [1.0, -0.5, 0.3] + 1.4 * rng.standard_normal(rows)
    b = pm.Normal("b", 0.0, 10.0, shape=3)
    sigma = pm.HalfNormal("sigma", 5.0)
    pm.Normal("y", mu=X @ b, sigma=sigma, observed=y)


@family(107)
def student_fixed(rng, rows=10_000):
    """Heavy tails of known weight."""
    X = design(rng, rows)
    y = X @ [0.5, 1.0, -0.7] + 1.2 * rng.standard_t(4, rows)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.StudentT("y", nu=4, mu=pm.Data("X", X) @ b, sigma=sigma, observed=y)


@family(108)
def student_free(rng, rows=20_000):
    """Heavy tails of unknown weight."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = 0.5 + x + 1.5 * rng.standard_t(5, rows)
    level = pm.Normal("level", 0.0, 5.0)
    slope = pm.Normal("slope", 0.0, 5.0)
    sigma = pm.HalfNormal("sigma", 3.0)
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=level + slope * x, sigma=sigma, observed=y)


@family(109)
def logistic_noise(rng, rows=10_000):
    """A regression with logistic noise."""
    X = design(rng, rows)
    y = rng.logistic(X @ [-0.3, 0.8, 0.4], 0.7)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    scale = pm.HalfNormal("scale", 2.0)
    pm.Logistic("y", mu=X @ b, s=scale, observed=y)


@family(110)
def cauchy(rng, rows=10_000):
    """Noise without a mean."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = 1.0 - 0.6 * x + 0.8 * rng.standard_cauchy(rows)
    level = pm.Normal("level", 0.0, 5.0)
    slope = pm.Normal("slope", 0.0, 5.0)
    scale = pm.HalfNormal("scale", 3.0)
    pm.Cauchy("y", alpha=level + slope * x, beta=scale, observed=y)


@family(111)
def gamma(rng, rows=10_000):
    """Positive data, by shape and mean."""
    X = design(rng, rows)
    y = rng.gamma(3.0, np.exp(X @ [0.5, 0.4, -0.6]) / 3.0)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.HalfNormal("alpha", 5.0)
    mean = pm.math.exp(X @ b)
    pm.Gamma("y", alpha=alpha, beta=alpha / mean, observed=y)


@family(112)
def exponential(rng, rows=10_000):
    """Waiting times, by rate."""
    X = design(rng, rows)
    y = rng.exponential(np.exp(X @ [0.2, 0.7, -0.4]))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Exponential("y", lam=pm.math.exp(-(pm.Data("X", X) @ b)), observed=y)


@family(113)
def weibull(rng, rows=10_000):
    """Lifetimes with a rising hazard."""
    X = design(rng, rows)
    y = np.exp(X @ [0.4, 0.5, -0.3]) * rng.weibull(2.0, rows)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    pm.Weibull("y", alpha=alpha, beta=pt.exp(X @ b), observed=y)


@family(114)
def lognormal(rng, rows=10_000):
    """A regression on the log scale."""
    X = design(rng, rows)
    y = np.exp(X @ [0.3, 0.5, 0.2] + 0.6 * rng.standard_normal(rows))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    sigma = pm.HalfNormal("sigma", 2.0)
    pm.LogNormal("y", mu=pt.dot(X, b), sigma=sigma, observed=y)


@family(115)
def beta_regression(rng, rows=10_000):
    """Proportions, by mean and precision."""
    X = design(rng, rows)
    mean = expit(X @ [0.2, 0.6, -0.4])
    y = rng.beta(15.0 * mean, 15.0 * (1.0 - mean))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    phi = pm.Gamma("phi", 2.0, 0.1)
    mu = pm.math.invlogit(X @ b)
    pm.Beta("y", alpha=mu * phi, beta=(1.0 - mu) * phi, observed=y)


@family(116)
def heteroscedastic(rng, rows=10_000):
    """A scale that has its own regression."""
    X, Z = design(rng, rows, 2), design(rng, rows, 2)
    y = X @ [0.5, 1.0] + np.exp(Z @ [0.2, 0.4]) * rng.standard_normal(rows)
    b = pm.Normal("b", 0.0, 5.0, shape=2)
    g = pm.Normal("g", 0.0, 2.0, shape=2)
    pm.Normal("y", mu=X @ b, sigma=pm.math.exp(Z @ g), observed=y)


@family(117)
def zero_inflated_poisson(rng, rows=10_000):
    """Counts of which some are zero for a second reason."""
    X = design(rng, rows)
    y = rng.poisson(np.exp(X @ [0.9, 0.5, -0.3])) * (rng.random(rows) < 0.7)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(X @ b), observed=y)


@family(118)
def laplace(rng, rows=2_000):
    """Rows with a kink: only a Lipschitz constant bounds them, and most rows are needed."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = rng.laplace(0.4 + 0.8 * x, 1.0)
    level = pm.Normal("level", 0.0, 5.0)
    slope = pm.Normal("slope", 0.0, 5.0)
    pm.Laplace("y", mu=level + slope * x, b=1.0, observed=y)


@family(119)
def grouped(rng, rows=10_000, groups=10):
    """An indexed intercept beside a regression."""
    group = rng.integers(0, groups, rows)
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    uniform = rng.random(rows)
    effects = rng.normal(0.0, 0.6, groups)
    y = (uniform < expit(effects[group] + X @ [0.7, -0.4])).astype(int)
    a = pm.Normal("a", 0.0, 1.5, shape=groups)
    b = pm.Normal("b", 0.0, 2.0, shape=2)
    pm.Bernoulli("y", logit_p=a[group] + pm.math.dot(X, b), observed=y)


@family(120)
def noncentred(rng, rows=20_000, groups=8):
    """A product of parameters in every row: effects of groups around zero, scaled by tau.

    The scale is known to some percent beforehand, as it is to a hierarchy of many groups. Where
    it is not, the parameters of a product vary so much together that no bound holds them, and
    all rows are read.
    """
    group = rng.integers(0, groups, rows)
    x = rng.uniform(-1.0, 1.0, rows)
    effects = rng.standard_normal(groups)
    y = 0.8 * effects[group] + 0.7 * x + rng.standard_normal(rows)
    tau = pm.LogNormal("tau", np.log(0.8), 0.03)
    z = pm.Normal("z", 0.0, 1.0, shape=groups)
    b = pm.Normal("b", 0.0, 2.0)
    sigma = pm.HalfNormal("sigma", 5.0)
    pm.Normal("y", mu=tau * z[group] + x * b, sigma=sigma, observed=y)


@family(121)
def shared_level(rng, rows=4_000, more_rows=3_000):
    """Two likelihoods that share a level."""
    x = rng.uniform(-1.0, 1.0, rows)
    seen = (rng.random(rows) < expit(0.3 + 0.8 * x)).astype(np.int8)
    measured = 0.3 + 1.5 * rng.standard_normal(more_rows)
    level = pm.Normal("level", 0.0, 2.0)
    slope = pm.Normal("slope", 0.0, 2.0)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.Bernoulli("seen", logit_p=level + slope * x, observed=seen)
    pm.Normal("measured", level, sigma, observed=measured)


@family(122)
def normal_mixture(rng, rows=5_000):
    """Two components with unknown weights, means and scales, far enough apart not to be swapped."""
    first = rng.random(rows) < 0.4
    y = np.where(first, rng.normal(-2.0, 0.7, rows), rng.normal(1.5, 1.0, rows))
    share = pm.Beta("share", 2.0, 2.0)
    mu = pm.Normal("mu", [-2.0, 1.5], 1.0, shape=2)
    sigma = pm.HalfNormal("sigma", 2.0, shape=2)
    weights = pt.stack([share, 1.0 - share])
    pm.NormalMixture("y", w=weights, mu=mu, sigma=sigma, observed=y)


@family(123)
def softmax(rng, rows=5_000):
    """Three categories, the first for reference."""
    x = rng.uniform(-1.0, 1.0, rows)
    scores = np.column_stack([np.zeros(rows), 0.3 + 0.8 * x, -0.2 - 0.6 * x])
    y = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    a = pm.Normal("a", 0.0, 2.0, shape=2)
    b = pm.Normal("b", 0.0, 2.0, shape=2)
    others = a + pm.Data("x", x)[:, None] * b
    logits = pt.concatenate([pt.zeros_like(others[:, :1]), others], axis=1)
    pm.Categorical("y", logit_p=logits, observed=y)


@family(124)
def ordered_logistic(rng, rows=5_000):
    """Four ordered categories and their cutpoints."""
    X = rng.uniform(-1.0, 1.0, (rows, 2))
    y = np.searchsorted([-1.0, 0.4, 1.6], X @ [1.0, -0.6] + rng.logistic(size=rows))
    b = pm.Normal("b", 0.0, 2.0, shape=2)
    cutpoints = pm.Normal(
        "cutpoints",
        0.0,
        3.0,
        shape=3,
        transform=pm.distributions.transforms.ordered,
        initval=[-1.0, 0.0, 1.0],
    )
    pm.OrderedLogistic("y", eta=X @ b, cutpoints=cutpoints, observed=y, compute_p=False)


@family(125)
def censored_normal(rng, rows=5_000):
    """A regression that is cut off on both sides."""
    X = design(rng, rows)
    y = np.clip(X @ [0.3, 0.8, -0.5] + 1.1 * rng.standard_normal(rows), -0.5, 2.0)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.Censored("y", pm.Normal.dist(X @ b, sigma), lower=-0.5, upper=2.0, observed=y)


@family(126)
def censored_weibull(rng, rows=5_000):
    """Lifetimes of which the longest outlast the study."""
    X = design(rng, rows)
    y = np.minimum(np.exp(X @ [0.4, 0.5, -0.3]) * rng.weibull(1.5, rows), 2.5)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    lifetime = pm.Weibull.dist(alpha, pt.exp(X @ b))
    pm.Censored("y", lifetime, lower=None, upper=2.5, observed=y)


@family(127)
def truncated_normal(rng, rows=5_000):
    """A regression of which only what is above zero was seen."""
    X = design(rng, rows, 2)
    mean = X @ [1.0, 0.5]
    y = mean - ndtri(rng.random(rows) * ndtr(mean))
    b = pm.Normal("b", 0.0, 5.0, shape=2)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.TruncatedNormal("y", X @ b, sigma, lower=0.0, observed=y)


@family(128)
def hurdle_poisson(rng, rows=5_000):
    """Counts above zero, where there are any."""
    X = design(rng, rows)
    mean = np.exp(X @ [0.6, 0.5, -0.3])
    positive = stats.poisson.ppf(rng.uniform(np.exp(-mean), 1.0), mean)
    y = np.where(rng.random(rows) < 0.7, positive, 0.0).astype(int)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.HurdlePoisson("y", psi=psi, mu=pm.math.exp(X @ b), observed=y)


@family(129)
def hurdle_gamma(rng, rows=5_000):
    """Amounts, where there are any."""
    X = design(rng, rows)
    amounts = rng.gamma(3.0, np.exp(X @ [0.5, 0.4, -0.6]) / 3.0)
    y = np.where(rng.random(rows) < 0.7, amounts, 0.0)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.HalfNormal("alpha", 5.0)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.HurdleGamma("y", psi=psi, alpha=alpha, beta=alpha / pm.math.exp(X @ b), observed=y)


@family(130)
def zero_inflated_binomial(rng, rows=5_000):
    """Successes of which some are zero for a second reason."""
    X = design(rng, rows)
    trials = rng.integers(3, 10, rows)
    y = rng.binomial(trials, expit(X @ [-0.3, 0.7, 0.3])) * (rng.random(rows) < 0.7)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.ZeroInflatedBinomial("y", psi=psi, n=trials, p=pm.math.invlogit(X @ b), observed=y)


@family(131)
def zero_inflated_negative_binomial(rng, rows=10_000):
    """Overdispersed counts of which some are zero for a second reason."""
    X = design(rng, rows)
    counts = rng.poisson(np.exp(X @ [1.5, 0.5, -0.3]) * rng.gamma(3.0, 1.0 / 3.0, rows))
    y = counts * (rng.random(rows) < 0.7)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 3.0, 1.0)
    psi = pm.Beta("psi", 2.0, 2.0)
    mean = pm.math.exp(X @ b)
    pm.ZeroInflatedNegativeBinomial("y", psi=psi, mu=mean, alpha=alpha, observed=y)
