"""Where the arguments of rows lie in a trust region, and how they lie to each other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.kernels.intervals import RELATIVE
from pymc_minibatch_mh.model.compiled.layout import placed
from pymc_minibatch_mh.model.row.cells import Gather
from pymc_minibatch_mh.model.row.function import LinearForm, RowFunction
from pymc_minibatch_mh.model.row.values import RowData


@dataclass(frozen=True, eq=False)
class Geometry:
    """The arguments u_a of some rows around a centre θ̂, in the metric ‖δ‖² = δᵀAδ.

    Parameters
    ----------
    centres
        u_a(θ̂), each an interval of shape (rows,) or ().
    norms
        n_a = ‖∇u_a‖ in the dual metric, so that |u_a(θ) - u_a(θ̂)| <= n_a ‖θ - θ̂‖.
    whitened
        Lᵀ∇u_a, shape (rows, d) or (1, d), L Lᵀ = A⁻¹; of no rows where there is one argument.
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


def geometry(function: RowFunction, data: RowData, centre: Array, factor: Array) -> Geometry:
    """Return the geometry of some rows.

    Parameters
    ----------
    function
        Their log-likelihood.
    data
        Their data.
    centre : ndarray, shape (d,)
        θ̂.
    factor : ndarray, shape (d, d)
        L, with L Lᵀ = A⁻¹.
    """
    # Correlations are asked for where there are several arguments.
    several = len(function.arguments) > 1
    found = placed(data.function, data.rows, centre, factor, directions=several)
    # Products and their sum are off by rounding relative to the products, not to the sum.
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

    Moves that leave the support are refused before a row is read, so that both ends of a move, and
    all that lies between them, are inside.

    Parameters
    ----------
    boxes
        Intervals of the arguments.
    lower, upper : ndarray, shape (d,)
        Ends of the support, infinite where a coordinate is not bounded.
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
    place = form.terms[0].place
    if isinstance(place, Gather):
        return list(range(place.first, place.first + place.step * place.size, place.step))
    return [place]


def box_of_support(
    function: RowFunction, data: RowData, lower: Array, upper: Array
) -> list[Interval]:
    """Return the intervals of the arguments over a box of positions.

    Parameters
    ----------
    lower, upper : ndarray, shape (d,)
        Ends of the box, infinite where a coordinate is not bounded.
    """
    result = []
    for form in function.arguments:
        matrix = data.coefficients(form, lower.size)
        total = Interval.point(np.zeros(matrix.shape[0]))
        for k in np.flatnonzero(np.any(matrix != 0.0, axis=0)):
            side = Interval(np.asarray(lower[k]), np.asarray(upper[k]))
            total = total + side * Interval.point(matrix[:, k])
        result.append(Interval(total.lo[0], total.hi[0]) if form.is_global else total)
    return result
