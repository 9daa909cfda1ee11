"""Taking indexing apart: what data choose among cells, as in ``a[group]``."""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply as Node
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.tensor.subtensor import (
    AdvancedSubtensor,
    Subtensor,
    indices_from_subtensor,
)

from pymc_minibatch_mh.model.row.arithmetic import add, affine_factor, multiply
from pymc_minibatch_mh.model.row.cells import (
    Affine,
    Apply,
    Cell,
    Cells,
    Constant,
    Gather,
    LoweringError,
    Place,
    RowNumber,
    Term,
)
from pymc_minibatch_mh.model.row.lower import Tensor, lowered, single
from pymc_minibatch_mh.model.row.patterns import factors_of, reachable, without
from pymc_minibatch_mh.model.row.shares import over_one_sum
from pymc_minibatch_mh.model.row.simplify import apply

#: Linear forms beyond which finding out how many are independent takes too long.
MANY_FORMS = 200


@lowered.register(Subtensor)
def _subtensor(op: Subtensor, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return _indexed(op, node, inputs, cells)


@lowered.register(AdvancedSubtensor)
def _advanced(op: AdvancedSubtensor, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    return _indexed(op, node, inputs, cells)


def of_shared(
    op: AdvancedSubtensor, width: int, node: Node, inputs: Sequence[Tensor], cells: Cells
) -> Tensor:
    """Index what all of a batch share, as each value of a latent class does.

    Parameters
    ----------
    op
        The operation.
    width
        Number of axes of the batch.
    node, inputs, cells
        As in :func:`lowered`.

    Raises
    ------
    LoweringError
        If there is an array of its own for each of the batch.
    """
    x, *index = inputs
    if x.axis is not None or any(n != 1 for n in x.cells.shape[:width]):
        raise LoweringError(op, "chooses from an array of its own for each of a batch")
    shared = Tensor(x.cells.reshape(x.cells.shape[width:]), None)
    return _indexed(op, node, [shared, *index], cells)


def _indexed(op: Any, node: Node, inputs: Sequence[Tensor], cells: Cells) -> Tensor:
    x, *given = inputs
    entries = list(indices_from_subtensor(given, op.idx_list))
    entries += [slice(None)] * (x.cells.ndim - len(entries))
    arrays = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    slices = [k for k in range(x.cells.ndim) if k not in arrays]
    first = arrays[0] if arrays else x.cells.ndim
    indices = [_as_tensor(entries[k], cells) for k in arrays]
    _check_indices(op, x, arrays, indices)
    if x.axis in slices and entries[x.axis] != slice(None):
        raise LoweringError(op, "takes a part of the rows")
    # What indexes lies where the first index array was, as NumPy has it for adjacent ones.
    before = [k for k in slices if k < first]
    after = [k for k in slices if k > first]
    sliced = x.cells.transpose([*before, *arrays, *after])
    cuts = (
        [known_slice(entries[k], op) for k in before],
        [known_slice(entries[k], op) for k in after],
    )
    sliced = sliced[(*cuts[0], *[slice(None)] * len(arrays), *cuts[1])]
    picked, width, axis = _picked(sliced, len(before), indices, cells, op)
    if x.axis in arrays or x.axis is None:
        return Tensor(picked, None if axis is None else len(before) + axis)
    place = before.index(x.axis) if x.axis in before else len(before) + width + after.index(x.axis)
    return Tensor(picked, place)


def _as_tensor(index: Any, cells: Cells) -> Tensor:
    return index if isinstance(index, Tensor) else Tensor(single(cells.constant(index)), None)


def _check_indices(op: Any, x: Tensor, arrays: Sequence[int], indices: Sequence[Tensor]) -> None:
    adjacent = list(arrays) == list(range(arrays[0], arrays[0] + len(arrays))) if arrays else True
    if isinstance(op, AdvancedSubtensor) and not adjacent:
        raise LoweringError(op, "has a slice between index arrays")
    for axis, index in zip(arrays, indices, strict=True):
        kinds = {cell.dtype.kind for cell in index.cells.flat}
        if not kinds <= set("iu"):
            raise LoweringError(op, "has an index that is no integer")
        # Row i of the data goes with row i, and with no other.
        own_row = all(isinstance(cell, RowNumber) for cell in index.cells.flat)
        if own_row != (axis == x.axis) or (
            index.axis is not None and x.axis not in (None, *arrays)
        ):
            raise LoweringError(op, "pairs each row with other rows")


def known_slice(entry: slice, op: Op) -> slice:
    """Return a slice as numbers.

    Raises
    ------
    LoweringError
        If they depend on the position or on data.
    """
    parts = []
    for part in (entry.start, entry.stop, entry.step):
        cell = part.cells.item() if isinstance(part, Tensor) else part
        if isinstance(cell, Cell) and not isinstance(cell, Constant):
            raise LoweringError(op, "has a slice that is not known beforehand")
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
    if len(axes) > 1 or any(broadcast[0].shape[k] != 1 for k in axes):
        raise LoweringError(op, "pairs each row with other rows")
    outer, inner = x.shape[:n_before], x.shape[n_before + len(indices) :]
    out = np.empty((*outer, *broadcast[0].shape, *inner), dtype=object)
    for place in product(np.ndindex(*outer), np.ndindex(*broadcast[0].shape), np.ndindex(*inner)):
        part = x[(*place[0], *[slice(None)] * len(indices), *place[2])]
        index = [array.item(*place[1]) for array in broadcast]
        out[place[0] + place[1] + place[2]] = _element(part, index, cells, op)
    return out, width, next(iter(axes), None)


def _element(part: Any, index: Sequence[Cell], cells: Cells, op: Op) -> Cell:
    if not index:
        return part if isinstance(part, Cell) else part.item()
    here, *rest = index
    if isinstance(here, RowNumber):
        return _element(part[0], rest, cells, op)
    if isinstance(here, Constant):
        return _element(part[int(here.value)], rest, cells, op)
    if not here.is_data:
        raise LoweringError(op, "has an index that depends on the parameters")
    return pick(cells, [_element(sub, rest, cells, op) for sub in part], here)


def pick(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell:
    """Return the one of several cells that data choose; negative indices count from the end.

    Choosing goes inside operations that are the same for several of them, until it meets
    coordinates of the position that lie evenly spaced, or constants. So a row depends on no more
    than the entry that is chosen for it.
    """
    key = (pick, index, *choices)
    if key not in cells.results:
        cells.results[key] = _picked_cell(cells, choices, index)
    return cells.results[key]


def _picked_cell(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell:
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
    over = over_one_sum(cells, choices)
    if over is not None:
        forms, divisor = over
        return multiply(cells, pick(cells, forms, index), divisor)
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
        return (str(cell.op), cell.op, len(cell.operands))
    return ("",)


def _n_linear(cell: Cell) -> int:
    """Return of how many linear forms a cell is a function; of very many only roughly."""
    forms = list(dict.fromkeys(x.terms for x in reachable(cell) if isinstance(x, Affine)))
    found = dict.fromkeys((t.monomial, t.place) for form in forms for t in form)
    parts = {part: k for k, part in enumerate(found)}
    if not forms or len(forms) > MANY_FORMS:
        return len(forms)
    matrix = np.zeros((len(forms), len(parts)))
    for row, form in zip(matrix, forms, strict=True):
        for term in form:
            row[parts[term.monomial, term.place]] += term.factor
    return int(np.linalg.matrix_rank(matrix))


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
        gathered = _looked_up(cells, choices, index)
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


def _looked_up(cells: Cells, choices: Sequence[Cell], index: Cell) -> Cell | None:
    """Return coordinates that have a sum, as in effects that add up, times numbers of each choice.

    A coordinate has one number for each choice, where the other way it has one for all of those
    that it is a part of.
    """
    known: set[Place] = set().union(*cells.sums)
    numbers: defaultdict[Place, np.ndarray] = defaultdict(lambda: np.zeros(len(choices)))
    for k, choice in enumerate(choices):
        for term in choice.terms if isinstance(choice, Affine) else ():
            if term.place not in known or term.monomial:
                return None
            numbers[term.place][k] += term.factor
    parts = (
        multiply(cells, cells.lookup(table, index), cells.coordinate(place))
        for place, table in numbers.items()
    )
    return add(cells, *parts)


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
