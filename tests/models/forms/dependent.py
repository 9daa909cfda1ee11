"""Models whose rows cannot be had one by one, and what they are refused with."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from models.forms.form import Section
from models.forms.regressions import line
from models.forms.writing import respond

declared = Section("Dependent by declaration", refused=True)
mixing = Section("Rows mixed by the predictor", refused=True)
latent = Section("Latent variables, missing values and other obstacles", refused=True)


def scaled(d):
    return pt.as_tensor(d.x) * pm.Normal("b")


declared.forms_of(
    {
        "autoregression": lambda d: pm.AR(
            "y", [pm.Normal("rho")], init_dist=pm.Normal.dist(0, 1), observed=d.raw.y
        ),
        "GARCH": lambda d: pm.GARCH11(
            "y", pm.HalfNormal("o"), 0.1, 0.1, 1.0, steps=d.n - 1, observed=d.raw.y
        ),
        "stochastic differential equation": lambda d: pm.EulerMaruyama(
            "y",
            0.1,
            lambda x, rate: (-rate * x, 1.0),
            (pm.HalfNormal("r"),),
            init_dist=pm.Normal.dist(0, 1),
            observed=d.raw.y,
        ),
        "one draw for all rows": lambda d: pm.MvNormal(
            "y", pm.Normal("a") * np.ones(d.n), np.eye(d.n), observed=d.y
        ),
        "custom log-density of the whole vector": lambda d: pm.CustomDist(
            "y", pm.Normal("a"), logp=lambda v, a: -((v - a) ** 2).sum(), observed=d.y
        ),
    }
)


@declared.form("random walk")
def random_walk(d):
    start = pm.Normal.dist(0, 1)
    pm.GaussianRandomWalk("y", 0, pm.HalfNormal("s"), init_dist=start, observed=d.raw.y)


@declared.form("Gaussian process")
def gaussian_process(d):
    process = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("l")))
    process.marginal_likelihood("y", X=d.raw.x[:, None], y=d.raw.y, sigma=1.0)


@declared.form("conditional autoregression")
def car(d):
    neighbours = np.eye(d.n, k=1) + np.eye(d.n, k=-1)
    pm.CAR("y", mu=np.zeros(d.n), W=neighbours, alpha=0.5, tau=pm.HalfNormal("t"), observed=d.y)


@declared.form("intrinsic autoregression")
def icar(d):
    neighbours = np.eye(d.n, k=1) + np.eye(d.n, k=-1)
    pm.ICAR("y", W=neighbours, sigma=pm.HalfNormal("s"), observed=d.y)


@declared.form("Kronecker covariance")
def kronecker(d):
    covs = [np.eye(d.n), np.eye(1)]
    pm.KroneckerNormal("y", mu=pm.Normal("a") * np.ones(d.n), covs=covs, sigma=1.0, observed=d.y)


@declared.form("matrix normal")
def matrix_normal(d):
    mu = pm.Normal("a") * np.ones((d.n, 3))
    pm.MatrixNormal("y", mu=mu, rowcov=np.eye(d.n), colcov=np.eye(3), observed=d.Y)


@declared.form("simulator")
def simulator(d):
    def draw(rng, a, size=None):
        return rng.normal(a, 1.0, size=size)

    pm.Simulator("y", draw, pm.Normal("a"), epsilon=1.0, observed=d.raw.y)


@declared.form("custom log-density of neighbours")
def neighbours(d):
    observed = pm.Data("d", d.raw.y)
    pm.CustomDist(
        "y", pm.Normal("a"), logp=lambda v, a: -((v - a * pt.roll(v, 1)) ** 2), observed=observed
    )


mixing.forms_of(
    {
        "running sum": lambda d: respond(d, pt.cumsum(scaled(d))),
        "lag of a predictor": lambda d: respond(d, pt.roll(scaled(d), 1)),
        "softmax over the rows": lambda d: respond(d, pm.math.softmax(scaled(d))),
        "sorted predictor": lambda d: respond(d, pt.sort(scaled(d))),
        "first row written over": lambda d: respond(d, pt.set_subtensor(scaled(d)[0], 0.0)),
    }
)


@mixing.form("centred by the rows")
def centred(d):
    mu = scaled(d)
    respond(d, mu - mu.mean())


@mixing.form("halves with their own formulas")
def halves(d):
    half = d.n // 2
    left, right = d("u", d.raw.x[:half]), d("v", d.raw.x[half:])
    respond(d, pt.concatenate([left * pm.Normal("b"), pt.as_tensor(right) + pm.Normal("a")]))


@mixing.form("recursion")
def scan(d):
    path = pytensor.scan(
        lambda entry, last, b: b * last + entry,
        sequences=[pt.as_tensor(d.x)],
        outputs_info=[pt.constant(np.float64(0.0))],
        non_sequences=[pm.Normal("b")],
        return_updates=False,
    )
    respond(d, path)


@mixing.form("kernel between rows")
def kernel(d):
    x = pm.Data("places", d.raw.x)
    distance = (x[:, None] - x[None, :]) ** 2
    respond(d, pt.exp(-distance / pm.HalfNormal("l")) @ pm.Normal("a", shape=d.n))


@mixing.form("mask of a predictor that parameters choose")
def mask_of_parameters(d):
    twice = pt.as_tensor(d("twice", np.tile(d.raw.x, 2))) * pm.Normal("b")
    respond(d, twice[pt.gt(twice, 0.0)])


@mixing.form("all entries in one vector")
def ravelled(d):
    mu = pt.as_tensor(d.X) * pm.Normal("b", shape=3)
    pm.Normal("y", mu.reshape((3 * d.n,)), observed=d.raw.Y.ravel())


@mixing.form("effects repeated for their rows")
def repeated(d):
    values = np.random.default_rng(3).normal(size=5 * d.n)
    pm.Normal("y", pt.repeat(pm.Normal("a", shape=d.n), 5), observed=values)


latent.forms_of(
    {
        "an effect of each row": lambda d: respond(d, line(d) + pm.Normal("z", shape=d.n)),
        "missing values": lambda d: pm.Normal(
            "y", pm.Normal("a"), observed=np.where(np.arange(d.n) == 1, np.nan, d.raw.y)
        ),
        "minibatches of PyMC": lambda d: pm.Normal(
            "y", pm.Normal("a"), observed=pm.Minibatch(d.raw.y, batch_size=2), total_size=d.n
        ),
        "total size": lambda d: pm.Normal("y", pm.Normal("a"), observed=d.y, total_size=10 * d.n),
    }
)


@latent.form("Gaussian process over the rows")
def latent_process(d):
    process = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("l")))
    respond(d, process.prior("f", X=d.raw.x[:, None]))


@latent.form("missing counts")
def missing_counts(d):
    counts = np.where(np.arange(d.n) == 1, np.nan, d.raw.counts)
    pm.Poisson("y", pm.math.exp(pm.Normal("a")), observed=counts)
