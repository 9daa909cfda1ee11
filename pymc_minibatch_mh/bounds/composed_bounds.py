"""Joint bounds of functions of sums with many linear predictors, along all directions at once.

For f = h(y_1..y_p), with ' the derivative along a unit direction, Faà di Bruno's formula is

    f'' = Σ h_ab y_a' y_b' + Σ h_a y_a'',
    f''' = Σ h_abc y_a' y_b' y_c' + 3 Σ h_ab y_a'' y_b' + Σ h_a y_a'''.

Derivatives of h are enclosed over the ranges of all y_a. At the centre θ̂, gradients and Hessians
are computed with their signs: over a region of radius R, |y'| <= |∇y(θ̂)| + R sup |y''|, and
|y''| <= |∇²y(θ̂)| + R sup |y'''|, in the norms of whitened vectors and matrices.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.bounds.geometry import Geometry, largest_eigenvalue
from pymc_minibatch_mh.bounds.jets import Index, Jet, Jets
from pymc_minibatch_mh.bounds.remainder import joint_bound, times_norms
from pymc_minibatch_mh.expressions.graph import Argument
from pymc_minibatch_mh.expressions.inner_sums import Composition
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.structure.row_function import RowData

#: Factor that exceeds the rounding errors of hundreds of operations.
_ROUNDED = 1.0 + 100.0 * RELATIVE


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Function of some rows over a trust region.

    `value` is its range, `centre` its value, and `gradient`, shape (rows, m), its gradient in the
    linear predictors at the centre. `sizes` bound derivatives of orders 1 to 3 along any direction.
    """

    value: Interval
    centre: Interval
    gradient: Interval
    sizes: tuple[Array, ...]


