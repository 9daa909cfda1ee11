"""What a split depends on is found wherever a model keeps it, and under which name."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import scipy.sparse as sp
from pytensor.compile.builders import OpFromGraph

from every import every
from pymc_minibatch_mh.likelihood.factorization import factorize
from pymc_minibatch_mh.likelihood.inputs import ModelArrays
from steps.editable import Editable


@cache
def written():
    return Editable()


def found():
    """Return what the split of the model says that it depends on."""
    m = written()
    parts = factorize(m.model, m.model.value_vars, weights=m.weights)
    return [array for _, array in parts.arrays.named()]


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


@every("place", KEPT)
def test_an_array_is_found_in(place):
    array = KEPT[place](written())
    assert sum(one is array for one in found()) == 1


def test_what_no_density_depends_on_is_not_among_them():
    unused = written().model["unused"].get_value(borrow=True)
    assert not any(one is unused or one is written().y for one in found())


def names_of(graphs):
    held = ModelArrays()
    held.add(graphs, "y")
    return [name for name, _ in held.named()]


def test_names_are_those_of_the_data_or_of_who_uses_them():
    named, unnamed = pytensor.shared(np.ones(3), name="offset"), pytensor.shared(np.ones(()))
    assert names_of([named * unnamed]) == ["offset", "a number of y"]
    assert names_of([pt.as_tensor(np.ones(3)) + named]) == ["a data array of y", "offset"]


def test_arrays_inside_of_operations_are_found():
    x, hidden = pt.vector("x"), np.arange(3.0)
    inner = OpFromGraph([x], [x * hidden])
    held = ModelArrays()
    held.add([inner(pt.vector("y"))], "y")
    assert any(array is hidden for _, array in held.named())


def test_sparse_data_are_found():
    variable = pytensor.sparse.as_sparse_variable(sp.csr_matrix(np.eye(3)))
    held = ModelArrays()
    held.add([variable], "y")
    arrays = [array for _, array in held.named()]
    held = variable.data
    assert [id(x) for x in arrays] == [id(x) for x in (held.data, held.indices, held.indptr)]


def test_generators_are_none():
    assert names_of([pm.Normal.dist(0.0, pytensor.shared(np.ones(()), name="sd"))]) == [
        "a number of y",
        "sd",
    ]
