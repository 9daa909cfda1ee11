"""Taking the log-likelihood graph of a batch apart into the expressions of one row.

A tensor becomes an array of expressions in which the observation axis has length one. That rows are
apart is proved before, in `axis`; rules look once more where a mistake would put an expression in
the place of another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Apply as Node
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors, toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    ARange,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_minibatch_mh.likelihood.exprs import (
    Constant,
    Expr,
    ExprGraph,
    Length,
    LoweringError,
    require,
)
from pymc_minibatch_mh.likelihood.simplify import apply

OTHER_ROWS = "pairs each row with other rows"


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of expressions and the axis along which the rows lie, if it has one."""

    exprs: np.ndarray
    axis: int | None


Tensors = Sequence[Tensor]


def lower(exprs: ExprGraph, graph: Variable, leaves: dict[Variable, Tensor]) -> Tensor:
    """Take a graph apart, of the position, the batches of data and the length of a batch.

    Raises
    ------
    LoweringError
        Naming the operation that cannot be taken apart.
    """
    known = {**leaves, **_known_shapes(exprs, graph, leaves)}

    def value_of(variable: Variable) -> Tensor:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = Tensor(constants(exprs, variable.data), None)
        return known[variable]

    for node in toposort([graph], blockers=list(known)):
        inputs = [value_of(x) for x in node.inputs if hasattr(x.type, "dtype")]
        results = lowered(node.op, node, inputs, exprs)
        outputs = (results,) if isinstance(results, Tensor) else results
        require(len(outputs) == len(node.outputs), node.op)
        known.update(zip(node.outputs, outputs, strict=True))
    return value_of(graph)


def _known_shapes(
    exprs: ExprGraph, graph: Variable, leaves: dict[Variable, Tensor]
) -> dict[Variable, Tensor]:
    """Return the shapes of tensors that are the same for all batches.

    They may be asked of the predictor of all rows, which must not be taken apart for that.
    """
    of_batches = {
        leaf for leaf, tensor in leaves.items() if leaf.type.ndim == 0 or tensor.axis == 0
    }
    made = [v for v in ancestors([graph]) if v.owner is not None and v not in leaves]
    shapes = [v for v in made if isinstance(v.owner.op, Shape)]
    whole = [v for v in shapes if of_batches.isdisjoint(ancestors([v]))]
    values = constant_fold(whole, raise_not_constant=False) if whole else ()
    known = zip(whole, values, strict=True)
    return {v: Tensor(constants(exprs, x), None) for v, x in known if isinstance(x, np.ndarray)}


def filled(shape: Sequence[int], cell_at: Callable[[tuple[int, ...]], Expr]) -> np.ndarray:
    """Return an array of expressions, made one by one in the order of their places."""
    return np.array([cell_at(place) for place in np.ndindex(*shape)], dtype=object).reshape(shape)


def constants(exprs: ExprGraph, values: Any) -> np.ndarray:
    """Return an array of numbers as an array of expressions."""
    values = np.asarray(values)
    return filled(values.shape, lambda place: exprs.constant(values[place]))


