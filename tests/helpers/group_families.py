"""Models of small groups of every kind of row, with log-densities of their rows by SciPy."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pymc as pm
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit

from helpers.small_groups import target_of
from helpers.tiers import fast


class Data(NamedTuple):
    """Rows in no order, with two covariates, their group, and a level of another factor."""

    x: np.ndarray
    group: np.ndarray
    other: np.ndarray
    n_groups: int
    u: np.ndarray
    rng: np.random.Generator

    @property
    def counts(self):
        return self.rng.poisson(np.exp(self.u))


def data_of(n, n_groups, tau=0.8, seed=2):
    """Return rows; the third group has none."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, n_groups, n)
    group[group == 2] = 0
    x = rng.normal(size=(n, 2))
    u = 0.5 * x[:, 0] - 0.3 * x[:, 1] + 0.2 + tau * rng.normal(size=n_groups)[group]
    return Data(x, group, rng.integers(0, 3, n), n_groups, u, rng)


def effects(d, law="normal"):
    mean, scale = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
    if law == "t":
        return pm.StudentT("a", nu=4, mu=mean, sigma=scale, shape=d.n_groups)
    kind = {"normal": pm.Normal, "logistic": pm.Logistic}[law]
    return kind("a", mean, scale, shape=d.n_groups)


def line(d, law="normal"):
    """Return predictors of all rows, with an effect each."""
    slopes = pm.Normal("b", 0.0, 2.0, shape=2)
    return d.x @ slopes + effects(d, law)[d.group]


def eta(d, v, a, rows):
    """Return predictors of some rows at values of the parameters and an effect."""
    return d.x[rows] @ v["b"] + a


class Family(NamedTuple):
    """How to write a model, and log-densities of some rows at values and an effect.

    `draw` makes observations, `scale` is the factor of tau, or a scale without it, `location` the
    effects' mean. Two effects have a mean and, in place of the scale, a `factor` of covariances.
    """

    write: Callable
    logp: Callable
    draw: Callable
    law: object = stats.norm
    location: Callable = lambda v: v["mu"]
    scale: float = 1.0
    factor: Callable | None = None


def bernoulli(law):
    def write(d, y):
        pm.Bernoulli("y", logit_p=line(d, law), observed=y)

    def logp(d, y, v, a, rows):
        return stats.bernoulli.logpmf(y[rows], expit(eta(d, v, a, rows)))

    laws = {"normal": stats.norm, "logistic": stats.logistic, "t": stats.t(4)}
    return Family(write, logp, lambda d: stats.bernoulli.rvs(expit(d.u), random_state=d.rng),
                  laws[law])  # fmt: skip


def poisson():
    def write(d, y):
        pm.Poisson("y", pm.math.exp(line(d)), observed=y)

    def logp(d, y, v, a, rows):
        return stats.poisson.logpmf(y[rows], np.exp(eta(d, v, a, rows)))

    return Family(write, logp, lambda d: d.counts)


def normal():
    def write(d, y):
        pm.Normal("y", line(d), pm.HalfNormal("sigma", 1.0), observed=y)

    def logp(d, y, v, a, rows):
        return stats.norm.logpdf(y[rows], eta(d, v, a, rows), v["sigma"])

    return Family(write, logp, lambda d: d.u + d.rng.normal(size=d.u.size))


def negative_binomial():
    def write(d, y):
        alpha = pm.Gamma("alpha", 4.0, 2.0)
        pm.NegativeBinomial("y", mu=pm.math.exp(line(d)), alpha=alpha, observed=y)

    def logp(d, y, v, a, rows):
        mean, alpha = np.exp(eta(d, v, a, rows)), v["alpha"]
        return stats.nbinom.logpmf(y[rows], alpha, alpha / (alpha + mean))

    return Family(write, logp, lambda d: d.counts)


def student():
    def write(d, y):
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.StudentT("y", nu=4, mu=line(d), sigma=sigma, observed=y)

    def logp(d, y, v, a, rows):
        return stats.t.logpdf(y[rows], 4, eta(d, v, a, rows), v["sigma"])

    return Family(write, logp, lambda d: d.u + d.rng.standard_t(4, size=d.u.size))


def binomial():
    def write(d, y):
        pm.Binomial("y", n=10, logit_p=line(d), observed=y)

    def logp(d, y, v, a, rows):
        return stats.binom.logpmf(y[rows], 10, expit(eta(d, v, a, rows)))

    return Family(write, logp, lambda d: stats.binom.rvs(10, expit(d.u), random_state=d.rng))


def slopes():
    """Effects that are slopes; a mean that is affine, and a scale that is multiplied."""

    def write(d, y):
        m = pm.Normal("m", 0.0, 1.0, shape=2)
        effect = pm.Normal(
            "a", 0.5 + m[0] - 2.0 * m[1], 1.5 * pm.HalfNormal("tau"), shape=d.n_groups
        )
        level = pm.Normal("level", 0.0, pm.HalfNormal("sd", 1.0), shape=3)
        u = effect[d.group] * d.x[:, 0] + level[d.other] + m[0] * d.x[:, 1]
        pm.Bernoulli("y", logit_p=u, observed=y)

    def logp(d, y, v, a, rows):
        u = a * d.x[rows, 0] + v["level"][d.other[rows]] + v["m"][0] * d.x[rows, 1]
        return stats.bernoulli.logpmf(y[rows], expit(u))

    return Family(write, logp, lambda d: stats.bernoulli.rvs(expit(d.u), random_state=d.rng),
                  location=lambda v: 0.5 + v["m"][0] - 2.0 * v["m"][1], scale=1.5)  # fmt: skip


