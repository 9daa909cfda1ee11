"""Linear predictors in a trust region, and whitened directions of groups of observations.

A row's bound needs M only of the component of a proposal along the row's linear predictors.
Directions shared by all rows are stored once, others for each group; M is the maximum over groups.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pymc_minibatch_mh.compiled.form_rows import evaluate_predictors
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.structure.predictor_groups import MAX_DIRECTIONS, group_directions
from pymc_minibatch_mh.structure.predictors import single_coordinate
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Relative length of a direction below which it consists of rounding errors; excess of shares of
#: rows over their rounding errors in single precision, relative and absolute.
DEPENDENT, ROUNDED, SMALLEST_SHARE = 1e-6, 1e-6, 1e-7


class Groups(NamedTuple):
    """Orthonormal whitened directions of linear predictors: shared ones, and for groups of rows.

    `shared`, shape (s, d), are directions of all rows. `own`, shape (groups * each, d), has `each`
    directions of every group in turn, padded with zeros.
    """

    shared: Array
    own: Array
    each: int
    #: Group of each row, shape (rows,), and a power of the lengths of its direction along shared
    #: and own directions, shape (rows, 2); empty unless every row has one predictor of its own.
    power: int = 0
    labels: NDArray[np.int32] = np.empty(0, np.int32)
    shares: NDArray[np.float32] = np.empty((0, 2), np.float32)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.own) // self.each

    @property
    def size(self) -> int:
        """Maximum number of directions per row."""
        return len(self.shared) + self.each

    def with_rows(self, n_rows: int, power: int) -> Self:
        """The same directions, with room for labels and shares of rows."""
        labels, shares = np.empty(n_rows, np.int32), np.empty((n_rows, 2), np.float32)
        return self._replace(power=power, labels=labels, shares=shares)

    def label_rows(self, rows: slice, whitened: Array, common: Array) -> None:
        """Write labels and shares of rows by whitened gradients of their predictors, shape (n, d).

        Rows also have the predictors of an orthonormal basis `common`, shape (k, d). Shares exceed
        rounding errors.
        """
        apart = whitened - (whitened @ common.T) @ common
        norms = np.linalg.norm(apart, axis=1)
        along = np.linalg.norm(apart @ self.shared.T, axis=1)
        products = (apart @ self.own.T).reshape(len(apart), self.n_groups, self.each)
        squares = (products**2).sum(axis=2)
        self.labels[rows] = np.argmax(squares, axis=1)
        lengths = np.stack([along, np.sqrt(squares.max(axis=1))], axis=1)
        # Rounding errors alone may be left of a predictor that all rows share.
        independent = norms[:, None] > DEPENDENT * np.linalg.norm(whitened, axis=1, keepdims=True)
        lengths = np.where(independent, lengths / np.maximum(norms, 1e-300)[:, None], 1.0)
        if len(common):
            lengths[:, 0] = 1.0
        self.shares[rows] = lengths**self.power * (1.0 + ROUNDED) + SMALLEST_SHARE


def groups_of(functions: Sequence[RowFunction], factor: Array) -> Groups | None:
    """Directions of each group of rows, whitened by the `factor` L; None if there are too many."""
    size = len(factor)
    shared: list[Array] = []
    own: dict[frozenset[bytes], Array] = {}
    for function in functions:
        common, apart = group_directions(function, size)
        shared += common
        own |= apart
        if len(own) > MAX_DIRECTIONS:
            return None
    # A group contained in another group needs no directions of its own.
    largest = [lines for key, lines in own.items() if not any(key < other for other in own)]
    each = max((len(lines) for lines in largest), default=0)
    if not each or len(largest) * each > MAX_DIRECTIONS or len(shared) + each >= size:
        return None
    return _whitened_groups(np.reshape(shared, (-1, size)), largest, each, factor)


def _whitened_groups(shared: Array, own: Sequence[Array], each: int, factor: Array) -> Groups:
    basis = np.linalg.qr(factor.T @ shared.T)[0]
    lines = np.zeros((len(own), each, len(factor)))
    for found, directions in zip(lines, own, strict=True):
        # The first columns of Q repeat the shared basis; the rest are the group's directions.
        both = np.linalg.qr(np.concatenate([basis, factor.T @ directions.T], axis=1))[0]
        found[: len(directions)] = both[:, len(shared) :].T
    return Groups(np.ascontiguousarray(basis.T), lines.reshape(-1, len(factor)), each)


@dataclass(frozen=True, eq=False)
class Geometry:
    """Linear predictors u_a of some rows around a centre θ̂, in the metric ‖δ‖² = δᵀAδ.

    `centres` are u_a(θ̂), `norms` n_a = ‖∇u_a‖ in the dual metric, shape (rows,) or (), and
    `whitened` is Lᵀ∇u_a, L Lᵀ = A⁻¹, shape (rows, d) or (1, d), empty for a single predictor.
    """

    centres: tuple[Interval, ...]
    norms: tuple[Array, ...]
    whitened: tuple[Array, ...]

    def argument_boxes(self, radius: float) -> list[Interval]:
        """Intervals of the linear predictors over ‖θ - θ̂‖ <= radius."""
        if radius == np.inf:
            return [Interval.whole_line(n.shape) for n in self.norms]
        reach = [Interval.rounded(-radius * n, radius * n) for n in self.norms]
        return [centre + r for centre, r in zip(self.centres, reach, strict=True)]

    def part(self, rows: NDArray[np.int64]) -> "Geometry":
        """Geometry of some of these rows, by their indices."""
        return Geometry(
            tuple(centre.take(rows) for centre in self.centres),
            tuple(n.take(rows) if n.shape else n for n in self.norms),
            tuple(
                w if n.shape == () or not len(w) else w[rows]
                for n, w in zip(self.norms, self.whitened, strict=True)
            ),
        )

    def of(self, arguments: Sequence[int]) -> "Geometry":
        """Geometry of some of the linear predictors."""
        return Geometry(
            tuple(self.centres[a] for a in arguments),
            tuple(self.norms[a] for a in arguments),
            tuple(self.whitened[a] for a in arguments),
        )

    def gram_matrix(self, rows: int) -> Array:
        """Inner products of the predictors' whitened gradients, shape (rows, m, m)."""
        m = len(self.norms)
        result = np.empty((rows, m, m))
        for a in range(m):
            for b in range(a + 1):
                products = (self.whitened[a] * self.whitened[b]).sum(axis=1)
                result[:, a, b] = result[:, b, a] = products
        return result

    def correlation_norm(self) -> Array:
        """Largest eigenvalue of the correlation matrix of each row's linear predictors."""
        pairs = {
            (a, b): np.abs((self.whitened[a] * self.whitened[b]).sum(axis=1))
            / np.maximum(self.norms[a] * self.norms[b], 1e-300)
            for a in range(len(self.norms))
            for b in range(a)
        }
        return largest_eigenvalue(pairs, len(self.norms))