@singledispatch
def lowered(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor | tuple[Tensor, ...]:
    """Return the output of `node` as expressions, or all outputs if there are several.

    Raises
    ------
    LoweringError
        If there is no rule for `op`.
    """
    raise LoweringError(op)


def row_axis(op: Op, inputs: Tensors) -> int | None:
    """Return the observation axis of tensors with as many axes each.

    Raises
    ------
    LoweringError
        If they do not lie along each other.
    """
    axes = {x.axis for x in inputs if x.axis is not None}
    if not axes:
        return None
    axis = axes.pop()
    require(not axes and all(x.exprs.shape[axis] == 1 for x in inputs), op, OTHER_ROWS)
    return axis


@lowered.register(Elemwise)
def _elemwise(op: Elemwise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    arrays = np.broadcast_arrays(*(x.exprs for x in inputs), subok=False)

    def cell_at(place: tuple[int, ...]) -> Expr:
        return apply(exprs, op.scalar_op, *(array.item(*place) for array in arrays))

    return Tensor(filled(arrays[0].shape, cell_at), row_axis(op, inputs))


@lowered.register(DimShuffle)
def _dimshuffle(op: DimShuffle, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    kept = [k for k in op.new_order if k != "x"]
    dropped = [k for k in range(x.exprs.ndim) if k not in kept]
    require(x.axis not in dropped, op)
    moved = x.exprs.transpose(kept + dropped)
    moved = moved.reshape(moved.shape[: len(kept)])
    added = tuple(np.newaxis if k == "x" else slice(None) for k in op.new_order)
    axis = None if x.axis is None else list(op.new_order).index(x.axis)
    return Tensor(moved[(*added, ...)], axis)


@lowered.register(SpecifyShape)
@lowered.register(ScalarFromTensor)
@lowered.register(TensorFromScalar)
def _same(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return inputs[0]


@lowered.register(MakeVector)
def _make_vector(op: MakeVector, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return Tensor(np.array([x.exprs.item() for x in inputs], dtype=object), None)


@lowered.register(Shape_i)
def _shape(op: Shape_i, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    lengths = _shape_of(x, exprs)
    return Tensor(single(lengths[op.i]), None)


@lowered.register(Shape)
def _whole_shape(op: Shape, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return Tensor(_shape_of(inputs[0], exprs), None)


def _shape_of(x: Tensor, exprs: ExprGraph) -> np.ndarray:
    lengths = constants(exprs, np.array(x.exprs.shape, dtype=np.int64))
    if x.axis is not None:
        lengths[x.axis] = exprs.length()
    return lengths


def single(expr: Expr) -> np.ndarray:
    """Return an array without axes that holds one expression."""
    return np.array(expr, dtype=object)


@lowered.register(Alloc)
def _alloc(op: Alloc, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    value, *lengths = inputs
    shape, axis = _lengths_of([x.exprs.item() for x in lengths], op)
    require(value.axis is None or value.axis + len(shape) - value.exprs.ndim == axis, op)
    return Tensor(np.broadcast_to(value.exprs, shape), axis)


def _lengths_of(shape: Sequence[Expr], op: Op) -> tuple[list[int], int | None]:
    """Return lengths, that of the rows being one, and which axis the rows lie along."""
    lengths, axis = [], None
    for k, expr in enumerate(shape):
        if isinstance(expr, Constant):
            lengths.append(int(expr.value))
        else:
            require(isinstance(expr, Length) and axis is None, op)
            axis = k
            lengths.append(1)
    return lengths, axis


@lowered.register(AllocEmpty)
def _alloc_empty(op: AllocEmpty, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    shape, axis = _lengths_of([x.exprs.item() for x in inputs], op)
    return Tensor(np.full(shape, exprs.constant(np.nan), dtype=object), axis)


@lowered.register(ARange)
def _arange(op: ARange, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    start, stop, step = (x.exprs.item() for x in inputs)
    if not isinstance(start, Constant) or not isinstance(step, Constant):
        raise LoweringError(op)
    if isinstance(stop, Length) and (start.value, step.value) == (0, 1):
        return Tensor(single(exprs.row_number()).reshape(1), 0)
    if not isinstance(stop, Constant):
        raise LoweringError(op)
    return Tensor(constants(exprs, np.arange(start.value, stop.value, step.value)), None)


@lowered.register(Reshape)
def _reshape(op: Reshape, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, target = inputs
    shape, axis = _lengths_of(list(target.exprs), op)
    if x.axis is None and axis is None:
        return Tensor(x.exprs.reshape(shape), None)
    if axis is None and shape.count(-1) == 1:
        axis = shape.index(-1)
        shape[axis] = 1
    # In C order, rows stay rows on the first axis, or where nothing but rows is.
    stay_first = axis == x.axis == 0
    only_rows = x.axis is not None and axis is not None and x.exprs.size == 1
    repeat_draw = (stay_first or only_rows) and int(np.prod(shape)) == x.exprs.size
    require(repeat_draw, op, "mixes rows, or cannot be seen not to")
    return Tensor(x.exprs.reshape(shape), axis)


@lowered.register(Join)
def _join(op: Join, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    axis = row_axis(op, inputs)
    along = op.axis % inputs[0].exprs.ndim
    require(axis != along, op, "puts rows after rows")
    return Tensor(np.concatenate([x.exprs for x in inputs], axis=along), axis)


@lowered.register(Split)
def _split(op: Split, node: Node, inputs: Tensors, exprs: ExprGraph) -> tuple[Tensor, ...]:
    x, lengths = inputs
    require(x.axis != op.axis % x.exprs.ndim, op, "takes a part of the rows")
    known = all(isinstance(expr, Constant) for expr in lengths.exprs.flat)
    require(known, op, "has lengths that are not known beforehand")
    ends = np.cumsum([int(expr.value) for expr in lengths.exprs.flat])
    parts = np.split(x.exprs, ends[:-1], axis=op.axis)
    return tuple(Tensor(part, x.axis) for part in parts)


@lowered.register(CheckAndRaise)
def _asserted(op: CheckAndRaise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, *conditions = inputs
    held = (isinstance(c, Constant) and bool(c.value) for t in conditions for c in t.exprs.flat)
    require(all(held), op, "asserts what is not known beforehand")
    return x
