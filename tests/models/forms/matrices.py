"""Several values a row: matrices of observations, rows on the first axis."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from models.forms.form import GROUPS, Section

vectors = Section("Several values a row")


def factor():
    return pm.LKJCholeskyCov(
        "L", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0, shape=3), compute_corr=True
    )[0]


def means(d):
    return d.X @ pm.Normal("B", shape=(3, 3))


vectors.forms_of(
    {
        "independent columns": lambda d: pm.Normal(
            "y", means(d), pm.HalfNormal("s", shape=3), observed=d.Y
        ),
        "count matrix": lambda d: pm.Poisson(
            "y", pm.math.exp(pm.Normal("a", shape=3) * d.x[:, None]), observed=d.tallies
        ),
        "known covariance": lambda d: pm.MvNormal("y", means(d), cov=np.eye(3) + 0.3, observed=d.Y),
        "covariance with an LKJ prior": lambda d: pm.MvNormal(
            "y", means(d), chol=factor(), observed=d.Y
        ),
        "one mean for all rows": lambda d: pm.MvNormal(
            "y", pm.Normal("m", shape=3), chol=factor(), observed=d.Y
        ),
        "precision": lambda d: pm.MvNormal(
            "y", means(d), tau=np.eye(3) * pm.HalfNormal("t"), observed=d.Y
        ),
        "heavy tails": lambda d: pm.MvStudentT(
            "y", nu=4.0, mu=means(d), chol=factor(), observed=d.Y
        ),
    }
)


@vectors.form("covariance from a product")
def covariance_from_factor(d):
    L = factor()
    pm.MvNormal("y", means(d), cov=L @ L.T, observed=d.Y)


@vectors.form("covariance of each row")
def covariance_of_each_row(d):
    spread = pm.HalfNormal("s") * pt.as_tensor(d.weights)
    pm.MvNormal("y", means(d), cov=np.eye(3)[None] * spread[:, None, None], observed=d.Y)


@vectors.form("covariance of groups", trap=GROUPS)
def covariance_of_groups(d):
    scales = pm.HalfNormal("s", shape=4)
    pm.MvNormal("y", means(d), chol=(np.eye(3) * scales[:, None, None])[d.g], observed=d.Y)


@vectors.form("factor model, summed out")
def factor_model(d):
    W = pm.Normal("W", shape=(3, 1))
    cov = W @ W.T + pt.diag(pm.HalfNormal("psi", shape=3))
    pm.MvNormal("y", pm.Normal("m", shape=3), cov=cov, observed=d.Y)


@vectors.form("whitened by hand")
def whitened(d):
    def logp(value, mu, L):
        factor = L[0]
        white = pt.linalg.solve_triangular(factor, (value - mu).T, lower=True)
        return -0.5 * (white**2).sum(axis=0) - pt.log(pt.diag(factor)).sum()

    L = pt.eye(3) * pm.HalfNormal("s", shape=3) + np.tri(3, k=-1)
    pm.CustomDist("y", means(d), L, logp=logp, signature="(n),(n,n)->(n)", observed=d.Y)


@vectors.form("short series, one a row")
def series_by_row(d):
    start = pm.Normal.dist(0.0, 1.0, shape=(d.n,))
    rho = pm.Normal("rho", shape=1)
    pm.AR("y", rho, init_dist=start, steps=2, shape=(d.n, 3), observed=d.Y)


@vectors.form("short random walks, one a row")
def walks_by_row(d):
    start = pm.Normal.dist(0.0, 1.0)
    pm.GaussianRandomWalk("y", pm.Normal("m"), pm.HalfNormal("s"), init_dist=start, observed=d.Y)


def grid(d):
    return {"time": range(3), "person": range(d.n)}


@vectors.form(
    "observations along another axis", settings=(("observation_dims", ("person",)),), axis=1
)
def other_axis(d):
    pm.modelcontext(None).add_coords(grid(d))
    mu = pm.Normal("a", dims="time")[:, None] + pm.Normal("b") * pt.as_tensor(d.x)
    pm.Normal("y", mu, 1.0, dims=("time", "person"), observed=d("panel", d.raw.Y.T.copy()))
