"""Bounds of the summands of a log-likelihood, added up.

A derivative of a sum is at most the sum of what those of its parts are at most. That loses where
parts cancel, and gains where one of them has bounds that hold along all directions at once:
logarithms of sums of exponentials (:mod:`pymc_minibatch_mh.bounds.log_sums`), for which the
derivatives in all of their arguments, one by one, are too many and too large.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.bounds.enclose import suprema
from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.interval import Array
from pymc_minibatch_mh.bounds.log_sums import LEAST_DIRECTION, log_sum_bounds, mixture_bounds
from pymc_minibatch_mh.bounds.remainder import pair_of
from pymc_minibatch_mh.model.row.cells import Cell
from pymc_minibatch_mh.model.row.function import MOST_ARGUMENTS, RowFunction
from pymc_minibatch_mh.model.row.log_sums import LogSum, Parts, Weights, branches, parts_of
from pymc_minibatch_mh.model.row.patterns import is_a
from pymc_minibatch_mh.model.row.values import RowData

type Places = NDArray[np.int64]

#: Exponentials from which their sum is more than one softplus, whose derivatives are known exactly.
SEVERAL = 3


@dataclass(frozen=True, eq=False)
class Region:
    """What is bounded where: derivatives of one order over a trust region.

    Parameters
    ----------
    radius
        Of the region.
    order
        Of the derivatives.
    pieces
        Into how many pieces each argument's interval is cut.
    inverse_temperature
        β.
    """

    radius: float
    order: int
    pieces: Sequence[int]
    inverse_temperature: float


def bounded_as_a_whole(function: RowFunction, order: int) -> bool:
    """Whether the derivatives of a row are few enough to be bounded one by one."""
    return order == 1 or len(function.arguments) <= MOST_ARGUMENTS


def bounded_by_parts(function: RowFunction, order: int) -> bool:
    """Whether bounds of the summands of a row are needed, or may be smaller."""
    if not bounded_as_a_whole(function, order):
        return True
    if order == 1 or len(function.arguments) == 1:
        return False
    several = any(len(s.terms) >= SEVERAL for part in _all(function) for s in part.log_sums)
    return several or mixes_functions(function)


def mixes_functions(function: RowFunction) -> bool:
    """Whether rows are logarithms of sums of exponentials of other functions than linear ones."""
    return any(part.mixture for part in _all(function))


def _all(function: RowFunction) -> list[Parts]:
    return [parts_of(function.cells, branch) for branch in branches(function.root)]


def pair_by_parts(
    function: RowFunction, data: RowData, place: Geometry, region: Region
) -> tuple[Array, Array]:
    """Return c_i and c̃_i of some rows as sums over the parts of their log-likelihood.

    Raises
    ------
    BoundsError
        If an operation has no rule.
    """
    return _of_root(function, function.root, data, place, region)


def _of_root(
    function: RowFunction, root: Cell, data: RowData, place: Geometry, region: Region
) -> tuple[Array, Array]:
    total = np.zeros((2, data.rows.size))
    # The same logarithm is a part of all branches, as a rule, and the data only add to it.
    shared: dict[tuple[Cell, Weights], tuple[LogSum, list[Places]]] = {}
    for rows, branch in _chosen(root, data, np.arange(data.rows.size)):
        parts = parts_of(function.cells, branch)
        for log_sum in parts.log_sums:
            key = log_sum.core, log_sum.factor
            shared.setdefault(key, (log_sum, []))[1].append(rows)
        if parts.mixture or parts.others:
            some = data.part(rows)
            total[:, rows] += _own(function, parts, some, place.part(rows), region)
    for log_sum, found in shared.values():
        rows = np.sort(np.concatenate(found))
        some = data.part(rows)
        pair = log_sum_bounds(log_sum, some, place.part(rows), region.radius, region.order)
        total[:, rows] += region.inverse_temperature * np.stack(np.broadcast_arrays(*pair))
    return total[0], total[1]


def _chosen(root: Cell, data: RowData, rows: Places) -> Iterator[tuple[Places, Cell]]:
    """Yield the rows that data choose each branch for, and the branch."""
    if not (is_a(root, scalar.Switch) and root.inputs[0].is_data):
        yield rows, root
        return
    condition, *branches = root.inputs
    for own, branch in zip(data.where(condition), branches, strict=True):
        if own.size == data.rows.size:
            yield from _chosen(branch, data, rows)
        elif own.size:
            yield from _chosen(branch, data.part(own), rows[own])


def _own(
    function: RowFunction, parts: Parts, data: RowData, place: Geometry, region: Region
) -> Array:
    """Return the bounds of what is no softmax, shape (2, rows)."""
    if parts.mixture:
        found = mixture_bounds(
            function, parts.mixture, data, place, region.radius, region.order
        ) * region.inverse_temperature  # fmt: skip
        return np.stack([found / (LEAST_DIRECTION if region.order == 3 else 0.5), found])
    rest = parts.others[0]
    if len(parts.others) > 1:
        rest = function.cells.node(scalar.add, parts.others)
    boxes = place.boxes(region.radius)
    largest = suprema(function, data, boxes, region.order, region.pieces, rest)
    pair = pair_of(largest, place, region.order, region.inverse_temperature)
    return np.stack([np.broadcast_to(c, data.rows.size) for c in pair])
