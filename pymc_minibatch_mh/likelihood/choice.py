"""Taking indexing apart: what data choose among cells, as in ``a[group]``."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.special import LogSoftmax, LogSumExp, Softmax
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_minibatch_mh.likelihood.arithmetic import add, affine_factor, exp, multiply, subtract
from pymc_minibatch_mh.likelihood.cells import (
    INTEGER,
    Affine,
    Apply,
    Cell,
    Cells,
    Constant,
    Gather,
    RowNumber,
    Term,
    require,
)
from pymc_minibatch_mh.likelihood.lower import OTHER_ROWS, Tensor, Tensors, filled, lowered, single
from pymc_minibatch_mh.likelihood.patterns import (
    coefficients_of,
    factors_of,
    reachable,
    remembered,
    without,
)
from pymc_minibatch_mh.likelihood.simplify import apply, log_of_sum


@lowered.register(CAReduce)
def _reduce(op: CAReduce, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    arithmetic = isinstance(op.scalar_op, scalar.Add | scalar.Mul)
    # A sum of booleans counts; one by one, PyTensor would take them for a disjunction.
    result = node.outputs[0].type.dtype
    wide = _cast_to(getattr(op, "acc_dtype", None) or result)

    def combine(parts: Sequence[Cell]) -> Cell:
        require(bool(parts), op, "reduces an axis without entries")
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
    out = filled(moved.shape[: len(kept)], lambda place: combine(list(np.ravel(moved[place]))))
    return Tensor(out, None if x.axis is None else kept.index(x.axis))


def _axes(op: Op, x: Tensor, axes: Sequence[int] | None) -> list[int]:
    ndim = x.cells.ndim
    over = list(range(ndim)) if axes is None else [axis % ndim for axis in axes]
    require(x.axis not in over, op, "combines rows")
    return over


@lowered.register(CumOp)
def _cumulate(op: CumOp, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    (x,) = inputs
    axis = 0 if op.axis is None else op.axis % x.cells.ndim
    one_axis = op.axis is not None or x.cells.ndim <= 1
    require(one_axis and x.axis != axis, op, "combines rows, or all axes")
    real, whole = (add, scalar.add) if op.mode == "add" else (multiply, scalar.mul)

    def combine(left: Cell, right: Cell) -> Cell:
        # Whole numbers stay so, for they may be indices.
        whole_numbers = left.is_data and right.is_data and left.dtype == right.dtype == INTEGER
        return cells.node(whole, (left, right)) if whole_numbers else real(cells, left, right)

    moved = np.moveaxis(x.cells, axis, 0).copy()
    for k, *place in np.ndindex(*moved.shape):
        if k > 0:
            moved[(k, *place)] = combine(moved[(k - 1, *place)], moved[(k, *place)])
    return Tensor(np.moveaxis(moved, 0, axis), x.axis)


@lowered.register(LogSumExp)
def _log_sum_exp(op: LogSumExp, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    return _over(op, inputs[0], op.axis, lambda parts: log_of_sum(cells, parts))


@lowered.register(Softmax)
@lowered.register(LogSoftmax)
def _softmax(op: Softmax | LogSoftmax, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    (x,) = inputs
    axes = _axes(op, x, op.axis)

    def cell_at(place: tuple[int, ...]) -> Cell:
        group = tuple(slice(None) if k in axes else i for k, i in enumerate(place))
        total = log_of_sum(cells, list(np.ravel(x.cells[group])))
        log_share = subtract(cells, x.cells.item(*place), total)
        return exp(cells, log_share) if isinstance(op, Softmax) else log_share

    return Tensor(filled(x.cells.shape, cell_at), x.axis)


#: Linear forms beyond which finding out how many are independent takes too long.
MANY_FORMS = 200


def of_shared(op: Any, width: int, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    """Index what all of a batch of `width` axes share, as each value of a latent class does."""
    x, *index = inputs
    shared = x.axis is None and all(n == 1 for n in x.cells.shape[:width])
    require(shared, op, "chooses from an array of its own for each of a batch")
    one = Tensor(x.cells.reshape(x.cells.shape[width:]), None)
    return _indexed(op, node, [one, *index], cells)


@lowered.register(Subtensor)
@lowered.register(AdvancedSubtensor)
def _indexed(op: Any, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    x, *given = inputs
    entries = list(indices_from_subtensor(given, op.idx_list))
    entries += [slice(None)] * (x.cells.ndim - len(entries))
    arrays = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    slices = [k for k in range(x.cells.ndim) if k not in arrays]
    first = arrays[0] if arrays else x.cells.ndim
    indices = [
        i if isinstance(i, Tensor) else Tensor(single(cells.constant(i)), None)
        for i in (entries[k] for k in arrays)
    ]
    _check_indices(op, x, arrays, indices)
    whole = x.axis not in slices or entries[x.axis] == slice(None)
    require(whole, op, "takes a part of the rows")
    # What indexes lies where the first index array was, as NumPy has it for adjacent ones.
    before = [k for k in slices if k < first]
    after = [k for k in slices if k > first]
    sliced = x.cells.transpose([*before, *arrays, *after])
    cuts = {k: known_slice(entries[k], op) for k in slices}
    sliced = sliced[tuple(cuts.get(k, slice(None)) for k in (*before, *arrays, *after))]
    picked, width, axis = _picked(sliced, len(before), indices, cells, op)
    if x.axis in arrays or x.axis is None:
        return Tensor(picked, None if axis is None else len(before) + axis)
    place = before.index(x.axis) if x.axis in before else len(before) + width + after.index(x.axis)
    return Tensor(picked, place)


def _check_indices(op: Any, x: Tensor, arrays: Sequence[int], indices: Sequence[Tensor]) -> None:
    adjacent = list(arrays) == list(range(arrays[0], arrays[0] + len(arrays))) if arrays else True
    simple = adjacent or not isinstance(op, AdvancedSubtensor)
    require(simple, op, "has a slice between index arrays")
    for axis, index in zip(arrays, indices, strict=True):
        integers = all(cell.dtype.kind in "iu" for cell in index.cells.flat)
        require(integers, op, "has an index that is no integer")
        # Row i of the data goes with row i, and with no other.
        own_row = all(isinstance(cell, RowNumber) for cell in index.cells.flat)
        alone = index.axis is None or x.axis in (None, *arrays)
        require(alone and own_row == (axis == x.axis), op, OTHER_ROWS)


def known_slice(entry: slice, op: Op) -> slice:
    """Return a slice as numbers, which depend on neither position nor data."""
    parts = []
    for part in (entry.start, entry.stop, entry.step):
        cell = part.cells.item() if isinstance(part, Tensor) else part
        known = isinstance(cell, Constant) or not isinstance(cell, Cell)
        require(known, op, "has a slice that is not known beforehand")
        parts.append(int(cell.value) if isinstance(cell, Constant) else cell)
    return slice(*parts)


def _picked(
    x: np.ndarray, n_before: int, indices: Sequence[Tensor], cells: Cells, op: Op
) -> tuple[np.ndarray, int, int | None]:
    """Index the axes of `x` from `n_before` on; return also how many axes the indices have."""
    if not indices:
        return x, 0, None
    broadcast = np.broadcast_arrays(*(t.cells for t in indices), subok=False)
    width = broadcast[0].ndim
    axes = {t.axis + width - t.cells.ndim for t in indices if t.axis is not None}
    require(len(axes) <= 1 and all(broadcast[0].shape[k] == 1 for k in axes), op, OTHER_ROWS)
    outer, inner = x.shape[:n_before], x.shape[n_before + len(indices) :]

    def cell_at(place: tuple[int, ...]) -> Cell:
        whole = [slice(None)] * len(indices)
        here: tuple = (*place[:n_before], *whole, *place[n_before + width :])
        index = [array.item(*place[n_before : n_before + width]) for array in broadcast]
        return _element(x[here], index, cells, op)

    out = filled((*outer, *broadcast[0].shape, *inner), cell_at)
    return out, width, next(iter(axes), None)


def _element(part: Any, index: Sequence[Cell], cells: Cells, op: Op) -> Cell:
    if not index:
        return part if isinstance(part, Cell) else part.item()
    here, *rest = index
    if isinstance(here, RowNumber):
        return _element(part[0], rest, cells, op)
    if isinstance(here, Constant):
        return _element(part[int(here.value)], rest, cells, op)
    require(here.is_data, op, "has an index that depends on the parameters")
    return pick(cells, [_element(sub, rest, cells, op) for sub in part], here)


def pick(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell:
    """Return the one of several cells that data choose; negative indices count from the end.

    Choosing goes inside operations that are the same for several of them, until it meets
    coordinates of the position that lie evenly spaced, or constants. So a row depends on no more
    than the entry that is chosen for it.
    """
    return _picked_cell(cells, index, *choices)


@remembered
def _picked_cell(cells: Cells, index: Cell, *choices: Cell) -> Cell:
    first = choices[0]
    if all(choice is first for choice in choices):
        return first
    constants = [choice.value for choice in choices if isinstance(choice, Constant)]
    if len(constants) == len(choices):
        return cells.lookup(np.array(constants), index)
    if all(choice.is_data for choice in choices):
        return _switched(cells, choices, index)
    if all(isinstance(choice, Affine) or choice.is_data for choice in choices):
        return _pick_affine(cells, choices, index)
    affines, rests = zip(*(affine_factor(cells, choice) for choice in choices), strict=True)
    if None not in affines and all(rest == rests[0] for rest in rests):
        return multiply(cells, pick(cells, affines, index), *rests[0])
    shared = [x for x in factors_of(first) if all(x in factors_of(choice) for choice in choices)]
    if shared and shared != [first]:
        # One by one, as a product can have a factor twice.
        own = [reduce(without, shared, list(factors_of(choice))) for choice in choices]
        chosen = pick(cells, [multiply(cells, *rest) for rest in own], index)
        return multiply(cells, *shared, chosen)
    alike: dict[tuple, list[int]] = {}
    for k, choice in enumerate(choices):
        alike.setdefault(_kind(choice), []).append(k)
    if len(alike) > 1:
        # Coordinates that are chosen are no help to a row that depends on all of them besides.
        by_kind = _pick_by_kind(cells, choices, index, list(alike.values()))
        return min(_switched(cells, choices, index), by_kind, key=_n_linear)
    operands = zip(*map(_in_order, choices), strict=True)
    picked = [pick(cells, operand, index) for operand in operands]
    return apply(cells, first.op, *picked)  # type: ignore[attr-defined]


def _kind(cell: Cell) -> tuple:
    """Return what cells share that are chosen from together."""
    if isinstance(cell, Apply) and not cell.is_data:
        return (str(cell.op), cell.op, len(cell.inputs))
    return ("",)


def _n_linear(cell: Cell) -> int:
    """Return of how many linear forms a cell is a function; of very many only roughly."""
    forms = list(dict.fromkeys(x.terms for x in reachable(cell) if isinstance(x, Affine)))
    few = forms and len(forms) <= MANY_FORMS
    return int(np.linalg.matrix_rank(coefficients_of(forms))) if few else len(forms)


def _in_order(cell: Cell) -> Sequence[Cell]:
    """Return the operands of an operation, those of a sum or product in an order of their kinds."""
    if isinstance(cell, Apply) and isinstance(cell.op, scalar.Add | scalar.Mul):
        return sorted(cell.inputs, key=lambda x: (not x.is_data, _kind(x)[0], len(x.inputs)))
    return cell.inputs


def _pick_by_kind(
    cells: Cells, choices: Sequence[Cell], index: Cell, kinds: Sequence[Sequence[int]]
) -> Cell:
    """Choose among cells of each kind, and then among the kinds."""
    ones, conditions = [], []
    for members in map(list, kinds):
        within, here = np.zeros(len(choices), dtype=np.int64), np.zeros(len(choices), dtype=bool)
        within[members], here[members] = np.arange(len(members)), True
        ones.append(pick(cells, [choices[k] for k in members], cells.lookup(within, index)))
        conditions.append(cells.lookup(here, index))
    chosen = ones[0]
    for condition, one in zip(conditions[1:], ones[1:], strict=True):
        chosen = apply(cells, scalar.switch, condition, one, chosen)
    return chosen


def _pick_affine(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell:
    affines = [choice for choice in choices if isinstance(choice, Affine)]
    linear = [cells.linear(affine) for affine in affines]
    offsets = [choice.offset if isinstance(choice, Affine) else choice for choice in choices]
    offset = pick(cells, [cells.real(x) for x in offsets], index)
    gathered = _gathered(cells, affines, index) if len(affines) == len(choices) else None
    if gathered is None:
        numbers = [k for k, choice in enumerate(choices) if isinstance(choice, Affine)]
        chosen = [_is_chosen(cells, index, k, len(choices)) for k in numbers]
        gathered = add(cells, *map(lambda i, x: multiply(cells, i, x), chosen, linear))
    return add(cells, gathered, offset)


def _gathered(cells: Cells, choices: Sequence[Affine], index: Cell) -> Cell | None:
    """Return what all choices share, and numbers times evenly spaced coordinates of each."""
    shared = [t for t in choices[0].terms if all(t in choice.terms for choice in choices)]
    own = [[t for t in choice.terms if t not in shared] for choice in choices]
    if len(set(map(len, own))) > 1:
        return None
    columns = [_gathered_terms(cells, terms, index) for terms in zip(*own, strict=True)]
    common = [cells.affine(shared, cells.zero)] if shared else []
    found = [column for column in columns if column is not None]
    return add(cells, *common, *found) if len(found) == len(columns) else None


def _gathered_terms(cells: Cells, terms: Sequence[Term], index: Cell) -> Cell | None:
    places = [term.place for term in terms if isinstance(term.place, int) and not term.monomial]
    if len(places) < len(terms):
        return None
    step = places[1] - places[0]
    if places != [places[0] + k * step for k in range(len(places))] or step == 0:
        return None
    coordinate = cells.coordinate(Gather(places[0], step, len(places), index))
    factors = [cells.constant(term.factor) for term in terms]
    return multiply(cells, pick(cells, factors, index), coordinate)


def _switched(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell:
    chosen = choices[-1]
    for k in range(len(choices) - 2, -1, -1):
        condition = _is_chosen(cells, index, k, len(choices))
        chosen = apply(cells, scalar.switch, condition, choices[k], chosen)
    return chosen


def _is_chosen(cells: Cells, index: Cell, k: int, count: int) -> Cell:
    from_start, from_end = (
        cells.node(scalar.eq, (index, cells.constant(np.int64(number))))
        for number in (k, k - count)
    )
    return cells.node(scalar.or_, (from_start, from_end))


@lowered.register(IncSubtensor)
@lowered.register(AdvancedIncSubtensor)
def _written(op: Any, node: Node, inputs: Tensors, cells: Cells) -> Tensor:
    x, values, *given = inputs
    once = not getattr(op, "ignore_duplicates", False)
    require(once, op, "forgets values that are written to the same place")
    entries = [_known(entry, op) for entry in indices_from_subtensor(given, op.idx_list)]
    places = np.asarray(np.arange(x.cells.size).reshape(x.cells.shape)[tuple(entries)])
    _check_rows(op, x, values, entries, places.ndim)
    target = np.dtype(node.outputs[0].type.dtype)
    cast = _cast_to(target.name)
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
    known = all(not isinstance(x, Cell) and np.asarray(x).dtype.kind in "iu" for x in numbers)
    require(known, op, "has an index that is not known beforehand")
    return np.array(numbers, dtype=np.int64).reshape(found.shape)[()]


def _check_rows(op: Op, x: Tensor, values: Tensor, entries: Sequence[Any], width: int) -> None:
    """Make sure that each row is written into as a whole, by its own values."""
    if x.axis is None:
        require(values.axis is None, op, "puts rows where none are")
        return
    whole = x.axis >= len(entries) or entries[x.axis] == slice(None)
    simple = not any(isinstance(entry, np.ndarray) for entry in entries)
    require(whole and simple, op, "writes over some of the rows")
    numbers = sum(not isinstance(entry, slice) for entry in entries[: x.axis])
    own = x.axis - numbers - width + values.cells.ndim
    along = values.axis in (None, own) and (own < 0 or values.cells.shape[own] == 1)
    require(along, op, OTHER_ROWS)
