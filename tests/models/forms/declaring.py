"""Spellings of the model around the predictor."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from models.forms.form import Section
from models.forms.regressions import line, slopes
from models.forms.writing import respond

models = Section("Ways to write a model")


models.forms_of(
    {
        "Deterministic in between": lambda d: respond(d, pm.Deterministic("mu", d.X @ slopes())),
    }
)


@models.form("dims and coords")
def dims_and_coords(d):
    pm.modelcontext(None).add_coords({"obs": range(d.n), "column": list("abc")})
    mu = pm.Deterministic("mu", d.X @ pm.Normal("b", dims="column"), dims="obs")
    pm.Normal("y", mu, pm.HalfNormal("s"), dims="obs", observed=d.y)


@models.form("nested models", observed=("sub::y",))
def submodel(d):
    b = slopes()
    with pm.Model("sub"):
        pm.Normal("y", pm.Normal("a") + d.raw.X @ b, pm.HalfNormal("s"), observed=d.raw.y)


@models.form("several likelihoods", observed=("y", "k"))
def several(d):
    a, b = pm.Normal("a"), pm.Normal("b")
    pm.Normal("y", a + b * d.x, observed=d.y)
    pm.Poisson("k", pm.math.exp(b), observed=np.arange(5))


@models.form("an observed variable as predictor")
def observed_predictor(d):
    first = pm.Normal("first", pm.Normal("a") * d.x, observed=d.z)
    respond(d, pm.Normal("b") * first)


@models.form("custom log-density of each value")
def custom_logp(d):
    def logp(value, a, z):
        return -pt.log1p((value - a * z) ** 2)

    pm.CustomDist("y", pm.Normal("a"), d.x, logp=logp, observed=d.y)


@models.form("custom distribution from others")
def custom_dist(d):
    def dist(mu, sigma, size):
        return pm.math.exp(pm.Normal.dist(mu, sigma, size=size))

    pm.CustomDist("y", line(d), pm.HalfNormal("s"), dist=dist, observed=d.positive)


@models.form("custom log-density of each row")
def custom_rows(d):
    def logp(value, mu):
        return -pt.sqrt(1.0 + ((value - mu) ** 2).sum(axis=-1))

    mu = pm.Normal("m", shape=3)
    pm.CustomDist("y", mu, logp=logp, signature="(n)->(n)", observed=d.Y)


@models.form("interpolated prior")
def interpolated_prior(d):
    points = np.linspace(-3.0, 3.0, 50)
    respond(d, pm.Interpolated("a", points, np.exp(-0.5 * points**2)) + slopes(1)[0] * d.x)


@models.form("observed expression of data")
def observed_expression(d):
    scale = pm.Data("scale", d.raw.positive.max())
    pm.Normal("y", line(d), pm.HalfNormal("s"), observed=pt.log(d.positive) / scale)


@models.form("potential on parameters")
def soft_constraint(d):
    b = slopes()
    pm.Potential("soft", -10.0 * b.sum() ** 2)
    respond(d, d.X @ b)


@models.form("after pm.do")
def intervened(d):
    respond(d, line(d))
    return pm.do(pm.modelcontext(None), {"a": np.float64(0.5)})


@models.form("after pm.observe")
def conditioned(d):
    pm.Normal("y", line(d), pm.HalfNormal("s"), shape=d.n)
    return pm.observe(pm.modelcontext(None), {"y": d.raw.y})
