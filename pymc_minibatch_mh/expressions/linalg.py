"""Lowering of linear algebra: expressions for small matrices, NumPy for constant ones."""

from collections.abc import Callable
from functools import partial

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.tensor.basic import AllocDiag, ExtractDiag
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.inverse import MatrixInverse
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot
from pytensor.tensor.subtensor import AdvancedSubtensor

from pymc_minibatch_mh.expressions.arithmetic import (
    USE_DOUBLE_PRECISION,
    add_exprs,
    divide_exprs,
    multiply_exprs,
    subtract_exprs,
)
from pymc_minibatch_mh.expressions.graph import (
    REAL,
    Constant,
    Expr,
    ExprGraph,
    LoweringError,
    require_lowerable,
)
from pymc_minibatch_mh.expressions.indexing import index_shared
from pymc_minibatch_mh.expressions.lower import (
    Tensor,
    Tensors,
    constant_exprs,
    fill_array,
    lower_node,
)
from pymc_minibatch_mh.expressions.patterns import constant_value, is_positive, sum_parts
from pymc_minibatch_mh.expressions.rules import sqrt_expr

#: Maximum number of rows of a matrix of parameters; expressions of larger ones are too long.
MAX_MATRIX_SIZE = 4
_SYMMETRIC = ("sym", "her", "pos")


