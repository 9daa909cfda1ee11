"""Random models over PyMC's distributions, with parameters in their domains or without any link."""

from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt

#: Rows, few enough that every operation can be run in Python.
FEWEST, MOST = 6, 9


def column(rng, rows):
    """Return a predictor: a plain one, one far row, one row that counts, a constant, or a scale."""
    x = rng.normal(size=rows)
    only = np.zeros(rows)
    only[0] = 3.0
    far = np.where(np.arange(rows) == 0, 1e6, x)
    return [x, far, only, np.full(rows, x[0]), 1e-4 * x, np.exp(2.0 * x)][rng.integers(6)]


class Draw:
    """Parameters and data of a random model, drawn as they are asked for.

    Parameters
    ----------
    rng
        What they are drawn with.
    bare
        Whether parameters have no link, so that positions leave their domain.
    """

    def __init__(self, rng, *, bare):
        self.rng, self.bare = rng, bare
        self.rows = int(rng.integers(FEWEST, MOST))
        self.x, self.z = column(rng, self.rows), column(rng, self.rows)
        self.groups = rng.integers(-3, 3, self.rows)
        self.a, self.b = pm.Normal("a"), pm.Normal("b")
        self.s = pm.HalfNormal("s") if rng.random() < 0.7 else pm.Exponential("s", 1.0)
        self.v = pm.Normal("v", shape=3) if rng.random() < 0.4 else None
        self.eta = (self.a if self.v is None else self.v[self.groups]) + self.b * self.x

    def one_of(self, *choices):
        """Return one of several things."""
        return choices[self.rng.integers(len(choices))]

    @property
    def real(self):
        """A location."""
        return self.one_of(self.eta, self.eta, self.a, self.b * self.z)

    @property
    def positive(self):
        """A scale, a shape or a mean of counts."""
        a, b, s, eta = self.a, self.b, self.s, self.eta
        if self.bare:
            return self.one_of(a, eta, s + b * self.z, a - 0.5, s - 1.0, b * self.x)
        return self.one_of(
            s, pt.exp(b * np.tanh(self.z)), s * pt.exp(0.1 * b), pt.softplus(a + b),
            pt.sqrt(s**2 + 0.1 * pt.exp(a)), s * (1.0 + np.abs(self.z)), pt.exp(eta),
            pt.softplus(eta), pt.exp(eta) + s, eta**2 + s,
        )  # fmt: skip

    @property
    def chance(self):
        """A probability."""
        a, b, s, eta = self.a, self.b, self.s, self.eta
        if self.bare:
            return self.one_of(a, eta, s, 0.5 + b * self.z, 0.5 + a)
        return self.one_of(
            pt.sigmoid(eta), pm.math.invprobit(eta), 1.0 - pt.exp(-pt.exp(eta)),
            0.02 + 0.96 * pt.sigmoid(eta), 0.5 * (1.0 + pt.tanh(eta)), 0.5 + pt.arctan(eta) / np.pi,
        )  # fmt: skip

    @property
    def numbers(self):
        """Observed real numbers."""
        return self.rng.normal(size=self.rows) * self.one_of(0.1, 1.0, 30.0)

    @property
    def sizes(self):
        """Observed positive numbers."""
        return np.exp(self.rng.normal(size=self.rows) * self.one_of(0.1, 1.0, 3.0))

    @property
    def shares(self):
        """Observed numbers between 0 and 1."""
        return np.clip(self.rng.beta(0.3, 0.3, self.rows), 1e-12, 1.0 - 1e-12)

    @property
    def counts(self):
        """Observed counts."""
        return self.rng.poisson(self.one_of(0.5, 5.0, 500.0), self.rows)

    @property
    def flags(self):
        """Observed zeros and ones."""
        return self.rng.integers(0, 2, self.rows)

    @property
    def zero_or_counts(self):
        """Observed counts with many zeros."""
        return np.where(self.flags, 0, self.counts)

    @property
    def weights(self):
        """Two weights, of all rows."""
        share = self.a if self.bare else pt.sigmoid(self.a)
        return pt.stack([share, 1.0 - share])


