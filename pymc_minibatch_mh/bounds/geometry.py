"""The arguments of rows in a trust region, and the directions that each group of rows reads.

The bound of a row holds with M of the part of a move along its own linear forms. Directions that
all rows read are kept once, those of the groups beside them; M is the largest of the groups'.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymc_minibatch_mh.compiled.form_rows import placed
from pymc_minibatch_mh.expressions.graph import Expr, Gather, Monomial, places_of
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.structure.row_function import LinearForm, RowData, RowFunction

#: Directions of all groups together, at most: each of them takes time at every update.
MOST_DIRECTIONS = 512
#: Share of rows up to which those that a column is not zero in count as a group.
SPARSE = 0.5
#: Rows that tell this share, and rows that are read at a time.
SAMPLE, CHUNK = 2_000, 65_536


class Groups(NamedTuple):
    """Whitened directions that rows depend on, all orthonormal.

    `shared`, shape (s, d), may matter to all rows; `own`, shape (groups * each, d), are those of
    each group, group by group. A group that has fewer than others ends in zeros.
    """

    shared: Array
    own: Array
    each: int

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.own) // self.each

    @property
    def size(self) -> int:
        """Number of directions that a row depends on, at most."""
        return len(self.shared) + self.each


class _Part(NamedTuple):
    """Terms of a form that are multiplied by the same data."""

    terms: Sequence[Monomial]
    monomial: tuple[Expr, ...]

    @property
    def indices(self) -> list[Expr]:
        """The data that choose coordinates."""
        return [term.place.index for term in self.terms if isinstance(term.place, Gather)]

    def weight(self, data: RowData) -> Array:
        """Return the data that the terms are multiplied by."""
        result = np.ones(data.rows.size)
        for expr in self.monomial:
            result = result * data.value(expr)
        return result

    def direction(self, chosen: dict[Expr, int], size: int) -> Array:
        """Return the direction that the terms read, given the choices of data."""
        result = np.zeros(size)
        for term in self.terms:
            place = term.place
            if isinstance(place, Gather):
                index = chosen[place.index]
                place = place.first + place.step * (index + place.size * (index < 0))
            result[place] += term.factor
        return result


def groups_of(functions: Sequence[RowFunction], factor: Array) -> Groups | None:
    """Return the directions that rows of each group depend on; None where they are too many.

    Positions are whitened by `factor`, L of shape (d, d): a form of coefficients v is Lᵀv.
    """
    size = len(factor)
    shared: list[Array] = []
    own: dict[frozenset[bytes], Array] = {}
    for function in functions:
        common, apart = _directions(function, size)
        shared += common
        own |= apart
        if len(own) > MOST_DIRECTIONS:
            return None
    # A group that reads no more than another one needs no line of its own.
    largest = [lines for key, lines in own.items() if not any(key < other for other in own)]
    each = max((len(lines) for lines in largest), default=0)
    if not each or len(largest) * each > MOST_DIRECTIONS or len(shared) + each >= size:
        return None
    return _whitened(np.reshape(shared, (-1, size)), largest, each, factor)


def _whitened(shared: Array, own: Sequence[Array], each: int, factor: Array) -> Groups:
    basis = np.linalg.qr(factor.T @ shared.T)[0]
    lines = np.zeros((len(own), each, len(factor)))
    for found, directions in zip(lines, own, strict=True):
        # The first columns of the orthonormal basis are those of the shared one again.
        both = np.linalg.qr(np.concatenate([basis, factor.T @ directions.T], axis=1))[0]
        found[: len(directions)] = both[:, len(shared) :].T
    return Groups(np.ascontiguousarray(basis.T), lines.reshape(-1, len(factor)), each)


def _directions(
    function: RowFunction, size: int
) -> tuple[list[Array], dict[frozenset[bytes], Array]]:
    """Return the directions that all rows of a term read, and those of each of its groups."""
    parts = list(_parts(function))
    sparse = [part for part in parts if _is_sparse(function, part)]
    patterns = _patterns(function, parts, sparse)
    if len(patterns) > MOST_DIRECTIONS:
        sparse = []
        patterns = _patterns(function, parts, sparse)
    fixed = [part for part in parts if not part.indices and part not in sparse]
    indices = _indices(parts)
    own = {}
    for pattern in patterns[: MOST_DIRECTIONS + 1]:
        chosen = dict(zip(indices, pattern.tolist(), strict=False))
        missing = [p for p, read in zip(sparse, pattern[len(indices) :], strict=True) if not read]
        read = [part for part in parts if part not in fixed and part not in missing]
        lines = [part.direction(chosen, size) for part in read]
        own[frozenset(line.tobytes() for line in lines)] = np.reshape(lines, (-1, size))
    return [part.direction({}, size) for part in fixed], own


def _parts(function: RowFunction) -> Iterator[_Part]:
    for form in function.arguments:
        terms = defaultdict[tuple[Expr, ...], list[Monomial]](list)
        for term in form.terms:
            terms[term.monomial].append(term)
        yield from (_Part(own, monomial) for monomial, own in terms.items())


def _indices(parts: Sequence[_Part]) -> list[Expr]:
    return list(dict.fromkeys(index for part in parts for index in part.indices))


def _is_sparse(function: RowFunction, part: _Part) -> bool:
    if not part.monomial:
        return False
    rows = np.unique(np.linspace(0, function.n_rows - 1, SAMPLE).astype(np.int64))
    return float(np.mean(part.weight(RowData(function, rows)) != 0.0)) <= SPARSE


def _patterns(function: RowFunction, parts: Sequence[_Part], sparse: Sequence[_Part]) -> np.ndarray:
    """Return the choices of data and the sparse parts that are read, where rows differ."""
    found = np.empty((0, len(_indices(parts)) + len(sparse)), np.int64)
    for first in range(0, function.n_rows, CHUNK):
        data = RowData(function, slice(first, min(first + CHUNK, function.n_rows)))
        columns = [data.value(index).astype(np.int64) for index in _indices(parts)]
        columns += [(part.weight(data) != 0.0).astype(np.int64) for part in sparse]
        if not columns:
            return found[:0]
        columns = [np.broadcast_to(column, data.rows.size) for column in columns]
        found = np.unique(np.concatenate([found, np.stack(columns, axis=1)]), axis=0)
        if len(found) > MOST_DIRECTIONS:
            break
    return found


@dataclass(frozen=True, eq=False)
class Geometry:
    """The arguments u_a of some rows around a centre θ̂, in the metric ‖δ‖² = δᵀAδ.

    `centres` are u_a(θ̂), `norms` n_a = ‖∇u_a‖ in the dual metric, shape (rows,) or (), and
    `whitened` Lᵀ∇u_a, L Lᵀ = A⁻¹, shape (rows, d) or (1, d), of no rows where one is alone.
    """

    centres: tuple[Interval, ...]
    norms: tuple[Array, ...]
    whitened: tuple[Array, ...]

    def boxes(self, radius: float) -> list[Interval]:
        """Return the intervals of the arguments over ‖θ - θ̂‖ <= radius."""
        if radius == np.inf:
            return [Interval.everything(n.shape) for n in self.norms]
        reach = [Interval.rounded(-radius * n, radius * n) for n in self.norms]
        return [centre + r for centre, r in zip(self.centres, reach, strict=True)]

    def part(self, rows: NDArray[np.int64]) -> "Geometry":
        """Return that of some of the rows, by their places among these."""
        return Geometry(
            tuple(centre.take(rows) for centre in self.centres),
            tuple(n.take(rows) if n.shape else n for n in self.norms),
            tuple(
                w if n.shape == () else w[rows]
                for n, w in zip(self.norms, self.whitened, strict=True)
            ),
        )

    def of(self, arguments: Sequence[int]) -> "Geometry":
        """Return that of some of the arguments."""
        return Geometry(
            tuple(self.centres[a] for a in arguments),
            tuple(self.norms[a] for a in arguments),
            tuple(self.whitened[a] for a in arguments),
        )

    def products(self, rows: int) -> Array:
        """Return the products of the arguments' whitened gradients, shape (rows, m, m)."""
        m = len(self.norms)
        result = np.empty((rows, m, m))
        for a in range(m):
            for b in range(a + 1):
                products = (self.whitened[a] * self.whitened[b]).sum(axis=1)
                result[:, a, b] = result[:, b, a] = products
        return result

    def correlation_norm(self) -> Array:
        """Return the largest eigenvalue of the correlations of each row's arguments."""
        m = len(self.norms)
        if m == 1:
            return np.ones(())
        pairs = {
            (a, b): np.abs((self.whitened[a] * self.whitened[b]).sum(axis=1))
            / np.maximum(self.norms[a] * self.norms[b], 1e-300)
            for a in range(m)
            for b in range(a)
        }
        if m == 2:
            return np.minimum(1.0 + pairs[1, 0], 2.0) * (1.0 + RELATIVE)
        shape = np.broadcast_shapes(*(r.shape for r in pairs.values()))
        matrix = np.zeros((*shape, m, m))
        for (a, b), r in pairs.items():
            matrix[..., a, b] = matrix[..., b, a] = np.minimum(r, 1.0)
        matrix += np.eye(m)
        # Of the absolute values: an upper bound, by Perron and Frobenius.
        return np.asarray(np.linalg.eigvalsh(matrix)[..., -1] * (1.0 + RELATIVE))


