"""The models that tests share, in one catalogue, of which others take those of a kind.

Data are made up, each model's by a generator of its own. Covariates of families are bounded and
their posteriors about normal, so that a second-order expansion at the mode leaves a small remainder
for every row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import expit, ndtr, ndtri


@dataclass(frozen=True)
class Shared:
    """A model: its name, its kind, what builds it on some numbers of rows, and what it shows."""

    name: str
    kind: str
    build: Callable[..., pm.Model]
    shows: str


#: Every model, those of a kind in the order in which tests are named after them.
CATALOGUE: list[Shared] = []


def model(kind: str, seed: int, name: str = "") -> Callable:
    """Register the declaration of a model, whose data a generator of its own makes up."""

    def register(declare: Callable) -> Callable[..., pm.Model]:
        @wraps(declare)
        def build(*sizes, **named):
            with pm.Model() as made:
                declare(np.random.default_rng(seed), *sizes, **named)
            return made

        CATALOGUE.append(Shared(name or declare.__name__, kind, build, declare.__doc__))
        return build

    return register


def of_kind(*kinds: str) -> dict[str, Callable[..., pm.Model]]:
    """Return the models of some kinds: name -> what builds it."""
    return {one.name: one.build for one in CATALOGUE if one.kind in kinds}


# Small tall models that every method is asked on.


@model("tall", 11)
def logistic(rng, rows=5_000):
    """A design in pm.Data, an int8 response, and a prior that hardly counts."""
    X = np.column_stack([np.ones(rows), rng.standard_normal((rows, 2))])
    y = (rng.random(rows) < expit(X @ [-0.5, 1.0, 0.3])).astype(np.int8)
    beta = pm.Normal("beta", 0.0, 10.0, shape=3)
    pm.Bernoulli("y", logit_p=pm.Data("X", X) @ beta, observed=y)


@model("tall", 12)
def student(rng, rows=5_000, groups=8):
    """Heavy tails, an unknown scale, and a hierarchy of few groups, whose Jacobian counts."""
    group = rng.integers(0, groups, rows)
    y = 0.5 * rng.standard_normal(groups)[group] + 1.5 * rng.standard_t(4, rows)
    sigma = pm.HalfNormal("sigma", 5.0)
    tau = pm.HalfNormal("tau", 1.0)
    effect = pm.Normal("effect", 0.0, tau, shape=groups)
    pm.StudentT("y", nu=4, mu=effect[group], sigma=sigma, observed=y)


@model("tall", 13)
def two_likelihoods(rng, rows=3_500, more_rows=1_500):
    """Two likelihoods of different length, and a prior that says as much as both."""
    x = rng.standard_normal(rows)
    seen = (rng.random(rows) < expit(0.1 + 0.05 * x)).astype(np.int8)
    measured = 0.1 + 1.2 * rng.standard_normal(more_rows)
    level = pm.Normal("level", 0.0, 0.02)
    slope = pm.Normal("slope", 0.0, 0.03)
    pm.Bernoulli("seen", logit_p=level + slope * x, observed=seen)
    pm.Normal("measured", level, 1.2, observed=measured)


@model("tall", 14)
def poisson(rng, rows=5_000):
    """Counts, with a log link."""
    x = rng.uniform(-1.0, 1.0, rows)
    counts = rng.poisson(np.exp(0.4 + 0.6 * x))
    level = pm.Normal("level", 0.0, 2.0)
    slope = pm.Normal("slope", 0.0, 2.0)
    pm.Poisson("counts", mu=pm.math.exp(level + slope * x), observed=counts)


@model("ranges", 17)
def bounded(rng, rows=5_000):
    """Parameters between two numbers, so that every log-likelihood has a range, a narrow one."""
    X = np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, 2))])
    y = (rng.random(rows) < 0.5 + 0.02 * (X @ [0.4, -0.5, 0.6])).astype(np.int8)
    beta = pm.Uniform("beta", -1.0, 1.0, shape=3)
    pm.Bernoulli("y", p=0.5 + 0.02 * (pm.Data("X", X) @ beta), observed=y)


# One per family of likelihoods whose rows have derivatives that can be bounded.


def design(rng, rows, columns=3):
    """Return an intercept and covariates in (-1, 1)."""
    return np.column_stack([np.ones(rows), rng.uniform(-1.0, 1.0, (rows, columns - 1))])


@model("family", 101)
def bernoulli_logit(rng, rows=5_000):
    """A design in pm.Data and an int8 response."""
    X = design(rng, rows)
    y = (rng.random(rows) < expit(X @ [-0.4, 1.0, 0.5])).astype(np.int8)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    pm.Bernoulli("y", logit_p=pm.Data("X", X) @ b, observed=y)


@model("family", 102)
def bernoulli_probit(rng, rows=10_000):
    """A probability through pm.math.invprobit."""
    X = design(rng, rows)
    y = (rng.random(rows) < ndtr(X @ [0.2, 0.6, -0.4])).astype(np.int64)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Bernoulli("y", p=pm.math.invprobit(X @ b), observed=y)


@model("family", 103)
def binomial(rng, rows=5_000):
    """Trials that differ from row to row."""
    X = design(rng, rows)
    trials = rng.integers(1, 13, rows)
    y = rng.binomial(trials, expit(X @ [-0.5, 0.7, 0.3]))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Binomial("y", n=trials, logit_p=pt.dot(X, b), observed=y)


@model("family", 104)
def poisson_exposure(rng, rows=10_000):
    """Counts whose mean is proportional to an exposure."""
    X = design(rng, rows)
    exposure = rng.uniform(0.5, 2.0, rows)
    y = rng.poisson(exposure * np.exp(X @ [0.3, 0.6, -0.3]))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Poisson("y", mu=pm.Data("exposure", exposure) * pm.math.exp(X @ b), observed=y)


@model("family", 105)
def negative_binomial(rng, rows=10_000):
    """Overdispersed counts."""
    X = design(rng, rows)
    mean = np.exp(X @ [0.8, 0.5, -0.3])
    y = rng.poisson(mean * rng.gamma(2.0, 0.5, rows))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 2.0, 0.5)
    pm.NegativeBinomial("y", mu=pm.math.exp(pt.dot(X, b)), alpha=alpha, observed=y)


@model("family", 106)
def normal_scale(rng, rows=10_000):
    """A regression with an unknown scale."""
    X = design(rng, rows)
    y = X @ [1.0, -0.5, 0.3] + 1.4 * rng.standard_normal(rows)
    b = pm.Normal("b", 0.0, 10.0, shape=3)
    sigma = pm.HalfNormal("sigma", 5.0)
    pm.Normal("y", mu=X @ b, sigma=sigma, observed=y)


@model("family", 107)
def student_fixed(rng, rows=10_000):
    """Heavy tails of known weight."""
    X = design(rng, rows)
    y = X @ [0.5, 1.0, -0.7] + 1.2 * rng.standard_t(4, rows)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.StudentT("y", nu=4, mu=pm.Data("X", X) @ b, sigma=sigma, observed=y)


@model("family", 108)
def student_free(rng, rows=20_000):
    """Heavy tails of unknown weight."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = 0.5 + x + 1.5 * rng.standard_t(5, rows)
    level = pm.Normal("level", 0.0, 5.0)
    slope = pm.Normal("slope", 0.0, 5.0)
    sigma = pm.HalfNormal("sigma", 3.0)
    nu = pm.Gamma("nu", 2.0, 0.1)
    pm.StudentT("y", nu=nu, mu=level + slope * x, sigma=sigma, observed=y)