def normal_by_precision(d):
    pm.Normal("y", d.real, tau=d.positive, observed=d.numbers)


def student(d):
    pm.StudentT("y", nu=d.positive, mu=d.real, sigma=d.positive, observed=d.numbers)


def negative_binomial(d):
    pm.NegativeBinomial("y", mu=d.positive, alpha=d.positive, observed=d.counts)


def negative_binomial_by_chance(d):
    pm.NegativeBinomial("y", p=d.chance, n=d.positive, observed=d.counts)


def beta(d):
    pm.Beta("y", d.positive, d.positive, observed=d.shares)


def beta_by_mean(d):
    pm.Beta("y", mu=d.chance, nu=d.positive, observed=d.shares)


def bernoulli_logit(d):
    pm.Bernoulli("y", logit_p=d.real * d.positive, observed=d.flags.astype(bool))


def beta_binomial(d):
    counts = d.counts
    pm.BetaBinomial("y", alpha=d.positive, beta=d.positive, n=counts + 2, observed=counts)


def binomial(d):
    counts = d.counts
    pm.Binomial("y", n=counts + d.one_of(0, 3), p=d.chance, observed=counts)


def categorical(d):
    p = pt.stack([d.chance * np.ones(d.rows), 0.5 * d.chance * np.ones(d.rows)], axis=1)
    rest = 1.0 - p.sum(axis=1, keepdims=True)
    pm.Categorical("y", p=pt.concatenate([p, rest], axis=1), observed=d.counts % 3)


def censored(d):
    y = np.clip(d.numbers, -1.0, 1.0)
    pm.Censored("y", pm.Normal.dist(d.real, d.positive), lower=-1.0, upper=1.0, observed=y)


def truncated(d):
    y = np.clip(d.numbers, -8.0, 8.0)
    above = d.one_of(9.0, None, 8.0 + d.positive)
    pm.Truncated("y", pm.Normal.dist(d.real, d.positive), lower=-9.0, upper=above, observed=y)


def hurdle_gamma(d):
    y = np.where(d.flags, 0.0, d.sizes)
    pm.HurdleGamma("y", d.chance, alpha=d.positive, beta=d.positive, observed=y)


def mixture_of_rows(d):
    share = d.chance
    parts = [pm.Normal.dist(d.real, d.positive), pm.Cauchy.dist(d.a, 1.0)]
    weights = pt.stack([share, 1.0 - share], axis=-1) * np.ones((d.rows, 1))
    pm.Mixture("y", weights, parts, observed=d.numbers)


def normal_mixture(d):
    means = pt.stack([d.eta, d.b * pt.ones(d.rows)], axis=1)
    scales = (d.positive * pt.ones(d.rows))[:, None]
    pm.NormalMixture("y", w=d.weights, mu=means, sigma=scales, observed=d.numbers)


def ordered(d):
    gap = d.b if d.bare else d.s
    cuts = pt.stack([d.a - gap, d.a, d.a + 1.0])
    pm.OrderedLogistic("y", eta=d.real, cutpoints=cuts, observed=d.counts % 4)


def pair_of_normals(d):
    means = pt.stack([d.eta, d.a * pt.ones(d.rows)], axis=1)
    scale, shared = (d.a, d.b) if d.bare else (d.s**2 + 1.0, 0.5 * d.s)
    lines = [pt.stack([scale, shared]), pt.stack([shared, pt.as_tensor(1.0)])]
    pm.MvNormal("y", means, cov=pt.stack(lines), observed=d.rng.normal(size=(d.rows, 2)))


def uniform(d):
    """A support that depends on the parameters."""
    pm.Uniform("y", -d.positive, d.positive, observed=0.3 * d.numbers)


def interval_of_a_density(d):
    pm.CustomDist("y", d.real, d.positive, logp=_half_logistic, observed=d.sizes)