def geometry(
    function: RowFunction,
    data: RowData,
    centre: Array,
    factor: Array,
    *,
    directions: bool = False,
) -> Geometry:
    """Return the geometry of some rows around a centre, in the metric of L, L Lᵀ = A⁻¹.

    Whitened gradients are there where `directions` are asked for, or there are several arguments.
    """
    # Correlations are asked for where there are several arguments.
    directions |= len(function.arguments) > 1
    found = placed(data.function, data.rows, centre, factor, directions=directions)
    # Rounding errors are relative to the products, not to their sum.
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
    """Return the parts of boxes in which arguments that are a coordinate each can lie.

    Moves that leave the support are refused before a row is read.
    """
    result = []
    for form, box in zip(function.arguments, boxes, strict=True):
        places = _coordinate(form)
        low, high = (lower[places].min(), upper[places].max()) if places else (-np.inf, np.inf)
        if np.isfinite(low) or np.isfinite(high):
            box = Interval(np.clip(box.lo, low, high), np.clip(box.hi, low, high))
        result.append(box)
    return result


def _coordinate(form: LinearForm) -> list[int]:
    """Return the coordinates that an argument is one of; none if it is a sum or a multiple."""
    if len(form.terms) > 1 or form.terms[0].monomial or form.terms[0].factor != 1.0:
        return []
    return list(places_of(form.terms[0].place))


def box_of_support(
    function: RowFunction, data: RowData, lower: Array, upper: Array
) -> list[Interval]:
    """Return the intervals of the arguments over a box of positions, whose ends may be infinite."""
    result = []
    for form in function.arguments:
        matrix = data.coefficients(form, lower.size)
        total = Interval.point(np.zeros(matrix.shape[0]))
        for k in np.flatnonzero(np.any(matrix != 0.0, axis=0)):
            side = Interval(np.asarray(lower[k]), np.asarray(upper[k]))
            total = total + side * Interval.point(matrix[:, k])
        result.append(Interval(total.lo[0], total.hi[0]) if form.is_global else total)
    return result