@model("family", 109)
def logistic_noise(rng, rows=10_000):
    """A regression with logistic noise."""
    X = design(rng, rows)
    y = rng.logistic(X @ [-0.3, 0.8, 0.4], 0.7)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    scale = pm.HalfNormal("scale", 2.0)
    pm.Logistic("y", mu=X @ b, s=scale, observed=y)


@model("family", 110)
def cauchy(rng, rows=10_000):
    """Noise without a mean."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = 1.0 - 0.6 * x + 0.8 * rng.standard_cauchy(rows)
    level = pm.Normal("level", 0.0, 5.0)
    slope = pm.Normal("slope", 0.0, 5.0)
    scale = pm.HalfNormal("scale", 3.0)
    pm.Cauchy("y", alpha=level + slope * x, beta=scale, observed=y)


@model("family", 111)
def gamma(rng, rows=10_000):
    """Positive data, by shape and mean."""
    X = design(rng, rows)
    y = rng.gamma(3.0, np.exp(X @ [0.5, 0.4, -0.6]) / 3.0)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.HalfNormal("alpha", 5.0)
    mean = pm.math.exp(X @ b)
    pm.Gamma("y", alpha=alpha, beta=alpha / mean, observed=y)


@model("family", 112)
def exponential(rng, rows=10_000):
    """Waiting times, by rate."""
    X = design(rng, rows)
    y = rng.exponential(np.exp(X @ [0.2, 0.7, -0.4]))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    pm.Exponential("y", lam=pm.math.exp(-(pm.Data("X", X) @ b)), observed=y)


@model("family", 113)
def weibull(rng, rows=10_000):
    """Lifetimes with a rising hazard."""
    X = design(rng, rows)
    y = np.exp(X @ [0.4, 0.5, -0.3]) * rng.weibull(2.0, rows)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    pm.Weibull("y", alpha=alpha, beta=pt.exp(X @ b), observed=y)


@model("family", 114)
def lognormal(rng, rows=10_000):
    """A regression on the log scale."""
    X = design(rng, rows)
    y = np.exp(X @ [0.3, 0.5, 0.2] + 0.6 * rng.standard_normal(rows))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    sigma = pm.HalfNormal("sigma", 2.0)
    pm.LogNormal("y", mu=pt.dot(X, b), sigma=sigma, observed=y)


@model("family", 115)
def beta_regression(rng, rows=10_000):
    """Proportions, by mean and precision."""
    X = design(rng, rows)
    mean = expit(X @ [0.2, 0.6, -0.4])
    y = rng.beta(15.0 * mean, 15.0 * (1.0 - mean))
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    phi = pm.Gamma("phi", 2.0, 0.1)
    mu = pm.math.invlogit(X @ b)
    pm.Beta("y", alpha=mu * phi, beta=(1.0 - mu) * phi, observed=y)


@model("family", 116)
def heteroscedastic(rng, rows=10_000):
    """A scale that has its own regression."""
    X, Z = design(rng, rows, 2), design(rng, rows, 2)
    y = X @ [0.5, 1.0] + np.exp(Z @ [0.2, 0.4]) * rng.standard_normal(rows)
    b = pm.Normal("b", 0.0, 5.0, shape=2)
    g = pm.Normal("g", 0.0, 2.0, shape=2)
    pm.Normal("y", mu=X @ b, sigma=pm.math.exp(Z @ g), observed=y)


@model("family", 117)
def zero_inflated_poisson(rng, rows=10_000):
    """Counts of which some are zero for a second reason."""
    X = design(rng, rows)
    y = rng.poisson(np.exp(X @ [0.9, 0.5, -0.3])) * (rng.random(rows) < 0.7)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=pm.math.exp(X @ b), observed=y)


@model("family", 118)
def laplace(rng, rows=2_000):
    """Rows with a kink: only a Lipschitz constant bounds them, and most rows are needed."""
    x = rng.uniform(-1.0, 1.0, rows)
    y = rng.laplace(0.4 + 0.8 * x, 1.0)
    level = pm.Normal("level", 0.0, 5.0)
    slope = pm.Normal("slope", 0.0, 5.0)
    pm.Laplace("y", mu=level + slope * x, b=1.0, observed=y)


@model("family", 119)
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


@model("family", 120)
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


@model("family", 121)
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


@model("family", 122)
def normal_mixture(rng, rows=5_000):
    """Two components with unknown weights, means and scales, far enough apart not to be swapped."""
    first = rng.random(rows) < 0.4
    y = np.where(first, rng.normal(-2.0, 0.7, rows), rng.normal(1.5, 1.0, rows))
    share = pm.Beta("share", 2.0, 2.0)
    mu = pm.Normal("mu", [-2.0, 1.5], 1.0, shape=2)
    sigma = pm.HalfNormal("sigma", 2.0, shape=2)
    weights = pt.stack([share, 1.0 - share])
    pm.NormalMixture("y", w=weights, mu=mu, sigma=sigma, observed=y)


@model("family", 123)
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


@model("family", 124)
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


@model("family", 125)
def censored_normal(rng, rows=5_000):
    """A regression that is cut off on both sides."""
    X = design(rng, rows)
    y = np.clip(X @ [0.3, 0.8, -0.5] + 1.1 * rng.standard_normal(rows), -0.5, 2.0)
    b = pm.Normal("b", 0.0, 5.0, shape=3)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.Censored("y", pm.Normal.dist(X @ b, sigma), lower=-0.5, upper=2.0, observed=y)


@model("family", 126)
def censored_weibull(rng, rows=5_000):
    """Lifetimes of which the longest outlast the study."""
    X = design(rng, rows)
    y = np.minimum(np.exp(X @ [0.4, 0.5, -0.3]) * rng.weibull(1.5, rows), 2.5)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    lifetime = pm.Weibull.dist(alpha, pt.exp(X @ b))
    pm.Censored("y", lifetime, lower=None, upper=2.5, observed=y)


@model("family", 127)
def truncated_normal(rng, rows=5_000):
    """A regression of which only what is above zero was seen."""
    X = design(rng, rows, 2)
    mean = X @ [1.0, 0.5]
    y = mean - ndtri(rng.random(rows) * ndtr(mean))
    b = pm.Normal("b", 0.0, 5.0, shape=2)
    sigma = pm.HalfNormal("sigma", 3.0)
    pm.TruncatedNormal("y", X @ b, sigma, lower=0.0, observed=y)


@model("family", 128)
def hurdle_poisson(rng, rows=5_000):
    """Counts above zero, where there are any."""
    X = design(rng, rows)
    mean = np.exp(X @ [0.6, 0.5, -0.3])
    positive = stats.poisson.ppf(rng.uniform(np.exp(-mean), 1.0), mean)
    y = np.where(rng.random(rows) < 0.7, positive, 0.0).astype(int)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.HurdlePoisson("y", psi=psi, mu=pm.math.exp(X @ b), observed=y)


@model("family", 129)
def hurdle_gamma(rng, rows=5_000):
    """Amounts, where there are any."""
    X = design(rng, rows)
    amounts = rng.gamma(3.0, np.exp(X @ [0.5, 0.4, -0.6]) / 3.0)
    y = np.where(rng.random(rows) < 0.7, amounts, 0.0)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    alpha = pm.HalfNormal("alpha", 5.0)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.HurdleGamma("y", psi=psi, alpha=alpha, beta=alpha / pm.math.exp(X @ b), observed=y)


@model("family", 130)
def zero_inflated_binomial(rng, rows=5_000):
    """Successes of which some are zero for a second reason."""
    X = design(rng, rows)
    trials = rng.integers(3, 10, rows)
    y = rng.binomial(trials, expit(X @ [-0.3, 0.7, 0.3])) * (rng.random(rows) < 0.7)
    b = pm.Normal("b", 0.0, 2.0, shape=3)
    psi = pm.Beta("psi", 2.0, 2.0)
    pm.ZeroInflatedBinomial("y", psi=psi, n=trials, p=pm.math.invlogit(X @ b), observed=y)


@model("family", 131)
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


# Small models with groups, whose elements move each by itself.


def _late(rng, predictor):
    return (rng.random(predictor.size) < expit(predictor)).astype(np.int64)


def _crossed(rng, n=1_500):
    """Return predictors of two factors that cross: of the data, and of the model."""
    g, h, x = rng.integers(0, 20, n), rng.integers(0, 7, n), rng.normal(size=n)
    eta = 0.2 + 0.3 * x + 0.5 * rng.normal(size=20)[g] + 0.4 * rng.normal(size=7)[h]
    b = pm.Normal("b", 0.0, 2.0, shape=2)
    tau, omega = pm.HalfNormal("tau", 1.0), pm.HalfNormal("omega", 1.0)
    u, v = pm.Normal("u", 0.0, 1.0, shape=20), pm.Normal("v", 0.0, omega, shape=7)
    return eta, b[0] + b[1] * x + tau * u[g] + v[h]


@model("groups", 5, "logistic")
def crossed_logistic(rng):
    eta, predictor = _crossed(rng)
    pm.Bernoulli("y", logit_p=predictor, observed=_late(rng, eta))


@model("groups", 5, "poisson")
def crossed_poisson(rng):
    eta, predictor = _crossed(rng)
    pm.Poisson("y", pm.math.exp(predictor), observed=rng.poisson(np.exp(eta)))


@model("groups", 5, "normal")
def crossed_normal(rng):
    eta, predictor = _crossed(rng)
    y = eta + 0.7 * rng.normal(size=eta.size)
    pm.Normal("y", predictor, pm.HalfNormal("sigma", 1.0), observed=y)


@model("groups", 5, "student")
def crossed_student(rng):
    eta, predictor = _crossed(rng)
    y = eta + 0.7 * rng.standard_t(4.0, size=eta.size)
    pm.StudentT("y", nu=4.0, mu=predictor, sigma=pm.HalfNormal("sigma", 1.0), observed=y)


@model("groups", 5, "negative_binomial")
def crossed_negative_binomial(rng):
    eta, predictor = _crossed(rng)
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(eta)))
    alpha = pm.HalfNormal("alpha", 5.0)
    pm.NegativeBinomial("y", mu=pm.math.exp(predictor), alpha=alpha, observed=y)


@model("groups", 6)
def slopes(rng):
    """Intercepts and slopes of one index, with locations and scales of their own."""
    n = 1_500
    g, x = rng.integers(0, 15, n), rng.normal(size=n)
    eta = (0.2 + 0.5 * rng.normal(size=15))[g] + (0.3 + 0.3 * rng.normal(size=15))[g] * x
    mu, tau = pm.Normal("mu", 0.0, 2.0, shape=2), pm.HalfNormal("tau", 1.0, shape=2)
    a = pm.Normal("a", mu[0], tau[0], shape=15)
    c = pm.StudentT("c", nu=5.0, mu=mu[1], sigma=tau[1], shape=15)
    pm.Poisson("y", pm.math.exp(a[g] + c[g] * x), observed=rng.poisson(np.exp(eta)))


@model("groups", 8)
def correlated(rng):
    """Intercepts and slopes of one index that are correlated, beside other groups."""
    n = 1_500
    g, h, x = rng.integers(0, 12, n), rng.integers(0, 6, n), rng.normal(size=n)
    effect = rng.normal(size=(12, 2)) @ np.array([[0.7, 0.4], [0.0, 0.4]])
    eta = effect[g, 0] + (0.3 + effect[g, 1]) * x + 0.3 * rng.normal(size=6)[h]
    mu, v = pm.Normal("mu", 0.0, 2.0, shape=2), pm.Normal("v", 0.0, 0.5, shape=6)
    scale = pm.HalfNormal.dist(1.0, shape=2)
    root, _, _ = pm.LKJCholeskyCov("root", n=2, eta=2.0, sd_dist=scale)
    u = mu + pm.Normal("z", 0.0, 1.0, shape=(12, 2)) @ root.T
    pm.Bernoulli("y", logit_p=u[g, 0] + u[g, 1] * x + v[h], observed=_late(rng, eta))


@model("groups", 10)
def over_time(rng):
    """Weekly effects, each of which is around that of the week before."""
    n = 1_200
    week, x = rng.integers(0, 17, n), rng.normal(size=n)
    eta = -0.3 + 0.4 * x + np.cumsum(0.3 * rng.normal(size=17))[week]
    b, sigma = pm.Normal("b", 0.0, 1.0), pm.HalfNormal("sigma", 1.0)
    start = pm.Normal.dist(0.0, 2.0)
    walk = pm.GaussianRandomWalk("walk", sigma=sigma, init_dist=start, shape=17)
    pm.Bernoulli("y", logit_p=walk[week] + b * x, observed=_late(rng, eta))


@model("groups", 7)
def two_terms(rng):
    """One of two likelihoods reads no group."""
    n = 1_200
    g, x = rng.integers(0, 15, n), rng.normal(size=n)
    b, tau = pm.Normal("b", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
    a = pm.Normal("a", 0.0, tau, shape=15)
    pm.Bernoulli("y", logit_p=b + a[g], observed=_late(rng, 0.5 * rng.normal(size=15)[g]))
    pm.Bernoulli("other", logit_p=b * x, observed=_late(rng, 0.4 * x))


@model("groups", 14)
def contests(rng):
    """Wins of home teams by skills that add up to zero, of which a row reads two."""
    n = 1_500
    home = rng.integers(0, 12, n)
    away = (home + rng.integers(1, 12, n)) % 12
    true = 0.6 * rng.normal(size=12)
    level, sd = pm.Normal("level", 0.0, 1.0), pm.HalfNormal("sd", 1.0)
    skill = sd * pm.ZeroSumNormal("skill", shape=12)
    won = _late(rng, true[home] - true[away])
    pm.Bernoulli("y", logit_p=level + skill[home] - skill[away], observed=won)


@model("groups", 16)
def at_grounds(rng):
    """Points by the skills of both teams, beside effects of where they play, and a slope.

    Teams mostly play at a ground of their own, whose effect is hard to tell from their skill.
    """
    n = 1_500
    home, x = rng.integers(0, 9, n), rng.normal(size=n)
    away = (home + rng.integers(1, 9, n)) % 9
    ground = np.where(rng.random(n) < 0.8, home, rng.integers(0, 14, n))
    b, tau = pm.Normal("b", 0.0, 2.0, shape=2), pm.HalfNormal("tau", 1.0)
    skill = pm.Normal("skill", 0.0, 0.5, shape=9)
    z = pm.Normal("z", b[0], tau, shape=14)
    eta = b[1] * x + z[ground] + skill[home] - skill[away]
    pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(0.2 + 0.3 * x)))


@model("groups", 17)
def choices(rng):
    """Choices among three offers, with each person's coefficients of price and quality."""
    n = 1_200
    g, price, quality = rng.integers(0, 12, n), *rng.normal(size=(2, n, 3))
    true = np.array([-1.0, 0.6]) + 0.5 * rng.normal(size=(12, 2))
    utility = np.array([0.0, 0.3, -0.4]) + true[g, :1] * price + true[g, 1:] * quality
    chosen = (utility + rng.gumbel(size=(n, 3))).argmax(axis=1)
    level = pt.concatenate([[0.0], pm.Normal("level", 0.0, 1.0, shape=2)])
    mu, tau = pm.Normal("mu", 0.0, 1.0, shape=2), pm.HalfNormal("tau", 1.0, shape=2)
    z = pm.Normal("z", 0.0, 1.0, shape=12)
    liking = pm.Normal("liking", mu[1], tau[1], shape=12)
    value = (mu[0] + tau[0] * z)[g][:, None] * price + liking[g][:, None] * quality
    pm.Categorical("y", p=pm.math.softmax(level + value, axis=1), observed=chosen)


