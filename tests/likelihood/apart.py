"""Graphs of parameters and rows, taken apart and put together again."""

import numpy as np
import pytensor.tensor as pt

import pymc_minibatch_mh.likelihood.function  # noqa: F401 - registers all rules
from likelihood.evaluation import function_of
from likelihood.expressions import value_of
from pymc_minibatch_mh.likelihood import lower
from pymc_minibatch_mh.likelihood.exprs import ExprGraph

RNG = np.random.default_rng(31)
BATCH = 5
THETA = RNG.normal(size=6)
ROWS = RNG.normal(size=(BATCH, 3))
CHOSEN = RNG.integers(-3, 3, size=(BATCH, 2))
MANY = RNG.integers(100, 127, size=(BATCH, 2)).astype(np.int8)
DATA = (ROWS, CHOSEN, MANY)

theta = pt.vector("theta", shape=(6,))
rows = pt.tensor("rows", dtype="float64", shape=(None, 3))
chosen = pt.tensor("chosen", dtype="int64", shape=(None, 2))
many = pt.tensor("many", dtype="int8", shape=(None, 2))
length = pt.lscalar("length")
square = theta[:4].reshape((2, 2))
cube = pt.concatenate([theta, 2.0 * theta]).reshape((2, 3, 2))
numbers = pt.arange(length)


def taken_apart(graph):
    """Return the expressions of a batch of one row."""
    exprs = ExprGraph()
    position = np.array([exprs.coordinate(k) for k in range(6)], dtype=object)
    leaves = {theta: position, length: lower.constants(exprs, 1)}
    for number, batch in enumerate((rows, chosen, many)):
        width, dtype = batch.type.shape[1], np.dtype(batch.dtype)
        entries = [exprs.data(number, (k,), dtype) for k in range(width)]
        leaves[batch] = np.array([entries], dtype=object)
    return lower.lower(exprs, graph, leaves)


def is_right(graph):
    """Whether every row has the values that PyTensor computes for a batch of that row."""
    found = taken_apart(graph)
    values = [np.broadcast_to(value_of(x, THETA, DATA), BATCH) for x in found.flat]
    expected = function_of([theta, rows, chosen, many, length], graph)
    for row in range(BATCH):
        own = expected(THETA, *(data[row : row + 1] for data in DATA), 1)
        mine = np.reshape([value[row] for value in values], found.shape)
        if own.shape != found.shape or not np.allclose(mine, own, rtol=1e-10):
            return False
    return True
