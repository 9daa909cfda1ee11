"""Rules that prove observations conditionally independent, one per operation.

A rule receives an output of an operation and the position of the observation axis in it. It
rebuilds the output for a minibatch: inputs with an observation axis come from ``walk.rows``, inputs
common to all rows from ``walk.whole``. An operation without a rule raises an error, because it may
mix rows. No rule uses the length of an axis to recognise the observation axis.
"""

from collections.abc import Iterable, Sequence
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.dist_math import SplineWrapper
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Second
from pytensor.scan.op import Scan
from pytensor.sparse.type import SparseTensorType
from pytensor.tensor.basic import Alloc, AllocDiag, ARange, ExtractDiag, Join, Nonzero, Split
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, SearchsortedOp
from pytensor.tensor.linalg.solvers.general import Solve
from pytensor.tensor.linalg.solvers.psd import CholeskySolve
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.special import LogAddExp, LogSoftmax, LogSumExp, Softmax
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_minibatch_mh.functions.base import operation_name
from pymc_minibatch_mh.model.parameter_checks import always_holds, checked, elementwise_conditions

#: Operations that treat the rows of the left input, or the columns of the right one, separately.
_BY_ROW_AND_COLUMN = (Dot, SolveTriangular, Solve, CholeskySolve)


#: Operations that set or increase some entries.
type _Setting = IncSubtensor | AdvancedIncSubtensor

#: Advice in messages: for models that need NUTS, and for sparse matrices.
USE_NUTS = 'Sample it with pm.NUTS(), or pass observed=["..."] to subsample other likelihoods only.'
USE_SPARSE_DOT = (
    "Give the model products of data and parameters, such as pytensor.sparse.dot(X, b), or sample "
    "it with pm.NUTS()."
)


#: Advice for hidden states that are not sums over one state of each observation.
ONE_STATE = (
    "Marginalise one state for each group, such as a pm.Categorical of all combinations, or sample "
    "the model with pm.NUTS()."
)
USE_INDEPENDENT_STATES = (
    "Give each sequence one state that is independent of all others, or sample it with pm.NUTS()."
)


class MixedRowsError(Exception):
    """Error about an operation that may mix observations; `fix` is advice for the user."""

    def __init__(self, op: object, why: str, fix: str = USE_NUTS) -> None:
        super().__init__(why)
        self.op = op
        self.why = why
        self.fix = fix


def require_dense(variables: Iterable[Variable], op: object) -> None:
    """Raise MixedRowsError for sparse matrices, because compiled code cannot read their rows."""
    if any(isinstance(variable.type, SparseTensorType) for variable in variables):
        why = f"{operation_name(op)} takes a sparse matrix, whose rows cannot be read one by one"
        raise MixedRowsError(op, why, USE_SPARSE_DOT)


class Walk(Protocol):
    """Interface by which rules rebuild the inputs of an operation."""

    length: Variable

    def rows(self, variable: Variable, axis: int) -> Variable:
        """Variable for a minibatch, whose observation axis is `axis`."""

    def try_rows(self, condition: Variable, axes: Sequence[int]) -> Variable | None:
        """Whether all entries of each row hold, along the first axis that allows it."""

    def whole(self, variable: Variable) -> Variable:
        """Variable that is common to all rows."""

    def is_free(self, variable: Variable) -> bool:
        """Whether a variable depends on the position."""


@singledispatch
def rebuild_output(op: Op, node: Apply, axis: int, walk: Walk) -> Variable:
    """Rebuild the output of `node` for a minibatch whose rows lie along `axis`."""
    require_dense(node.inputs, op)
    raise MixedRowsError(op, f"{operation_name(op)} is not known to keep observations separate")


@rebuild_output.register(Elemwise)
def _rebuild_elemwise(op: Elemwise, node: Apply, axis: int, walk: Walk) -> Variable:
    inputs = list(node.inputs)
    if isinstance(op.scalar_op, Second) and inputs[0].type.broadcastable[axis]:
        # Only the shape of the first operand counts, so its values may come from all rows.
        inputs[0] = pt.zeros(inputs[0].shape, dtype=inputs[0].type.dtype)
    return op.make_node(*_each_along(inputs, axis, walk)).outputs[0]


