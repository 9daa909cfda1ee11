"""Tensor operations, taken apart, give the numbers that PyTensor computes."""

import numpy as np
import pytensor.tensor as pt
import pytest

from likelihood.expressions import value_of
from likelihood.reading import evaluate
from pymc_minibatch_mh.likelihood import choice, lower, reduction
from pymc_minibatch_mh.likelihood.cells import Cells, LoweringError
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
    cells = Cells()
    position = np.array([cells.coordinate(k) for k in range(6)], dtype=object)
    leaves = {theta: Tensor(position, None), length: Tensor(lower.single(cells.length()), None)}
    for number, batch in enumerate((rows, chosen, many)):
        width, dtype = batch.type.shape[1], np.dtype(batch.dtype)
        entries = [cells.data(number, (k,), dtype) for k in range(width)]
        leaves[batch] = Tensor(np.array([entries], dtype=object), 0)
    return lower.lower(cells, graph, leaves)


def put_together(tensor):
    """Return the value of a tensor of cells for all rows of the batch."""
    shape = list(tensor.cells.shape)
    if tensor.axis is not None:
        assert shape[tensor.axis] == 1
        shape[tensor.axis] = BATCH
    result = np.empty(shape)
    for place in np.ndindex(*tensor.cells.shape):
        where = list(place)
        if tensor.axis is not None:
            where[tensor.axis] = slice(None)
        result[tuple(where)] = value_of(tensor.cells[place], THETA, (ROWS, CHOSEN, MANY))
    return result


def is_right(graph):
    expected = evaluate(
        [theta, rows, chosen, many, length], graph, [THETA, ROWS, CHOSEN, MANY, BATCH]
    )
    found = put_together(taken_apart(graph))
    return found.shape == expected.shape and np.allclose(found, expected, rtol=1e-10)


