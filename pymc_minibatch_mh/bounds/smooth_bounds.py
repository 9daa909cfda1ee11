"""Bounds of observations without kinks in a trust region, and their whitened copy."""

from collections.abc import Sequence

import numpy as np

from pymc_minibatch_mh.bounds.composed_bounds import ComposedBounds
from pymc_minibatch_mh.bounds.exponential_sums import (
    Region,
    least_directional,
    pair_by_parts,
    use_joint_bound,
    use_sum_bound,
)
from pymc_minibatch_mh.bounds.geometry import (
    Geometry,
    box_of_support,
    geometry_of_rows,
    within_support,
)
from pymc_minibatch_mh.bounds.remainder import derivative_suprema, pair_of
from pymc_minibatch_mh.expressions.inner_sums import Composition
from pymc_minibatch_mh.functions.interval import Array, Interval
from pymc_minibatch_mh.native import library
from pymc_minibatch_mh.native.moves import DIRECTIONAL, JOINT, SHARP
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.whitened_copy import WhitenedCopy
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction


class SmoothRows:
    """Bounds of rows without kinks, around a reference and in the support of the coordinates.

    A subclass bounds other rows, with another M and another whitened copy.
    """

    #: Whether a copy has to be wide to be worth it, and whether groups may have regions.
    needs_width, has_groups = True, True

    def __init__(self, reference: Reference, support: tuple[Array, Array]) -> None:
        self._reference, self._support = reference, support
        self._order = reference.order + 1

    def boxes(self, data: RowData, geometry: Geometry, radius: float) -> list[Interval]:
        """Intervals of the linear predictors over a trust region."""
        return within_support(data.function, geometry.argument_boxes(radius), *self._support)

    def move_size(self, length: float) -> float:
        """Size M of a proposal between two positions of this distance from the centre."""
        return 2.0 * length**4 / 24.0 if self._order == 4 else 2.0 * length**3 / 6.0

    def table_kinds(
        self, functions: Sequence[RowFunction], along: float, together: float
    ) -> list[tuple[int, int]]:
        """Index and kind of each bound, c_i (0) or c̃_i (1), that is worth a table."""
        if self._order == 1 or all(len(f.arguments) <= 1 for f in functions):
            return [(0, SHARP)]
        # Directional M is 0.385 joint M at best: a table with a much larger Σc_i is useless.
        kinds = [(0, DIRECTIONAL)] if along <= 2.0 * together else []
        return [*kinds, (1, JOINT)] if together < along else kinds

    def bounds(
        self,
        data: RowData,
        geometry: Geometry,
        radius: float,
        pieces: Sequence[int],
        *,
        by_parts: bool = True,
    ) -> tuple[Array, Array]:
        """Bounds c_i and c̃_i of some rows; `by_parts` tries separate bounds of summands, too."""
        function, order = data.function, self._order
        beta = self._reference.inverse_temperature
        region = Region(radius, order, pieces, beta)
        along = together = np.full((), np.inf)
        if use_joint_bound(function, order):
            boxes = self.boxes(data, geometry, radius)
            if radius == np.inf and order == 1:
                boxes = box_of_support(data, *self._support)
            found = derivative_suprema(data, boxes, order, pieces)
            along, together = pair_of(found, geometry, order, beta)
        if function.composition is not None and order > 1 and radius < np.inf:
            pair = self._composed_bounds(function.composition, data, geometry, region)
            along, together = np.fmin(along, pair[0]), np.fmin(together, pair[1])
        if by_parts and use_sum_bound(function, order):
            pair = pair_by_parts(data, geometry, region)
            along, together = np.fmin(along, pair[0]), np.fmin(together, pair[1])
        if order == 1:
            along = together = np.fmin(along, together)
        return along, together

    def _composed_bounds(
        self, split: Composition, data: RowData, geometry: Geometry, region: Region
    ) -> tuple[Array, Array]:
        """Bounds of rows by the chain rule for functions of sums of many linear predictors."""
        boxes = self.boxes(data, geometry, region.radius)
        composed = ComposedBounds(data, geometry, boxes, region.radius)
        together = region.inverse_temperature * composed.size(split, self._order)
        return together / least_directional(self._order), together

    def copied_directions(self, functions: Sequence[RowFunction]) -> int:
        """Number of directions of each row in a whitened copy."""
        return max(sum(not form.is_global for form in f.arguments) for f in functions)

    #: Number of bytes behind the directions of a row in a whitened copy.
    bytes_behind = 0

    def copy_on(self, lines: np.ndarray, functions: Sequence[RowFunction]) -> WhitenedCopy:
        """Whitened copy of rows whose `lines` are filled later."""
        shared = self.shared_directions(functions)
        return WhitenedCopy(lines, shared, self.copied_directions(functions))

    def shared_directions(self, functions: Sequence[RowFunction]) -> Array:
        """Orthonormal whitened basis of the predictors that all rows share, shape (s, d)."""
        lines: list[Array] = []
        for function in functions:
            first = RowData(function, np.zeros(1, dtype=np.int64))
            centre, factor = self._reference.centre, self._reference.factor
            place = geometry_of_rows(first, centre, factor, directions=True)
            pairs = zip(function.arguments, place.whitened, strict=True)
            lines += [w[0] for form, w in pairs if form.is_global]
        basis = np.reshape(lines, (-1, self._reference.size)).copy()
        nothing, unit = basis[:0], library.function("mh_orthogonalize")
        kept = [unit(basis, nothing, 0, k, basis.shape[1]) == 1.0 for k in range(len(basis))]
        return basis[kept]

    def pack(
        self,
        copy: WhitenedCopy,
        lines: np.ndarray,
        data: RowData,
        geometry: Geometry,
        radii: Sequence[float],
    ) -> None:
        """Write some rows to their `lines` of a whitened copy; `radii` are those of all regions."""
        pairs = zip(data.function.arguments, geometry.whitened, strict=True)
        whitened = np.zeros((data.rows.size, copy.own, self._reference.size))
        for a, own in enumerate(w for form, w in pairs if not form.is_global):
            whitened[:, a] = own
        pack = library.function("mh_pack_rows")
        pack(whitened, *whitened.shape, copy.shared, len(copy.shared), lines, copy.width)
