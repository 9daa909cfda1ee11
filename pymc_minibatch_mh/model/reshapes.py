"""Rule of reshaped arrays, also where PyTensor merges observations with later axes and splits them.

So it writes products of tensors, such as ``pt.dot(X, b)``, ``pt.tensordot`` and ``pt.einsum`` with
three axes in X: the first two are merged for a product of matrices, and split afterwards.
"""

from collections.abc import Sequence
from math import prod

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape

from pymc_minibatch_mh.model.constant_data import compute_constant, data_behind
from pymc_minibatch_mh.model.independence_rules import (
    MixedRowsError,
    Walk,
    rebuild_output,
)


@rebuild_output.register(Reshape)
def _rebuild_reshape(op: Reshape, node: Apply, axis: int, walk: Walk) -> Variable:
    x, target = node.inputs[0], _lengths_of(node.outputs[0])
    if x.type.ndim == 0:
        raise MixedRowsError(op, "a scalar has no observations")
    if axis == 0 and target is not None:
        n_rows, *after = target
        # If the lengths of the other axes have equal products, row i of the input becomes row i
        # of the output, in C order.
        keeps_rows = None not in x.type.shape[1:] and prod(x.type.shape[1:]) == prod(after)
        rows = walk.rows(x, 0) if keeps_rows else _rows_of_merged(x, 0, n_rows, walk)
        if rows is not None and (keeps_rows or prod(rows.type.shape[1:]) == prod(after)):
            return rows.reshape((walk.length, *after))
    raise MixedRowsError(op, "a reshape must keep the observations on the first axis")


def _lengths_of(x: Variable) -> Sequence[int] | None:
    """Lengths of the axes of an array, None if they are not known."""
    if None not in x.type.shape:
        return x.type.shape
    lengths = x.owner.inputs[1] if isinstance(x.owner_op, Reshape) else x.shape
    # The shape of a parameter is constant, even if its values are not.
    lengths = rewrite_graph(lengths, include=("canonicalize",))
    return None if data_behind(lengths) is None else tuple(map(int, compute_constant(lengths)))


def _rows_of_merged(x: Variable, axis: int, n_rows: int, walk: Walk) -> Variable | None:
    """Rows of x with observations and later axes merged into `axis`.

    Observations, and all merged axes as one, come first in the result; the others of x follow. None
    for other arrays.
    """
    if isinstance(x, Constant):
        others = _without(x.type.shape, axis)
        if x.type.shape[axis] % n_rows:
            return None
        values = np.moveaxis(x.data, axis, 0).reshape((n_rows, -1, *others))
        return walk.rows(pt.constant(values, x.name), 0)
    match x.owner_op:
        case Reshape():
            return _rows_before_merging(x, axis, walk)
        case Dot():
            parts = x.owner.inputs
            rows, common = _rows_of_merged(parts[axis], axis, n_rows, walk), parts[1 - axis]
            if rows is None:
                return None
            matrix = walk.whole(common) if axis == 0 else walk.whole(common).T
            if matrix.type.shape[1] == 1:
                return (rows * matrix[:, 0]).sum(axis=2, keepdims=True)
            return (rows[..., None] * matrix).sum(axis=2)
        case DimShuffle():
            order, (inner,) = x.owner_op.new_order, x.owner.inputs
            source = order[axis]
            rows = None if source == "x" else _rows_of_merged(inner, source, n_rows, walk)
            if rows is None:
                return None
            axes = [k if k == "x" else k + 2 - (k > source) for k in _without(order, axis)]
            return rows.dimshuffle(0, 1, *axes)
    return None


def _rows_before_merging(x: Variable, axis: int, walk: Walk) -> Variable | None:
    """Rows of a reshaped array x that has observations and later axes merged into `axis`."""
    unmerged = x.owner.inputs[0]
    merged, lengths = _lengths_of(x), _lengths_of(unmerged)
    if merged is None or lengths is None:
        return None
    ends = [prod(lengths[:k]) for k in range(len(lengths) + 1)]
    first, last = prod(merged[:axis]), prod(merged[: axis + 1])
    if first not in ends[:-1] or last not in ends:
        return None
    start, stop = ends.index(first), ends.index(last)
    order = [*range(start, stop), *range(start), *range(stop, len(lengths))]
    rows = walk.rows(unmerged, start).dimshuffle(*order)
    others = _without(merged, axis)
    return rows.reshape((walk.length, prod(lengths[start + 1 : stop]), *others))


def _without[T](values: Sequence[T], axis: int) -> Sequence[T]:
    """Values of all axes but one."""
    return (*values[:axis], *values[axis + 1 :])
