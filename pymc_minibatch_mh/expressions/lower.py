"""Lowering of a minibatch's log-likelihood graph to expressions of one observation.

A tensor becomes an array of expressions, for a minibatch of one observation. Observations have been
proved independent before. That proof does not cover parameters common to all observations or the
prior part: their operations are checked only here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from types import MappingProxyType
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

from pymc_minibatch_mh.expressions.graph import (
    Constant,
    Expr,
    ExprGraph,
    LoweringError,
    require_lowerable,
)
from pymc_minibatch_mh.expressions.long_vectors import LongVectors
from pymc_minibatch_mh.expressions.rules import apply_operation

#: An array of expressions.
Tensor = np.ndarray
Tensors = Sequence[Tensor]
Leaves = Mapping[Variable, Tensor]


def lower_graph(
    exprs: ExprGraph, graph: Variable, position: Variable, leaves: Leaves = MappingProxyType({})
) -> Tensor:
    """Lower a graph of the position to expressions; `leaves` are minibatches and their length."""
    known: dict[Variable, Tensor] = {**leaves, **_known_shapes(exprs, graph, leaves)}

    def value_of(variable: Variable) -> Tensor:
        if variable is position and variable not in known:
            known[variable] = fill_array(position.type.shape, lambda k: exprs.coordinate(*k))
        elif variable not in known and isinstance(variable, GraphConstant):
            known[variable] = constant_exprs(exprs, variable.data)
        return known[variable]

    def lower(variable: Variable) -> Tensor:
        for node in toposort([variable], blockers=list(known)):
            inputs = [value_of(x) for x in node.inputs if hasattr(x.type, "dtype")]
            results = lower_node(node.op, node, inputs, exprs)
            outputs = (results,) if isinstance(results, Tensor) else results
            require_lowerable(len(outputs) == len(node.outputs), node.op)
            known.update(zip(node.outputs, outputs, strict=True))
        return value_of(variable)

    vectors = LongVectors(exprs, position, lower)
    for node in toposort([graph], blockers=list(known)):
        entries = vectors.select(node)
        if entries is not None:
            known[node.outputs[0]] = entries
    return lower(graph)


def _known_shapes(exprs: ExprGraph, graph: Variable, leaves: Leaves) -> Leaves:
    """Shapes that are the same for all minibatches, so that their tensors need no lowering."""
    of_batches = {leaf for leaf in leaves if leaf.type.ndim == 0 or None in leaf.type.shape}
    made = [v for v in ancestors([graph]) if v.owner is not None and v not in leaves]
    shapes = [v for v in made if isinstance(v.owner.op, Shape)]
    whole = [v for v in shapes if of_batches.isdisjoint(ancestors([v]))]
    values = constant_fold(whole, raise_not_constant=False) if whole else ()
    known = zip(whole, values, strict=True)
    return {v: constant_exprs(exprs, x) for v, x in known if isinstance(x, np.ndarray)}


def fill_array(shape: Sequence[int], entry_at: Callable[[tuple[int, ...]], Expr]) -> np.ndarray:
    """Array of expressions, created one by one in index order."""
    return np.array([entry_at(place) for place in np.ndindex(*shape)], dtype=object).reshape(shape)


def constant_exprs(exprs: ExprGraph, values: Any) -> np.ndarray:
    """Array of numbers as an array of expressions."""
    values = np.asarray(values)
    return fill_array(values.shape, lambda place: exprs.constant(values[place]))


@singledispatch
def lower_node(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor | Tensors:
    """Output of `node` as an array of expressions; for several outputs, a sequence of arrays."""
    raise LoweringError(op)


@lower_node.register(Elemwise)
def _lower_elemwise(op: Elemwise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    arrays = np.broadcast_arrays(*inputs, subok=False)

    def entry_at(place: tuple[int, ...]) -> Expr:
        return apply_operation(exprs, op.scalar_op, *(array.item(*place) for array in arrays))

    return fill_array(arrays[0].shape, entry_at)


@lower_node.register(DimShuffle)
def _lower_dimshuffle(op: DimShuffle, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    (x,) = inputs
    kept = [k for k in op.new_order if k != "x"]
    dropped = [k for k in range(x.ndim) if k not in kept]
    shape = [1 if k == "x" else x.shape[k] for k in op.new_order]
    return x.transpose(kept + dropped).reshape(shape)


@lower_node.register(SpecifyShape)
@lower_node.register(ScalarFromTensor)
@lower_node.register(TensorFromScalar)
def _lower_identity(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return inputs[0]


@lower_node.register(MakeVector)
def _lower_make_vector(op: MakeVector, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return np.array([x.item() for x in inputs], dtype=object)


@lower_node.register(Shape)
@lower_node.register(Shape_i)
def _lower_shape(op: Op, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    shape = np.array(inputs[0].shape, dtype=np.int64)
    return constant_exprs(exprs, shape[op.i] if isinstance(op, Shape_i) else shape)


@lower_node.register(Alloc)
def _lower_alloc(op: Alloc, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    value, *lengths = inputs
    return np.broadcast_to(value, _known_integers(op, [x.item() for x in lengths]))


def _known_numbers(op: Op, exprs: Sequence[Expr] | np.ndarray) -> list[Any]:
    known = [expr.value for expr in exprs if isinstance(expr, Constant)]
    require_lowerable(len(known) == len(exprs), op, "has lengths that are not known beforehand")
    return known


def _known_integers(op: Op, exprs: Sequence[Expr] | np.ndarray) -> list[int]:
    return [int(value) for value in _known_numbers(op, exprs)]


@lower_node.register(AllocEmpty)
def _lower_alloc_empty(op: AllocEmpty, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    shape = _known_integers(op, [x.item() for x in inputs])
    return np.full(shape, exprs.constant(np.nan), dtype=object)


@lower_node.register(ARange)
def _lower_arange(op: ARange, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    numbers = np.arange(*_known_numbers(op, [x.item() for x in inputs]))
    return constant_exprs(exprs, numbers.astype(node.outputs[0].type.dtype))


@lower_node.register(Reshape)
def _lower_reshape(op: Reshape, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, target = inputs
    return x.reshape(_known_integers(op, target))


@lower_node.register(Join)
def _lower_join(op: Join, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    return np.concatenate(inputs, axis=op.axis)


@lower_node.register(Split)
def _lower_split(op: Split, node: Node, inputs: Tensors, exprs: ExprGraph) -> tuple[Tensor, ...]:
    x, lengths = inputs
    return tuple(np.split(x, np.cumsum(_known_integers(op, lengths))[:-1], axis=op.axis))


@lower_node.register(CheckAndRaise)
def _lower_assert(op: CheckAndRaise, node: Node, inputs: Tensors, exprs: ExprGraph) -> Tensor:
    x, *conditions = inputs
    held = (isinstance(c, Constant) and bool(c.value) for t in conditions for c in t.flat)
    require_lowerable(all(held), op, "asserts what is not known beforehand")
    return x
