import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.dist_math import SplineWrapper, check_parameters
from pytensor.compile.builders import OpFromGraph
from pytensor.tensor.basic import AllocDiag
from scipy.interpolate import UnivariateSpline

from model.evaluation import evaluate
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.model import independence as batch
from pymc_minibatch_mh.model.independence import batch_term

N = 6
RNG = np.random.default_rng(4)
x = RNG.normal(size=N)
X = RNG.normal(size=(N, 3))
square = RNG.normal(size=(N, N))
X3 = RNG.normal(size=(N, 2, 3))
g = np.array([2, 0, 1, 1, 0, 2])
b = pt.vector("b", shape=(3,))
c = pt.matrix("c", shape=(3, 2))
B, C = RNG.normal(size=3), RNG.normal(size=(3, 2))


def shared(values):
    return pytensor.shared(values, name="data")


def term_of(graph, n_rows=N):
    return batch_term("y", graph, n_rows, {b: "b", c: "c"})


def assert_rows(graph, n_rows=N):
    term = term_of(graph, n_rows)
    whole = evaluate([b, c], graph, [B, C])
    whole = whole.reshape(n_rows, -1).sum(axis=1)
    for rows in ([3], [5, 0, 0, 2], list(range(n_rows))):
        inputs = [b, c, term.length, *(stand_in for _, stand_in in term.batches)]
        data = [column.rows_first[rows].astype(v.dtype) for column, v in term.batches]
        some = evaluate(inputs, term.logp, [B, C, len(rows), *data])
        np.testing.assert_allclose(some, whole[rows], rtol=1e-12)


def inlined(graph):
    v = pt.vector("v")
    return OpFromGraph([v], [graph(v)])


def checked(graph, condition):
    """Guard a graph as PyMC's densities do: by all of a condition."""
    return check_parameters(graph, condition, can_be_replaced_by_ninf=True)


twice_plus_one = inlined(lambda v: 2.0 * v + 1.0)
reverses = inlined(lambda v: v[::-1])

spline = SplineWrapper(UnivariateSpline(np.arange(4.0), [0.0, 1.0, 0.5, 2.0], s=0))

