"""Taking apart what writes into a tensor, as ``x[:, 1].set(y)``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor, indices_from_subtensor

from pymc_minibatch_mh.model.row.cells import Cell, Cells, Constant, LoweringError
from pymc_minibatch_mh.model.row.choice import known_slice
from pymc_minibatch_mh.model.row.lower import Tensor, lowered
from pymc_minibatch_mh.model.row.simplify import apply


@lowered.register(IncSubtensor)
@lowered.register(AdvancedIncSubtensor)
def _written(
    op: IncSubtensor | AdvancedIncSubtensor, node: Node, inputs: Sequence[Tensor], cells: Cells
) -> Tensor:
    x, values, *given = inputs
    if getattr(op, "ignore_duplicates", False):
        raise LoweringError(op, "forgets values that are written to the same place")
    entries = [_known(entry, op) for entry in indices_from_subtensor(given, op.idx_list)]
    places = np.asarray(np.arange(x.cells.size).reshape(x.cells.shape)[tuple(entries)])
    _check_rows(op, x, values, entries, places.ndim)
    target = np.dtype(node.outputs[0].type.dtype)
    cast = scalar.Cast(scalar.get_scalar_type(target.name))
    changed = x.cells.copy()
    spread = np.broadcast_to(values.cells, places.shape)
    for place, value in zip(places.flat, spread.flat, strict=True):
        new = value if value.dtype == target else apply(cells, cast, value)
        old = changed.flat[place]
        changed.flat[place] = new if op.set_instead_of_inc else apply(cells, scalar.add, old, new)
    return Tensor(changed, x.axis)


def _known(entry: Any, op: Op) -> Any:
    """Return an index as numbers."""
    if isinstance(entry, slice):
        return known_slice(entry, op)
    found = entry.cells if isinstance(entry, Tensor) else np.asarray(entry, dtype=object)
    numbers = [cell.value if isinstance(cell, Constant) else cell for cell in found.flat]
    if any(isinstance(x, Cell) or np.asarray(x).dtype.kind not in "iu" for x in numbers):
        raise LoweringError(op, "has an index that is not known beforehand")
    return np.array(numbers, dtype=np.int64).reshape(found.shape)[()]


def _check_rows(op: Op, x: Tensor, values: Tensor, entries: Sequence[Any], width: int) -> None:
    """Make sure that each row is written into as a whole, by its own values."""
    if x.axis is None:
        if values.axis is not None:
            raise LoweringError(op, "puts rows where none are")
        return
    whole = x.axis >= len(entries) or entries[x.axis] == slice(None)
    if not whole or any(isinstance(entry, np.ndarray) for entry in entries):
        raise LoweringError(op, "writes over some of the rows")
    numbers = sum(not isinstance(entry, slice) for entry in entries[: x.axis])
    own = x.axis - numbers - width + values.cells.ndim
    if values.axis not in (None, own) or (own >= 0 and values.cells.shape[own] != 1):
        raise LoweringError(op, "pairs each row with other rows")
