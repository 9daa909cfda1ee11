"""Entries of long vectors, such as effects of many groups, as functions of their index.

A lowered vector has an expression for each entry, but an observation reads the entry that data
choose. If all entries are the same function of consecutive coordinates or numbers, as in
``mu + tau * z``, that function at the index of the data is all that is needed.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, get_constant_idx

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import Constant, Expr, ExprGraph, Gather
from pymc_minibatch_mh.expressions.rules import apply_operation

#: Minimum number of entries of a long vector; entries of others are lowered, and simplified, each.
MIN_ENTRIES = 100


class LongVectors:
    """Indexed entries of long vectors; `lower` makes arrays of expressions of other graphs."""

    def __init__(
        self, exprs: ExprGraph, position: Variable, lower: Callable[[Variable], np.ndarray]
    ) -> None:
        self._exprs, self._position, self._lower = exprs, position, lower

    def select(self, node: Node) -> np.ndarray | None:
        """Entries that a node selects of a long vector; None if it does not, or if forms differ."""
        if not isinstance(node.op, Subtensor | AdvancedSubtensor) or _length(node.inputs[0]) == 0:
            return None
        vector = node.inputs[0]
        fixed = _constant_index(node)
        if fixed is not None:
            numbers = np.arange(_length(vector))[fixed]
            return None if numbers.size >= MIN_ENTRIES else self._entries(vector, numbers)
        if len(node.inputs) != 2 or isinstance(node.op, Subtensor):
            return None
        index = self._lower(node.inputs[1])
        return self._entries(vector, index)

    def _entries(self, vector: Variable, index: np.ndarray) -> np.ndarray | None:
        """Entries at an array of numbers or expressions."""
        entries = np.empty(index.shape, dtype=object)
        for axes in np.ndindex(*index.shape):
            k = index[axes]
            number = k.value if isinstance(k, Constant) else k
            if not isinstance(number, Expr):
                entry = self._entry(vector, int(number) % _length(vector), 1, None)
            elif not number.is_data or number.dtype.kind not in "iu":
                return None
            else:
                entry = self._entry(vector, 0, _length(vector), number)
            if entry is None:
                return None
            entries[axes] = entry
        return entries

    def _entry(self, vector: Variable, first: int, size: int, index: Expr | None) -> Expr | None:
        """Entry `first`, or that of an index below `size` from there on; None if forms differ."""
        if vector is self._position:
            if any(first <= k < first + size for k in self._exprs.logs):
                return None
            return self._exprs.coordinate(first if index is None else Gather(first, 1, size, index))
        if isinstance(vector, GraphConstant):
            return self._number(vector.data[first : first + size], index)
        node, op = vector.owner, vector.owner_op
        if isinstance(op, Elemwise):
            return self._of_operation(node, first, size, index)
        if isinstance(op, Join):
            return self._of_part(node.inputs, first, size, index)
        if isinstance(op, Reshape | SpecifyShape) and node.inputs[0].type.ndim == 1:
            return self._entry(node.inputs[0], first, size, index)
        if isinstance(op, DimShuffle) and op.new_order == (0,):
            return self._of_product(node.inputs[0].owner, first, size, index)
        fixed = _constant_index(node) if isinstance(op, Subtensor | AdvancedSubtensor) else None
        if fixed is None or _length(node.inputs[0]) == 0:
            return None
        taken = np.arange(_length(node.inputs[0]))[fixed][first : first + size]
        if (np.diff(taken) != 1).any():
            return None
        return self._entry(node.inputs[0], int(taken[0]), size, index)

    def _of_operation(self, node: Node, first: int, size: int, index: Expr | None) -> Expr | None:
        inputs = [
            self._lower(x).item()
            if x.type.broadcastable == (True,)
            else self._entry(x, first, size, index)
            for x in node.inputs
        ]
        entries = [x for x in inputs if x is not None]
        if len(entries) < len(inputs):
            return None
        return apply_operation(self._exprs, node.op.scalar_op, *entries)

    def _of_product(
        self, node: Node | None, first: int, size: int, index: Expr | None
    ) -> Expr | None:
        """Entry of a constant matrix times a column; with zeros, rows may choose coordinates."""
        if node is None or not isinstance(getattr(node.op, "core_op", node.op), Dot):
            return None
        matrix, column = node.inputs
        if not isinstance(matrix, GraphConstant) or not matrix.data.all():
            return None
        rows = matrix.data[first : first + size]
        pairs = zip(rows.T, self._lower(column)[:, 0], strict=True)
        products = (multiply_exprs(self._exprs, self._number(x, index), y) for x, y in pairs)
        return add_exprs(self._exprs, *products)

    def _number(self, numbers: np.ndarray, index: Expr | None) -> Expr:
        """The number at an index, or the first one."""
        if index is None or (numbers == numbers[0]).all():
            return self._exprs.constant(numbers[0])
        return self._exprs.lookup(numbers, index)

    def _of_part(
        self, parts: Sequence[Any], first: int, size: int, index: Expr | None
    ) -> Expr | None:
        for part in parts:
            (length,) = part.type.shape
            if length is None or first < length < first + size:
                return None
            if first < length:
                return self._entry(part, first, size, index)
            first -= length
        return None


def _length(vector: Variable) -> int:
    """Number of entries of a long vector, 0 of anything else."""
    shape: Any = getattr(vector.type, "shape", ())
    return int(shape[0]) if len(shape) == 1 and (shape[0] or 0) >= MIN_ENTRIES else 0


def _constant_index(node: Node) -> Any:
    """Index of a node with one that is constant; None if it is not."""
    if len(node.op.idx_list) != 1:
        return None
    if isinstance(node.op, AdvancedSubtensor):
        index = node.inputs[1]
        return index.data if isinstance(index, GraphConstant) else None
    (index,) = get_constant_idx(node.op.idx_list, node.inputs, allow_partial=True)
    parts = (index.start, index.stop, index.step) if isinstance(index, slice) else (index,)
    return None if any(isinstance(part, Variable) for part in parts) else index
