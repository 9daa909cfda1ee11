"""Products of a constant sparse matrix and parameters, from the few entries of an observation.

Formula packages put all terms of a regression side by side in one sparse matrix: indicators of
groups, and numeric columns. Its columns are cut into *blocks* of which each observation has at most
one entry. A block of many columns is a grouping factor, ``value * b[index]``, and blocks of single
columns side by side are a dense matrix. If there would be too many blocks, as for bases of splines,
the k entries of an observation are read one by one: the sum over j of ``value[j] * b[index[j]]``.
"""

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Any, NamedTuple, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.sparse.basic import DenseFromSparse
from pytensor.sparse.math import Dot, StructuredDot, TrueDot
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape
from scipy import sparse

from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.constant_data import compute_constant, data_behind
from pymc_minibatch_mh.model.independence_rules import (
    USE_SPARSE_DOT,
    MixedRowsError,
    Walk,
    product_by_sum,
    rebuild_output,
)

#: Maximum size of the arrays of entries, relative to that of the sparse matrix.
MAX_RELATIVE_SIZE = 2
#: Maximum number of blocks, relative to the largest number of entries of a row.
MAX_BLOCKS = 2
#: Number of entries that are compared at a time.
_AT_ONCE = 2**16
USE_SEVERAL_PRODUCTS = (
    "Give the model the columns that are full in a dense array, or observations with many entries "
    "as an observed variable of their own."
)


class _Entries(NamedTuple):
    """Entries of each row in the columns from `first` to `stop`, of shape (N,) or (N, k).

    Without an `index` entry j is in column `first` + j. Without `values` all entries are 1.
    """

    first: int
    stop: int
    index: Any
    values: Any


#: Cache of the entries of constant matrices, because several products may read one.
_ENTRIES: WeakKeyDictionary[Variable, list[_Entries]] = WeakKeyDictionary()


@rebuild_output.register(StructuredDot)
@rebuild_output.register(Dot)
@rebuild_output.register(TrueDot)
def _rebuild_sparse_product(op: Op, node: Apply, axis: int, walk: Walk) -> Variable:
    left, right = node.inputs
    # Observations are rows of a matrix on the left, or columns of a matrix on the right.
    by_row = axis == 0 and left.type.ndim == 2
    matrix, other = (left, right) if by_row else (right, left)
    if not _is_sparse(matrix) or _is_sparse(other):
        _refuse_matrix(op, "whose rows are not the observations")
    if data_behind(matrix) is None:
        _refuse_matrix(op, "which depends on the parameters")
    coefficients = walk.whole(_coefficients(other, by_row))
    total = sum(_product(part, coefficients, walk) for part in _entries_of(op, matrix, by_row))
    output = node.outputs[0].type
    if total.type.ndim < output.ndim:
        total = total[:, None]
    return (total if by_row else total.T).astype(output.dtype)


