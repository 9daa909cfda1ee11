"""Models written with pymc.dims."""

import pymc as pm
import pymc.dims as pmd

from models.forms.form import GROUPS, Section

named = Section("pymc.dims")


def labelled(d, name, values, dims):
    """Return an array whose axes have names, as a form's model holds it."""
    if d.mutable:
        return pmd.Data(f"{name}_data", values, dims=dims)
    return pmd.as_xtensor(values, dims=dims)


def coords(d):
    pm.modelcontext(None).add_coords({"obs": range(d.n), "column": range(3), "group": range(4)})


def predictors(d):
    return labelled(d, "X", d.raw.X, ("obs", "column"))


@named.form("regression")
def dims_regression(d):
    coords(d)
    mu = (predictors(d) * pmd.Normal("b", dims="column")).sum("column")
    pmd.Normal("y", mu, pmd.HalfNormal("s"), observed=labelled(d, "y", d.raw.y, ("obs",)))


@named.form("product")
def dims_product(d):
    coords(d)
    mu = predictors(d).dot(pmd.Normal("b", dims="column"), dim="column")
    pmd.Normal("y", mu, pmd.HalfNormal("s"), observed=labelled(d, "y", d.raw.y, ("obs",)))


@named.form("logistic regression")
def dims_logistic(d):
    coords(d)
    eta = (predictors(d) * pmd.Normal("b", dims="column")).sum("column")
    pmd.Bernoulli("y", logit_p=eta, observed=labelled(d, "ones", d.raw.ones, ("obs",)))


@named.form("level of each group", trap=GROUPS)
def dims_groups(d):
    coords(d)
    g = labelled(d, "g", d.raw.g, ("obs",))
    mu = pmd.Normal("a", dims="group").isel(group=g)
    pmd.Normal("y", mu, pmd.HalfNormal("s"), observed=labelled(d, "y", d.raw.y, ("obs",)))


@named.form("observed expression of data")
def dims_expression(d):
    coords(d)
    scale, y = labelled(d, "scale", d.raw.positive, ("obs",)), labelled(d, "y", d.raw.y, ("obs",))
    scaled = pmd.math.switch(pmd.math.isnan(y / scale), 0.0, y / scale)
    pmd.Normal("y", pmd.Normal("a"), pmd.HalfNormal("s"), observed=scaled)


@named.form("matrix of observations")
def dims_matrix(d):
    coords(d)
    m, s = pmd.Normal("m", dims="column"), pmd.HalfNormal("s", dims="column")
    pmd.Normal("y", m, s, observed=labelled(d, "Y", d.raw.Y, ("obs", "column")))


@named.form("vectors")
def dims_vectors(d):
    coords(d)
    spread = pmd.as_xtensor(
        [[1.0, 0.0, 0.0], [0.3, 0.9, 0.0], [0.1, 0.2, 1.1]], dims=("column", "other")
    )
    mu = pmd.Normal("m", dims="column") * labelled(d, "x", d.raw.x, ("obs",))
    Y = labelled(d, "Y", d.raw.Y, ("obs", "column"))
    pmd.MvNormal("y", mu, chol=spread, core_dims=("column", "other"), observed=Y)


@named.form("observations along another axis", settings=(("observation_dims", ("obs",)),), axis=1)
def dims_other_axis(d):
    coords(d)
    m = pmd.Normal("m", dims="column") + labelled(d, "x", d.raw.x, ("obs",))
    pmd.Normal("y", m, 1.0, observed=labelled(d, "panel", d.raw.Y.T.copy(), ("column", "obs")))