def largest_eigenvalue(pairs: Mapping[tuple[int, int], Array], size: int) -> Array:
    """Bound of the largest eigenvalue of matrices of correlations, at most as large as `pairs`."""
    if size == 1:
        return np.ones(())
    if size == 2:
        return np.minimum(1.0 + pairs[1, 0], 2.0) * (1.0 + RELATIVE)
    shape = np.broadcast_shapes(*(r.shape for r in pairs.values()))
    matrix = np.zeros((*shape, size, size))
    for (a, b), r in pairs.items():
        matrix[..., a, b] = matrix[..., b, a] = np.fmin(r, 1.0)
    matrix += np.eye(size)
    # Absolute correlations give an upper bound of the eigenvalue (Perron, Frobenius).
    return np.asarray(np.linalg.eigvalsh(matrix)[..., -1] * (1.0 + RELATIVE))


def geometry_of_rows(
    data: RowData, centre: Array, factor: Array, *, directions: bool = False
) -> Geometry:
    """Geometry of some rows around a centre, in the metric of the `factor` L, L Lᵀ = A⁻¹.

    Whitened gradients are included if `directions`, or if there are several linear predictors.
    """
    function = data.function
    directions |= len(function.arguments) > 1
    found = evaluate_predictors(function, data.rows, centre, factor, directions=directions)
    # Rounding errors are relative to the sum of |products|, which may exceed |sum of products|.
    slacks, norms = RELATIVE * found.sizes, found.norms * (1.0 + RELATIVE)
    kept = [0 if form.is_global else slice(None) for form in function.arguments]
    centres = tuple(
        Interval.rounded(found.values[k, a] - slacks[k, a], found.values[k, a] + slacks[k, a])
        for a, k in enumerate(kept)
    )
    whitened = tuple(found.whitened[: 1 if k == 0 else None, a] for a, k in enumerate(kept))
    return Geometry(centres, tuple(np.asarray(norms[k, a]) for a, k in enumerate(kept)), whitened)


def within_support(
    function: RowFunction, boxes: Sequence[Interval], lower: Array, upper: Array
) -> list[Interval]:
    """Boxes cut to the coordinates' support, because proposals outside are rejected anyway."""
    result = []
    for form, box in zip(function.arguments, boxes, strict=True):
        places = list(single_coordinate(form.terms))
        low, high = (lower[places].min(), upper[places].max()) if places else (-np.inf, np.inf)
        if np.isfinite(low) or np.isfinite(high):
            box = Interval(np.clip(box.lo, low, high), np.clip(box.hi, low, high))
        result.append(box)
    return result


def box_of_support(data: RowData, lower: Array, upper: Array) -> list[Interval]:
    """Intervals of the linear predictors over a box of positions, whose ends may be infinite."""
    result = []
    for form in data.function.arguments:
        matrix = data.coefficients(form, lower.size)
        total = Interval.point(np.zeros(matrix.shape[0]))
        for k in np.flatnonzero(np.any(matrix != 0.0, axis=0)):
            side = Interval(np.asarray(lower[k]), np.asarray(upper[k]))
            total = total + side * Interval.point(matrix[:, k])
        result.append(Interval(total.lo[0], total.hi[0]) if form.is_global else total)
    return result