def two_terms():
    """Write observed variables of two kinds, one with all rows, the other with every third."""

    def write(d, y):
        effect = effects(d)
        pm.Bernoulli(
            "y", logit_p=d.x @ pm.Normal("b", 0.0, 2.0, shape=2) + effect[d.group], observed=y
        )
        some = slice(None, None, 3)
        size = pm.Normal("size", 0.0, 1.0)
        pm.Normal(
            "w", size + 0.7 * effect[d.group[some]], pm.HalfNormal("sigma", 1.0), observed=d.u[some]
        )

    def logp(d, y, v, a, rows):
        first = stats.bernoulli.logpmf(y[rows], expit(eta(d, v, a, rows)))
        of_both = rows[rows % 3 == 0]
        second = stats.norm.logpdf(d.u[of_both], v["size"] + 0.7 * a, v["sigma"])
        return np.concatenate([first, second])

    return Family(write, logp, lambda d: stats.bernoulli.rvs(expit(d.u), random_state=d.rng))


def products():
    """Write effects that are products, of which the density of rows has two predictors."""

    def write(d, y):
        z = pm.Normal("z", 0.0, 0.5, shape=d.n_groups)
        effect = pm.Normal("mu", 0.0, 1.0) + pm.HalfNormal("tau", 1.0) * z
        log_sd = pm.Normal("c", 0.0, 1.0) * d.x[:, 1] - 0.1 * effect[d.group]
        pm.Normal("y", effect[d.group], pm.math.exp(log_sd), observed=y)

    def logp(d, y, v, a, rows):
        return stats.norm.logpdf(y[rows], a, np.exp(v["c"] * d.x[rows, 1] - 0.1 * a))

    return Family(write, logp, lambda d: d.u + d.rng.normal(size=d.u.size), scale=0.5)


def discriminations():
    """Write abilities with a fixed standard deviation, and items of two parameters."""

    def write(d, y):
        ability = pm.Normal("a", 0.0, 0.7, shape=d.n_groups)
        slope = pm.LogNormal("slope", 0.0, 0.5, shape=3)
        level = pm.Normal("level", 0.0, 1.0, shape=3)
        logit = slope[d.other] * (ability[d.group] - level[d.other])
        pm.Bernoulli("y", logit_p=logit, observed=y)

    def logp(d, y, v, a, rows):
        item = d.other[rows]
        logit = v["slope"][item] * (a - v["level"][item])
        return stats.bernoulli.logpmf(y[rows], expit(logit))

    return Family(write, logp, lambda d: stats.bernoulli.rvs(expit(d.u), random_state=d.rng),
                  location=lambda v: 0.0, scale=0.7)  # fmt: skip


def line_of_two(d, effect):
    """Return predictors with an intercept and a slope of each group, both of two coefficients."""
    return effect[0][d.group] + effect[1][d.group] * d.x[:, 0]


def eta_of_two(d, a, rows):
    return a[0] + a[1] * d.x[rows, 0]


def two_scales():
    """Write intercepts, which are products, and slopes, with a scale each."""

    def write(d, y):
        m, scale = pm.Normal("m", 0.0, 1.0, shape=2), pm.HalfNormal("tau", 1.0, shape=2)
        first = m[0] + scale[0] * pm.Normal("z", 0.0, 0.8, shape=d.n_groups)
        second = pm.Normal("a", 2.0 * m[1] + 0.3, scale[1], shape=d.n_groups)
        pm.Bernoulli("y", logit_p=line_of_two(d, (first, second)), observed=y)

    def logp(d, y, v, a, rows):
        return stats.bernoulli.logpmf(y[rows], expit(eta_of_two(d, a, rows)))

    return Family(write, logp, lambda d: stats.bernoulli.rvs(expit(d.u), random_state=d.rng),
                  location=lambda v: np.array([v["m"][0], 2.0 * v["m"][1] + 0.3]),
                  factor=lambda v: np.diag([0.8 * v["tau"][0], v["tau"][1]]))  # fmt: skip


def constant_factor():
    """Write correlated intercepts and slopes with a fixed covariance."""
    chol = np.array([[0.8, 0.0], [0.3, 0.5]])

    def write(d, y):
        m = pm.Normal("m", 0.0, 1.0, shape=2)
        effect = pm.MvNormal("a", m, chol=chol, shape=(d.n_groups, 2)).T
        pm.Bernoulli("y", logit_p=line_of_two(d, effect), observed=y)

    def logp(d, y, v, a, rows):
        return stats.bernoulli.logpmf(y[rows], expit(eta_of_two(d, a, rows)))

    return Family(write, logp, lambda d: stats.bernoulli.rvs(expit(d.u), random_state=d.rng),
                  location=lambda v: v["m"], factor=lambda v: chol)  # fmt: skip


