"""Data that a model casts to their own type are read where they lie, and not from a copy."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh.compiled.form_rows import Leaves, pieces_of
from pymc_minibatch_mh.kernels import forms
from pymc_minibatch_mh.likelihood.factorization import factorize
from pymc_minibatch_mh.likelihood.function import row_functions

N = 1_000


def function_of(x):
    """Return the rows of a regression on predictors of some type."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=x.shape[1])
        pm.Normal("y", pm.math.dot(x, b), 1.0, observed=np.zeros(N))
    (function,) = row_functions(factorize(model, model.value_vars))
    return function


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_predictors_are_one_run_where_they_lie(dtype):
    x = (10.0 * np.random.default_rng(1).normal(size=(N, 5))).astype(dtype)
    function = function_of(x)
    leaves = Leaves(function)
    pieces = pieces_of(function.arguments[0], leaves)
    assert [(piece.kind, piece.count) for piece in pieces] == [(forms.RUN, 5)]
    known = {id(column.values) for column in function.columns}
    assert {id(array) for array in leaves.arrays} == known