@rebuild_output.register(SplineWrapper)
def _rebuild_spline(op: SplineWrapper, node: Apply, axis: int, walk: Walk) -> Variable:
    return op(walk.rows(node.inputs[0], axis))


def _each_along(inputs: Iterable[Variable], axis: int, walk: Walk) -> list[Variable]:
    return [_along_or_whole(x, axis - x.type.ndim, walk) for x in inputs]


def _along_or_whole(x: Variable, axis_from_end: int, walk: Walk) -> Variable:
    """Input for a minibatch; common to all rows if the axis is missing or has one entry."""
    axis = x.type.ndim + axis_from_end
    common = axis < 0 or x.type.broadcastable[axis]
    return walk.whole(x) if common else walk.rows(x, axis)


@rebuild_output.register(Scan)
def _refuse_scan(op: Scan, node: Apply, axis: int, walk: Walk) -> Variable:
    why = "a scan runs along an axis, as over the coupled states of a hidden Markov chain"
    raise MixedRowsError(op, why, USE_INDEPENDENT_STATES)


@rebuild_output.register(CheckAndRaise)
def _rebuild_check(op: Op, node: Apply, axis: int, walk: Walk) -> Variable:
    guarded, *checks = node.inputs
    value = walk.rows(guarded, axis)
    for condition in (leaf for check in checks for leaf in elementwise_conditions(check)):
        if not always_holds(condition) and walk.is_free(condition):
            holds = _condition_of_rows(condition, guarded, axis, walk)
            value = pt.switch(checked(holds), value, -np.inf)
    return value


def _condition_of_rows(condition: Variable, guarded: Variable, axis: int, walk: Walk) -> Variable:
    """Condition of each row, in the shape of `guarded`: it fails in all of a row's entries."""
    aligned = axis + condition.type.ndim - guarded.type.ndim
    axes = [k for k, common in enumerate(condition.type.broadcastable) if not common]
    rows = walk.try_rows(condition, sorted(axes, key=lambda k: k != aligned))
    if rows is None:
        # The condition is on parameters of all rows, such as class probabilities.
        return pt.all(walk.whole(condition))
    shape = (0 if k == axis else "x" for k in range(guarded.type.ndim))
    return rows.dimshuffle(*shape)


@rebuild_output.register(SpecifyShape)
def _rebuild_specify_shape(op: SpecifyShape, node: Apply, axis: int, walk: Walk) -> Variable:
    static = node.outputs[0].type.shape
    lengths = [None if k == axis else length for k, length in enumerate(static)]
    return pt.specify_shape(walk.rows(node.inputs[0], axis), lengths)


@rebuild_output.register(DimShuffle)
def _rebuild_dimshuffle(op: DimShuffle, node: Apply, axis: int, walk: Walk) -> Variable:
    source = op.new_order[axis]
    if source == "x":
        raise MixedRowsError(op, "the observations cannot lie along an added axis")
    return op.make_node(walk.rows(node.inputs[0], source)).outputs[0]


@rebuild_output.register(Alloc)
def _rebuild_alloc(op: Alloc, node: Apply, axis: int, walk: Walk) -> Variable:
    value, *shape = node.inputs
    inner = _along_or_whole(value, axis - len(shape), walk)
    lengths = [walk.length if k == axis else walk.whole(n) for k, n in enumerate(shape)]
    if inner.type.ndim == len(shape) and not any(inner.type.broadcastable):
        return inner
    return pt.alloc(inner, *lengths)


