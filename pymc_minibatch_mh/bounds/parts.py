"""Bounds of the summands of a log-likelihood, added up.

A derivative of a sum is at most the sum of what those of its parts are at most. That loses where
parts cancel, and gains where one of them has bounds that hold along all directions at once:
logarithms of sums of exponentials (:mod:`pymc_minibatch_mh.bounds.log_sums`), for which the
derivatives in all of their arguments, one by one, are too many and too large.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.bounds.enclose import suprema
from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.interval import Array
from pymc_minibatch_mh.bounds.jets import Index
from pymc_minibatch_mh.bounds.log_sums import log_sum_bounds
from pymc_minibatch_mh.bounds.remainder import directional, joint, weighted
from pymc_minibatch_mh.model.row.cells import Cell
from pymc_minibatch_mh.model.row.function import MOST_ARGUMENTS, RowFunction
from pymc_minibatch_mh.model.row.log_sums import branches, parts_of
from pymc_minibatch_mh.model.row.patterns import is_a
from pymc_minibatch_mh.model.row.values import RowData

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
    parts = [parts_of(branch) for branch in branches(function.root)]
    return any(len(s.terms) >= SEVERAL for part in parts for s in part.log_sums)


def pair_of(found: Mapping[Index, Array], place: Geometry, region: Region) -> tuple[Array, Array]:
    """Return c_i and c̃_i from bounds of the partial derivatives."""
    terms = weighted(found, place.norms)
    if not terms:
        return np.zeros(()), np.zeros(())
    beta = region.inverse_temperature
    together = joint(terms, place.correlation_norm(), region.order - 1, beta)
    return directional(terms, beta), together


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
    if not (is_a(root, scalar.Switch) and root.inputs[0].is_data):
        return _summed(function, root, data, place, region)
    result = np.zeros((2, data.rows.size))
    condition, *chosen = root.inputs
    for rows, branch in zip(data.where(condition), chosen, strict=True):
        if rows.size == data.rows.size:
            return _of_root(function, branch, data, place, region)
        if rows.size:
            some = data.part(rows)
            result[:, rows] = _of_root(function, branch, some, place.part(rows), region)
    return result[0], result[1]


def _summed(
    function: RowFunction, root: Cell, data: RowData, place: Geometry, region: Region
) -> tuple[Array, Array]:
    parts = parts_of(root)
    along, together = np.zeros((2, data.rows.size))
    for log_sum in parts.log_sums:
        pair = log_sum_bounds(log_sum, data, place, region.radius, region.order)
        along = along + region.inverse_temperature * pair[0]
        together = together + region.inverse_temperature * pair[1]
    if parts.others:
        boxes = place.boxes(region.radius)
        rest = parts.others[0]
        if len(parts.others) > 1:
            rest = function.cells.node(scalar.add, parts.others)
        found = suprema(function, data, boxes, region.order, region.pieces, rest)
        pair = pair_of(found, place, region)
        along, together = along + pair[0], together + pair[1]
    return along, together
