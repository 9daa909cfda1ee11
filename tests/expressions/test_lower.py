"""Tensor operations and linear algebra, taken apart, give the numbers that PyTensor computes."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.raise_op import Assert
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular

import pymc_minibatch_mh.structure.row_function  # noqa: F401 - registers all rules
from expressions.values import operations, value_of
from model.evaluation import function_of
from pymc_minibatch_mh.expressions import linalg, long_vectors, lower
from pymc_minibatch_mh.expressions.graph import ExprGraph, LoweringError

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
    leaves = {length: lower.constant_exprs(exprs, 1)}
    for number, batch in enumerate((rows, chosen, many)):
        width, dtype = batch.type.shape[1], np.dtype(batch.dtype)
        entries = [exprs.data(number, (k,), dtype) for k in range(width)]
        leaves[batch] = np.array([entries], dtype=object)
    return lower.lower_graph(exprs, graph, theta, leaves)


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
    "choice of weighted entries, some of them equal": lambda: (
        theta[pt.as_tensor([0, 0, 1, 1, 2, 2])] * pt.as_tensor([1.0, 2.0, 3.0, 0.5, 4.0, 5.0])
    )[chosen[:, 0]],
    "choice with offsets": lambda: (theta[:3] + pt.as_tensor([1.0, 2.0, 3.0]))[chosen[:, 1]],
    "choice among columns": lambda: pt.exp(rows)[numbers, chosen[:, 0]] * theta[0],
    "fixed places": lambda: theta[[5, 0, -1]] * rows,
    "a fixed row of parameters": lambda: cube[[1, 0], [0, 2]][0, 1] * rows,
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_tensor_is_taken_apart_rightly(name):
    assert is_right(GRAPHS[name]())


moved = pt.concatenate([theta, (theta[3:] - theta[0]) / pt.exp(theta[1])])
WEIGHTS = np.array([[1.0, 0.5], [1.0, -2.0], [1.0, 3.0]])
LONG = {
    "numbers": lambda: pt.constant([3.0, 5.0, 4.0])[chosen[:, 0]] * theta[0],
    "equal numbers": lambda: pt.constant([3.0, 3.0, 3.0])[chosen[:, 0]] * theta[0],
    "function": lambda: (theta[0] + pt.exp(theta[1]) * theta[3:])[chosen[:, 1]],
    "consecutive entries": lambda: moved[pt.constant([0, 6, 7, 8])][1:][chosen[:, 1]],
    "entries in another order": lambda: moved[pt.constant([7, 6, 8])][chosen[:, 1]],
    "entries of two parts": lambda: moved[4:7][chosen[:, 0]],
    "product of a matrix": lambda: (WEIGHTS @ theta[:2])[chosen[:, 1]],
    "product of a matrix with zeros": lambda: (np.eye(3) @ theta[:3])[chosen[:, 1]],
    "single entries": lambda: moved[7] * moved[pt.constant([8, 1, 2])][0] + rows[:, 0],
}


@pytest.mark.parametrize("name", [*GRAPHS, *LONG])
def test_entries_of_long_vectors_are_those_of_lowered_ones(name, monkeypatch):
    monkeypatch.setattr(long_vectors, "MIN_ENTRIES", 2)
    assert is_right((GRAPHS | LONG)[name]())


def test_a_long_vector_has_one_expression():
    exprs, position = ExprGraph(), pt.vector("position", shape=(1_000_000,))
    values = pt.concatenate([position, position[1:] * pt.exp(position[0])])
    graph = values[pt.constant(np.arange(1_000_000, 1_999_999))][chosen[:, 0]]
    leaves = {chosen: np.array([[exprs.data(0, (k,), np.dtype("int64")) for k in range(2)]])}
    (entry,) = lower.lower_graph(exprs, graph, position, leaves)
    assert not entry.is_data
    assert len(exprs._known) < 30


def test_a_long_product_has_one_expression():
    exprs, position = ExprGraph(), pt.vector("position", shape=(2,))
    graph = (np.ones((100_000, 2)) @ position)[chosen[:, 0]]
    leaves = {chosen: np.array([[exprs.data(0, (k,), np.dtype("int64")) for k in range(2)]])}
    (entry,) = lower.lower_graph(exprs, graph, position, leaves)
    assert not entry.is_data
    assert len(exprs._known) < 30


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


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_expression_is_refused(name):
    with pytest.raises(LoweringError):
        taken_apart(REFUSED[name]())


#: Symmetric and positive definite, and one that is neither.
KNOWN = np.array([[2.0, 0.3, -0.4], [0.3, 1.5, 0.2], [-0.4, 0.2, 1.1]])
SKEW = np.array([[0.0, 1.3, -0.4], [0.3, 1.5, 0.2], [-0.7, 0.5, 0.0]])

lower_places, diagonal = np.tril_indices(3), [0, 2, 5]
packed = pt.set_subtensor(theta[diagonal], pt.exp(theta[diagonal]))
factor = pt.set_subtensor(pt.zeros((3, 3))[lower_places], packed)
positive = pt.outer(theta[:3], theta[:3]) + pt.diag(pt.exp(theta[3:]))
tilted = positive + 0.1 * np.triu(SKEW, 1)
two = pt.stack([theta[0], 2.0, theta[1], pt.exp(theta[2])]).reshape((2, 2))
scale = pt.exp(rows[:, 0] * theta[0])
stretched = KNOWN[None] * scale[:, None, None]
by_group = pt.stack([factor, 2.0 * factor, factor.T + 3.0])[chosen[:, 0]]


def solved(op, matrix, b):
    """Solve as the graphs of models do: with rows as a batch."""
    return Blockwise(op)(pt.as_tensor(matrix)[None], b)


def triangular(matrix, b, **settings):
    return solved(SolveTriangular(b_ndim=1, **settings), matrix, b)


def on_their_side(op, matrix, b):
    return Blockwise(op)(pt.as_tensor(matrix), b.T).T


MATRICES = {
    "constant factor": lambda: rows @ pt.linalg.cholesky(KNOWN) * theta[0],
    "constant upper factor": lambda: rows @ pt.linalg.cholesky(KNOWN, lower=False) * theta[0],
    "factor": lambda: rows @ pt.linalg.cholesky(positive),
    "upper factor": lambda: rows @ pt.linalg.cholesky(positive, lower=False),
    "factor of one triangle": lambda: rows @ pt.linalg.cholesky(tilted),
    "upper factor of one triangle": lambda: rows @ pt.linalg.cholesky(tilted, lower=False),
    "factor of a product": lambda: rows @ pt.linalg.cholesky(factor @ factor.T),
    "upper factor of a product": lambda: rows @ pt.linalg.cholesky(factor @ factor.T, lower=False),
    "factor of a negative one's product": lambda: (
        rows[:, :2] @ pt.linalg.cholesky(-pt.diag(theta[1:3]) @ -pt.diag(theta[1:3]).T)
    ),
    "factor by row": lambda: pt.linalg.cholesky(stretched),
    "factor by group": lambda: pt.linalg.cholesky(by_group @ by_group.mT),
    "product by row": lambda: (stretched @ factor)[:, 0],
    "matrices by row times rows": lambda: (stretched @ rows[:, :, None])[:, :, 0],
    "lower": lambda: triangular(factor, rows, lower=True),
    "lower, of a full one": lambda: triangular(positive, rows, lower=True),
    "upper": lambda: triangular(positive, rows, lower=False),
    "unit diagonal": lambda: triangular(positive, rows * theta[0], lower=True, unit_diagonal=True),
    "constant, lower": lambda: triangular(KNOWN, rows * theta[:3], lower=True),
    "one by row": lambda: Blockwise(SolveTriangular(b_ndim=1, lower=True))(stretched, rows),
    "rows on their side": lambda: on_their_side(
        SolveTriangular(b_ndim=2, lower=True), factor, rows * theta[:3]
    ),
    "transposed": lambda: pt.linalg.solve_triangular(factor, rows.T, lower=True, trans=1).T,
    "several columns": lambda: rows @ pt.linalg.solve_triangular(factor, np.eye(3), lower=True),
    "from a factor": lambda: solved(CholeskySolve(b_ndim=1, lower=True), factor, rows),
    "from an upper factor": lambda: solved(CholeskySolve(b_ndim=1, lower=False), positive, rows),
    "from a factor, on their side": lambda: on_their_side(
        CholeskySolve(b_ndim=2, lower=True), factor, rows
    ),
    "solved": lambda: solved(Solve(b_ndim=1), positive, rows),
    "solved, the first pivot zero": lambda: solved(
        Solve(b_ndim=1), SKEW * pt.exp(theta[0]) + np.diag([0.0, 1.0, 2.0]) * theta[1], rows
    ),
    "solved with numbers": lambda: solved(Solve(b_ndim=1), SKEW, rows * theta[:3]),
    "symmetric": lambda: solved(Solve(b_ndim=1, assume_a="sym", lower=True), tilted, rows),
    "symmetric, upper": lambda: solved(Solve(b_ndim=1, assume_a="sym"), tilted, rows),
    "positive": lambda: solved(Solve(b_ndim=1, assume_a="pos", lower=True), tilted, rows),
    "positive, upper": lambda: solved(Solve(b_ndim=1, assume_a="pos"), tilted, rows),
    "inverse": lambda: rows @ MatrixInverse()(positive),
    "inverse of two": lambda: rows[:, :2] @ MatrixInverse()(two),
    "inverse of numbers": lambda: rows @ MatrixInverse()(pt.as_tensor(SKEW)) * theta[:3],
    "diagonal": lambda: rows * pt.diag(positive),
    "diagonal above": lambda: rows[:, :2] * pt.diagonal(positive, offset=1),
    "diagonal below": lambda: rows[:, :2] * pt.diagonal(positive * pt.arange(3.0), offset=-1),
    "diagonals by row": lambda: pt.diagonal(stretched, axis1=1, axis2=2),
    "diagonals of rows in the middle": lambda: pt.diagonal(
        stretched.transpose((1, 0, 2)), offset=1, axis1=0, axis2=2
    ),
    "matrix of a diagonal": lambda: rows @ pt.diag(theta[:3]),
    "matrix of a diagonal above": lambda: rows @ pt.diag(theta[:2], k=1),
    "matrix of a diagonal below": lambda: rows @ pt.diag(theta[:2], k=-1),
    "matrices of diagonals by row": lambda: pt.basic.alloc_diag(rows * theta[:3], 1, 0, 2),
}


@pytest.mark.parametrize("name", MATRICES)
def test_a_matrix_is_taken_apart_rightly(name):
    assert is_right(MATRICES[name]())


big = pt.outer(theta[:5], theta[:5]) + np.eye(5)
REFUSED_MATRICES = {
    "a factor of five rows": (lambda: pt.linalg.cholesky(big) * rows[:, :1], "5 rows"),
    "an inverse of five rows": (lambda: MatrixInverse()(big) * rows[:, :1], "5 rows"),
    "a negative matrix": (lambda: pt.linalg.cholesky(-KNOWN) * rows, "without a result"),
    "a singular matrix": (
        lambda: rows @ MatrixInverse()(pt.as_tensor(np.ones((3, 3)))),
        "without a result",
    ),
    "a column of zeros": (
        lambda: rows @ MatrixInverse()(positive * np.array([0.0, 1.0, 1.0])),
        "without an inverse",
    ),
    "single precision": (
        lambda: pt.linalg.cholesky(pt.as_tensor(KNOWN.astype("float32"))) * rows,
        "single precision",
    ),
    "a band": (
        lambda: solved(Solve(b_ndim=1, assume_a="banded"), positive, rows),
        "computed row by row",
    ),
    "an exponential": (lambda: rows[:, :2] @ pt.linalg.expm(square), "computed row by row"),
}


@pytest.mark.parametrize("name", REFUSED_MATRICES)
def test_what_cannot_be_taken_apart_is_refused_by_its_cause(name):
    build, why = REFUSED_MATRICES[name]
    with pytest.raises(LoweringError, match=why):
        taken_apart(build())


def test_a_constant_matrix_may_be_large():
    many = np.eye(20) + 0.1
    graph = triangular(pt.linalg.cholesky(many), pt.outer(rows[:, 0], pt.ones(20)), lower=True)
    assert is_right(graph * theta[0])


def operations_of(graph):
    return set().union(*map(operations, taken_apart(graph).flat))


def test_a_factor_is_found_again_by_substitution(monkeypatch):
    monkeypatch.setattr(linalg, "_is_factor", lambda matrix: False)
    assert operations_of(pt.linalg.cholesky(factor @ factor.T)) == {"Exp"}


def test_numbers_leave_linear_forms():
    white = triangular(pt.linalg.cholesky(KNOWN), rows * theta[:3], lower=True)
    assert operations_of(white) == set()
    assert operations_of(solved(Solve(b_ndim=1), SKEW, rows * theta[:3])) == set()


def test_scales_of_a_diagonal_covariance_cancel():
    scales = pt.exp(theta[3:])
    white = triangular(pt.linalg.cholesky(pt.diag(scales)), rows * theta[:3], lower=True)
    assert operations_of((white**2) * scales) == {"Mul", "Sqr"}