KEPT_APART = {
    "elementwise": lambda: b[0] * shared(x) + pt.exp(shared(X)[:, 1]),
    "broadcast by an added axis": lambda: shared(x)[:, None] * b[None, :],
    "transposed": lambda: (shared(X.T) * b[:, None]).T,
    "transposed twice": lambda: (shared(X).T * b[:, None]).dimshuffle(1, 0, "x"),
    "alloc of a scalar": lambda: pt.alloc(b[0], N) * shared(x),
    "alloc of the other axis": lambda: pt.alloc(b, N, 3),
    "alloc of the rows": lambda: pt.alloc(shared(x)[:, None], N, 3) * b,
    "alloc across, then transposed": lambda: pt.alloc(shared(x), 3, N).T * b,
    "reductions": lambda: shared(X).sum(1) * b[0] + (shared(X) * b).max(1) + shared(X).prod(-1),
    "reduction of two axes": lambda: (shared(X)[:, :, None] * c).sum((1, 2)),
    "log of a sum of exponentials": lambda: pt.logsumexp(shared(X) * b, axis=1),
    "log of such a sum over the first axis": lambda: pt.logsumexp((shared(X) * b).T, axis=0),
    "log of such a sum, with its axis": lambda: pt.logsumexp(shared(X) * b, axis=1, keepdims=True),
    "softmax of each row": lambda: pt.special.softmax(shared(X) * b, axis=1),
    "log-softmax of each row": lambda: pt.special.log_softmax((shared(X) * b).T, axis=0).T,
    "join of columns": lambda: pt.join(1, shared(X), shared(x)[:, None] * b),
    "join with a negative axis": lambda: pt.concatenate([shared(X), shared(X) * b], axis=-1),
    "stack": lambda: pt.stack([shared(x), b[0] * shared(x)]).prod(0),
    "matrix times vector": lambda: shared(X) @ b,
    "vector times matrix": lambda: b @ shared(X.T),
    "matrix times matrix": lambda: shared(X) @ c,
    "matrix times matrix from the left": lambda: (c.T @ shared(X.T)).T,
    "square matrix times vector": lambda: shared(square) @ pt.concatenate([b, b]),
    "vector times square matrix": lambda: pt.concatenate([b, b]) @ shared(square),
    "batched product": lambda: (shared(X)[:, None, :] @ c)[:, 0],
    "batched solution": lambda: pt.linalg.solve(
        pt.eye(3)[None] * pt.exp(shared(x))[:, None, None], b[None], b_ndim=1
    ),
    "log of determinants": lambda: (
        pt.linalg.slogdet(shared(np.exp(square[:, :4].reshape(N, 2, 2))))[1] * b[0]
    ),
    "column": lambda: shared(X)[:, 2] * b[-1],
    "reversed columns": lambda: (shared(X)[:, ::-1] * b)[:, 1:],
    "row of a transposed array": lambda: shared(X.T)[1] * b[0],
    "index of rows": lambda: b[shared(g)],
    "index and constant": lambda: c[shared(g), 1],
    "two indices": lambda: c[shared(g), shared(g) % 2],
    "index before a slice": lambda: c[shared(g), ::-1],
    "index after a slice": lambda: c.T[1:, shared(g)].T,
    "index of columns": lambda: (shared(X) * b)[:, [2, 0, 0]],
    "index with two axes": lambda: b[shared(np.stack([g, g[::-1]], axis=1))],
    "index broadcast against columns": lambda: c[shared(g)[:, None], np.array([[1, 0, 1]])],
    "data taken by an index of rows": lambda: shared(RNG.normal(size=9))[shared(g)] * b[0],
    "one entry of each row": lambda: (shared(X) * b)[pt.arange(N), shared(g)],
    "one entry of each row, by constants": lambda: (shared(X) * b)[np.arange(N), g],
    "one entry of each column": lambda: (shared(X) * b).T[shared(g), pt.arange(N)],
    "diagonal": lambda: (shared(square) * b[0])[np.arange(N), np.arange(N)],
    "permuted predictor": lambda: (shared(x) * b[0])[RNG.permutation(N)],
    "permuted by data": lambda: (shared(x) * b[0])[shared(RNG.permutation(N))],
    "row numbers by constants, permuted": lambda: (shared(X) * b)[RNG.permutation(N), g],
    "log of a sum of two exponentials": lambda: pt.logaddexp(shared(x) * b[0], b[1]),
    "log of a sum of three": lambda: pt.logaddexp(shared(X) * b, b, shared(x)[:, None]),
    "diagonal of each row": lambda: pt.diagonal(
        shared(X)[:, :, None] * pt.exp(b), axis1=1, axis2=2
    ),
    "diagonal matrix of each row": lambda: pt.diag(b)[None] * shared(x)[:, None, None],
    "diagonal matrix of the data of each row": lambda: AllocDiag(axis1=1, axis2=2, offset=0)(
        shared(X) * b
    ).sum(2),
    "einsum": lambda: pt.einsum("ij,jk->i", shared(X), c),
    "graph of two operations": lambda: twice_plus_one(shared(x) * b[0]),
    "place among edges": lambda: b[pt.searchsorted([-0.5, 0.5], shared(x))],
    "column written over": lambda: pt.set_subtensor((shared(X) * b)[:, 1], shared(x) * b[2]),
    "column written over by a number": lambda: pt.set_subtensor((shared(X) * b)[:, 1], b[2]),
    "column added to": lambda: pt.inc_subtensor((shared(X) * b)[:, 1:], shared(x)[:, None]),
    "column of the transposed written over": lambda: (
        pt.set_subtensor((shared(X) * b).T[0], shared(x)).T
    ),
    "all written over by the transposed": lambda: pt.set_subtensor(
        (shared(square) * b[0])[:, :], (shared(square) * b[0]).T
    ),
    "alloc of all rows for each": lambda: pt.alloc(shared(X) * b, N, N, 3),
    "triangular solution of columns": lambda: (
        pt.linalg.solve_triangular(pt.eye(3) * pt.exp(b), shared(X.T) * b[0], lower=True).T
    ),
    "solution of columns": lambda: pt.linalg.solve(pt.eye(3) + b, shared(X.T)).T,
    "solution by a factor": lambda: (
        pt.linalg.cho_solve((pt.eye(3) + 0.1 * b, True), shared(X.T), b_ndim=2).T
    ),
    "product of stacks": lambda: (pt.stack([c.T, 2.0 * c.T]) @ shared(X.T)).transpose(2, 0, 1),
    "specified shape": lambda: (pt.specify_shape(shared(X), (N, 3)) * b).sum(1),
    "specified column": lambda: pt.specify_shape(shared(x[:, None]), (N, 1)) * b,
    "reshape of a row": lambda: pt.as_tensor(RNG.normal(size=(N, 6))).reshape((N, 3, 2)) * c,
    "reshape to a column": lambda: pt.as_tensor(x).reshape((N, 1)) * b,
    "product of a constant tensor": lambda: pt.dot(X3, b),
    "product of a tensor and a matrix": lambda: pt.tensordot(shared(X3), c, axes=1),
    "product from the left": lambda: pt.tensordot(b, shared(X3), axes=[[0], [2]]),
    "product over axes by name": lambda: pt.einsum("a,nja->nj", b, shared(X3)),
    "product with a tensor that parameters change": lambda: pt.dot(pt.as_tensor(X3) * b, c),
    "product over the second axis": lambda: pt.tensordot(X3, c, axes=[[1], [1]]),
    "product of rows that are merged by hand": lambda: (
        pt.dot(X3.reshape(2 * N, 3), b).reshape((N, 2)) + shared(X3).sum(2)
    ),
    "product with columns that are merged by hand": lambda: (
        pt.dot(b, X3.reshape(2 * N, 3).T).reshape((N, 2)) + shared(X3).sum(2)
    ),
    "assertion": lambda: pytensor.raise_op.Assert("positive")(shared(x) * b[0], pt.eq(1, 1)),
    "entries of each row, by numbers that are data": lambda: (shared(square) * b[0])[
        pt.arange(1, N + 1) % N, shared(g)
    ],
    "rows by numbers backwards": lambda: (shared(square) * b[0])[
        pt.arange(N - 1, -1, -1), shared(g)
    ],
    "data reversed": lambda: shared(x)[::-1] * b[0],
    "every second of longer data": lambda: shared(RNG.normal(size=2 * N))[::2] * b[0],
    "running sum of data": lambda: pt.cumsum(shared(x)) * b[0],
    "data repeated": lambda: pt.repeat(shared(x[:2]), 3) * b[0],
    "spline of an interpolated density": lambda: SplineWrapper(
        UnivariateSpline(np.arange(4.0), [0.0, 1.0, 0.5, 2.0], s=0)
    )(shared(X) * b),
    "numbers of the rows": lambda: pt.arange(N) * b[0],
    "mask of data": lambda: shared(np.tile(x, 2))[shared(np.tile([True, False], N))] * b[0],
    "rows of data paired": lambda: (shared(X)[:, None, :] - shared(X)[None]).sum((1, 2)) * b[0],
    "join of rows of data": lambda: pt.concatenate([shared(x[:3]), shared(x[3:])]) * b[0],
    "parts of each row": lambda: pt.split(shared(X) * b, [1, 2], axis=1)[0],
    "check of states in front of the rows": lambda: pt.logsumexp(
        checked(shared(x)[:, None] * pt.ones((2, 1, 1)) * pt.ones(4), b[:2] < 9.0).sum(2), axis=0
    ),
    "length as a number": lambda: shared(x) * b[0] / (shared(x) * b[0]).shape[0],
}


