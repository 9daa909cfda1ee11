"""Graphs of parameters and rows, taken apart and put together again."""

import numpy as np
import pytensor.tensor as pt

import pymc_minibatch_mh.likelihood.function  # noqa: F401 - registers all rules
from likelihood.evaluation import evaluate
from likelihood.expressions import value_of
from pymc_minibatch_mh.likelihood import lower
from pymc_minibatch_mh.likelihood.exprs import ExprGraph
from pymc_minibatch_mh.likelihood.lower import Tensor

RNG = np.random.default_rng(31)
BATCH = 5
THETA = RNG.normal(size=6)
ROWS = RNG.normal(size=(BATCH, 3))
CHOSEN = RNG.integers(-3, 3, size=(BATCH, 2))
MANY = RNG.integers(100, 127, size=(BATCH, 2)).astype(np.int8)

theta = pt.vector("theta", shape=(6,))
rows = pt.tensor("rows", dtype="float64", shape=(None, 3))
chosen = pt.tensor("chosen", dtype="int64", shape=(None, 2))
many = pt.tensor("many", dtype="int8", shape=(None, 2))
length = pt.lscalar("length")
square = theta[:4].reshape((2, 2))
cube = pt.concatenate([theta, 2.0 * theta]).reshape((2, 3, 2))
numbers = pt.arange(length)


def taken_apart(graph):
    exprs = ExprGraph()
    position = np.array([exprs.coordinate(k) for k in range(6)], dtype=object)
    leaves = {theta: Tensor(position, None), length: Tensor(lower.single(exprs.length()), None)}
    for number, batch in enumerate((rows, chosen, many)):
        width, dtype = batch.type.shape[1], np.dtype(batch.dtype)
        entries = [exprs.data(number, (k,), dtype) for k in range(width)]
        leaves[batch] = Tensor(np.array([entries], dtype=object), 0)
    return lower.lower(exprs, graph, leaves)


def put_together(tensor):
    """Return the value of a tensor of cells for all rows of the batch."""
    shape = list(tensor.exprs.shape)
    if tensor.axis is not None:
        assert shape[tensor.axis] == 1
        shape[tensor.axis] = BATCH
    result = np.empty(shape)
    for place in np.ndindex(*tensor.exprs.shape):
        where = list(place)
        if tensor.axis is not None:
            where[tensor.axis] = slice(None)
        result[tuple(where)] = value_of(tensor.exprs[place], THETA, (ROWS, CHOSEN, MANY))
    return result


def is_right(graph):
    expected = evaluate(
        [theta, rows, chosen, many, length], graph, [THETA, ROWS, CHOSEN, MANY, BATCH]
    )
    found = put_together(taken_apart(graph))
    return found.shape == expected.shape and np.allclose(found, expected, rtol=1e-10)
