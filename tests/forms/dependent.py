"""Models whose rows cannot be had one by one, and what they are refused with."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from forms.form import Section
from forms.regressions import line
from forms.writing import respond

declared = Section("Dependent by declaration")
mixing = Section("Rows mixed by the predictor")
latent = Section("Latent variables, missing values and other obstacles")


def scaled(d):
    return pt.as_tensor(d.x) * pm.Normal("b")


@declared.refuses("random walk", 'pm.GaussianRandomWalk("y", ...)')
def random_walk(d):
    start = pm.Normal.dist(0, 1)
    pm.GaussianRandomWalk("y", 0, pm.HalfNormal("s"), init_dist=start, observed=d.raw.y)


@declared.refuses("autoregression", 'pm.AR("y", rho)')
def autoregression(d):
    pm.AR("y", [pm.Normal("rho")], init_dist=pm.Normal.dist(0, 1), observed=d.raw.y)


@declared.refuses("GARCH", 'pm.GARCH11("y", ...)')
def garch(d):
    pm.GARCH11("y", pm.HalfNormal("o"), 0.1, 0.1, 1.0, steps=d.n - 1, observed=d.raw.y)


@declared.refuses("stochastic differential equation", 'pm.EulerMaruyama("y", ...)')
def euler_maruyama(d):
    pm.EulerMaruyama(
        "y",
        0.1,
        lambda x, rate: (-rate * x, 1.0),
        (pm.HalfNormal("r"),),
        init_dist=pm.Normal.dist(0, 1),
        observed=d.raw.y,
    )


@declared.refuses("one draw for all rows", 'pm.MvNormal("y", mu, S)')
def multivariate(d):
    pm.MvNormal("y", pm.Normal("a") * np.ones(d.n), np.eye(d.n), observed=d.y)


@declared.refuses("Gaussian process", 'gp.marginal_likelihood("y", X, y)')
def gaussian_process(d):
    process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("l")))
    process.marginal_likelihood("y", X=d.raw.x[:, None], y=d.raw.y, sigma=1.0)


@declared.refuses("conditional autoregression", 'pm.CAR("y", mu, W)')
def car(d):
    neighbours = np.eye(d.n, k=1) + np.eye(d.n, k=-1)
    pm.CAR("y", mu=np.zeros(d.n), W=neighbours, alpha=0.5, tau=pm.HalfNormal("t"), observed=d.y)


@declared.refuses("intrinsic autoregression", 'pm.ICAR("y", W)')
def icar(d):
    neighbours = np.eye(d.n, k=1) + np.eye(d.n, k=-1)
    pm.ICAR("y", W=neighbours, sigma=pm.HalfNormal("s"), observed=d.y)


@declared.refuses("Kronecker covariance", 'pm.KroneckerNormal("y", mu, covs)')
def kronecker(d):
    covs = [np.eye(d.n), np.eye(1)]
    pm.KroneckerNormal("y", mu=pm.Normal("a") * np.ones(d.n), covs=covs, sigma=1.0, observed=d.y)


@declared.refuses("matrix normal", 'pm.MatrixNormal("y", mu, rowcov, colcov)')
def matrix_normal(d):
    mu = pm.Normal("a") * np.ones((d.n, 3))
    pm.MatrixNormal("y", mu=mu, rowcov=np.eye(d.n), colcov=np.eye(3), observed=d.Y)


@declared.refuses("simulator", 'pm.Simulator("y", draw, a)')
def simulator(d):
    def draw(rng, a, size=None):
        return rng.normal(a, 1.0, size=size)

    pm.Simulator("y", draw, pm.Normal("a"), epsilon=1.0, observed=d.raw.y)


@declared.refuses("custom log-density of the whole vector", "pm.CustomDist(logp=... .sum())")
def summed_density(d):
    pm.CustomDist("y", pm.Normal("a"), logp=lambda v, a: -((v - a) ** 2).sum(), observed=d.y)


@declared.refuses(
    "custom log-density of neighbours",
    "pm.CustomDist(logp=lambda v, a: -(v - a * pt.roll(v, 1)) ** 2)",
)
def neighbours(d):
    observed = pm.Data("d", d.raw.y)
    pm.CustomDist(
        "y", pm.Normal("a"), logp=lambda v, a: -((v - a * pt.roll(v, 1)) ** 2), observed=observed
    )


@mixing.refuses("centred by the rows", "mu - mu.mean()")
def centred(d):
    mu = scaled(d)
    respond(d, mu - mu.mean())


@mixing.refuses("running sum", "pt.cumsum(x * b)")
def running_sum(d):
    respond(d, pt.cumsum(scaled(d)))


@mixing.refuses("lag of a predictor", "pt.roll(x * b, 1)")
def rolled(d):
    respond(d, pt.roll(scaled(d), 1))


@mixing.refuses("halves with their own formulas", "pt.concatenate([a + b * u, c * v])")
def halves(d):
    half = d.n // 2
    left, right = d("u", d.raw.x[:half]), d("v", d.raw.x[half:])
    respond(d, pt.concatenate([left * pm.Normal("b"), pt.as_tensor(right) + pm.Normal("a")]))


@mixing.refuses("softmax over the rows", "pm.math.softmax(x * b)")
def softmax(d):
    respond(d, pm.math.softmax(scaled(d)))


@mixing.refuses("sorted predictor", "pt.sort(x * b)")
def ordered_rows(d):
    respond(d, pt.sort(scaled(d)))


@mixing.refuses("recursion", "pytensor.scan(...)")
def scan(d):
    path = pytensor.scan(
        lambda entry, last, b: b * last + entry,
        sequences=[pt.as_tensor(d.x)],
        outputs_info=[pt.constant(np.float64(0.0))],
        non_sequences=[pm.Normal("b")],
        return_updates=False,
    )
    respond(d, path)


@mixing.refuses("kernel between rows", "pt.exp(-((x[:, None] - x) ** 2)) @ a")
def kernel(d):
    x = pm.Data("places", d.raw.x)
    distance = (x[:, None] - x[None, :]) ** 2
    respond(d, pt.exp(-distance / pm.HalfNormal("l")) @ pm.Normal("a", shape=d.n))


@mixing.refuses("mask of a predictor", "(x * b)[keep]")
def mask(d):
    twice = pt.as_tensor(d("twice", np.tile(d.raw.x, 2)))
    respond(d, (twice * pm.Normal("b"))[np.repeat([True, False], d.n)])


@mixing.refuses("all entries in one vector", "(X * b).ravel()")
def ravelled(d):
    mu = pt.as_tensor(d.X) * pm.Normal("b", shape=3)
    pm.Normal("y", mu.reshape((3 * d.n,)), observed=d.raw.Y.ravel())


@mixing.refuses("first row written over", "pt.set_subtensor(mu[0], 0)")
def overwritten(d):
    respond(d, pt.set_subtensor(scaled(d)[0], 0.0))


@mixing.refuses("effects repeated for their rows", "pt.repeat(a, 5)")
def repeated(d):
    values = np.random.default_rng(3).normal(size=5 * d.n)
    pm.Normal("y", pt.repeat(pm.Normal("a", shape=d.n), 5), observed=values)


@latent.refuses("an effect of each row", 'z = pm.Normal("z", shape=N)')
def effect_of_each_row(d):
    respond(d, line(d) + pm.Normal("z", shape=d.n))


@latent.refuses("Gaussian process over the rows", 'gp.prior("f", X)')
def latent_process(d):
    process = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("l")))
    respond(d, process.prior("f", X=d.raw.x[:, None]))


@latent.refuses("missing values", "observed=y with NaN")
def missing(d):
    pm.Normal("y", pm.Normal("a"), observed=np.where(np.arange(d.n) == 1, np.nan, d.raw.y))


@latent.refuses("missing counts", "observed=counts with NaN")
def missing_counts(d):
    counts = np.where(np.arange(d.n) == 1, np.nan, d.raw.counts)
    pm.Poisson("y", pm.math.exp(pm.Normal("a")), observed=counts)


@latent.refuses("minibatches of PyMC", "observed=pm.Minibatch(y)")
def minibatch(d):
    pm.Normal("y", pm.Normal("a"), observed=pm.Minibatch(d.raw.y, batch_size=2), total_size=d.n)


@latent.refuses("total size", 'pm.Normal("y", ..., total_size=N)')
def total_size(d):
    pm.Normal("y", pm.Normal("a"), observed=d.y, total_size=10 * d.n)


@latent.refuses(
    "likelihood in a potential", 'pm.Potential("y", pm.logp(dist, y).sum())', observed=()
)
def potential(d):
    pm.Potential("y", pm.logp(pm.Normal.dist(pm.Normal("a"), 1.0), d.y).sum())


@latent.refuses(
    "potential on the rows of a likelihood", 'pm.Potential("extra", ((y - a) ** 2).sum())'
)
def potential_on_rows(d):
    a = pm.Normal("a")
    pm.Normal("y", a, observed=d.y)
    pm.Potential("extra", -((a - d.y) ** 2).sum())


@latent.refuses("observed expression", "observed=pt.log(data)")
def expression(d):
    pm.Normal("y", pm.Normal("a"), observed=pt.log(pm.Data("d", d.raw.positive)))
