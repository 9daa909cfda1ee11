"""Bounds of a row's derivatives over a box of its arguments, as tight as time allows."""

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
from pytensor.scalar.basic import Switch

from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.bounds.jets import Index, Jets
from pymc_minibatch_mh.bounds.rules import NoRuleError
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.model.row.cells import Apply, Cell
from pymc_minibatch_mh.model.row.function import WAY_ON, RowFunction
from pymc_minibatch_mh.model.row.values import RowData


def suprema(
    function: RowFunction,
    data: RowData,
    boxes: Sequence[Interval],
    order: int,
    pieces: Sequence[int],
    part: Cell | None = None,
) -> dict[Index, Array]:
    """Bound the absolute values of the partial derivatives of one order.

    Parameters
    ----------
    function, data
        The rows.
    boxes
        Interval of every argument.
    order
        Order of the derivatives.
    pieces
        Into how many pieces each argument's interval is cut. Enclosures are taken piece by piece:
        the smaller a box, the less an interval forgets of how its terms depend on each other.
    part
        The summand that is bounded, by default the whole log-likelihood.

    Returns
    -------
    dict
        Sorted multi-index -> supremum, shape (rows,) or (). Infinite where there is none.

    Raises
    ------
    BoundsError
        If an operation has no rule.
    """
    result: dict[Index, Array] = {}
    cuts = [_cut(box, count) for box, count in zip(boxes, pieces, strict=True)]
    for piece in product(*cuts):
        try:
            found = _magnitudes(data, piece, order, part or function.root)
        except NoRuleError as error:
            raise BoundsError(
                f"{function.name!r} goes through {error.op}, whose derivatives no rule bounds. "
                f"{WAY_ON}"
            ) from error
        for index, largest in found.items():
            known = result.get(index)
            result[index] = largest if known is None else np.maximum(known, largest)
    return result


def _magnitudes(
    data: RowData, box: Sequence[Interval], order: int, root: Cell
) -> dict[Index, Array]:
    if isinstance(root, Apply) and isinstance(root.op, Switch) and root.inputs[0].is_data:
        return _by_branch(data, box, order, *root.inputs)
    jet = Jets(data, box, order).of(root)
    return {index: value.magnitude for index, value in jet.items() if len(index) == order}


def _by_branch(
    data: RowData, box: Sequence[Interval], order: int, condition: Cell, yes: Cell, no: Cell
) -> dict[Index, Array]:
    """Bound each branch over its own rows only: the other is often as much work again."""
    result: dict[Index, Array] = {}
    for rows, branch in zip(data.where(condition), (yes, no), strict=True):
        if not rows.size:
            continue
        part = data if rows.size == data.rows.size else data.part(rows)
        found = _magnitudes(part, [side.take(rows) for side in box], order, branch)
        for index, largest in found.items():
            result.setdefault(index, np.zeros(data.rows.size))[rows] = largest
    return result


def _cut(box: Interval, count: int) -> list[Interval]:
    if count == 1 or not (np.isfinite(box.lo).all() and np.isfinite(box.hi).all()):
        return [box]
    # Neighbours share an end, so that no number between them is lost.
    ends = [box.lo + (box.hi - box.lo) * (k / count) for k in range(count)] + [box.hi]
    return [Interval(np.minimum(a, b), b) for a, b in pairwise(ends)]