@lower_node.register(Blockwise)
def _lower_blockwise(op: Blockwise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    width = op.batch_ndim(node)
    if isinstance(op.core_op, AdvancedSubtensor):
        return index_shared(op.core_op, width, node, inputs, exprs)
    rule = _BY_MATRIX.get(type(op.core_op))
    if rule is None:
        raise LoweringError(op)
    if width == 0:
        return rule(op.core_op, node, inputs, exprs)
    shape = np.broadcast_shapes(*(x.shape[:width] for x in inputs))
    arrays = [np.broadcast_to(x, shape + x.shape[width:]) for x in inputs]
    results = [
        rule(op.core_op, node, [array[place] for array in arrays], exprs)
        for place in np.ndindex(*shape)
    ]
    return np.stack(results).reshape(shape + results[0].shape)


def _lower_dot(op: Dot, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    left, right = inputs
    out = _matrix_product(left, right, exprs)
    if np.array_equal(left, right.T) and _is_factor(left):
        exprs.factors[tuple(out.flat)] = left
    return out


def _matrix_product(left: np.ndarray, right: np.ndarray, exprs: ExprGraph) -> np.ndarray:
    def entry_at(place: tuple[int, ...]) -> Expr:
        pairs = zip(left[place[0]], right[:, place[1]], strict=True)
        return add_exprs(exprs, *(multiply_exprs(exprs, a, b) for a, b in pairs))

    return fill_array((left.shape[0], right.shape[1]), entry_at)


def _is_factor(matrix: np.ndarray) -> bool:
    """Whether a matrix is lower triangular with a positive diagonal."""
    if matrix.shape[0] != matrix.shape[1]:
        return False
    zero = all(constant_value(x) == 0.0 for x in matrix[np.triu_indices(len(matrix), 1)])
    return zero and all(map(is_positive, np.diagonal(matrix)))


def _lower_cholesky(op: Cholesky, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    matrix = _require_square(op, node, inputs[0])
    # PyTensor's operation reads only one triangle of its input.
    factor = _cholesky_factor(op, matrix if op.lower else matrix.T, exprs)
    return factor if op.lower else factor.T


def _require_square(op: Op, node: Node, x: Tensor) -> np.ndarray:
    """Square double-precision matrix of limited size; LoweringError for any other."""
    double = node.outputs[0].type.dtype == REAL.name
    require_lowerable(double, op, f"computes in single precision; {USE_DOUBLE_PRECISION}")
    small = len(x) <= MAX_MATRIX_SIZE or _constant_matrix(x) is not None
    require_lowerable(
        small, op, f"has a matrix of {len(x)} rows that is not constant, above {MAX_MATRIX_SIZE}"
    )
    return x


def _constant_matrix(matrix: np.ndarray) -> np.ndarray | None:
    if not all(isinstance(expr, Constant) for expr in matrix.flat):
        return None
    return np.array([float(expr.value) for expr in matrix.flat]).reshape(matrix.shape)


def _cholesky_factor(op: Op, matrix: np.ndarray, exprs: ExprGraph) -> np.ndarray:
    numbers = _constant_matrix(matrix)
    if numbers is not None:
        return constant_exprs(exprs, _lower_solver(op, np.linalg.cholesky, numbers))
    known = exprs.factors.get(tuple(matrix.flat))
    if known is not None:
        return known
    out = np.full(matrix.shape, exprs.zero, dtype=object)
    for j in range(len(matrix)):
        for i in range(j, len(matrix)):
            done = [multiply_exprs(exprs, out[i, k], out[j, k]) for k in range(j)]
            rest = subtract_exprs(exprs, matrix[i, j], add_exprs(exprs, *done, exprs.zero))
            if i == j:
                out[j, j] = sqrt_expr(exprs, _positive_pivot(matrix, j, rest, exprs))
            else:
                out[i, j] = divide_exprs(exprs, rest, out[j, j])
    return out


def _positive_pivot(matrix: np.ndarray, j: int, known: Expr, exprs: ExprGraph) -> Expr:
    """Pivot as a ratio of determinants if only that form is provably positive."""
    if j == 0 or is_positive(known):
        return known
    whole, before = (_expanded_determinant(matrix[:k, :k], exprs) for k in (j + 1, j))
    ratio = divide_exprs(exprs, whole, before)
    return ratio if is_positive(ratio) else known


def _expanded_determinant(matrix: np.ndarray, exprs: ExprGraph) -> Expr:
    """Determinant with expanded products, so that terms cancel in matrices such as w wᵀ + ψ."""
    mirrored = np.where(np.tri(len(matrix), dtype=bool), matrix, matrix.T)
    return add_exprs(exprs, *_determinant_products(mirrored, exprs), exprs.zero)


def _determinant_products(matrix: np.ndarray, exprs: ExprGraph) -> list[Expr]:
    if len(matrix) == 0:
        return [exprs.one]
    signs = (exprs.one, exprs.minus_one)
    return [
        multiply_exprs(exprs, signs[k % 2], left, right)
        for k in range(len(matrix))
        for right in _determinant_products(np.delete(matrix[1:], k, axis=1), exprs)
        for left in sum_parts(matrix[0, k])
    ]


def _lower_solver(op: Op, solver: Callable, numbers: np.ndarray) -> np.ndarray:
    try:
        return solver(numbers)
    except np.linalg.LinAlgError as error:
        raise LoweringError(op, f"has a constant matrix without a result ({error})") from error


def _solve_columns(op: SolveBase, b: Tensor, solve: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """Solve for a vector, or for the columns of a matrix."""
    if op.b_ndim == 1:
        return solve(b)
    return np.stack([solve(column) for column in b.T], axis=1)


def _lower_triangular(op: SolveTriangular, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    matrix = _require_square(op, node, inputs[0])
    solve = partial(_solve_by_substitution, matrix, exprs, op.lower, op.unit_diagonal)
    return _solve_columns(op, inputs[1], solve)


def _solve_by_substitution(
    matrix: np.ndarray, exprs: ExprGraph, lower: bool, unit: bool, b: np.ndarray
) -> np.ndarray:
    """Solve a triangular system; the other triangle of the matrix is not read."""
    x = b.copy()
    for i in range(len(b)) if lower else reversed(range(len(b))):
        known = range(i) if lower else range(i + 1, len(b))
        done = [multiply_exprs(exprs, exprs.minus_one, matrix[i, k], x[k]) for k in known]
        rest = add_exprs(exprs, b[i], *done)
        x[i] = rest if unit else divide_exprs(exprs, rest, matrix[i, i])
    return x


def _lower_by_cholesky(op: CholeskySolve, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    matrix = _require_square(op, node, inputs[0])
    solve = partial(_solve_with_factor, matrix if op.lower else matrix.T, exprs)
    return _solve_columns(op, inputs[1], solve)


def _solve_with_factor(factor: np.ndarray, exprs: ExprGraph, b: np.ndarray) -> np.ndarray:
    """Solve L Lᵀ x = b for a Cholesky factor L."""
    half = _solve_by_substitution(factor, exprs, True, False, b)
    return _solve_by_substitution(factor.T, exprs, False, False, half)


def _lower_solve(op: Solve, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    matrix = _require_square(op, node, inputs[0])
    require_lowerable(op.assume_a in ("gen", *_SYMMETRIC), op)
    if op.assume_a in _SYMMETRIC:
        read = np.tri(len(matrix), dtype=bool)
        matrix = np.where(read if op.lower else read.T, matrix, matrix.T)
    if op.assume_a == "pos":
        solve = partial(_solve_with_factor, _cholesky_factor(op, matrix, exprs), exprs)
        return _solve_columns(op, inputs[1], solve)
    inverse = _inverse_by_elimination(op, matrix, exprs)
    return _solve_columns(
        op, inputs[1], lambda b: _matrix_product(inverse, b[:, None], exprs)[:, 0]
    )


def _lower_inverse(op: MatrixInverse, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return _inverse_by_elimination(op, _require_square(op, node, inputs[0]), exprs)


def _inverse_by_elimination(op: Op, matrix: np.ndarray, exprs: ExprGraph) -> np.ndarray:
    """Inverse by elimination; observations have no bounds at positions where a pivot is zero."""
    numbers = _constant_matrix(matrix)
    if numbers is not None:
        return constant_exprs(exprs, _lower_solver(op, np.linalg.inv, numbers))
    size = len(matrix)
    work = np.concatenate([matrix, constant_exprs(exprs, np.eye(size))], axis=1)
    for j in range(size):
        pivots = [i for i in range(j, size) if constant_value(work[i, j]) != 0.0]
        require_lowerable(bool(pivots), op, "has a matrix without an inverse")
        pivot = pivots[0]
        work[[j, pivot]] = work[[pivot, j]]
        work[j] = [divide_exprs(exprs, x, work[j, j]) for x in work[j]]
        for i in (k for k in range(size) if k != j):
            share = multiply_exprs(exprs, exprs.minus_one, work[i, j])
            pairs = zip(work[i], work[j], strict=True)
            work[i] = [add_exprs(exprs, x, multiply_exprs(exprs, share, y)) for x, y in pairs]
    return work[:, size:]


@lower_node.register(ExtractDiag)
def _lower_diagonal(op: ExtractDiag, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return np.diagonal(inputs[0], op.offset, op.axis1, op.axis2)


@lower_node.register(AllocDiag)
def _lower_from_diagonal(op: AllocDiag, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    places, size = np.arange(x.shape[-1]), x.shape[-1] + abs(op.offset)
    zero: Expr = exprs.constant(np.zeros((), node.outputs[0].type.dtype))
    out = np.full((*x.shape[:-1], size, size), zero, dtype=object)
    out[..., places + max(0, -op.offset), places + max(0, op.offset)] = x
    return np.moveaxis(out, (-2, -1), (op.axis1, op.axis2))


#: Rules for operations on matrices; they also apply to each matrix of a batch.
_BY_MATRIX: dict[type, Callable[..., Tensor]] = {
    Dot: _lower_dot,
    Cholesky: _lower_cholesky,
    SolveTriangular: _lower_triangular,
    CholeskySolve: _lower_by_cholesky,
    Solve: _lower_solve,
    MatrixInverse: _lower_inverse,
}
for _op, _rule in _BY_MATRIX.items():
    lower_node.register(_op)(_rule)