class ComposedBounds:
    """Bounds of derivatives of compositions over a trust region of finite radius."""

    def __init__(
        self, data: RowData, geometry: Geometry, boxes: list[Interval], radius: float
    ) -> None:
        self._data, self._geometry, self._boxes, self._radius = data, geometry, boxes, radius
        rows = data.rows.size
        self._gram = geometry.gram_matrix(rows)
        self._norms = np.stack([np.broadcast_to(n, rows) for n in geometry.norms], axis=1)
        self._centre = Jets(data, geometry.centres, 2)
        self._enclosures: dict[Composition | Argument, Enclosure] = {}

    def size(self, function: Composition, order: int) -> Array:
        """Bounds of the derivative of an order along any direction, shape (rows,)."""
        inputs = [self._enclosure(x) for x in function.inputs]
        over = Jets(self._data, [x.value for x in inputs], order).of(function.outer)
        with np.errstate(all="ignore"):
            bound = self._by_chain_rule(_magnitudes(over), inputs, order) * _ROUNDED
        return np.broadcast_to(np.where(np.isnan(bound), np.inf, bound), self._data.rows.shape)

    def _enclosure(self, function: Composition | Argument) -> Enclosure:
        if function not in self._enclosures:
            with np.errstate(all="ignore"):
                self._enclosures[function] = (
                    self._of_argument(function)
                    if isinstance(function, Argument)
                    else self._of_function(function)
                )
        return self._enclosures[function]

    def _of_argument(self, argument: Argument) -> Enclosure:
        k, zero = argument.number, np.zeros(())
        gradient = np.zeros(self._norms.shape)
        gradient[:, k] = 1.0
        return Enclosure(
            self._boxes[k],
            self._geometry.centres[k],
            Interval.point(gradient),
            (self._norms[:, k], zero, zero),
        )

    def _of_function(self, function: Composition) -> Enclosure:
        jet = self._centre.of(function.expr)
        gradient, centre = self._gradient(jet), jet[()]
        value, sizes = self._of_one_form(function, jet, gradient)
        if function.exponential is not None:
            other, more = self._of_one_form(function.exponential, jet, gradient)
            # Factors that may not be positive have logarithms without finite values or derivatives.
            logs = self._enclosure(function.exponential.inputs[0]).centre
            proved = np.isfinite(more[2]) & np.isfinite(logs.lo) & np.isfinite(logs.hi)
            value = Interval.where(proved, _intersection(value, other), value)
            pairs = zip(sizes, more, strict=True)
            sizes = tuple(np.where(proved, np.fmin(x, y), x) for x, y in pairs)
        return Enclosure(value, centre, gradient, sizes)

    def _of_one_form(
        self, function: Composition, jet: Jet, gradient: Interval
    ) -> tuple[Interval, tuple[Array, ...]]:
        """Range and sizes by the chain rule, and by the derivatives at the centre in `jet`."""
        inputs, radius = [self._enclosure(x) for x in function.inputs], self._radius
        over = Jets(self._data, [x.value for x in inputs], 3).of(function.outer)
        largest = _magnitudes(over)
        third = self._by_chain_rule(largest, inputs, 3) * _ROUNDED
        bend, slope = self._hessian_norm(jet), self._gradient_norm(gradient)
        near = (bend + radius * third) * _ROUNDED
        second = np.fmin(self._by_chain_rule(largest, inputs, 2) * _ROUNDED, near)
        near = slope + radius * np.fmin(bend + 0.5 * radius * third, second)
        first = np.fmin(self._by_chain_rule(largest, inputs, 1), near) * _ROUNDED
        reach, centre = radius * first * _ROUNDED, jet[()]
        around = Interval.rounded(centre.lo - reach, centre.hi + reach)
        return _intersection(over[()], around), (first, second, third)

    def _by_chain_rule(
        self, largest: Mapping[Index, Array], inputs: list[Enclosure], order: int
    ) -> Array:
        """Bound of a derivative along any direction, from bounds of the partial ones of h."""
        norms = tuple(x.sizes[0] for x in inputs)
        alone = [largest.get((a,), np.zeros(())) for a in range(len(inputs))]
        if order == 1 or not any(len(index) > 1 for index in largest):
            return np.asarray(
                sum(_product(alone[a], x.sizes[order - 1]) for a, x in enumerate(inputs))
            )
        correlation = self._correlation(inputs)
        total = self._form(largest, norms, correlation, order)
        for a, x in enumerate(inputs):
            total = total + _product(alone[a], x.sizes[order - 1])
            if order == 3:
                pairs = {b: (min(a, b), max(a, b)) for b in range(len(inputs))}
                mixed: dict[Index, Array] = {
                    (b,): largest[pair] for b, pair in pairs.items() if pair in largest
                }
                cross = self._form(mixed, norms, correlation, 1)
                total = total + 3.0 * np.asarray(_product(x.sizes[1], cross))
        return np.asarray(total)

    def _form(
        self,
        largest: Mapping[Index, Array],
        norms: tuple[Array, ...],
        correlation: Array,
        order: int,
    ) -> Array:
        """Largest value of the form Σ D_abc y_a' y_b' y_c' along any direction."""
        terms = {k: x for k, x in largest.items() if len(k) == order}
        if not terms:
            return np.zeros(())
        return joint_bound(times_norms(terms, norms), correlation, order - 1, 1.0)

    def _correlation(self, inputs: list[Enclosure]) -> Array:
        """Bound of the largest eigenvalue of the correlations of all y_a' in the region."""
        norms = [x.sizes[0] for x in inputs]
        turns = [self._radius * x.sizes[1] for x in inputs]
        pairs = {}
        for a, left in enumerate(inputs):
            for b in range(a):
                right = inputs[b]
                apart = turns[a] * norms[b] + turns[b] * norms[a]
                product = self._inner(left.gradient, right.gradient) + apart
                pairs[a, b] = product / np.maximum(norms[a] * norms[b], 1e-300)
        return largest_eigenvalue(pairs, len(inputs))

    def _inner(self, left: Interval, right: Interval) -> Array:
        """Upper bound of the absolute inner product of whitened gradients."""
        x, y = (0.5 * (g.lo + g.hi) for g in (left, right))
        product = np.abs(np.einsum("na,nab,nb->n", x, self._gram, y))
        sizes = [(g.magnitude * self._norms).sum(axis=1) for g in (left, right)]
        doubts = [(g.width * self._norms).sum(axis=1) for g in (left, right)]
        slack = doubts[0] * sizes[1] + doubts[1] * sizes[0] + RELATIVE * sizes[0] * sizes[1]
        return np.asarray(product + slack)

    def _gradient(self, jet: Jet) -> Interval:
        ends = np.zeros((2, *self._norms.shape))
        for index, slope in jet.items():
            if len(index) == 1:
                ends[0][:, index[0]], ends[1][:, index[0]] = slope.lo, slope.hi
        return Interval(*ends)

    def _gradient_norm(self, gradient: Interval) -> Array:
        return np.asarray(np.sqrt(self._inner(gradient, gradient)) * _ROUNDED)

    def _hessian_norm(self, jet: Jet) -> Array:
        """Upper bound of the norm of the whitened Hessian at the centre, (tr H⁴)^(1/4)."""
        used = sorted({k for index in jet if len(index) == 2 for k in index})
        middle, size = np.zeros((len(self._norms), len(used), len(used))), np.zeros(())
        doubt = np.zeros(())
        for index, bend in jet.items():
            if len(index) == 2:
                a, b = index
                weight = (1.0 if a == b else 2.0) * self._norms[:, a] * self._norms[:, b]
                size, doubt = size + bend.magnitude * weight, doubt + bend.width * weight
                pair = used.index(a), used.index(b)
                for i, j in (pair, pair[::-1]):
                    middle[:, i, j] = 0.5 * (bend.lo + bend.hi)
        if not used:
            return np.zeros(())
        square = middle @ self._gram[:, used][:, :, used]
        square = square @ square
        fourth = np.maximum((square * square.transpose(0, 2, 1)).sum(axis=(1, 2)), 0.0)
        return np.asarray((fourth + RELATIVE * size**4) ** 0.25 * _ROUNDED + doubt)


def _intersection(left: Interval, right: Interval) -> Interval:
    return Interval(np.maximum(left.lo, right.lo), np.minimum(left.hi, right.hi))


def _magnitudes(jet: Jet) -> dict[Index, Array]:
    return {index: value.magnitude for index, value in jet.items()}


def _product(left: Array, right: Array) -> Array:
    """Product of bounds; 0 if one of them is 0."""
    return np.where((left == 0.0) | (right == 0.0), 0.0, left * right)
