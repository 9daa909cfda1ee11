"""Spellings of the model around the predictor."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from forms.form import Section
from forms.regressions import line, slopes
from forms.writing import respond

models = Section("Ways to write a model")


@models.accepts("Deterministic in between", 'mu = pm.Deterministic("mu", X @ b)')
def deterministic(d):
    respond(d, pm.Deterministic("mu", d.X @ slopes()))


@models.accepts("dims and coords", 'pm.Normal("y", X @ b, s, dims="obs")')
def dims_and_coords(d):
    pm.modelcontext(None).add_coords({"obs": range(d.n), "column": list("abc")})
    mu = pm.Deterministic("mu", d.X @ pm.Normal("b", dims="column"), dims="obs")
    pm.Normal("y", mu, pm.HalfNormal("s"), dims="obs", observed=d.y)


@models.accepts("nested models", 'with pm.Model("sub"): ...', observed=("sub::y",))
def submodel(d):
    b = slopes()
    with pm.Model("sub"):
        pm.Normal("y", pm.Normal("a") + d.raw.X @ b, pm.HalfNormal("s"), observed=d.raw.y)


@models.accepts(
    "several likelihoods", 'pm.Normal("y", ...), pm.Poisson("k", ...)', observed=("y", "k")
)
def several(d):
    a, b = pm.Normal("a"), pm.Normal("b")
    pm.Normal("y", a + b * d.x, observed=d.y)
    pm.Poisson("k", pm.math.exp(b), observed=np.arange(5))


@models.accepts("an observed variable as predictor", 'pm.Normal("y", b * first, ...)')
def observed_predictor(d):
    first = pm.Normal("first", pm.Normal("a") * d.x, observed=d.z)
    respond(d, pm.Normal("b") * first)


@models.accepts("custom log-density of each value", "pm.CustomDist(logp=...)")
def custom_logp(d):
    def logp(value, a, z):
        return -pt.log1p((value - a * z) ** 2)

    pm.CustomDist("y", pm.Normal("a"), d.x, logp=logp, observed=d.y)


@models.accepts("custom distribution from others", "pm.CustomDist(dist=...)")
def custom_dist(d):
    def dist(mu, sigma, size):
        return pm.math.exp(pm.Normal.dist(mu, sigma, size=size))

    pm.CustomDist("y", line(d), pm.HalfNormal("s"), dist=dist, observed=d.positive)


@models.accepts("custom log-density of each row", "pm.CustomDist(logp=..., ndim_supp=1)")
def custom_rows(d):
    def logp(value, mu):
        return -pt.sqrt(1.0 + ((value - mu) ** 2).sum(axis=-1))

    mu = pm.Normal("m", shape=3)
    pm.CustomDist("y", mu, logp=logp, signature="(n)->(n)", observed=d.Y)


@models.accepts("interpolated prior", 'pm.Interpolated("a", points, density)')
def interpolated_prior(d):
    points = np.linspace(-3.0, 3.0, 50)
    respond(d, pm.Interpolated("a", points, np.exp(-0.5 * points**2)) + slopes(1)[0] * d.x)


@models.accepts("potential on parameters", 'pm.Potential("soft", -b.sum() ** 2)')
def soft_constraint(d):
    b = slopes()
    pm.Potential("soft", -10.0 * b.sum() ** 2)
    respond(d, d.X @ b)


@models.accepts("after pm.do", 'pm.do(model, {"a": 0.5})')
def intervened(d):
    respond(d, line(d))
    return pm.do(pm.modelcontext(None), {"a": np.float64(0.5)})


@models.accepts("after pm.observe", 'pm.observe(model, {"y": y})')
def conditioned(d):
    pm.Normal("y", line(d), pm.HalfNormal("s"), shape=d.n)
    return pm.observe(pm.modelcontext(None), {"y": d.raw.y})
