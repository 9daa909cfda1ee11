"""Taking sums and other reductions apart: they become operations on a row's own cells."""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot
from pytensor.tensor.special import LogSoftmax, LogSumExp, Softmax

from pymc_minibatch_mh.likelihood.cells import Apply, Cell, Cells, Constant
from pymc_minibatch_mh.likelihood.lower import LoweringError, Tensor, lowered, row_axis
from pymc_minibatch_mh.likelihood.simplify import (
    add,
    apply,
    exp,
    multiply,
    subtract,
    summands,
)


@lowered.register(CAReduce)
def _reduce(op: CAReduce, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    (x,) = inputs
    axes = tuple(range(x.cells.ndim)) if op.axis is None else op.axis
    if x.axis in axes:
        raise LoweringError(op)

    def combine(parts: Sequence[Cell]) -> Cell:
        if isinstance(op.scalar_op, scalar.Add | scalar.Mul) or len(parts) == 1:
            return parts[0] if len(parts) == 1 else apply(cells, op.scalar_op, *parts)
        return reduce(lambda left, right: apply(cells, op.scalar_op, left, right), parts)

    return _over(x, axes, combine)


def _over(x: Tensor, axes: Sequence[int], combine: Callable[[Sequence[Cell]], Cell]) -> Tensor:
    kept = [k for k in range(x.cells.ndim) if k not in axes]
    moved = x.cells.transpose([*kept, *axes])
    moved = moved.reshape(*moved.shape[: len(kept)], -1)
    out = np.empty(moved.shape[:-1], dtype=object)
    for place in np.ndindex(*out.shape):
        out[place] = combine(list(moved[place]))
    return Tensor(out, None if x.axis is None else kept.index(x.axis))


@lowered.register(CumOp)
def _cumulate(op: CumOp, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    (x,) = inputs
    axis = 0 if op.axis is None else op.axis % x.cells.ndim
    if x.axis == axis or (op.axis is None and x.cells.ndim > 1):
        raise LoweringError(op)
    combine = add if op.mode == "add" else multiply
    moved = np.moveaxis(x.cells, axis, 0).copy()
    for k in range(1, moved.shape[0]):
        for place in np.ndindex(*moved.shape[1:]):
            before, here = moved[(k - 1, *place)], moved[(k, *place)]
            moved[(k, *place)] = combine(cells, before, here)
    return Tensor(np.moveaxis(moved, 0, axis), x.axis)


@lowered.register(LogSumExp)
def _log_sum_exp(op: LogSumExp, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    def combine(parts: Sequence[Cell]) -> Cell:
        return reduce(lambda left, right: _log_add_exp(cells, left, right), parts)

    return _over(inputs[0], op.axis, combine)


def _log_add_exp(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return log(exp(left) + exp(right)) as left + softplus(right - left), -inf allowed."""
    for this, other in ((left, right), (right, left)):
        if _is_impossible(this):
            return other
        choice = next((part for part in summands(this) if _may_be_impossible(part)), None)
        if isinstance(choice, Apply):
            rest = [part for part in summands(this) if part is not choice]
            condition, *branches = choice.inputs
            outcomes = (
                other if _is_impossible(x) else _log_add_exp(cells, add(cells, x, *rest), other)
                for x in branches
            )
            return apply(cells, scalar.switch, condition, *outcomes)
    gap = subtract(cells, right, left)
    return add(cells, left, apply(cells, scalar_math.softplus, gap))


def _is_impossible(cell: Cell) -> bool:
    return isinstance(cell, Constant) and bool(np.isneginf(cell.value))


def _may_be_impossible(cell: Cell) -> bool:
    """Whether data decide if a summand is -inf."""
    chosen = isinstance(cell, Apply) and isinstance(cell.op, scalar.Switch)
    return chosen and cell.inputs[0].is_data and any(map(_is_impossible, cell.inputs[1:]))


@lowered.register(Softmax)
@lowered.register(LogSoftmax)
def _softmax(
    op: Softmax | LogSoftmax, node: Node, inputs: Sequence[Tensor], cells: Cells
) -> Tensor:
    (x,) = inputs
    axes = tuple(range(x.cells.ndim)) if op.axis is None else tuple(op.axis)
    out = np.empty_like(x.cells)
    for place in np.ndindex(*x.cells.shape):
        group = tuple(slice(None) if k in axes else i for k, i in enumerate(place))
        total = reduce(
            lambda left, right: _log_add_exp(cells, left, right), np.ravel(x.cells[group])
        )
        log_share = subtract(cells, x.cells[place], total)
        out[place] = exp(cells, log_share) if isinstance(op, Softmax) else log_share
    return Tensor(out, x.axis)


@lowered.register(Dot)
def _dot(op: Dot, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    left, right = (x.cells for x in inputs)
    if left.ndim != 2 or right.ndim != 2:
        raise LoweringError(op)
    out = np.empty((left.shape[0], right.shape[1]), dtype=object)
    for i, j in np.ndindex(*out.shape):
        pairs = zip(left[i], right[:, j], strict=True)
        out[i, j] = add(cells, *(multiply(cells, a, b) for a, b in pairs))
    return Tensor(out, row_axis(inputs))


@lowered.register(Blockwise)
def _blockwise(op: Blockwise, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    if not isinstance(op.core_op, Dot) or op.batch_ndim(node) > 0:
        raise LoweringError(op)
    return _dot(op.core_op, node, inputs, cells)
