"""Taking sums and other reductions apart: they become operations on a row's own cells."""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.special import LogSoftmax, LogSumExp, Softmax

from pymc_minibatch_mh.model.row.arithmetic import add, exp, multiply, subtract
from pymc_minibatch_mh.model.row.cells import INTEGER, Cell, Cells, LoweringError
from pymc_minibatch_mh.model.row.lower import Tensor, lowered
from pymc_minibatch_mh.model.row.simplify import apply, log_of_sum


@lowered.register(CAReduce)
def _reduce(op: CAReduce, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    arithmetic = isinstance(op.scalar_op, scalar.Add | scalar.Mul)
    # A sum of booleans counts; one by one, PyTensor would take them for a disjunction.
    result = node.outputs[0].type.dtype
    wide = _cast_to(getattr(op, "acc_dtype", None) or result)

    def combine(parts: Sequence[Cell]) -> Cell:
        if not parts:
            raise LoweringError(op, "reduces an axis without entries")
        if arithmetic and np.dtype(node.inputs[0].type.dtype) != wide.o_type.dtype:
            parts = [apply(cells, wide, part) for part in parts]
        if arithmetic:
            total = apply(cells, op.scalar_op, *parts) if len(parts) > 1 else parts[0]
            return total if total.dtype == result else apply(cells, _cast_to(result), total)
        return reduce(lambda left, right: apply(cells, op.scalar_op, left, right), parts)

    return _over(op, inputs[0], op.axis, combine)


def _cast_to(dtype: str) -> scalar.Cast:
    return scalar.Cast(scalar.get_scalar_type(dtype))


def _over(
    op: Op, x: Tensor, axes: Sequence[int] | None, combine: Callable[[Sequence[Cell]], Cell]
) -> Tensor:
    """Combine the cells along some axes, or along all."""
    over = _axes(op, x, axes)
    kept = [k for k in range(x.cells.ndim) if k not in over]
    moved = x.cells.transpose([*kept, *over])
    out = np.empty(moved.shape[: len(kept)], dtype=object)
    for place in np.ndindex(*out.shape):
        out[place] = combine(list(np.ravel(moved[place])))
    return Tensor(out, None if x.axis is None else kept.index(x.axis))


def _axes(op: Op, x: Tensor, axes: Sequence[int] | None) -> list[int]:
    every = range(x.cells.ndim)
    over = list(every) if axes is None else [axis % x.cells.ndim for axis in axes]
    if x.axis in over:
        raise LoweringError(op, "combines rows")
    return over


@lowered.register(CumOp)
def _cumulate(op: CumOp, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    (x,) = inputs
    axis = 0 if op.axis is None else op.axis % x.cells.ndim
    if x.axis == axis or (op.axis is None and x.cells.ndim > 1):
        raise LoweringError(op, "combines rows, or all axes")
    real, whole = (add, scalar.add) if op.mode == "add" else (multiply, scalar.mul)

    def combine(left: Cell, right: Cell) -> Cell:
        # Whole numbers stay so, for they may be indices.
        whole_numbers = left.is_data and right.is_data and left.dtype == right.dtype == INTEGER
        return cells.node(whole, (left, right)) if whole_numbers else real(cells, left, right)

    moved = np.moveaxis(x.cells, axis, 0).copy()
    for k in range(1, moved.shape[0]):
        for place in np.ndindex(*moved.shape[1:]):
            before, here = moved[(k - 1, *place)], moved[(k, *place)]
            moved[(k, *place)] = combine(before, here)
    return Tensor(np.moveaxis(moved, 0, axis), x.axis)


@lowered.register(LogSumExp)
def _log_sum_exp(op: LogSumExp, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return _over(op, inputs[0], op.axis, lambda parts: log_of_sum(cells, parts))


@lowered.register(Softmax)
@lowered.register(LogSoftmax)
def _softmax(
    op: Softmax | LogSoftmax, node: Node, inputs: Sequence[Tensor], cells: Cells
) -> Tensor:
    (x,) = inputs
    axes = _axes(op, x, op.axis)
    out = np.empty_like(x.cells)
    for place in np.ndindex(*x.cells.shape):
        group = tuple(slice(None) if k in axes else i for k, i in enumerate(place))
        total = log_of_sum(cells, list(np.ravel(x.cells[group])))
        log_share = subtract(cells, x.cells.item(*place), total)
        out[place] = exp(cells, log_share) if isinstance(op, Softmax) else log_share
    return Tensor(out, x.axis)
