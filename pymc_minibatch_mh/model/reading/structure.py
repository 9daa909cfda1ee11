"""The proof that rows are apart, for operations on whole axes and for those made of others."""

import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import AllocDiag, ExtractDiag, Split
from pytensor.tensor.extra_ops import CumOp, SearchsortedOp
from pytensor.tensor.special import LogAddExp
from pytensor.tensor.subtensor import IncSubtensor, indices_from_subtensor

from pymc_minibatch_mh.model.reading.axis import (
    MixedRowsError,
    Walk,
    batch_of,
    called,
    is_full,
    whole_entry,
)


@batch_of.register(OpFromGraph)
def _made_of_others(op: OpFromGraph, node: Apply, axis: int, walk: Walk) -> Variable:
    return walk.rows(inline_ofg_node(node)[0], axis)


@batch_of.register(LogAddExp)
def _log_add_exp(op: LogAddExp, node: Apply, axis: int, walk: Walk) -> Variable:
    ndim = node.outputs[0].type.ndim
    inputs = [pt.expand_dims(x, tuple(range(ndim - x.type.ndim))) for x in node.inputs]
    parts = [walk.whole(x) if x.type.broadcastable[axis] else walk.rows(x, axis) for x in inputs]
    if len({part.type.broadcastable for part in parts}) > 1:
        parts = pt.broadcast_arrays(*parts)
    return pt.logsumexp(pt.stack(parts, axis=-1), axis=-1)


@batch_of.register(ExtractDiag)
def _diagonal(op: ExtractDiag, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    kept = [k for k in range(x.type.ndim) if k not in (op.axis1, op.axis2)]
    if axis >= len(kept):
        raise MixedRowsError(op, "a diagonal takes one entry of each observation")
    return op.make_node(walk.rows(x, kept[axis])).outputs[0]


@batch_of.register(AllocDiag)
def _as_diagonal(op: AllocDiag, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    others = [k for k in range(x.type.ndim + 1) if k not in (op.axis1, op.axis2)]
    if axis not in others:
        raise MixedRowsError(op, "observations are put on a diagonal")
    return AllocDiag(axis1=op.axis1, axis2=op.axis2, offset=op.offset)(
        walk.rows(x, others.index(axis))
    )


@batch_of.register(CumOp)
def _running_total(op: CumOp, node: Apply, axis: int, walk: Walk) -> Variable:
    (x,) = node.inputs
    if op.axis is None or op.axis % x.type.ndim == axis:
        raise MixedRowsError(op, f"{called(op)} runs over the observations")
    return op.make_node(walk.rows(x, axis)).outputs[0]


@batch_of.register(SearchsortedOp)
def _place_among(op: SearchsortedOp, node: Apply, axis: int, walk: Walk) -> Variable:
    edges, x, *sorter = node.inputs
    return op.make_node(walk.whole(edges), walk.rows(x, axis), *map(walk.whole, sorter)).outputs[0]


@batch_of.register(IncSubtensor)
def _set_subtensor(op: IncSubtensor, node: Apply, axis: int, walk: Walk) -> Variable:
    x, y, *numbers = node.inputs
    entries = list(indices_from_subtensor(numbers, op.idx_list))
    entries += [slice(None)] * (x.type.ndim - len(entries))
    if not isinstance(entries[axis], slice) or not is_full(entries[axis]):
        raise MixedRowsError(op, "some of the observations are overwritten")
    kept = [k for k, entry in enumerate(entries) if isinstance(entry, slice)]
    own_axis = kept.index(axis) - (len(kept) - y.type.ndim)
    if own_axis < 0 or y.type.broadcastable[own_axis]:
        new = walk.whole(y)
    else:
        new = walk.rows(y, own_axis)
    place = walk.rows(x, axis)[tuple(whole_entry(entry, walk) for entry in entries)]
    return pt.set_subtensor(place, new) if op.set_instead_of_inc else pt.inc_subtensor(place, new)


def part_of(variable: Variable, axis: int, walk: Walk) -> Variable:
    """Rebuild one of several parts of an array for a batch of rows lying along `axis`.

    Raises
    ------
    MixedRowsError
        If its operation has other outputs than parts, or the observations are cut into parts.
    """
    node = variable.owner
    op = node.op
    if not isinstance(op, Split):
        raise MixedRowsError(op, f"{called(op)} has several outputs")
    x, lengths = node.inputs
    if op.axis == axis:
        raise MixedRowsError(op, "the observations are cut into parts")
    parts = op.make_node(walk.rows(x, axis), walk.whole(lengths)).outputs
    return parts[node.outputs.index(variable)]