@pytest.mark.parametrize("name", KEPT_APART)
def test_rebuilt_operations_hold_the_same_rows(name):
    assert_rows(KEPT_APART[name]())


def with_itself(data, graph):
    return graph(data)


MIXED = {
    "reversed": lambda: (shared(x) * b[0])[::-1],
    "every second": lambda: pt.concatenate([(shared(x) * b[0])[::2]] * 2),
    "slice of all, written out": lambda: (shared(x) * b[0])[0:N],
    "slice between indices": lambda: (shared(X)[:, :, None] * c)[shared(g), :, shared(g) % 2],
    "stack as rows": lambda: pt.stack([b[0], b[1], b[2]] * 2),
    "reshape across rows": lambda: (shared(X) * b).reshape((3, N)).T,
    "reshape of the transposed": lambda: (shared(X.T) * b[:, None]).reshape((N, 3)),
    "product of rows that are split otherwise": lambda: pt.dot(
        shared(RNG.normal(size=(N, 4, 3))).reshape((4 * N, 3)), b
    ).reshape((2 * N, 2)),
    "product that merges rows with axes before them": lambda: pt.dot(
        shared(X3).transpose(1, 0, 2), b
    ).reshape((N, 2)),
    "flattened square": lambda: (shared(square) * b[0]).ravel()[:N],
    "sum over rows": lambda: with_itself(shared(x), lambda d: d * b[0] - (d * b[0]).sum()),
    "sum over the rows of constants": lambda: with_itself(
        pt.as_tensor(x), lambda d: d * b[0] - (pt.as_tensor(x) * b[0]).sum()
    ),
    "softmax over rows": lambda: pt.special.softmax(shared(X) * b, axis=0),
    "softmax over everything": lambda: pt.special.softmax(shared(X) * b),
    "log of a sum over rows": lambda: with_itself(shared(x), lambda d: d - pt.logsumexp(d * b[0])),
    "Gram matrix": lambda: with_itself(shared(X), lambda d: (d @ d.T) @ (d @ b)),
    "distances of all pairs": lambda: with_itself(
        shared(x), lambda d: pt.exp(-b[0] * pt.abs(d[:, None] - d[None, :])).sum(1)
    ),
    "diagonal, by an operation": lambda: pt.diagonal(shared(square) * b[0]),
    "parts of the rows": lambda: pt.split(shared(x) * b[0], [2, N - 2], axis=0, n_splits=2)[1],
    "matrix with the rows on its diagonal": lambda: pt.diag(shared(x) * b[0]),
    "first row written over": lambda: pt.set_subtensor((shared(x) * b[0])[0], b[1]),
    "first rows written over": lambda: pt.set_subtensor((shared(x) * b[0])[:2], b[:2]),
    "triangular solution of the rows": lambda: pt.linalg.solve_triangular(
        shared(square) * b[0], shared(x), lower=True
    ),
    "triangular solution of a row matrix": lambda: pt.linalg.solve_triangular(
        shared(square) * b[0], shared(X), lower=True
    ),
    "solution with a column for each row": lambda: pt.linalg.solve(
        shared(square) + pt.exp(b[0]) * pt.eye(N), pt.eye(N)
    ),
    "factor of the rows": lambda: pt.linalg.cholesky(shared(square @ square.T) * pt.exp(b[0])),
    "graph that reverses": lambda: reverses(shared(x) * b[0]),
    "places among edges of the rows": lambda: with_itself(
        shared(x), lambda d: b[pt.searchsorted(d * b[0], d) % 3]
    ),
    "repeat": lambda: pt.repeat(b[:2], 3) * shared(x),
    "triangle": lambda: pt.tril(shared(square) * b[0]),
    "sorted": lambda: pt.sort(shared(x) * b[0]),
    "order": lambda: pt.argsort(shared(x) * b[0]).astype("float64"),
    "cumulative": lambda: pt.cumsum(shared(x) * b[0]),
    "of another length": lambda: pt.zeros(N - 1) * b[0],
    "scalar": lambda: (shared(x) * b[0]).sum(),
    "no data and no length": lambda: pt.concatenate([b, b]),
}


