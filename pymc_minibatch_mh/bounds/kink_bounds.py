"""Bounds of observations that meet a kink or a jump inside of the trust region.

Such an observation is expanded on the side of the centre. Its remainder is that of this smooth
branch, plus the difference h of both branches beyond g(θ) = 0. With ρ the distance from the centre
to this surface, R the radius of the region, and J >= sup |∇h| there, in whitened coordinates,

    |h(θ)| <= J (|a| - ρ)+ <= J (1 - ρ/R) |a|,

because h is zero on the surface. If it jumps there, by at most H in the region, its change is at
most H + J |a' - a|. An observation with ρ >= R is smooth. Remainders of smooth branches of order p
change by at most (|a|^(p+1) + |a'|^(p+1)) / (p+1)!. So all changes are at most c_i M with

    M = max(1, |a| + |a'|),    c_i = (smooth c_i) R^p / (p+1)! + J (1 - ρ/R), or + H + J.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import factorial

import numpy as np

from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.bounds.remainder import (
    derivative_suprema,
    directional_bound,
    rounded_up,
    times_norms,
)
from pymc_minibatch_mh.bounds.smooth_bounds import SmoothRows
from pymc_minibatch_mh.compiled.differences import polynomial_degree
from pymc_minibatch_mh.expressions.graph import Expr
from pymc_minibatch_mh.expressions.kinks import differences_across, kinks_of
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.native import library
from pymc_minibatch_mh.native.bound_tables import NO_DIRECTIONS
from pymc_minibatch_mh.native.moves import KINKED
from pymc_minibatch_mh.native.whitened_copy import HEAD, WhitenedCopy
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Smooth bounds of some rows of a term.
SmoothBounds = Callable[[RowData, Geometry], Array]
#: Maximum number of regions. In the whitened copy (J, H) of each region, and before them ρ, follow
#: a row's direction, in numbers of `FLOAT` bytes.
MAX_TABLES, FLOAT = 4, np.dtype(np.float32).itemsize


@dataclass(frozen=True, eq=False)
class Beyond:
    """A kink of some rows in a region: distances ρ, slopes J and jumps H of h, shape (rows,)."""

    kink: Expr
    distance: Array
    steep: Array
    jump: Array
    radius: float

    @property
    def c(self) -> Array:
        """Part of c_i that is due to the kink."""
        near = np.clip(1.0 - self.distance / max(self.radius, 1e-300), 0.0, 1.0)
        # A slope may be infinite beyond a kink that a row does not meet.
        steep = np.where(near > 0.0, self.steep, 0.0)
        jumps = np.where(near > 0.0, self.jump + self.steep, 0.0)
        return np.where(self.jump > 0.0, jumps, steep * near) * (1.0 + RELATIVE)


class KinkedRows(SmoothRows):
    """Bounds of rows that meet kinks; a row's direction in a copy leads to its kink."""

    needs_width = has_groups = False
    bytes_behind = FLOAT * (1 + 2 * MAX_TABLES)

    def move_size(self, length: float) -> float:
        """Size M of a proposal between two positions of this distance from the centre."""
        return max(1.0, 2.0 * length)

    def table_kinds(
        self, functions: Sequence[RowFunction], along: float, together: float
    ) -> list[tuple[int, int]]:
        """Index and kind of the only bound."""
        return [(0, KINKED)]

    def bounds(
        self,
        data: RowData,
        geometry: Geometry,
        radius: float,
        pieces: Sequence[int],
        *,
        by_parts: bool = True,
    ) -> tuple[Array, Array]:
        """Bounds c_i of some rows, twice; `by_parts` as for smooth rows."""

        def smooth(branch: RowData, of_branch: Geometry) -> Array:
            bounds = super(KinkedRows, self).bounds
            return np.fmin(*bounds(branch, of_branch, radius, pieces, by_parts=by_parts))

        at_centre = _bounds_at_centre(smooth, data, geometry)
        scale = radius ** (self._order - 1) / factorial(self._order) * (1.0 + RELATIVE)
        with np.errstate(invalid="ignore"):
            scaled = np.where(at_centre > 0.0, at_centre * scale, 0.0)
        beyond = self._beyond(data, geometry, radius)
        along = sum((kink.c for kink in beyond), start=scaled)
        return along, along

    def _beyond(self, data: RowData, geometry: Geometry, radius: float) -> list[Beyond]:
        """Kinks of some rows in a region."""
        function, beta, result = data.function, self._reference.inverse_temperature, []
        boxes = self.boxes(data, geometry, radius)
        ones = (1,) * len(boxes)

        def steepness(part: Expr) -> Array:
            slopes = derivative_suprema(data, boxes, 1, ones, part)
            return directional_bound(times_norms(slopes, geometry.norms), 1.0)

        for kink in kinks_of(function.exprs, function.root):
            steep = jump = np.zeros(data.rows.size)
            for h in differences_across(function.exprs, function.root, kink):
                steep = np.maximum(steep, beta * steepness(h))
                if not function.exprs.kinks[kink]:
                    sizes = Jets(data, boxes, 1).of(h)[()].magnitude
                    jump = np.maximum(jump, beta * sizes)
            middle, slope = _value_at_centre(kink, data, geometry), steepness(kink.inputs[0])
            near = np.maximum(np.maximum(middle.lo, -middle.hi), 0.0)
            # A function without slope never changes its sign.
            distance = np.where(slope > 0.0, near / np.maximum(slope, 1e-300), np.inf)
            result.append(Beyond(kink, np.broadcast_to(distance, steep.shape), steep, jump, radius))
        return result

    def copied_directions(self, functions: Sequence[RowFunction]) -> int:
        """One direction of each row: to its kink."""
        return 1

    def copy_on(self, lines: np.ndarray, functions: Sequence[RowFunction]) -> WhitenedCopy:
        """Whitened copy of rows whose `lines` are filled later."""
        return WhitenedCopy(lines, np.empty((0, self._reference.size)), 1, 1)

    def pack(
        self,
        copy: WhitenedCopy,
        lines: np.ndarray,
        data: RowData,
        geometry: Geometry,
        radii: Sequence[float],
    ) -> None:
        """Write directions of rows to their kinks, distances, and slopes and jumps by region."""
        beyond = [self._beyond(data, geometry, radius) for radius in radii]
        if not beyond[-1]:
            lines[:] = 0
            return
        directions, distance, chosen = directions_to_kink(beyond[-1], data, geometry)
        pack, size = library.function("mh_pack_rows"), self._reference.size
        pack(directions, len(directions), 1, size, NO_DIRECTIONS, 0, lines, copy.width)
        numbers = np.zeros((len(lines), 1 + 2 * MAX_TABLES), np.float32)
        numbers[:, 0] = distance
        for k, kinks in enumerate(beyond):
            for number, kink in enumerate(kinks):
                rows = chosen == number
                numbers[rows, 1 + 2 * k] = rounded_up(kink.steep)[rows]
                numbers[rows, 2 + 2 * k] = rounded_up(kink.jump)[rows]
        start = HEAD + size
        lines[:, start : start + self.bytes_behind] = numbers.view(np.int8)


