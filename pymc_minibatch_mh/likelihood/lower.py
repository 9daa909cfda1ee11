"""Taking the log-likelihood graph of a batch apart into the cells of one row.

A tensor becomes an array of cells in which the observation axis has length one. A tensor
operation without a rule is refused by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.basic import (
    Alloc,
    ARange,
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape_i, SpecifyShape

from pymc_minibatch_mh.likelihood.cells import (
    Cell,
    Cells,
    Constant,
    Length,
)
from pymc_minibatch_mh.likelihood.simplify import (
    apply,
)


class LoweringError(Exception):
    """An operation that cannot be taken apart."""

    def __init__(self, op: object) -> None:
        self.op = op
        super().__init__(str(op))


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of cells and the axis along which the rows lie, if it has one."""

    cells: np.ndarray
    axis: int | None


def lower(cells: Cells, graph: Variable, leaves: dict[Variable, Tensor]) -> Tensor:
    """Take a graph apart.

    Parameters
    ----------
    cells
        Where cells are made.
    graph : Variable
        Log-likelihood of a batch.
    leaves
        The position, the batches of data and the length of a batch as cells.

    Raises
    ------
    LoweringError
        Naming the operation that cannot be taken apart.
    """
    known = dict(leaves)

    def value_of(variable: Variable) -> Tensor:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = Tensor(_constants(cells, variable.data), None)
        return known[variable]

    for node in toposort([graph], blockers=list(leaves)):
        inputs = [value_of(x) for x in node.inputs if _is_array(x)]
        if len(node.outputs) > 1:
            raise LoweringError(node.op)
        known[node.outputs[0]] = lowered(node.op, node, inputs, cells)
    return value_of(graph)


def _is_array(variable: Variable) -> bool:
    return hasattr(variable.type, "dtype")


def _constants(cells: Cells, values: Any) -> np.ndarray:
    values = np.asarray(values)
    out = np.empty(values.shape, dtype=object)
    for place in np.ndindex(*values.shape):
        out[place] = cells.constant(values[place])
    return out


@singledispatch
def lowered(op: Op, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    """Return the output of `node` as cells.

    Raises
    ------
    LoweringError
        If there is no rule for `op`.
    """
    raise LoweringError(op)


def _elementwise(cells: Cells, op: ScalarOp, arrays: Sequence[np.ndarray]) -> np.ndarray:
    broadcast = np.broadcast_arrays(*arrays, subok=False) if arrays else []
    out = np.empty(broadcast[0].shape, dtype=object)
    for place in np.ndindex(*out.shape):
        out[place] = apply(cells, op, *(array[place] for array in broadcast))
    return out


def row_axis(inputs: Sequence[Tensor]) -> int | None:
    """Return the observation axis of tensors with as many axes each."""
    return next((x.axis for x in inputs if x.axis is not None), None)


@lowered.register(Elemwise)
def _elemwise(op: Elemwise, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return Tensor(_elementwise(cells, op.scalar_op, [x.cells for x in inputs]), row_axis(inputs))


@lowered.register(DimShuffle)
def _dimshuffle(op: DimShuffle, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    (x,) = inputs
    kept = [k for k in op.new_order if k != "x"]
    dropped = [k for k in range(x.cells.ndim) if k not in kept]
    moved = x.cells.transpose(kept + dropped)
    moved = moved.reshape(moved.shape[: len(kept)])
    added = tuple(np.newaxis if k == "x" else slice(None) for k in op.new_order)
    axis = None if x.axis is None else list(op.new_order).index(x.axis)
    return Tensor(moved[added], axis)


@lowered.register(SpecifyShape)
@lowered.register(ScalarFromTensor)
@lowered.register(TensorFromScalar)
def _same(op: Op, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return inputs[0]


@lowered.register(MakeVector)
def _make_vector(op: MakeVector, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    out = np.empty(len(inputs), dtype=object)
    for k, x in enumerate(inputs):
        out[k] = x.cells[()]
    return Tensor(out, None)


@lowered.register(Shape_i)
def _shape(op: Shape_i, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    (x,) = inputs
    rows = x.axis == op.i
    cell: Cell = cells.length() if rows else cells.constant(np.int64(x.cells.shape[op.i]))
    return Tensor(single(cell), None)


def single(cell: Cell) -> np.ndarray:
    """Return an array without axes that holds one cell."""
    out = np.empty((), dtype=object)
    out[()] = cell
    return out


@lowered.register(Alloc)
def _alloc(op: Alloc, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    value, *lengths = inputs
    shape, axis = _shape_of([x.cells[()] for x in lengths], op)
    own = None if value.axis is None else value.axis + len(shape) - value.cells.ndim
    return Tensor(np.broadcast_to(value.cells, shape), axis if own is None else own)


def _shape_of(lengths: Sequence[Cell], op: Op) -> tuple[list[int], int | None]:
    axis = next((k for k, cell in enumerate(lengths) if isinstance(cell, Length)), None)
    shape = []
    for k, cell in enumerate(lengths):
        if k != axis and not isinstance(cell, Constant):
            raise LoweringError(op)
        shape.append(1 if k == axis else int(cell.value))  # type: ignore[attr-defined]
    return shape, axis


@lowered.register(ARange)
def _arange(op: ARange, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    start, stop, step = (x.cells[()] for x in inputs)
    if isinstance(stop, Length):
        return Tensor(single(cells.row_number()).reshape(1), 0)
    if not all(isinstance(x, Constant) for x in (start, stop, step)):
        raise LoweringError(op)
    return Tensor(_constants(cells, np.arange(start.value, stop.value, step.value)), None)


@lowered.register(Reshape)
def _reshape(op: Reshape, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    x, target = inputs
    shape, axis = _shape_of(list(target.cells), op)
    # The proof that rows are apart has seen to it that they stay on the first axis.
    axis = 0 if x.axis is not None else axis
    if x.axis is not None:
        shape[0] = 1
    return Tensor(x.cells.reshape(shape), axis)


@lowered.register(Join)
def _join(op: Join, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    arrays = np.concatenate([x.cells for x in inputs], axis=op.axis)
    return Tensor(arrays, row_axis(inputs))
