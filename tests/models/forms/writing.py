"""Spellings of the predictor."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor import sparse
from scipy.sparse import csr_matrix

from models.forms.form import GROUPS, Section
from models.forms.regressions import line, slopes

columns = Section("Ways to write a predictor")
groups = Section("Groups", trap=GROUPS)


def respond(d, mu):
    pm.Normal("y", mu, pm.HalfNormal("s"), observed=d.y)


columns.forms_of(
    {
        "product with a transposed vector": lambda d: respond(d, pt.dot(d.X, slopes().T)),
        "transposed product": lambda d: respond(d, slopes() @ d.X.T),
        "weighted sum of columns": lambda d: respond(d, (d.X * slopes()).sum(axis=1)),
        "einsum": lambda d: respond(d, pt.einsum("ij,j->i", pt.as_tensor(d.X), slopes())),
        "tensordot": lambda d: respond(d, pt.tensordot(d.X, slopes(), axes=1)),
        "quadratic form": lambda d: respond(
            d, ((d.X @ pm.Normal("A", shape=(3, 3))) * d.X).sum(axis=1)
        ),
        "stacked columns": lambda d: respond(
            d, pt.stack([pt.ones(d.n), d.x, d.z], axis=1) @ slopes()
        ),
        "joined columns": lambda d: respond(
            d, pt.concatenate([d.X, pt.as_tensor(d.z)[:, None]], axis=1) @ slopes(4)
        ),
        "numbers of the rows": lambda d: respond(
            d, pm.Normal("a") + pm.Normal("b") * pt.arange(d.n)
        ),
        "lag within the model": lambda d: respond(
            d, pt.roll(pt.as_tensor(d.x), 1) * pm.Normal("b")
        ),
        "running total of columns": lambda d: respond(d, pt.cumsum(d.X * slopes(), axis=1)[:, -1]),
        "column vector of unknown length": lambda d: respond(
            d, (pt.as_tensor(d.x).reshape((-1, 1)) @ pm.Normal("b", shape=(1, 1)))[:, 0]
        ),
        "flattened column": lambda d: respond(d, (d.X @ pm.Normal("B", shape=(3, 1))).flatten()),
        "squeezed column": lambda d: respond(d, (d.X @ pm.Normal("B", shape=(3, 1))).squeeze(-1)),
        "broadcast": lambda d: respond(
            d, pm.Normal("a") * pt.ones_like(d.x) + pm.Normal("b") * pt.as_tensor(d.x)
        ),
        "polynomial": lambda d: respond(d, line(d) + pm.Normal("c") * d.x**2),
        "interaction": lambda d: respond(d, line(d) + pm.Normal("c") * d.x * d.z),
        "switch on data": lambda d: respond(
            d, pm.math.switch(d.x > 0, pm.Normal("a"), pm.Normal("b") * d.x)
        ),
        "change of slope": lambda d: respond(
            d, line(d) + pm.Normal("c") * pm.math.maximum(d.x - pm.Normal("k"), 0.0)
        ),
        "seasonal terms": lambda d: respond(
            d, pm.Normal("a") * pm.math.sin(2.0 * d.x) + pm.Normal("b") * pm.math.cos(2.0 * d.x)
        ),
        "hidden layer": lambda d: respond(
            d, pm.math.tanh(d.X @ pm.Normal("W", shape=(3, 2))) @ pm.Normal("v", shape=2)
        ),
        "Gaussian process by basis functions": lambda d: basis_functions(d, "noncentered"),
        "the same, centred": lambda d: basis_functions(d, "centered"),
    }
)


@columns.form("rows joined from data")
def rows_of_data(d):
    half = d.n // 2
    respond(d, pt.concatenate([np.zeros(half), d.x[half:]]) * pm.Normal("b") + pm.Normal("a"))


@columns.form("rows chosen from data")
def rows_chosen(d):
    twice = pt.as_tensor(d("twice", np.tile(d.raw.x, 2)))
    respond(d, twice[d("keep", np.repeat([True, False], d.n))] * pm.Normal("b"))


@columns.form("mask of a predictor")
def mask(d):
    twice = pt.as_tensor(d("twice", np.tile(d.raw.x, 2)))
    respond(d, (twice * pm.Normal("b"))[np.repeat([True, False], d.n)])


@columns.form("standardised in the model")
def standardised(d):
    x = pt.as_tensor(d.x)
    respond(d, (x - x.mean()) / x.std() * pm.Normal("b") + pm.Normal("a"))


@columns.form("column written over")
def column_written_over(d):
    design = pt.set_subtensor(pt.zeros((d.n, 2))[:, 1], d.x * pm.Normal("b"))
    respond(d, design.sum(axis=1))


@columns.form("coefficients filled in by arrays of columns")
def columns_filled_in(d):
    level = pm.Normal("u", shape=GROUPS)[d.g]
    filled = pt.set_subtensor(pt.zeros((d.n, 3))[:, [1]], level[:, None])
    filled = pt.inc_subtensor(filled[:, np.array([2, 0])], slopes(2))
    respond(d, (d.X[:, None, :] * filled[:, None, :]).sum(axis=(1, 2)))


@columns.form("rows filled in along the last axis")
def rows_filled_in(d):
    eta = pt.as_tensor(d.x) * pm.Normal("b")
    filled = pt.set_subtensor(pt.zeros((2, 3, d.n))[:, [0, 2]], pt.stack([eta, eta**2]))
    respond(d, filled.sum(axis=(0, 1)) + pm.Normal("a"))


@columns.form("column vector")
def column_vector(d):
    mu = pt.as_tensor(d.x).reshape((d.n, 1)) * slopes()
    respond(d, mu.sum(axis=1))


@columns.form("switch point")
def switch_point(d):
    late = pm.math.switch(pm.Normal("tau") > d.x, pm.Normal("early"), pm.Normal("late"))
    respond(d, late)


@columns.form("smooth change point")
def smooth_change_point(d):
    early, late = pm.Normal("early"), pm.Normal("late")
    respond(d, late + (early - late) * pm.math.sigmoid((pm.Normal("tau") - d.x) / 0.3))


@columns.form("saturation")
def saturation(d):
    x = d.positive
    respond(d, pm.Normal("a") * x / (pm.HalfNormal("k") + x))


@columns.form("response to a dose, which may be zero")
def hill_curve(d):
    dose = d("dose", np.maximum(d.raw.x, 0.0))
    slope, half = pm.LogNormal("slope"), pm.LogNormal("half")
    respond(d, pm.Normal("a") * dose**slope / (half**slope + dose**slope))


@columns.form("sum of saturating channels")
def saturating_channels(d):
    x = d("spend", np.abs(d.raw.X) + 0.1)
    a, b, k, h = (pm.HalfNormal(name, shape=3) for name in "abkh")
    respond(d, (a * x / (k + x) + b * pm.math.tanh(x / h)).sum(axis=1))


@columns.form("interpolated offset")
def interpolated_offset(d):
    offset = d("offset", np.interp(d.raw.x, [-2.0, 0.0, 2.0], [0.1, 0.4, -0.2]))
    respond(d, line(d) + offset)


@columns.form("step function of data")
def searchsorted(d):
    place = pt.searchsorted(np.array([-0.5, 0.0, 0.5]), pt.as_tensor(d.x))
    respond(d, pm.Normal("a", shape=4)[place])


@columns.form("distance to centres")
def radial(d):
    distance = (pt.as_tensor(d.x)[:, None] - np.array([-1.0, 0.0, 1.0])) ** 2
    respond(d, pt.exp(-distance / pm.HalfNormal("l")) @ slopes())


@columns.form("as many columns as rows")
def square(d):
    X = d("S", np.random.default_rng(1).normal(size=(d.n, d.n)))
    respond(d, X @ pm.Normal("b", shape=d.n))


@columns.form("lagged data")
def lagged(d):
    before = d("before", np.r_[0.0, d.raw.y[:-1]])
    respond(d, pm.Normal("rho") * before + line(d))


def basis_functions(d, parametrization):
    """Approximate a Gaussian process over the predictor by three functions of it."""
    covariance = pm.HalfNormal("eta") ** 2 * pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("l"))
    process = pm.gp.HSGP([3], c=1.5, cov_func=covariance, parametrization=parametrization)
    respond(d, process.prior("f", X=d.X[:, :1]))


groups.forms_of(
    {
        "level of each group": lambda d: respond(d, pm.Normal("a", shape=4)[d.g]),
        "pt.take": lambda d: respond(d, pt.take(pm.Normal("a", shape=4), d.g)),
        "rows of coefficients": lambda d: respond(
            d, (pt.take(pm.Normal("B", shape=(4, 3)), d.g, axis=0) * d.X).sum(-1)
        ),
        "noncentred levels": lambda d: respond(
            d, (pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=4))[d.g]
        ),
        "levels and slopes": lambda d: respond(
            d, pm.Normal("a", shape=4)[d.g] + pm.Normal("b", shape=4)[d.g] * d.x
        ),
        "crossed groups": lambda d: respond(d, pm.Normal("A", shape=(4, 2))[d.g, d.h]),
        "effects that add up to zero": lambda d: respond(d, pm.ZeroSumNormal("a", shape=4)[d.g]),
        "two scales": lambda d: pm.Normal(
            "y", line(d), pm.HalfNormal("s", shape=4)[d.g], observed=d.y
        ),
        "dummy columns": lambda d: respond(d, d("D", np.eye(4)[d.raw.g]) @ pm.Normal("a", shape=4)),
        "sparse dummy columns": lambda d: respond(
            d, sparse.dot(d("D", csr_matrix(np.eye(4)[d.raw.g])), pm.Normal("a", shape=4))
        ),
    }
)


@groups.form("two columns of coefficients")
def columns_of_groups(d):
    B = pm.Normal("B", shape=(4, 2))
    respond(d, B[d.g, 0] + B[d.g, 1] * d.x)


@groups.form("correlated levels and slopes")
def correlated(d):
    sd = pm.Exponential.dist(1.0, shape=2)
    L, _, _ = pm.LKJCholeskyCov("L", n=2, eta=2.0, sd_dist=sd)
    B = (L @ pm.Normal("z", shape=(2, 4))).T
    respond(d, B[d.g, 0] + B[d.g, 1] * d.x)


@groups.form("correlated levels, centred")
def correlated_centred(d):
    B = pm.MvNormal("B", np.zeros(2), np.eye(2), shape=(4, 2))
    respond(d, B[d.g, 0] + B[d.g, 1] * d.x)


@groups.form("nested groups")
def nested(d):
    region = pm.Normal("region", shape=2)
    respond(d, pm.Normal("city", region[np.array([0, 0, 1, 1])], shape=4)[d.g])


@groups.form("random walk over groups")
def walk_of_groups(d):
    walk = pm.GaussianRandomWalk("a", 0.0, 1.0, init_dist=pm.Normal.dist(0, 1), steps=3)
    respond(d, walk[d.g])


@groups.form("process over groups")
def process_of_groups(d):
    latent = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
    f = latent.prior("f", X=np.arange(4.0)[:, None])
    respond(d, f[d.g])


@groups.form("as many groups as rows")
def groups_of_one(d):
    order = d("order", np.random.default_rng(2).permutation(d.n))
    respond(d, pm.Normal("a", shape=d.n)[order])


@groups.form("polynomial of a latent trait")
def item_response(d):
    theta, a, b = pm.Normal("theta", shape=4), pm.HalfNormal("k", shape=2), pm.Normal("b", shape=2)
    eta = a[d.h] * (theta[d.g] - b[d.h])
    pm.Bernoulli("y", logit_p=eta, observed=d.ones)
