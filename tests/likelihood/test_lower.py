"""Tensor operations, taken apart, give the numbers that PyTensor computes."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert

from every import every
from likelihood.apart import (
    chosen,
    cube,
    is_right,
    length,
    many,
    numbers,
    rows,
    square,
    taken_apart,
    theta,
)
from pymc_minibatch_mh.likelihood import choice, lower
from pymc_minibatch_mh.likelihood.exprs import LoweringError

two_kinds = pt.concatenate(
    [[0.5], pt.exp(theta[:2]), pt.sigmoid(theta[2:4]), [0.25], pt.exp(theta[4:]), theta[:1]]
)

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
    "set by an array": lambda: rows * pt.set_subtensor(theta[[2, 0]], theta[3:5])[:3],
    "set twice": lambda: rows * pt.set_subtensor(theta[[2, 0, 2]], theta[3:6])[:3],
    "set in a matrix": lambda: rows @ pt.set_subtensor(cube[0][[0, 1], [1, 0]], theta[:2]),
    "set backwards": lambda: rows * pt.set_subtensor(theta[2::-1], theta[3:])[:3],
    "column set": lambda: pt.set_subtensor((rows * theta[0])[:, 1], rows[:, 2] * theta[1]),
    "columns set": lambda: pt.set_subtensor((rows * theta[0])[:, 1:], pt.exp(rows[:, :2])),
    "columns set by an array": lambda: pt.set_subtensor((rows * theta[0])[:, [0, 2]], rows[:, :2]),
    "columns set to parameters": lambda: pt.set_subtensor(rows[:, 1:], theta[:2]) * theta[0],
    "column set on its side": lambda: pt.set_subtensor(rows.T[1], rows[:, 0] * theta[0]),
    "small integers set": lambda: pt.set_subtensor(rows[:, :2], many)[:, 0] * many[:, 1] * theta[0],
    "increments": lambda: pt.inc_subtensor(theta[:3], 1.5)[:3] * rows,
    "increments by an array": lambda: pt.inc_subtensor(theta[[0, 2, 0]], theta[3:])[:3] * rows,
    "column increased": lambda: pt.inc_subtensor((rows * theta[0])[:, 1], rows[:, 2]),
    "split": lambda: pt.split(rows * theta[0], [1, 2], n_splits=2, axis=1)[1],
    "split parameters": lambda: pt.split(theta, [1, 3, 2], n_splits=3)[1] * rows,
    "asserted": lambda: Assert("as it is")(theta[:3] * rows, pt.eq(cube.shape[1], 3)),
    "cumulated whole numbers": lambda: theta[pt.cumsum(pt.arange(1, 4)) - 1] * rows,
    "fractions at even distances": lambda: theta[:3] * pt.arange(0.5, 3.5) * rows,
    "fractions of a step": lambda: theta[:3] * pt.arange(0.25, 1.0, 0.25) * rows,
    "multiplied whole numbers": lambda: theta[pt.cumprod(pt.arange(1, 3))] * rows[:, :2],
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
    "choice of two kinds": lambda: two_kinds[chosen] * two_kinds[chosen - 4],
    "choice of choices": lambda: pt.switch(theta[:3] > 0.1, pt.exp(theta[:3]), theta[3:])[chosen],
    "choice of entries of a product": lambda: (pt.exp(theta[:2])[:, None] * square + theta[4])[
        chosen[:, 0] // 2, chosen[:, 1] // 2
    ],
    "choice in another order": lambda: (
        pt.exp(theta[2]) * pt.sigmoid(theta[:1]) * rows[:, :1]
        + pt.stack([pt.sigmoid(theta[0]) * pt.exp(theta[1]), pt.exp(theta[2]) * pt.sin(theta[3])])[
            chosen[:, :1] // 2
        ]
    ),
    "choice of sums": lambda: (theta[:3] + theta[3:] * pt.as_tensor([1.0, 2.0, 3.0]))[chosen[:, 1]],
    "choice with offsets": lambda: (theta[:3] + pt.as_tensor([1.0, 2.0, 3.0]))[chosen[:, 1]],
    "choice among columns": lambda: pt.exp(rows)[numbers, chosen[:, 0]] * theta[0],
    "fixed places": lambda: theta[[5, 0, -1]] * rows,
    "a fixed row of parameters": lambda: cube[[1, 0], [0, 2]][0, 1] * rows,
}


@every("name", GRAPHS)
def test_a_tensor_is_taken_apart_rightly(name):
    assert is_right(GRAPHS[name]())


# Batches have been proved to keep rows apart: what is refused is what no expression can say.
REFUSED = {
    "parameters by condition": lambda: theta[theta > 0.0].sum() * rows,
    "an index between slices": lambda: cube[[0, 1], :, [1, 0]].sum() * rows,
    "an index by parameters": lambda: theta[pt.argmax(theta)] * rows,
    "a length by data": lambda: theta[: chosen[0, 0]].sum() * rows,
    "whole numbers to a parameter": lambda: pt.arange(pt.cast(theta[0], "int64")).sum() * rows,
    "several outputs": lambda: pt.linalg.slogdet(square)[1] * rows,
    "a place by data set": lambda: pt.set_subtensor(theta[chosen[0, 0]], 1.0)[:3] * rows,
    "parts by data": lambda: pt.split(theta, [chosen[0, 0], 3], n_splits=2)[1] * rows,
    "an assertion on parameters": lambda: Assert("positive")(theta[:3], theta[0] > 0.0) * rows,
    "sorted": lambda: pt.sort(theta)[0] * rows,
}


@every("name", REFUSED)
def test_what_is_no_expression_is_refused(name):
    with pytest.raises(LoweringError):
        taken_apart(REFUSED[name]())


# Each mutant is a plausible mistake; the graph that is named must notice it.


#: Name -> what is replaced where, by what, and the case that notices.
MUTANTS = {
    "indices are counted from the end in the wrong place": (
        choice,
        "_is_chosen",
        lambda exprs, index, k, count: exprs.node(
            pt.eq.scalar_op, (index, exprs.constant(np.int64(k)))
        ),
        "choice among columns",
    ),
    "factors of coordinates are forgotten": (
        choice, "multiply", lambda exprs, *x: x[-1], "choice of sums"),
    "offsets are forgotten": (
        choice, "add", lambda exprs, first, *rest: first, "choice with offsets"),
    "only the first kind is chosen from": (
        choice,
        "_pick_by_kind",
        lambda exprs, choices, index, kinds: choices[kinds[0][0]],
        "choice of two kinds",
    ),
    "factors are paired in any order": (
        choice, "_in_order", lambda expr: expr.inputs[::-1], "choice of choices"),
    "cumulated products are sums": (choice, "multiply", choice.add, "cumulated"),
    "numbers of a range are whole": (
        lower,
        "_known",
        lambda op, exprs: [int(expr.value) for expr in exprs],
        "fractions at even distances",
    ),
}  # fmt: skip


@every("name", MUTANTS)
def test_mutant_is_caught(name, monkeypatch):
    *change, graph = MUTANTS[name]
    monkeypatch.setattr(*change)
    assert not is_right(GRAPHS[graph]())
