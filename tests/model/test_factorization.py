"""A split model is the model, and depends on the arrays that the model keeps."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from model.evaluation import assert_read_rightly, evaluate, positions, split_of
from pymc_minibatch_mh.model.factorization import factorize
from steps.editable import Editable

N = 24
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, 3))
x = X[:, 0]
y = RNG.normal(size=N)
positive = RNG.gamma(2.0, size=N) + 0.1
g = RNG.integers(0, 4, N)


def line():
    return pm.Normal("a") + pm.Normal("b") * x


def test_dims_and_coords_are_read_through():
    coords = {"obs": range(N), "column": ["a", "b", "c"], "group": list("abcd")}
    with pm.Model(coords=coords) as built:
        Xd = pm.Data("X", X, dims=("obs", "column"))
        index = pm.Data("g", g, dims="obs")
        slope = pm.Normal("slope", dims="column")
        level = pm.Normal("level", dims="group")
        mu = pm.Deterministic("mu", level[index] + Xd @ slope, dims="obs")
        pm.Normal("y", mu, observed=pm.Data("y_data", y, dims="obs"), dims="obs")
    parts = split_of(built)
    assert_read_rightly(built, parts)
    assert parts.coordinate_names == [f"slope[{k}]" for k in range(3)] + [
        f"level[{k}]" for k in range(4)
    ]


@pytest.mark.parametrize("wrap", [np.asarray, pt.as_tensor, lambda a: pm.Data("x", a)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint8", "int32", "bool"])
def test_predictors_of_every_type_are_read_alike(dtype, wrap):
    column = (3 * positive).astype(dtype)
    with pm.Model() as built:
        pm.Normal("y", pm.Normal("b") * wrap(column) + pm.Normal("a"), observed=y)
    assert_read_rightly(built, split_of(built))


@pytest.mark.parametrize("name", ["p(y, n)", "y, z", "1|g", "f8"])
def test_a_variable_may_have_any_name(name):
    with pm.Model() as built:
        pm.Normal(name, line(), pm.HalfNormal("s"), observed=pm.Data("f8, f4", y))
    assert_read_rightly(built, split_of(built))
    (term,) = split_of(built, weights=np.arange(1, N + 1)).terms
    assert term.name == name


def test_data_of_the_moment_of_splitting_are_kept():
    with pm.Model() as built:
        scale = pm.Data("scale", np.array([2.0, 3.0]))
        pm.Normal("y", pm.Normal("a") * scale.sum(), observed=y)
    parts = split_of(built)
    (before,) = (evaluate([parts.position], parts.prior, [p]) for p in positions(parts, 1))
    pm.set_data({"scale": np.array([9.0, 9.0])}, model=built)
    (after,) = (evaluate([parts.position], parts.prior, [p]) for p in positions(parts, 1))
    assert before == after


@cache
def written():
    return Editable()


def found():
    """Return what the split of the model says that it depends on."""
    m = written()
    parts = factorize(m.model, m.model.value_vars, weights=m.weights)
    return [array for _, array in parts.arrays.named_arrays()]


KEPT = {
    "a predictor": lambda m: m.x,
    "a prior": lambda m: m.mean,
    "a potential": lambda m: m.pull,
    "a log-density": lambda m: m.known,
    "a shared variable": lambda m: m.offset.get_value(borrow=True),
    "a shared number in a prior": lambda m: m.scale.get_value(borrow=True),
    "a shared variable in a log-density": lambda m: m.factor.get_value(borrow=True),
    "a pm.Data": lambda m: m.model["design"].get_value(borrow=True),
    "observations": lambda m: m.model.rvs_to_values[m.model["y"]].data,
}


@pytest.mark.parametrize("place", KEPT)
def test_an_array_is_found_in(place):
    array = KEPT[place](written())
    assert sum(one is array for one in found()) == 1


def test_what_no_density_depends_on_is_not_among_them():
    unused = written().model["unused"].get_value(borrow=True)
    assert not any(one is unused or one is written().y for one in found())
