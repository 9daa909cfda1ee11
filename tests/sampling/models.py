"""Models whose trees are compared; what the rows say does not matter here."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytensor.tensor as pt
from pytensor.compile.ops import wrap_py
from pytensor.scan import scan
from pytensor.tensor.type import dvector

ORDERED = pm.distributions.transforms.ordered
#: Rows of models whose deterministics of rows are small, and of those in which they are large.
FEW, MANY = 40, 4_000


def rows(eta, sigma=1.0, count=FEW):
    """Add the rows."""
    pm.Normal("y", eta, sigma, observed=np.linspace(-1.0, 1.0, count))


def unconstrained():
    """Identity transforms alone, with dims and coordinates, of every shape."""
    coords = {"predictor": ["one", "two", "three"], "row": np.arange(10, 10 + FEW), "side": [0, 1]}
    with pm.Model(coords=coords) as model:
        X = pm.Data("X", np.vander(np.linspace(0, 1, FEW), 3), dims=("row", "predictor"))
        pm.Data("scalar", 2.5)
        beta = pm.Normal("beta", dims="predictor")
        pm.Normal("level")
        pm.Normal("matrix", dims=("side", "predictor"))
        pm.Normal("single", dtype="float32", shape=2)
        pm.Normal("none", shape=0)
        pm.Normal("y", X @ beta, 1.0, observed=np.ones(FEW), dims="row")
    return model


def constrained():
    """A transform of every kind."""
    with pm.Model(coords={"group": ["a", "b"], "again": ["a", "b"]}) as model:
        sigma = pm.HalfNormal("sigma")
        tau = pm.Exponential("tau", 1.0, dims="group", dtype="float32")
        low = pm.Normal("low")
        pm.Uniform("between", low, low + 2.0)
        pm.Dirichlet("simplex", np.ones(3))
        pm.Normal("cuts", 0.0, 2.0, shape=3, transform=ORDERED, initval=[-1.0, 0.0, 1.0])
        pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        pm.Beta("shares", 2.0, 2.0, shape=(2, 2))
        pm.Gamma("none", 1.0, 1.0, shape=0)
        rows(low, sigma + tau[0])
    return model


def computed():
    """Small deterministics of every type and shape."""
    coords = {"row": np.arange(FEW), "side": ["left", "right"], "other": [5, 7]}
    with pm.Model(coords=coords) as model:
        b = pm.Normal("b", dims="side", sigma=30.0)
        sigma = pm.HalfNormal("sigma")
        x = pm.Data("x", np.linspace(0.0, 1.0, FEW), dims="row")
        pm.Deterministic("copy", b, dims="side")
        pm.Deterministic("scalar", b.sum() / sigma)
        pm.Deterministic("outer", b[:, None] * b, dims=("side", "other"))
        pm.Deterministic("positive", b > 0.0)
        pm.Deterministic("count", (b > 0.0).sum())
        pm.Deterministic("fixed", pt.as_tensor(np.arange(3.0)))
        pm.Deterministic("empty", b[:0])
        pm.Deterministic("stable", pt.log(1.0 - pm.math.sigmoid(b)))
        pm.Deterministic("softplus", pm.math.log1pexp(b))
        pm.Deterministic("complement", pt.log1mexp(-sigma * pt.ones(2)))
        pm.Deterministic("clipped", pt.clip(b, -1.0, 0.5))
        mu = pm.Deterministic("mu", b[0] + b[1] * x, dims="row")
        pm.Deterministic("largest", pt.argmax(mu))
        rows(mu, sigma)
    return model


def with_dims():
    """A model of pymc.dims."""
    coords = {"row": np.arange(FEW), "side": ["left", "right"]}
    with pm.Model(coords=coords) as model:
        X = pmd.Data("X", np.arange(2.0 * FEW).reshape(FEW, 2), dims=("row", "side"))
        slope = pmd.Normal("slope", dims="side")
        scales = pmd.HalfNormal("scales", dims="side")
        sigma = pmd.HalfNormal("sigma")
        mu = pmd.Deterministic("mu", (X * slope * scales).sum("side"))
        pmd.Deterministic("level", mu.mean("row"))
        pmd.Normal("y", mu, sigma, observed=pmd.as_xtensor(np.ones(FEW), dims=("row",)))
    return model


def one_by_one():
    """What is evaluated draw by draw, and what is not."""
    own = wrap_py([dvector], [dvector], infer_shape=lambda _node, shapes: shapes)(np.sort)
    with pm.Model() as model:
        b = pm.Normal("b", shape=3)
        pm.Deterministic("own", own(b))
        pm.Deterministic(
            "loop",
            scan(
                lambda x, total: 0.5 * total + x,
                sequences=[b],
                outputs_info=[np.float64(0.0)],
                return_updates=False,
            ),
        )
        pm.Deterministic("above", b[b > 0.0].sum())
        pm.Deterministic("random", pm.Normal.dist(b, 1.0))
        pm.Deterministic("square", b**2)
        rows(b[0])
    return model


def tall():
    """Two values for every row, one of them in dims."""
    with pm.Model(coords={"row": np.arange(MANY)}) as model:
        slope = pm.Normal("slope")
        sigma = pm.HalfNormal("sigma")
        x = np.linspace(-1.0, 1.0, MANY)
        mu = pm.Deterministic("mu", slope * x, dims="row")
        pm.Deterministic("wide", pt.stack([mu, mu**2], axis=-1))
        pm.Deterministic("double", 2.0 * slope)
        rows(mu, sigma, MANY)
    return model