def _half_logistic(value, mean, scale):
    gap = (value - mean) / scale
    return pt.switch(value >= mean, pt.log(2.0) - pt.log(scale) - gap - 2.0 * pt.log1p(
        pt.exp(-gap)), -np.inf)  # fmt: skip


def simple(dist, observed, *parameters, **fixed):
    """Return a likelihood of one distribution by the kinds of its parameters."""

    def declare(d):
        given = {name: getattr(d, kind) for name, kind in (p.split("=") for p in parameters)}
        dist("y", **given, **fixed, observed=getattr(d, observed))

    declare.__name__ = dist.__name__.lower()
    return declare


LIKELIHOODS: dict[str, Callable[[Draw], None]] = {
    f.__name__: f
    for f in (
        simple(pm.Normal, "numbers", "mu=real", "sigma=positive"),
        simple(pm.LogNormal, "sizes", "mu=real", "sigma=positive"),
        simple(pm.Laplace, "numbers", "mu=real", "b=positive"),
        simple(pm.Logistic, "numbers", "mu=real", "s=positive"),
        simple(pm.Gumbel, "numbers", "mu=real", "beta=positive"),
        simple(pm.Cauchy, "numbers", "alpha=real", "beta=positive"),
        simple(pm.Moyal, "numbers", "mu=real", "sigma=positive"),
        simple(pm.SkewNormal, "numbers", "mu=real", "sigma=positive", "alpha=real"),
        simple(pm.ExGaussian, "numbers", "mu=real", "sigma=positive", "nu=positive"),
        simple(pm.AsymmetricLaplace, "numbers", "mu=real", "b=positive", "kappa=positive"),
        simple(pm.HalfNormal, "sizes", "sigma=positive"),
        simple(pm.HalfCauchy, "sizes", "beta=positive"),
        simple(pm.Exponential, "sizes", "lam=positive"),
        simple(pm.Gamma, "sizes", "alpha=positive", "beta=positive"),
        simple(pm.InverseGamma, "sizes", "alpha=positive", "beta=positive"),
        simple(pm.Weibull, "sizes", "alpha=positive", "beta=positive"),
        simple(pm.Wald, "sizes", "mu=positive", "lam=positive"),
        simple(pm.Pareto, "sizes", "alpha=positive", "m=positive"),
        simple(pm.Rice, "sizes", "nu=positive", "sigma=positive"),
        simple(pm.Kumaraswamy, "shares", "a=positive", "b=positive"),
        simple(pm.LogitNormal, "shares", "mu=real", "sigma=positive"),
        simple(pm.Triangular, "shares", "c=chance", lower=-0.5, upper=1.5),
        simple(pm.TruncatedNormal, "sizes", "mu=real", "sigma=positive", lower=0.0),
        simple(pm.Poisson, "counts", "mu=positive"),
        simple(pm.Bernoulli, "flags", "p=chance"),
        simple(pm.ZeroInflatedPoisson, "zero_or_counts", "psi=chance", "mu=positive"),
        simple(pm.ZeroInflatedNegativeBinomial, "zero_or_counts", "psi=chance", "mu=positive",
               "alpha=positive"),
        simple(pm.HurdlePoisson, "zero_or_counts", "psi=chance", "mu=positive"),
        normal_by_precision, student, negative_binomial, negative_binomial_by_chance, beta,
        beta_by_mean, bernoulli_logit, beta_binomial, binomial, categorical, censored, truncated,
        hurdle_gamma, mixture_of_rows, normal_mixture, ordered, pair_of_normals, uniform,
        interval_of_a_density,
    )
}  # fmt: skip


def random_likelihood(seed, *, bare=False):
    """Return the name of a likelihood, and a model of it with random parameters and data."""
    rng = np.random.default_rng([seed, bare])
    names = list(LIKELIHOODS)
    # One after the other: few seeds then try all of them.
    name = names[seed % len(names)]
    with pm.Model() as model:
        LIKELIHOODS[name](Draw(rng, bare=bare))
    return name, model
