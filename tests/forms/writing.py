"""Spellings of the predictor."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from forms.form import GROUPS, Section
from forms.regressions import line, slopes

columns = Section("Ways to write a predictor")
groups = Section("Groups", trap=GROUPS)


def respond(d, mu):
    pm.Normal("y", mu, pm.HalfNormal("s"), observed=d.y)


@columns.accepts("product with a transposed vector", "pt.dot(B, w.T)")
def splines(d):
    respond(d, pt.dot(d.X, slopes().T))


@columns.accepts("transposed product", "b @ X.T")
def transposed(d):
    respond(d, slopes() @ d.X.T)


@columns.accepts("weighted sum of columns", "(X * b).sum(axis=1)")
def weighted_sum(d):
    respond(d, (d.X * slopes()).sum(axis=1))


@columns.accepts("einsum", 'pt.einsum("ij,j->i", X, b)')
def einsum(d):
    respond(d, pt.einsum("ij,j->i", pt.as_tensor(d.X), slopes()))


@columns.accepts("tensordot", "pt.tensordot(X, b, axes=1)")
def tensordot(d):
    respond(d, pt.tensordot(d.X, slopes(), axes=1))


@columns.accepts("quadratic form", "((X @ A) * X).sum(axis=1)")
def quadratic_form(d):
    respond(d, ((d.X @ pm.Normal("A", shape=(3, 3))) * d.X).sum(axis=1))


@columns.accepts("stacked columns", "pt.stack([pt.ones(N), x, z], axis=1) @ b")
def stacked(d):
    respond(d, pt.stack([pt.ones(d.n), d.x, d.z], axis=1) @ slopes())


@columns.accepts("joined columns", "pt.concatenate([X, z[:, None]], axis=1) @ b")
def joined(d):
    respond(d, pt.concatenate([d.X, pt.as_tensor(d.z)[:, None]], axis=1) @ slopes(4))


@columns.accepts("rows joined from data", "pt.concatenate([np.zeros(h), x[h:]]) * b")
def rows_of_data(d):
    half = d.n // 2
    respond(d, pt.concatenate([np.zeros(half), d.x[half:]]) * pm.Normal("b") + pm.Normal("a"))


@columns.accepts("rows chosen from data", "x[keep] * b")
def rows_chosen(d):
    twice = pt.as_tensor(d("twice", np.tile(d.raw.x, 2)))
    respond(d, twice[d("keep", np.repeat([True, False], d.n))] * pm.Normal("b"))


@columns.accepts("standardised in the model", "(x - x.mean()) / x.std() * b")
def standardised(d):
    x = pt.as_tensor(d.x)
    respond(d, (x - x.mean()) / x.std() * pm.Normal("b") + pm.Normal("a"))


@columns.accepts("numbers of the rows", "a + b * pt.arange(N)")
def trend(d):
    respond(d, pm.Normal("a") + pm.Normal("b") * pt.arange(d.n))


@columns.accepts("lag within the model", "pt.roll(x, 1) * b")
def rolled_data(d):
    respond(d, pt.roll(pt.as_tensor(d.x), 1) * pm.Normal("b"))


@columns.accepts("column written over", "pt.set_subtensor(pt.zeros((N, 2))[:, 1], x * b)")
def column_written_over(d):
    design = pt.set_subtensor(pt.zeros((d.n, 2))[:, 1], d.x * pm.Normal("b"))
    respond(d, design.sum(axis=1))


@columns.accepts("running total of columns", "pt.cumsum(X * b, axis=1)[:, -1]")
def running_total_of_columns(d):
    respond(d, pt.cumsum(d.X * slopes(), axis=1)[:, -1])


@columns.accepts("column vector", "x.reshape((N, 1)) * b")
def column_vector(d):
    mu = pt.as_tensor(d.x).reshape((d.n, 1)) * slopes()
    respond(d, mu.sum(axis=1))


@columns.accepts("column vector of unknown length", "x.reshape((-1, 1)) @ b")
def column_vector_unknown(d):
    respond(d, (pt.as_tensor(d.x).reshape((-1, 1)) @ pm.Normal("b", shape=(1, 1)))[:, 0])


@columns.accepts("flattened column", "(X @ B).flatten(), B of shape (3, 1)")
def flattened(d):
    respond(d, (d.X @ pm.Normal("B", shape=(3, 1))).flatten())


@columns.accepts("squeezed column", "(X @ B).squeeze(), B of shape (3, 1)")
def squeezed(d):
    respond(d, (d.X @ pm.Normal("B", shape=(3, 1))).squeeze(-1))


@columns.accepts("broadcast", "a * pt.ones_like(x)")
def broadcast(d):
    respond(d, pm.Normal("a") * pt.ones_like(d.x) + pm.Normal("b") * pt.as_tensor(d.x))


@columns.accepts("polynomial", "a + b * x + c * x**2")
def polynomial(d):
    respond(d, line(d) + pm.Normal("c") * d.x**2)


@columns.accepts("interaction", "a + b * x + c * x * z")
def interaction(d):
    respond(d, line(d) + pm.Normal("c") * d.x * d.z)


@columns.accepts("switch on data", "pm.math.switch(x > 0, a, b)")
def switch_on_data(d):
    respond(d, pm.math.switch(d.x > 0, pm.Normal("a"), pm.Normal("b") * d.x))


@columns.accepts("switch point", "pm.math.switch(tau > time, early, late)")
def switch_point(d):
    late = pm.math.switch(pm.Normal("tau") > d.x, pm.Normal("early"), pm.Normal("late"))
    respond(d, late)


@columns.accepts(
    "smooth change point", "late + (early - late) * pm.math.sigmoid((tau - time) / width)"
)
def smooth_change_point(d):
    early, late = pm.Normal("early"), pm.Normal("late")
    respond(d, late + (early - late) * pm.math.sigmoid((pm.Normal("tau") - d.x) / 0.3))


@columns.accepts("change of slope", "a + b * x + c * pm.math.maximum(x - k, 0)")
def hinge(d):
    respond(d, line(d) + pm.Normal("c") * pm.math.maximum(d.x - pm.Normal("k"), 0.0))


@columns.accepts("saturation", "a * x / (k + x)")
def saturation(d):
    x = d.positive
    respond(d, pm.Normal("a") * x / (pm.HalfNormal("k") + x))


@columns.accepts("seasonal terms", "a * pm.math.sin(omega * t) + b * pm.math.cos(omega * t)")
def seasonal(d):
    respond(d, pm.Normal("a") * pm.math.sin(2.0 * d.x) + pm.Normal("b") * pm.math.cos(2.0 * d.x))


@columns.accepts("interpolated offset", "np.interp(t, knots, values) + a")
def interpolated_offset(d):
    offset = d("offset", np.interp(d.raw.x, [-2.0, 0.0, 2.0], [0.1, 0.4, -0.2]))
    respond(d, line(d) + offset)


@columns.accepts("step function of data", "levels[pt.searchsorted(edges, x)]")
def searchsorted(d):
    place = pt.searchsorted(np.array([-0.5, 0.0, 0.5]), pt.as_tensor(d.x))
    respond(d, pm.Normal("a", shape=4)[place])


@columns.accepts("hidden layer", "pm.math.tanh(X @ W) @ v")
def hidden_layer(d):
    respond(d, pm.math.tanh(d.X @ pm.Normal("W", shape=(3, 2))) @ pm.Normal("v", shape=2))


@columns.accepts("distance to centres", "pt.exp(-((x[:, None] - centres) ** 2)) @ b")
def radial(d):
    distance = (pt.as_tensor(d.x)[:, None] - np.array([-1.0, 0.0, 1.0])) ** 2
    respond(d, pt.exp(-distance / pm.HalfNormal("l")) @ slopes())


@columns.accepts("as many columns as rows", "X @ b, X of shape (N, N)")
def square(d):
    X = d("S", np.random.default_rng(1).normal(size=(d.n, d.n)))
    respond(d, X @ pm.Normal("b", shape=d.n))


@columns.accepts("lagged data", "rho * y_before + b * x")
def lagged(d):
    before = d("before", np.r_[0.0, d.raw.y[:-1]])
    respond(d, pm.Normal("rho") * before + line(d))


def basis_functions(d, parametrization):
    """Approximate a Gaussian process over the predictor by three functions of it."""
    covariance = pm.HalfNormal("eta") ** 2 * pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("l"))
    process = pm.gp.HSGP([3], c=1.5, cov_func=covariance, parametrization=parametrization)
    respond(d, process.prior("f", X=d.X[:, :1]))


@columns.accepts("Gaussian process by basis functions", 'pm.gp.HSGP(..., cov_func=k).prior("f", X)')
def hsgp(d):
    basis_functions(d, "noncentered")


@columns.accepts("the same, centred", 'pm.gp.HSGP(..., parametrization="centered")')
def hsgp_centred(d):
    basis_functions(d, "centered")


@groups.accepts("level of each group", "a[g]")
def levels(d):
    respond(d, pm.Normal("a", shape=4)[d.g])


@groups.accepts("pt.take", "pt.take(a, g)")
def taken(d):
    respond(d, pt.take(pm.Normal("a", shape=4), d.g))


@groups.accepts("rows of coefficients", "pt.take(B, g, axis=0)")
def taken_rows(d):
    respond(d, (pt.take(pm.Normal("B", shape=(4, 3)), d.g, axis=0) * d.X).sum(-1))


@groups.accepts("noncentred levels", "(mu + tau * z)[g]")
def noncentred(d):
    respond(d, (pm.Normal("mu") + pm.HalfNormal("tau") * pm.Normal("z", shape=4))[d.g])


@groups.accepts("levels and slopes", "a[g] + b[g] * x")
def slopes_of_groups(d):
    respond(d, pm.Normal("a", shape=4)[d.g] + pm.Normal("b", shape=4)[d.g] * d.x)


@groups.accepts("two columns of coefficients", "B[g, 0] + B[g, 1] * x")
def columns_of_groups(d):
    B = pm.Normal("B", shape=(4, 2))
    respond(d, B[d.g, 0] + B[d.g, 1] * d.x)


@groups.accepts("correlated levels and slopes", "(L @ z).T[g]")
def correlated(d):
    sd = pm.Exponential.dist(1.0, shape=2)
    L, _, _ = pm.LKJCholeskyCov("L", n=2, eta=2.0, sd_dist=sd)
    B = (L @ pm.Normal("z", shape=(2, 4))).T
    respond(d, B[d.g, 0] + B[d.g, 1] * d.x)


@groups.accepts("correlated levels, centred", 'pm.MvNormal("B", chol=L, shape=(J, 2))[g]')
def correlated_centred(d):
    B = pm.MvNormal("B", np.zeros(2), np.eye(2), shape=(4, 2))
    respond(d, B[d.g, 0] + B[d.g, 1] * d.x)


@groups.accepts("crossed groups", "A[g, h]")
def crossed(d):
    respond(d, pm.Normal("A", shape=(4, 2))[d.g, d.h])


@groups.accepts("nested groups", "city[g], with city ~ Normal(region[region_of_city])")
def nested(d):
    region = pm.Normal("region", shape=2)
    respond(d, pm.Normal("city", region[np.array([0, 0, 1, 1])], shape=4)[d.g])


@groups.accepts("effects that add up to zero", 'pm.ZeroSumNormal("a", shape=J)[g]')
def zero_sum(d):
    respond(d, pm.ZeroSumNormal("a", shape=4)[d.g])


@groups.accepts("random walk over groups", 'pm.GaussianRandomWalk("a", steps=J - 1)[week]')
def walk_of_groups(d):
    walk = pm.GaussianRandomWalk("a", 0.0, 1.0, init_dist=pm.Normal.dist(0, 1), steps=3)
    respond(d, walk[d.g])


@groups.accepts("process over groups", "f[g], with f a Gaussian process on few points")
def process_of_groups(d):
    latent = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
    f = latent.prior("f", X=np.arange(4.0)[:, None])
    respond(d, f[d.g])


@groups.accepts("as many groups as rows", "a[order]")
def groups_of_one(d):
    order = d("order", np.random.default_rng(2).permutation(d.n))
    respond(d, pm.Normal("a", shape=d.n)[order])


@groups.accepts("two scales", 'pm.Normal("y", mu, sigma[g])')
def scale_of_groups(d):
    pm.Normal("y", line(d), pm.HalfNormal("s", shape=4)[d.g], observed=d.y)


@groups.accepts("dummy columns", "np.eye(J)[g] @ a")
def dummies(d):
    respond(d, d("D", np.eye(4)[d.raw.g]) @ pm.Normal("a", shape=4))


@groups.accepts("polynomial of a latent trait", "theta[person] * a[item] - b[item]")
def item_response(d):
    theta, a, b = pm.Normal("theta", shape=4), pm.HalfNormal("k", shape=2), pm.Normal("b", shape=2)
    eta = a[d.h] * (theta[d.g] - b[d.h])
    pm.Bernoulli("y", logit_p=eta, observed=d.ones)
