"""Taking indexing apart: what data choose among cells, as in ``a[group]``."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor

from pymc_minibatch_mh.likelihood.cells import (
    Affine,
    Apply,
    Cell,
    Cells,
    Constant,
    Gather,
    RowNumber,
)
from pymc_minibatch_mh.likelihood.lower import LoweringError, Tensor, lowered, single
from pymc_minibatch_mh.likelihood.simplify import add, apply, multiply


@lowered.register(Subtensor)
def _subtensor(op: Subtensor, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return _indexed(op, node, inputs, cells)


@lowered.register(AdvancedSubtensor)
def _advanced(op: AdvancedSubtensor, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return _indexed(op, node, inputs, cells)


def _indexed(op: Any, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    x, *given = inputs
    entries = list(indices_from_subtensor(given, op.idx_list))
    entries += [slice(None)] * (x.cells.ndim - len(entries))
    arrays = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    slices = [k for k in range(x.cells.ndim) if k not in arrays]
    first = arrays[0] if arrays else x.cells.ndim
    # What indexes lies where the first index array was, as NumPy has it for adjacent ones.
    before = [k for k in slices if k < first]
    after = [k for k in slices if k > first]
    sliced = x.cells.transpose([*before, *arrays, *after])
    cuts = [_slice(entries[k], op) for k in before], [_slice(entries[k], op) for k in after]
    sliced = sliced[(*cuts[0], *[slice(None)] * len(arrays), *cuts[1])]
    picked, width, axis = _picked(sliced, len(before), [entries[k] for k in arrays], cells, op)
    if x.axis in arrays or x.axis is None:
        return Tensor(picked, None if axis is None else len(before) + axis)
    place = before.index(x.axis) if x.axis in before else len(before) + width + after.index(x.axis)
    return Tensor(picked, place)


def _slice(entry: slice, op: Op) -> slice:
    parts = []
    for part in (entry.start, entry.stop, entry.step):
        cell = part.cells[()] if isinstance(part, Tensor) else part
        if isinstance(cell, Cell) and not isinstance(cell, Constant):
            raise LoweringError(op)
        parts.append(int(cell.value) if isinstance(cell, Constant) else cell)
    return slice(*parts)


def _picked(
    x: np.ndarray, n_before: int, indices: Sequence[Any], cells: Cells, op: Op
) -> tuple[np.ndarray, int, int | None]:
    """Index the axes of `x` from `n_before` on; return also how many axes the indices have."""
    if not indices:
        return x, 0, None
    tensors = [
        i if isinstance(i, Tensor) else Tensor(single(cells.constant(i)), None) for i in indices
    ]
    broadcast = np.broadcast_arrays(*(t.cells for t in tensors), subok=False)
    width = broadcast[0].ndim
    axis = next((t.axis + width - t.cells.ndim for t in tensors if t.axis is not None), None)
    outer, inner = x.shape[:n_before], x.shape[n_before + len(indices) :]
    out = np.empty((*outer, *broadcast[0].shape, *inner), dtype=object)
    for place in product(np.ndindex(*outer), np.ndindex(*broadcast[0].shape), np.ndindex(*inner)):
        part = x[(*place[0], *[slice(None)] * len(indices), *place[2])]
        out[place[0] + place[1] + place[2]] = _element(
            part, [index[place[1]] for index in broadcast], cells, op
        )
    return out, width, axis


def _element(part: Any, index: Sequence[Cell], cells: Cells, op: Op) -> Cell:
    if not index:
        return part
    here, *rest = index
    if isinstance(here, RowNumber):
        return _element(part[0], rest, cells, op)
    if isinstance(here, Constant):
        return _element(part[int(here.value)], rest, cells, op)
    if not here.is_data:
        raise LoweringError(op)
    return pick(cells, [_element(sub, rest, cells, op) for sub in part], here, op)


def pick(cells: Cells, choices: Sequence[Cell], index: Cell, op: Op) -> Cell:
    """Return the one of several cells that data choose.

    Choosing goes inside operations that are the same for all of them, until it meets coordinates
    of the position that lie side by side, or constants.
    """
    first = choices[0]
    if all(choice is first for choice in choices):
        return first
    if all(isinstance(choice, Constant) for choice in choices):
        return cells.lookup(np.array([choice.value for choice in choices]), index)
    if all(isinstance(choice, Affine) for choice in choices):
        return _pick_affine(cells, choices, index, op)
    alike = all(
        isinstance(c, Apply)
        and isinstance(first, Apply)
        and c.op == first.op
        and len(c.inputs) == len(first.inputs)
        for c in choices
    )
    if not alike:
        return _pick_one_by_one(cells, choices, index)
    operands = zip(*(choice.inputs for choice in choices), strict=True)
    return apply(cells, first.op, *(pick(cells, o, index, op) for o in operands))


def _pick_affine(cells: Cells, choices: Sequence[Any], index: Cell, op: Op) -> Cell:
    places = [[t.place for t in c.terms] for c in choices]
    plain = all(
        len(c.terms) == 1 and not c.terms[0].monomial and isinstance(c.terms[0].place, int)
        for c in choices
    )
    first = choices[0].terms[0].place
    if not plain or [p for (p,) in places] != list(range(first, first + len(choices))):
        return _pick_one_by_one(cells, choices, index)
    gathered = cells.coordinate(Gather(first, len(choices), index))
    factors = [cells.constant(c.terms[0].factor) for c in choices]
    offset = pick(cells, [c.offset for c in choices], index, op)
    return add(cells, multiply(cells, pick(cells, factors, index, op), gathered), offset)


def _pick_one_by_one(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell:
    indicators = [
        cells.node(scalar.eq, (index, cells.constant(np.int64(k)))) for k in range(len(choices))
    ]
    if all(isinstance(choice, Affine) or choice.is_data for choice in choices):
        return add(cells, *map(lambda i, c: multiply(cells, i, c), indicators, choices))
    chosen = choices[-1]
    for indicator, choice in zip(indicators[-2::-1], choices[-2::-1], strict=True):
        chosen = apply(cells, scalar.switch, indicator, choice, chosen)
    return chosen