def _bounds_at_centre(smooth: SmoothBounds, data: RowData, geometry: Geometry) -> Array:
    """Bounds of the branch that each row takes at the centre, or of both if that is not known."""
    function = data.function
    if not kinks_of(function.exprs, function.root):
        return np.broadcast_to(smooth(data, geometry), data.rows.shape)
    condition, *branches = function.root.inputs
    middle = _value_at_centre(condition, data, geometry)
    result = np.zeros(data.rows.size)
    for branch, taken in zip(branches, (middle.hi >= 0.0, middle.lo <= 0.0), strict=True):
        rows = np.flatnonzero(np.broadcast_to(taken, result.shape))
        if rows.size:
            part = RowData(replace(function, root=branch), data.rows[rows])
            c = _bounds_at_centre(smooth, part, geometry.part(rows))
            result[rows] = np.maximum(result[rows], c)
    return result


def _value_at_centre(condition: Expr, data: RowData, geometry: Geometry) -> Interval:
    """Enclosure of the function that changes its sign at a kink, at the centre."""
    return Jets(data, geometry.argument_boxes(0.0), 1).of(condition.inputs[0])[()]


def directions_to_kink(
    beyond: list[Beyond], data: RowData, geometry: Geometry
) -> tuple[Array, Array, Array]:
    """For the kink with the largest c_i: its direction, distance, and which kink it is.

    Shapes (rows, d), (rows,) and (rows,). The direction leads beyond the kink; it is zero, and the
    kink -1, unless the kink is a hyperplane.
    """
    directions = np.zeros((data.rows.size, geometry.whitened[0].shape[1]))
    distance, chosen = np.zeros(data.rows.size), np.full(data.rows.size, -1)
    largest = np.argmax([kink.c for kink in beyond], axis=0)
    for number, kink in enumerate(beyond):
        g = kink.kink.inputs[0]
        jet = Jets(data, geometry.argument_boxes(0.0), 1).of(g)
        slopes = {a: jet[a,] for (a,) in (index for index in jet if index)}
        gradient = sum(np.reshape(x.lo, (-1, 1)) * geometry.whitened[a] for a, x in slopes.items())
        gradient = np.broadcast_to(gradient, directions.shape)
        length = np.linalg.norm(gradient, axis=1)
        rows = (largest == number) & (length > 0.0) & (polynomial_degree(g) <= 1)
        away = np.where(jet[()].lo > 0.0, -1.0, 1.0)
        near = np.maximum(np.maximum(jet[()].lo, -jet[()].hi), 0.0)
        directions[rows] = (np.reshape(away, (-1, 1)) * gradient)[rows]
        distance[rows] = (near / np.maximum(length, 1e-300) * (1.0 - 1e-6))[rows]
        chosen[rows] = number
    return directions, distance, chosen