GRAPHS = {
    "elementwise": lambda: pt.exp(rows) * theta[:3] + theta[3],
    "transposed": lambda: (rows * theta[:3]).T,
    "squeezed": lambda: (rows[:, :1] * theta[0]).squeeze(1) + rows[:, 1],
    "more axes": lambda: rows[None, :, :, None] * square[:, None, None, :],
    "alloc": lambda: pt.alloc(theta[:2], length, 2) + rows[:, :2],
    "alloc of rows": lambda: pt.alloc(rows[:, :1] * theta[0], length, 4),
    "vector": lambda: pt.stack([theta[0], 2.0 * theta[1], 3.0])[chosen[:, 0]],
    "join": lambda: pt.concatenate([rows, pt.zeros((length, 1)), rows * theta[0]], axis=1),
    "last axis joined": lambda: pt.concatenate([rows, rows * theta[0]], axis=-1),
    "shape": lambda: rows * theta[0] / rows.shape[1] + pt.cast(cube.shape[1], "float64"),
    "reshaped rows": lambda: (rows * theta[:3]).reshape((length, 3, 1)),
    "reshaped parameters": lambda: cube.reshape((3, -1))[0, :3] * rows,
    "whole numbers": lambda: rows * pt.arange(1, 7, 2) * theta[0],
    "set": lambda: rows * pt.set_subtensor(theta[1:3], theta[0])[:3],
    "set one": lambda: rows * pt.set_subtensor(theta[-1], theta[0] * theta[1])[-3:],
    "empty, then set": lambda: rows * pt.set_subtensor(pt.empty(3)[:], theta[:3]),
    "sum": lambda: (rows * theta[:3]).sum(axis=1),
    "sum over several axes": lambda: (rows[:, :, None] * cube[0, 0]).sum(axis=(1, 2)),
    "sum of parameters": lambda: rows[:, 0] * theta.sum() * cube.sum(axis=(0, 2))[1],
    "mean": lambda: (rows * theta[:3]).mean(axis=-1),
    "product": lambda: (rows * theta[:3]).prod(axis=1),
    "maximum": lambda: (rows * theta[:3]).max(axis=1) - (rows + theta[:3]).min(axis=1),
    "all": lambda: pt.all(rows * theta[:3] > -1.0, axis=1) * 1.0,
    "any": lambda: pt.any(rows * theta[:3] > 1.0, axis=1) * 1.0,
    "sum of booleans": lambda: (rows > 0.0).sum(axis=1) * theta[0],
    "sum of small integers": lambda: many.sum(axis=1) * theta[0],
    "product of small integers": lambda: many.prod(axis=1) * theta[0],
    "sum in single precision": lambda: pt.cast(rows, "float32").sum(axis=1) * theta[0],
    "small integers as they are": lambda: (many[:, 0] + many[:, 1]) * theta[0],
    "cumulated": lambda: rows * pt.cumsum(theta)[:3] + pt.cumprod(theta)[3:],
    "cumulated over an axis": lambda: pt.cumsum(cube, axis=1)[0, :, 1] * rows,
    "cumulated rows": lambda: pt.cumsum(rows * theta[:3], axis=1),
    "log of a sum": lambda: pt.logsumexp(rows * theta[:3], axis=1),
    "softmax": lambda: pt.special.softmax(rows * theta[:3], axis=1),
    "log-softmax": lambda: pt.special.log_softmax(rows * theta[:3], axis=-1),
    "softmax of parameters": lambda: rows * pt.special.softmax(cube)[1, :, 0],
    "dot": lambda: pt.dot(rows, cube[0]),
    "matmul": lambda: rows @ cube[1] @ square,
    "transposed dot": lambda: pt.dot(cube[0].T, rows.T),
    "column": lambda: rows[:, 1] * theta[-1],
    "columns in reverse": lambda: (rows * theta[:3])[:, ::-1][:, :2],
    "a parameter per row": lambda: theta[chosen[:, 0]],
    "every other parameter per row": lambda: theta[::-2][chosen[:, 0]] * rows[:, 0],
    "entries of a matrix": lambda: cube[0][chosen[:, 0], chosen[:, 1] // 2],
    "rows of a matrix": lambda: cube[:, :, 1].T[chosen[:, 0]],
    "columns of a matrix": lambda: cube[1][:, chosen[:, 1] // 2],
    "one fixed, one chosen": lambda: cube[1, chosen[:, 0], 0] + cube[0, 2][chosen[:, 1] // 2],
    "several per row": lambda: theta[chosen],
    "one of each row": lambda: (rows * theta[:3])[numbers, chosen[:, 0]],
    "one of each row, by column": lambda: (rows * theta[:3])[numbers[:, None], chosen],
    "one of each row, transposed": lambda: (rows * theta[:3]).T[chosen[:, 1], numbers],
    "one of each row, on its side": lambda: (rows * theta[:3]).T[
        chosen[:, 1][None, :], numbers.reshape((1, -1))
    ],
    "chosen by what was chosen": lambda: theta[pt.as_tensor([2, 0, 1])[chosen[:, 0]]],
    "choice of products": lambda: (pt.exp(theta[:3]) * theta[3:])[chosen[:, 0]],
    "choice of unlike things": lambda: pt.concatenate(
        [theta[:1], pt.exp(theta[1:2]), pt.as_tensor([7.0])]
    )[chosen[:, 0]],
    "choice of sums": lambda: (theta[:3] + theta[3:] * pt.as_tensor([1.0, 2.0, 3.0]))[chosen[:, 1]],
    "choice with offsets": lambda: (theta[:3] + pt.as_tensor([1.0, 2.0, 3.0]))[chosen[:, 1]],
    "choice among columns": lambda: pt.exp(rows)[numbers, chosen[:, 0]] * theta[0],
    "fixed places": lambda: theta[[5, 0, -1]] * rows,
    "a fixed row of parameters": lambda: cube[[1, 0], [0, 2]][0, 1] * rows,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_tensor_is_taken_apart_rightly(name):
    assert is_right(GRAPHS[name]())


REFUSED = {
    "sum over rows": lambda: rows.sum(axis=0),
    "sum of all": lambda: rows.sum(),
    "maximum over rows": lambda: rows.max(axis=0) * rows,
    "cumulated along rows": lambda: pt.cumsum(rows, axis=0),
    "cumulated along all": lambda: pt.cumsum(rows),
    "softmax over rows": lambda: pt.special.softmax(rows, axis=0),
    "softmax over all": lambda: pt.special.softmax(rows),
    "log of a sum over rows": lambda: pt.logsumexp(rows, axis=0),
    "rows by rows": lambda: rows * rows.T[:, :, None][:, :, 0][:, :3],
    "rows beside rows": lambda: rows[:, 0] - rows[:, 0][:, None],
    "rows times rows": lambda: pt.dot(rows, rows.T),
    "inside of rows": lambda: pt.dot(rows.T, rows),
    "rows after rows": lambda: pt.concatenate([rows, rows], axis=0),
    "a number of the batch": lambda: theta[0] * length,
    "a reshape that mixes rows": lambda: (rows * theta[:3]).reshape((-1,)),
    "a reshape that moves rows": lambda: rows.reshape((3, length)),
    "the first row": lambda: rows[0] * theta[:3],
    "rows in reverse": lambda: rows[::-1] * theta[:3],
    "some rows": lambda: rows[1:] * theta[0],
    "other rows": lambda: rows[chosen[:, 0]],
    "parameters by row number": lambda: theta[numbers],
    "parameters by condition": lambda: theta[theta > 0.0].sum() * rows,
    "an index between slices": lambda: cube[[0, 1], :, [1, 0]].sum() * rows,
    "an index by parameters": lambda: theta[pt.argmax(theta)] * rows,
    "a length by data": lambda: theta[: chosen[0, 0]].sum() * rows,
    "alloc along other rows": lambda: pt.alloc(rows, length, length, 3),
    "whole numbers to a parameter": lambda: pt.arange(pt.cast(theta[0], "int64")).sum() * rows,
    "numbers from one": lambda: (rows * theta[:3])[pt.arange(1, length + 1), chosen[:, 0]],
    "several outputs": lambda: pt.linalg.slogdet(square)[1] * rows,
    "increments": lambda: pt.inc_subtensor(theta[:3], 1.0)[:3] * rows,
    "rows set": lambda: pt.set_subtensor(rows[:, 0], theta[0]),
    "sorted": lambda: pt.sort(theta)[0] * rows,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_may_mix_rows_is_refused(name):
    with pytest.raises(LoweringError):
        put_together(taken_apart(REFUSED[name]()))


# Each mutant is a plausible mistake; the graph that is named must notice it.


MUTANTS = {
    "indices are counted from the end in the wrong place": (
        lambda m: m.setattr(
            choice,
            "_is_chosen",
            lambda cells, index, k, count: cells.node(
                pt.eq.scalar_op, (index, cells.constant(np.int64(k)))
            ),
        ),
        "choice of unlike things",
    ),
    "factors of coordinates are forgotten": (
        lambda m: m.setattr(choice, "multiply", lambda cells, factor, x: x),
        "choice of sums",
    ),
    "offsets are forgotten": (
        lambda m: m.setattr(choice, "add", lambda cells, first, *rest: first),
        "choice with offsets",
    ),
    "cumulated products are sums": (
        lambda m: m.setattr(reduction, "multiply", reduction.add),
        "cumulated",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught(name, monkeypatch):
    change, graph = MUTANTS[name]
    change(monkeypatch)
    assert not is_right(GRAPHS[graph]())
