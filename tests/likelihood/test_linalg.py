"""Linear algebra, taken apart, gives the numbers that PyTensor computes."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular

from every import every
from likelihood.apart import chosen, is_right, rows, square, taken_apart, theta
from likelihood.expressions import operations
from pymc_minibatch_mh.likelihood import linalg
from pymc_minibatch_mh.likelihood.exprs import LoweringError

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


GRAPHS = {
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


@every("name", GRAPHS)
def test_a_matrix_is_taken_apart_rightly(name):
    assert is_right(GRAPHS[name]())


big = pt.outer(theta[:5], theta[:5]) + np.eye(5)
REFUSED = {
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
    "a band": (lambda: solved(Solve(b_ndim=1, assume_a="banded"), positive, rows), "taken apart"),
    "an exponential": (lambda: rows[:, :2] @ pt.linalg.expm(square), "taken apart"),
}


@every("name", REFUSED)
def test_what_cannot_be_taken_apart_is_refused_by_its_cause(name):
    build, why = REFUSED[name]
    with pytest.raises(LoweringError, match=why):
        taken_apart(build())


def test_a_constant_matrix_may_be_large():
    many = np.eye(20) + 0.1
    graph = triangular(pt.linalg.cholesky(many), pt.outer(rows[:, 0], pt.ones(20)), lower=True)
    assert is_right(graph * theta[0])


def operations_of(graph):
    return set().union(*map(operations, taken_apart(graph).flat))


def test_a_factor_of_its_own_product_is_found_again():
    plain, again = (taken_apart(x) for x in (factor, pt.linalg.cholesky(factor @ factor.T)))
    assert [operations(x) for x in again.flat] == [operations(x) for x in plain.flat]
    assert operations_of(pt.log(pt.diagonal(pt.linalg.cholesky(factor @ factor.T)))) == set()


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
    assert operations_of((white**2) * scales) == {"Sqr"}


# Each mutant is a plausible mistake; the graph that is named must notice it.


substituted, columns = linalg._substituted, linalg._columns


def other_triangle(matrix, b, exprs, *, lower, unit=False):
    return substituted(matrix, b, exprs, lower=not lower, unit=unit)


def full_diagonal(matrix, b, exprs, *, lower, unit=False):
    return substituted(matrix, b, exprs, lower=lower)


def half_of_the_solution(factor, b, exprs):
    return substituted(factor, b, exprs, lower=True)


#: Name -> what is replaced, by what, and the graph that notices.
MUTANTS = {
    "the other triangle is read": ("_substituted", other_triangle, "upper"),
    "a unit diagonal is overlooked": ("_substituted", full_diagonal, "unit diagonal"),
    "any matrix is a factor": (
        "_is_factor",
        lambda matrix: matrix.shape[0] == matrix.shape[1],
        "factor of a negative one's product",
    ),
    "columns in reverse": (
        "_columns",
        lambda op, b, solve: columns(op, b[::-1], solve),
        "rows on their side",
    ),
    "half of the solution": ("_solved_by", half_of_the_solution, "from a factor"),
    "a pivot of zero": ("number", lambda expr: None, "solved, the first pivot zero"),
    "roots are forgotten": ("root", lambda exprs, x: x, "factor"),
}


@every("name", MUTANTS)
def test_mutant_is_caught(name, monkeypatch):
    *change, graph = MUTANTS[name]
    assert is_right(GRAPHS[graph]())
    monkeypatch.setattr(linalg, *change)
    assert not is_right(GRAPHS[graph]())
