"""Likelihoods in potentials: sums over rows, and what is none."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from models.forms.form import Section
from models.forms.regressions import line

summed = Section("Sums over rows in a potential")
mixed = Section("Potentials that are no sum over rows", refused=True)


def rows(d):
    return pm.logp(pm.Normal.dist(line(d), pm.HalfNormal("s")), d.y)


def written_out(d):
    s = pm.HalfNormal("s")
    return -0.5 * pt.sum((d.y - line(d)) ** 2) / s**2 - d.n * pt.log(s)


def difference(d, eta):
    return 0.5 * (pt.sum(eta * d.counts) - pt.sum(pt.exp(eta))) - 3.0


summed.forms_of(
    {
        "vector of rows": lambda d: pm.Potential("y", rows(d)),
        "sum": lambda d: pm.Potential("y", rows(d).sum()),
        "mean times the number": lambda d: pm.Potential("y", d.n * rows(d).mean()),
        "inner product with weights": lambda d: pm.Potential("y", pt.dot(d.weights, rows(d))),
        "formula with a factor": lambda d: pm.Potential("y", written_out(d)),
        "difference of sums": lambda d: pm.Potential("y", difference(d, line(d))),
        "sums over columns": lambda d: pm.Potential("y", -((d.X - pm.Normal("m")) ** 2).sum()),
    }
)


@summed.form("censored rows beside observed ones", observed=())
def censored(d):
    half, k = 1 + d.n // 2, pm.HalfNormal("k")
    scale = pm.math.exp(line(d))
    pm.Weibull("t", k, scale[:half], observed=d.raw.positive[:half])
    pm.Potential("beyond", -((d.positive[half:] / scale[np.arange(half, d.n)]) ** k).sum())


@summed.form("parts of several lengths")
def parts(d):
    a, half = pm.Normal("a"), 1 + d.n // 2
    first, last = d.y[:half], d.y[half:]
    pm.Potential("y", pt.sum(a * first - pt.exp(a)) - pt.sum(pt.softplus(a * last)))


@summed.form("on the rows of an observed variable", observed=())
def on_rows(d):
    a = pm.Normal("a")
    pm.Normal("y", a, observed=d.y)
    pm.Potential("extra", -((a - d.y) ** 2).sum())


mixed.forms_of(
    {
        "logarithm of a sum": lambda d: pm.Potential("y", pt.log(pt.exp(rows(d)).sum())),
        "square of a sum": lambda d: pm.Potential("y", -((d.y - line(d)).sum() ** 2)),
        "running total": lambda d: pm.Potential("y", -(pt.cumsum(d.y - line(d)) ** 2)),
    }
)