@model("sums of groups", 11)
def three_factors(rng):
    n = 1_100
    ids = [rng.integers(0, size, n) for size in (9, 6, 4)]
    z = [pm.Normal(f"z{k}", 0.0, 0.7, shape=size) for k, size in enumerate((6, 9, 4))]
    eta = pm.Normal("b", 0.0, 1.0) + z[0][ids[1]] + z[1][ids[0]] + z[2][ids[2]]
    pm.Bernoulli("y", logit_p=eta, observed=_late(rng, rng.normal(size=n)))


@model("sums of groups", 12)
def one_slope(rng):
    """Groups differ in slopes alone."""
    n = 1_100
    g, x = rng.integers(0, 10, n), rng.normal(size=n)
    b, tau = pm.Normal("b", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
    c = pm.Normal("c", 0.5, tau, shape=10)
    pm.Poisson("y", pm.math.exp(b + c[g] * x), observed=rng.poisson(np.exp(0.2 + 0.5 * x)))


@model("sums of groups", 13)
def other_index(rng):
    """Two likelihoods choose of the same effects by indices of their own.

    Groups are counted from the end in one of them.
    """
    n = 1_200
    g, h = rng.integers(-10, 0, n), rng.integers(0, 10, n - 100)
    b, sigma = pm.Normal("b", 0.0, 2.0), pm.HalfNormal("sigma", 1.0)
    z, tau = pm.Normal("z", 0.0, 1.0, shape=10), pm.HalfNormal("tau", 1.0)
    pm.Normal("y", b + tau * z[g], sigma, observed=rng.normal(size=n))
    pm.Bernoulli("late", logit_p=tau * z[h], observed=_late(rng, rng.normal(size=n - 100)))


@model("small groups", 17)
def small_groups(rng, n_groups=220, rows=1_300):
    """Persons with a few answers each, whose effects are integrated out."""
    pm.modelcontext(None).add_coord("person", np.arange(n_groups))
    person, x = rng.integers(0, n_groups, rows), rng.uniform(-1.0, 1.0, rows)
    mu, b, tau = pm.Normal("mu", 0.0, 2.0), pm.Normal("b"), pm.HalfNormal("tau", 1.0)
    z = pm.Normal("z", dims="person")
    level = mu + tau * z
    pm.Deterministic("rate", pm.math.sigmoid(level), dims="person")
    true = 0.4 + 0.5 * x + 0.7 * rng.standard_normal(n_groups)[person]
    pm.Bernoulli("y", logit_p=level[person] + b * x, observed=rng.binomial(1, expit(true)))


#: Models that every method is asked on, families, and models whose elements move by themselves.
MODELS, FAMILIES, GROUPED = of_kind("tall"), of_kind("family"), of_kind("groups")