@rebuild_output.register(CAReduce)
def _rebuild_reduction(op: CAReduce, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    kept = [k for k in range(x.type.ndim) if op.axis is not None and k not in op.axis]
    return op.make_node(walk.rows(x, kept[axis])).outputs[0]


@rebuild_output.register(LogSumExp)
def _rebuild_log_sum_exp(op: LogSumExp, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    kept = [k for k in range(x.type.ndim) if k not in op.axis]
    return pt.logsumexp(walk.rows(x, kept[axis]), axis=op.axis)


@rebuild_output.register(Softmax)
@rebuild_output.register(LogSoftmax)
def _rebuild_softmax(op: Softmax | LogSoftmax, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    if op.axis is None or axis in op.axis:
        raise MixedRowsError(op, f"{operation_name(op)} divides by a sum over the observations")
    softmax = pt.special.softmax if isinstance(op, Softmax) else pt.special.log_softmax
    return softmax(walk.rows(x, axis), axis=op.axis)


@rebuild_output.register(Join)
def _rebuild_join(op: Join, node: Apply, axis: int, walk: Walk) -> Variable:
    if op.axis % node.outputs[0].type.ndim == axis:
        raise MixedRowsError(op, "observations are joined from several parts")
    return pt.join(op.axis, *(walk.rows(part, axis) for part in node.inputs))


@rebuild_output.register(Dot)
def _rebuild_dot(op: Dot, node: Apply, axis: int, walk: Walk) -> Variable:
    left, right = node.inputs
    if axis == 0:
        return product_by_sum(walk.rows(left, 0), walk.whole(right))
    return product_by_sum(walk.whole(left), walk.rows(right, 1))


def product_by_sum(left: Variable, right: Variable) -> Variable:
    """Matrix product as a sum over products."""
    # A product and a sum fuse with later operations and compile in a tenth of the time of Dot.
    if right.type.shape[1] == 1:
        return (left * right[:, 0][None, :]).sum(axis=1)[:, None]
    if left.type.shape[0] == 1:
        return (left[0][:, None] * right).sum(axis=0)[None, :]
    return (left[:, :, None] * right[None, :, :]).sum(axis=1)


@rebuild_output.register(Blockwise)
def _rebuild_blockwise(op: Blockwise, node: Apply, axis: int, walk: Walk) -> Variable:
    n_batch = op.batch_ndim(node)
    if isinstance(op.core_op, Dot) and n_batch == 0:
        return _rebuild_dot(op.core_op, node, axis, walk)
    if isinstance(op.core_op, LogSumExp):
        raise MixedRowsError(
            op, "it sums over several hidden states, one inside another", ONE_STATE
        )
    x, *index = node.inputs
    if isinstance(op.core_op, AdvancedSubtensor) and all(x.type.broadcastable[:n_batch]):
        # The batch shares one indexed matrix, for example across values of a latent class.
        shared = x[(0,) * n_batch]
        return walk.rows(shared[tuple(_axis_indices(op.core_op, shared, index))], axis)
    if axis >= n_batch:
        inputs = _separate_columns(op, node, axis - n_batch, walk)
    else:
        inputs = _each_along(node.inputs, axis, walk)
    return op.make_node(*inputs).outputs[0]


def _separate_columns(op: Blockwise, node: Apply, core_axis: int, walk: Walk) -> list[Variable]:
    """Inputs of a matrix product or linear solve whose observations are rows or columns."""
    label = op.outputs_sig[0][core_axis]
    counts = [sig.count(label) for sig in (*op.inputs_sig, op.outputs_sig[0])]
    if not isinstance(op.core_op, _BY_ROW_AND_COLUMN) or (sum(counts), counts[-1]) != (2, 1):
        raise MixedRowsError(op, f"the observations lie inside {operation_name(op)}")
    return [
        walk.rows(x, x.type.ndim - len(sig) + sig.index(label)) if label in sig else walk.whole(x)
        for x, sig in zip(node.inputs, op.inputs_sig, strict=True)
    ]


def _axis_indices(
    op: Subtensor | AdvancedSubtensor | _Setting, x: Variable, index: Sequence[Variable]
) -> list:
    entries: list[Any] = []
    for entry in indices_from_subtensor(index, op.idx_list):
        # A mask stands for the indices of its true entries, an array for each of its axes.
        mask = isinstance(entry, Variable) and entry.type.dtype == "bool" and entry.type.ndim > 0
        entries += entry.nonzero() if mask else [entry]
    return entries + [slice(None)] * (x.type.ndim - len(entries))


@rebuild_output.register(Subtensor)
def _rebuild_subtensor(op: Subtensor, node: Apply, axis: int, walk: Walk) -> Variable:
    x = node.inputs[0]
    entries = _axis_indices(op, x, node.inputs[1:])
    kept = [k for k, entry in enumerate(entries) if isinstance(entry, slice)]
    return _index_whole(x, kept[axis], entries, op, walk)


@rebuild_output.register(AdvancedSubtensor)
def _rebuild_advanced_index(op: AdvancedSubtensor, node: Apply, axis: int, walk: Walk) -> Variable:
    x = node.inputs[0]
    entries = _axis_indices(op, x, node.inputs[1:])
    arrays = _adjacent_arrays(op, entries)
    width = max(entries[k].type.ndim for k in arrays)
    first = arrays[0]
    if first <= axis < first + width:
        return _select_entries(x, entries, axis - first - width, walk)
    source = axis if axis < first else axis - width + len(arrays)
    return _index_whole(x, source, entries, op, walk)


@rebuild_output.register(Nonzero)
def _rebuild_true_entries(op: Nonzero, node: Apply, axis: int, walk: Walk) -> Variable:
    raise MixedRowsError(op, "parameters choose the observations by a boolean mask")


def _adjacent_arrays(op: Op, entries: Sequence[Any]) -> list[int]:
    """Places of the arrays in an index; MixedRowsError if a slice lies between them."""
    arrays = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    if arrays != list(range(arrays[0], arrays[0] + len(arrays))):
        raise MixedRowsError(op, "index arrays with a slice between them are not supported")
    return arrays


def _select_entries(x: Variable, entries: list, axis_from_end: int, walk: Walk) -> Variable:
    """Entries of `x` for a minibatch, selected by index arrays that broadcast together."""
    arrays = [k for k, entry in enumerate(entries) if isinstance(entry, Variable)]
    numbers = next((k for k in arrays if _are_row_numbers(entries[k], axis_from_end)), None)
    chosen = [
        _along_or_whole(entry, axis_from_end, walk) if k in arrays else whole_entry(entry, walk)
        for k, entry in enumerate(entries)
        if k != numbers
    ]
    if numbers is None:
        return walk.whole(x)[tuple(chosen)]
    shape = [1] * entries[numbers].type.ndim
    if x.type.broadcastable[numbers]:
        # All observations share the only row, so their row numbers become 0.
        chosen.insert(numbers, pt.zeros(shape, dtype="int64"))
        return walk.whole(x)[tuple(chosen)]
    shape[axis_from_end] = -1
    chosen.insert(numbers, pt.arange(walk.length).reshape(shape))
    return walk.rows(x, numbers)[tuple(chosen)]


def _are_row_numbers(index: Variable, axis_from_end: int) -> bool:
    # Row i of x[arange(N), j] depends on row i of x only.
    axis = index.type.ndim + axis_from_end
    others_broadcast = all(b for k, b in enumerate(index.type.broadcastable) if k != axis)
    if axis < 0 or index.type.broadcastable[axis] or not others_broadcast:
        return False
    if isinstance(index, Constant):
        return np.array_equal(np.ravel(index.data), np.arange(index.data.size))
    while isinstance(index.owner_op, Reshape | DimShuffle):
        index = index.owner.inputs[0]
    if index.owner is None or not isinstance(index.owner.op, ARange):
        return False
    start, _, step = index.owner.inputs
    return [v.data if isinstance(v, Constant) else None for v in (start, step)] == [0, 1]


def whole_entry(entry: Any, walk: Walk) -> Any:
    """Index entry (number or slice), with its variables declared common to all rows."""
    if isinstance(entry, slice):
        return slice(*(whole_entry(x, walk) for x in (entry.start, entry.stop, entry.step)))
    return walk.whole(entry) if isinstance(entry, Variable) else entry


def _index_whole(x: Variable, source: int, entries: list, op: Op, walk: Walk) -> Variable:
    """Index an array; MixedRowsError unless all observations (axis `source`) are kept in order."""
    inner = walk.rows(x, source)
    if not is_full(entries[source]):
        raise MixedRowsError(op, "a slice takes a part of the observations or reorders them")
    return inner[tuple(whole_entry(entry, walk) for entry in entries)]


def is_full(entry: object) -> bool:
    """Whether an entry of an index selects everything, in order."""
    return entry == slice(None)


@rebuild_output.register(OpFromGraph)
def _rebuild_inner_graph(op: OpFromGraph, node: Apply, axis: int, walk: Walk) -> Variable:
    return walk.rows(inline_ofg_node(node)[0], axis)


@rebuild_output.register(LogAddExp)
def _rebuild_log_add_exp(op: LogAddExp, node: Apply, axis: int, walk: Walk) -> Variable:
    ndim = node.outputs[0].type.ndim
    inputs = [pt.expand_dims(x, tuple(range(ndim - x.type.ndim))) for x in node.inputs]
    parts = _each_along(inputs, axis, walk)
    if len({part.type.broadcastable for part in parts}) > 1:
        parts = pt.broadcast_arrays(*parts)
    return pt.logsumexp(pt.stack(parts, axis=-1), axis=-1)


@rebuild_output.register(ExtractDiag)
def _rebuild_diagonal(op: ExtractDiag, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    kept = [k for k in range(x.type.ndim) if k not in (op.axis1, op.axis2)]
    if axis >= len(kept):
        raise MixedRowsError(op, "a diagonal takes one entry of each observation")
    return op.make_node(walk.rows(x, kept[axis])).outputs[0]


@rebuild_output.register(AllocDiag)
def _rebuild_from_diagonal(op: AllocDiag, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    others = [k for k in range(x.type.ndim + 1) if k not in (op.axis1, op.axis2)]
    if axis not in others:
        raise MixedRowsError(op, "observations are put on a diagonal")
    diagonal = AllocDiag(axis1=op.axis1, axis2=op.axis2, offset=op.offset)
    return diagonal(walk.rows(x, others.index(axis)))


@rebuild_output.register(CumOp)
def _rebuild_cumulative(op: CumOp, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    if op.axis == axis:
        raise MixedRowsError(op, f"{operation_name(op)} runs over the observations")
    return op.make_node(walk.rows(x, axis)).outputs[0]


@rebuild_output.register(SearchsortedOp)
def _rebuild_search_sorted(op: SearchsortedOp, node: Apply, axis: int, walk: Walk) -> Variable:
    edges, x, *sorter = node.inputs
    return op.make_node(walk.whole(edges), walk.rows(x, axis), *map(walk.whole, sorter)).outputs[0]


@rebuild_output.register(IncSubtensor)
@rebuild_output.register(AdvancedIncSubtensor)
def _rebuild_set_subtensor(op: _Setting, node: Apply, axis: int, walk: Walk) -> Variable:
    x, y, *numbers = node.inputs
    entries = _axis_indices(op, x, numbers)
    if not is_full(entries[axis]):
        raise MixedRowsError(op, "some of the observations are overwritten")
    arrays = _adjacent_arrays(op, entries) if isinstance(op, AdvancedIncSubtensor) else []
    width = max((entries[k].type.ndim for k in arrays), default=0)
    kept = [k for k, entry in enumerate(entries) if isinstance(entry, slice)]
    behind = width if arrays and arrays[0] < axis else 0
    new = _along_or_whole(y, kept.index(axis) + behind - len(kept) - width, walk)
    place = walk.rows(x, axis)[tuple(whole_entry(entry, walk) for entry in entries)]
    return pt.set_subtensor(place, new) if op.set_instead_of_inc else pt.inc_subtensor(place, new)


def rebuild_part(variable: Variable, axis: int, walk: Walk) -> Variable:
    """Rebuild one part of a split array for a minibatch whose rows lie along `axis`."""
    node = variable.owner
    op = node.op
    if not isinstance(op, Split):
        raise MixedRowsError(op, f"{operation_name(op)} has several outputs")
    x, lengths = node.inputs
    if op.axis == axis:
        raise MixedRowsError(op, "the observations are cut into parts")
    parts = op.make_node(walk.rows(x, axis), walk.whole(lengths)).outputs
    return parts[node.outputs.index(variable)]
