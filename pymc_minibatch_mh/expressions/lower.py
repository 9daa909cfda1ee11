"""Lowering of a minibatch's log-likelihood graph to expressions of one observation.

A tensor becomes an array of expressions, for a minibatch of one observation. The independence proof
came before. It does not cover parameters common to all observations, nor the prior part: their
operations are checked only here.
"""

from collections.abc import Callable, Sequence
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

from pymc_minibatch_mh.expressions.graph import Constant, Expr, ExprGraph, LoweringError, require
from pymc_minibatch_mh.expressions.rules import apply

#: An array of expressions.
Tensor = np.ndarray
Tensors = Sequence[Tensor]


def lower(exprs: ExprGraph, graph: Variable, leaves: dict[Variable, Tensor]) -> Tensor:
    """Lower a graph of the position, the minibatches of data and their length."""
    known = {**leaves, **_known_shapes(exprs, graph, leaves)}

    def value_of(variable: Variable) -> Tensor:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = constants(exprs, variable.data)
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
    """Shapes of tensors that are equal for all minibatches.

    The graph may need the shape of the predictor of all rows, which must not be lowered for that.
    """
    of_batches = {leaf for leaf in leaves if leaf.type.ndim == 0 or None in leaf.type.shape}
    made = [v for v in ancestors([graph]) if v.owner is not None and v not in leaves]
    shapes = [v for v in made if isinstance(v.owner.op, Shape)]
    whole = [v for v in shapes if of_batches.isdisjoint(ancestors([v]))]
    values = constant_fold(whole, raise_not_constant=False) if whole else ()
    known = zip(whole, values, strict=True)
    return {v: constants(exprs, x) for v, x in known if isinstance(x, np.ndarray)}


def filled(shape: Sequence[int], entry_at: Callable[[tuple[int, ...]], Expr]) -> np.ndarray:
    """Array of expressions, created one by one in index order."""
    return np.array([entry_at(place) for place in np.ndindex(*shape)], dtype=object).reshape(shape)


def constants(exprs: ExprGraph, values: Any) -> np.ndarray:
    """Array of numbers as an array of expressions."""
    values = np.asarray(values)
    return filled(values.shape, lambda place: exprs.constant(values[place]))


@singledispatch
def lowered(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor | tuple[Tensor, ...]:
    """Output of `node` as expressions, or the list of several outputs."""
    raise LoweringError(op)


@lowered.register(Elemwise)
def _elemwise(op: Elemwise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    arrays = np.broadcast_arrays(*inputs, subok=False)

    def entry_at(place: tuple[int, ...]) -> Expr:
        return apply(exprs, op.scalar_op, *(array.item(*place) for array in arrays))

    return filled(arrays[0].shape, entry_at)


@lowered.register(DimShuffle)
def _dimshuffle(op: DimShuffle, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    kept = [k for k in op.new_order if k != "x"]
    dropped = [k for k in range(x.ndim) if k not in kept]
    moved = x.transpose(kept + dropped)
    moved = moved.reshape(moved.shape[: len(kept)])
    added = tuple(np.newaxis if k == "x" else slice(None) for k in op.new_order)
    return moved[(*added, ...)]


@lowered.register(SpecifyShape)
@lowered.register(ScalarFromTensor)
@lowered.register(TensorFromScalar)
def _same(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return inputs[0]


@lowered.register(MakeVector)
def _make_vector(op: MakeVector, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return np.array([x.item() for x in inputs], dtype=object)


@lowered.register(Shape_i)
def _length(op: Shape_i, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return constants(exprs, np.int64(inputs[0].shape[op.i]))


@lowered.register(Shape)
def _shape(op: Shape, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return constants(exprs, np.array(inputs[0].shape, dtype=np.int64))


@lowered.register(Alloc)
def _alloc(op: Alloc, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    value, *lengths = inputs
    return np.broadcast_to(value, _integers(op, [x.item() for x in lengths]))


def _known(op: Op, exprs: Sequence[Expr] | np.ndarray) -> list[Any]:
    """Numbers that must be known at compile time, such as lengths."""
    known = [expr.value for expr in exprs if isinstance(expr, Constant)]
    require(len(known) == len(exprs), op, "has lengths that are not known beforehand")
    return known


def _integers(op: Op, exprs: Sequence[Expr] | np.ndarray) -> list[int]:
    return [int(value) for value in _known(op, exprs)]


@lowered.register(AllocEmpty)
def _alloc_empty(op: AllocEmpty, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    shape = _integers(op, [x.item() for x in inputs])
    return np.full(shape, exprs.constant(np.nan), dtype=object)


@lowered.register(ARange)
def _arange(op: ARange, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    numbers = np.arange(*_known(op, [x.item() for x in inputs]))
    return constants(exprs, numbers.astype(node.outputs[0].type.dtype))


@lowered.register(Reshape)
def _reshape(op: Reshape, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, target = inputs
    return x.reshape(_integers(op, target))


@lowered.register(Join)
def _join(op: Join, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return np.concatenate(inputs, axis=op.axis)


@lowered.register(Split)
def _split(op: Split, node: Node, inputs: Tensors, exprs: ExprGraph) -> tuple[Tensor, ...]:
    x, lengths = inputs
    return tuple(np.split(x, np.cumsum(_integers(op, lengths))[:-1], axis=op.axis))


@lowered.register(CheckAndRaise)
def _asserted(op: CheckAndRaise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, *conditions = inputs
    held = (isinstance(c, Constant) and bool(c.value) for t in conditions for c in t.flat)
    require(all(held), op, "asserts what is not known beforehand")
    return x