@rebuild_output.register(DenseFromSparse)
def _rebuild_dense(op: Op, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    if not isinstance(x.owner_op, TrueDot):
        _refuse_matrix(op, "whose rows cannot be read one by one")
    return walk.rows(x, axis)


def _is_sparse(variable: Variable) -> bool:
    return isinstance(variable.type, SparseTensorType)


def _refuse_matrix(op: Op, why: str, fix: str = USE_SPARSE_DOT) -> NoReturn:
    raise MixedRowsError(op, f"{operation_name(op)} takes a sparse matrix, {why}", fix)


def _coefficients(other: Variable, by_row: bool) -> Variable:
    """Coefficients of the columns of the matrix, shape (K,), or (K, m) for several products."""
    if other.type.ndim == 1:
        return other
    if not other.type.broadcastable[1 if by_row else 0]:
        return other if by_row else other.T
    if isinstance(other.owner_op, DimShuffle | Reshape) and other.owner.inputs[0].type.ndim == 1:
        return other.owner.inputs[0]
    return other[:, 0] if by_row else other[0]


def _product(part: _Entries, coefficients: Variable, walk: Walk) -> Variable:
    """Sum over the entries of each row of a minibatch, shape (n,) or (n, m)."""
    has_all = (part.first, part.stop) == (0, coefficients.type.shape[0])
    chosen = coefficients if has_all else coefficients[part.first : part.stop]
    is_vector = coefficients.type.ndim == 1
    values = None if part.values is None else walk.rows(part.values, 0)
    if part.index is None:
        total = product_by_sum(values, chosen[:, None] if is_vector else chosen)
        return total[:, 0] if is_vector else total
    chosen = chosen[walk.rows(part.index, 0)]
    if values is not None:
        chosen = (values if is_vector else values[..., None]) * chosen
    return chosen.sum(axis=1) if part.index.type.ndim == 2 else chosen


def _entries_of(op: Op, variable: Variable, by_row: bool) -> list[_Entries]:
    """Entries of a matrix of data by observation; observations are its rows or its columns."""
    if variable in _ENTRIES:
        return _ENTRIES[variable]
    matrix = _matrix_behind(variable)
    rows = sparse.csr_array(matrix if by_row else matrix.T)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    parts = list(_read_rows(op, rows))
    arrays = {id(x): x for part in parts for x in part[2:] if x is not None}
    constants = {k: pt.constant(x, name=variable.name) for k, x in arrays.items()}
    parts = [_Entries(*part[:2], *(constants.get(id(x)) for x in part[2:])) for part in parts]
    if isinstance(variable, Constant):
        _ENTRIES[variable] = parts
    return parts


def _matrix_behind(variable: Variable) -> Any:
    """Matrix of a graph of data, without a copy if it is a constant or a shared variable."""
    if isinstance(variable, Constant):
        return variable.data
    is_shared = isinstance(variable, SharedVariable)
    return variable.get_value(borrow=True) if is_shared else compute_constant(variable)


def _read_rows(op: Op, rows: sparse.csr_array) -> Iterator[_Entries]:
    counts, edges = np.diff(rows.indptr), _block_edges(rows)
    most, is_regular = int(counts.max(initial=0)), bool((counts == counts[0]).all())
    size = sum(x.nbytes for x in (rows.data, rows.indices, rows.indptr))
    has_ones = bool((rows.data == 1).all())
    if has_ones:
        ones = np.ones(rows.nnz, dtype=np.int8)
        rows = sparse.csr_array((ones, rows.indices, rows.indptr), shape=rows.shape)
    entry_size = rows.indices.itemsize + rows.data.itemsize
    room = MAX_RELATIVE_SIZE * size // (entry_size * rows.shape[0])
    # Indicators of a single factor need no copy.
    is_factor = is_regular and most == 1 < rows.shape[1]
    if len(edges) - 1 <= min(room, MAX_BLOCKS * most) and not is_factor:
        yield from _read_blocks(rows, edges)
    elif is_regular:
        shape = (-1,) if is_factor else (-1, most)
        values = None if has_ones else rows.data.reshape(shape)
        yield _Entries(0, rows.shape[1], rows.indices.reshape(shape), values)
    elif most <= room:
        yield _padded_entries(rows, counts, most)
    else:
        why = f"in which observations have {counts.min():,} to {most:,} entries"
        _refuse_matrix(op, why, USE_SEVERAL_PRODUCTS)


def _block_edges(rows: sparse.csr_array) -> list[int]:
    """Edges of the fewest blocks of columns of which no row has more than one entry."""
    size = rows.shape[1]
    # Entry i + 1 follows entry i, except where a row begins.
    follows = np.ones(rows.nnz + 1, dtype=bool)
    follows[rows.indptr] = False
    # The first column that is in a row together with a column from here on.
    limit, counts = np.full(size + 1, size), np.zeros(size + 1, dtype=np.int64)
    for start in range(0, rows.nnz, _AT_ONCE):
        columns = rows.indices[start : start + _AT_ONCE + 1]
        pairs = follows[start + 1 : start + columns.size]
        np.minimum.at(limit, columns[:-1][pairs], columns[1:][pairs])
        np.add.at(counts, columns[:_AT_ONCE], 1)
    # A full column, such as an intercept, is alone even where its neighbours are empty.
    full = np.flatnonzero(counts == rows.shape[0])
    limit[full] = full + 1
    limit = np.minimum.accumulate(limit[::-1])[::-1]
    edges = [0]
    while edges[-1] < size:
        edges.append(int(limit[edges[-1]]))
    return edges


def _read_blocks(rows: sparse.csr_array, edges: list[int]) -> Iterator[_Entries]:
    columns = rows.tocsc()
    indices: list[np.ndarray] = []
    for is_single, run in groupby(pairwise(edges), key=lambda block: block[1] - block[0] == 1):
        blocks = list(run)
        if is_single:
            first, stop = blocks[0][0], blocks[-1][1]
            yield _Entries(first, stop, None, _dense_columns(columns, first, stop))
            continue
        for first, stop in blocks:
            index, values = _read_block(columns, first, stop)
            # The slopes of a factor have the index of its intercepts.
            indices.append(next((x for x in indices if np.array_equal(x, index)), index))
            yield _Entries(first, stop, indices[-1], values)


def _dense_columns(columns: sparse.csc_array, first: int, stop: int) -> np.ndarray:
    dense = np.zeros((columns.shape[0], stop - first), columns.data.dtype)
    for k, (start, end) in enumerate(pairwise(columns.indptr[first : stop + 1])):
        dense[columns.indices[start:end], k] = columns.data[start:end]
    return dense


def _read_block(
    columns: sparse.csc_array, first: int, stop: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Index and value of the only entry of each row; its value is 0 if there is none."""
    edges = columns.indptr[first : stop + 1]
    entries, n_rows = slice(edges[0], edges[-1]), columns.shape[0]
    rows, values = columns.indices[entries], columns.data[entries]
    index = np.zeros(n_rows, dtype=np.int32)
    index[rows] = np.repeat(np.arange(stop - first, dtype=np.int32), np.diff(edges))
    has_ones = bool((values == 1).all())
    if has_ones and values.size == n_rows:
        return index, None
    every = np.zeros(n_rows, dtype=np.int8 if has_ones else values.dtype)
    every[rows] = values
    return index, every


def _padded_entries(rows: sparse.csr_array, counts: np.ndarray, most: int) -> _Entries:
    """Entries of rows that have up to `most`; others get zeros in the column of their first."""
    first = np.append(rows.indices, np.zeros(1, np.int32))[rows.indptr[:-1]]
    has = np.arange(most) < counts[:, None]
    index, values = np.repeat(first[:, None], most, axis=1), np.zeros(has.shape, rows.data.dtype)
    index[has], values[has] = rows.indices, rows.data
    return _Entries(0, rows.shape[1], index, values)