@pytest.mark.parametrize("name", MIXED)
def test_operations_that_mix_rows_are_refused(name):
    with pytest.raises(UnsupportedModelError, match=r"^'y' .*so it cannot be subsampled\. [A-Z]"):
        term_of(MIXED[name]())


@pytest.mark.parametrize("mask", [np.arange(N) != 2, X > -0.5], ids=["of rows", "of entries"])
@pytest.mark.parametrize("of", [np.asarray, shared])
def test_a_mask_of_data_stands_for_the_indices_of_its_true_entries(mask, of):
    predictor = shared(X) * b if mask.ndim == 2 else (shared(X) * b)[:, 0]
    # Rows of a test are numbered up to 5.
    predictor = pt.concatenate([predictor, predictor])
    assert_rows(predictor[of(np.concatenate([mask, mask]))], 2 * int(mask.sum()))


def test_a_mask_of_parameters_is_refused():
    with pytest.raises(UnsupportedModelError, match=r"parameters choose .* by a boolean mask"):
        term_of((shared(X) * b)[:, 0][pt.gt((shared(X) @ b), 0.0)], 3)


def test_an_operation_that_has_other_shapes_for_a_batch_is_refused_by_name(monkeypatch):
    def wrong(*_):
        raise ValueError("Incompatible Elemwise input shapes")

    monkeypatch.setattr(batch, "rebuild_output", wrong)
    with pytest.raises(UnsupportedModelError, match=r"operands of Elemwise|operands of mul have"):
        term_of(shared(x) * b[0])


# Each mutant lets rows of another observation through.