def correlated(kind):
    """Write correlated intercepts and slopes of counts, or products of them with normal rows."""

    def write(d, y):
        m = pm.Normal("m", 0.0, 1.0, shape=2)
        sd = pm.HalfNormal.dist(1.0)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd, compute_corr=True)
        if kind == "poisson":
            effect = pm.MvNormal("a", m, chol=chol, shape=(d.n_groups, 2)).T
            pm.Poisson("y", pm.math.exp(line_of_two(d, effect)), observed=y)
            return
        effect = m[:, None] + chol @ pm.Normal("z", 0.0, 1.0, shape=(2, d.n_groups))
        pm.Normal("y", line_of_two(d, effect), pm.HalfNormal("sigma", 1.0), observed=y)

    def logp(d, y, v, a, rows):
        line = eta_of_two(d, a, rows)
        if kind == "poisson":
            return stats.poisson.logpmf(y[rows], np.exp(line))
        return stats.norm.logpdf(y[rows], line, v["sigma"])

    def draw(d):
        return d.counts if kind == "poisson" else d.u + d.rng.normal(size=d.u.size)

    def factor(v):
        return np.array([[v["chol"][0], 0.0], [np.log(v["chol"][1]), v["chol"][2]]])

    return Family(write, logp, draw, location=lambda v: v["m"], factor=factor)


FAMILIES = {
    "bernoulli": bernoulli("normal"),
    "logistic effects": bernoulli("logistic"),
    "t effects": bernoulli("t"),
    "poisson": poisson(),
    "normal": normal(),
    "negative binomial": negative_binomial(),
    "student": student(),
    "binomial": binomial(),
    "slopes": slopes(),
    "two terms": two_terms(),
    "products": products(),
    "discriminations": discriminations(),
    "two scales": two_scales(),
    "constant factor": constant_factor(),
    "correlated": correlated("poisson"),
    "correlated products": correlated("normal"),
}
#: Those whose rows or laws compile for longer than the others, and that others stand for.
LONG = ("logistic effects", "discriminations", "two scales", "correlated products")


def without_long(cases):
    """Return cases, families and what else, as parameters; those of long families are slow."""
    return fast(cases, [case for case in cases if case[0] not in LONG])


def model_of(family, d, y):
    with pm.Model() as model:
        family.write(d, y)
    return model


#: Families with real observations.
REAL = ("normal", "student", "products", "correlated products")


@cache
def made(name, n, n_groups, root=1, tau=0.8):
    """Return a family with its data, model and posterior at first nodes."""
    family, d = FAMILIES[name], data_of(n, n_groups, tau)
    y = np.asarray(family.draw(d), float if name in REAL else int)
    model = model_of(family, d, y)
    return family, d, y, model, target_of(model, root)


def exact_log_likelihood(family, d, y, values, g):
    """Logarithm of the integral over the effect of a group, at values of the parameters."""
    rows = np.flatnonzero(d.group == g)
    if family.factor:
        return integral_in_the_plane(family, d, y, values, rows).integral
    location, tau = family.location(values), family.scale * values.get("tau", 1.0)

    def log_integrand(z):
        return family.law.logpdf(z) + family.logp(d, y, values, location + tau * z, rows).sum()

    grid = np.linspace(-8.0, 8.0, 161)
    heights = np.array([log_integrand(z) for z in grid])
    top, peak = heights.max(), grid[np.argmax(heights)]
    # In v of z = peak + sinh v, heavy tails end.
    end = 4.0 if family.law is stats.norm else 12.0
    inner = quad(
        lambda v: np.exp(log_integrand(peak + np.sinh(v)) - top) * np.cosh(v),
        -end, end, points=[0.0], limit=400, epsabs=1e-13, epsrel=1e-12,
    )  # fmt: skip
    return top + np.log(inner[0])


class Plane(NamedTuple):
    """Log-density of a group's effects z = mean + spread x, x on a grid, and its integral."""

    mean: np.ndarray
    spread: np.ndarray
    x: np.ndarray
    heights: np.ndarray
    integral: float


def integral_in_the_plane(family, d, y, values, rows):
    """Integral over two effects, by sums over grids that follow the integrand."""
    location, factor = family.location(values), family.factor(values)
    mean, spread, x = np.zeros(2), 1.5 * np.eye(2), np.linspace(-8.0, 8.0, 65)
    grid = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    for k in range(5):
        points = mean + grid @ spread.T
        heights = stats.norm.logpdf(points).sum(axis=1)
        heights += [family.logp(d, y, values, location + factor @ z, rows).sum() for z in points]
        total = np.logaddexp.reduce(heights)
        if k < 4:
            shares = np.exp(heights - total)
            mean = shares @ points
            spread = np.linalg.cholesky(np.cov(points.T, aweights=shares) + 1e-3 * np.eye(2))
    integral = total + np.log(np.linalg.det(spread)) + 2.0 * np.log(x[1] - x[0])
    return Plane(mean, spread, x, heights.reshape(x.size, x.size), integral)
