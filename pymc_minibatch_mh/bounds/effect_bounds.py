"""Bounds of rows as functions of the effects of small groups, from enclosures of derivatives.

An effect is drawn by rejection: ``native/effects.c`` has the envelopes of its density. Tangents are
an envelope if the law of the effects, and rows at all values of their predictors, are log-concave.
Otherwise an envelope needs upper bounds for the sum over a group's rows: of its second derivative
over cells of the effect, and of its outward slope and its value beyond all cells. Slopes are
derivatives in the model's own effect α. Bounds hold over a ball of positions.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from pymc_minibatch_mh.bounds.jets import Jet, Jets
from pymc_minibatch_mh.bounds.remainder import branches_by_data, n_orderings
from pymc_minibatch_mh.compiled.group_rows import GroupLayout, GroupRows, Nodes
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Reference, whitened_norm
from pymc_minibatch_mh.reference.effect_nodes import EffectMoments, standard_nodes
from pymc_minibatch_mh.reference.full_data import CHUNK, on_all_cores
from pymc_minibatch_mh.reference.node_rule import (
    GROUPS_IN_TASK,
    GroupTarget,
    placed_at,
    values_at_nodes,
)
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Ends of cells on each side of the mean, in standard deviations; maximum number of cells beyond.
DISTANCES, MAX_OUTER = np.array([0.75, 1.5, 2.5, 4.0, 6.5]), 12
#: Minimum absolute effect at the last end, beyond which all laws decay.
MIN_END = 4.0
#: Largest mass of a tail by its ceiling, in logarithms relative to the peak of the density.
MAX_MASS = -2.0
#: Fall by the law alone from the peak of a group's log-density to a last end that is moved; maximum
#: excess of rows over the peak that is made up for; maximum of such an end, in the model's effect.
MIN_FALL, MAX_EXCESS, MAX_END = 7.0, 300.0, 300.0
#: Absolute effect beyond which no computed draw lies: products with 0, rounded outward, are small.
FAR = 1e100
#: Probability of a normal posterior outside of the ball over which bounds hold.
TAIL = 1e-3
#: Slack of outward rounding at 0: second derivatives that are at most this large are concave.
UNDERFLOW = 1e-200


@dataclass(frozen=True, eq=False)
class EffectBounds:
    """Bounds over a ball of positions, with `radius` standard deviations, around a `centre`.

    Cells lie between `ends`, shape (groups, cells + 1), and have bounds of second derivatives,
    `curvatures`. Outward `slopes` and values, `ceilings`, below and above all cells have shape
    (groups, 2).
    """

    centre: Array
    whitener: Array
    radius: float
    ends: Array
    curvatures: Array
    slopes: Array
    ceilings: Array

    def hold_at(self, position: Array) -> bool:
        """Whether a position is in the ball."""
        if self.radius == 0.0:
            return np.array_equal(position, self.centre)
        return whitened_norm(self.whitener, position, self.centre) <= self.radius


_concave: WeakKeyDictionary[GroupLayout, bool] = WeakKeyDictionary()


def is_log_concave(target: GroupTarget) -> bool:
    """Whether the law and, at all values of their predictors, rows are proved to be log-concave."""
    layout = target.compiled.layout
    if layout not in _concave:
        law, effects = layout.groups.law.name, range(layout.size, layout.size + len(layout.offsets))
        _concave[layout] = law != "t" and all(_is_concave(f, effects) for f in layout.functions)
    return _concave[layout]


def _is_concave(term: RowFunction, effects: range) -> bool:
    """Whether all rows of a term are concave in the effects, which are these coordinates."""

    def is_concave(first: int) -> bool:
        data = RowData(term, slice(first, min(first + CHUNK, term.n_rows)))
        boxes = [Interval.whole_line(data.rows.shape)] * len(term.arguments)
        lines = [_coefficients(data, effect) for effect in effects]
        # A function of one predictor is concave in several effects if it is in each of them.
        if len(effects) > 1 and len(set().union(*lines)) > 1:
            return False
        bends = (_along_effect(data, boxes, line, 2)[1] for line in lines)
        return all((bend.hi <= UNDERFLOW).all() for bend in bends)

    return all(on_all_cores(is_concave, range(0, term.n_rows, CHUNK)))


def require_drawable(target: GroupTarget) -> None:
    """Raise BoundsError if groups have several effects, whose rows are not log-concave."""
    groups = target.compiled.layout.groups
    if len(groups.effects) > 1 and not is_log_concave(target):
        raise BoundsError(
            f"the effects {groups.name!r} cannot be drawn exactly, because there are two for each "
            "group and rows are not log-concave in them. Sample with blocks=True, or with "
            "effects=False."
        )


def bounds_around(target: GroupTarget, reference: Reference) -> EffectBounds | None:
    """Bounds over a ball around a reference; None if draws need none.

    BoundsError if a group has rows without a bound.
    """
    if is_log_concave(target):
        return None
    require_drawable(target)
    radius = float(np.sqrt(chdtri(reference.size, TAIL)))
    around = _RowsAround(target.group_rows, reference.centre, reference.factor, radius)
    return _bounds_of(target, around, reference.whitener)


def bounds_at(target: GroupTarget, position: Array) -> EffectBounds:
    """Bounds at a position; BoundsError if a group has rows without a bound."""
    require_drawable(target)
    zeros = np.zeros((position.size, position.size))
    return _bounds_of(target, _RowsAround(target.group_rows, position, zeros, 0.0), zeros)


def _bounds_of(target: GroupTarget, around: "_RowsAround", whitener: Array) -> EffectBounds:
    cells = _Cells(target, around.centre)
    bounds = around.bounds(cells.ends())
    if cells.extend(*bounds[1:], float(around.scales.hi)):
        bounds = around.bounds(cells.ends())
        if cells.withdraw(bounds[0]):
            bounds = around.bounds(cells.ends())
    unbounded = np.flatnonzero(~(bounds[0] < np.inf).all(axis=1))
    if unbounded.size:
        name = target.compiled.layout.groups.name
        raise BoundsError(
            f"the effects of {name!r} cannot be drawn exactly, because rows of group "
            f"{unbounded[0]} have second derivatives without a known bound. Sample with "
            "blocks=True, or with effects=False."
        )
    return EffectBounds(around.centre, whitener, around.radius, cells.ends(), *bounds)


class _Cells:
    """Cells of effects around their means at a position, between ends at least `reach` from 0."""

    def __init__(self, target: GroupTarget, position: Array) -> None:
        z, self._law = target.group_rows.nodes.z, target.compiled.layout.groups.law
        sd = np.ptp(z, axis=2) / np.ptp(standard_nodes(self._law, z.shape[2])[0])
        before = EffectMoments(z.mean(axis=2), sd[:, :, None])
        target, moments = placed_at(target, position, before)
        self._mean, self._sd = moments.mean[:, 0], moments.factor[:, 0, 0]
        self._nearest = max(MIN_END, 3.0 * math.sqrt(self._law.shape))
        self._reach = np.full((self._mean.size, 2), self._nearest)
        rows = target.group_rows
        values = values_at_nodes(rows, position) - rows.nodes.log_weights
        self._peaks = (values + self._density(rows.nodes.z[:, 0])).max(axis=1, keepdims=True)

    def _density(self, z: Array) -> Array:
        """Log-density of the law less its value at 0."""
        return self._law.log_density(z) - self._law.log_density(np.zeros(1))

    def ends(self) -> Array:
        """Ends of all groups' cells, shape (groups, cells + 1)."""
        mean, sd, last = self._mean[:, None], self._sd[:, None], DISTANCES[-1]
        growths = np.maximum((self._reach - mean * [-1.0, 1.0]) / (last * sd), 2.0)
        n_outer = min(math.ceil(np.log2(growths.max())), MAX_OUTER)
        outer = last * growths[:, :, None] ** (np.arange(1, n_outer + 1) / n_outer)
        inner = np.broadcast_to(DISTANCES, (*growths.shape, DISTANCES.size))
        below, above = np.concatenate([inner, outer], axis=2).swapaxes(0, 1)
        ends = np.concatenate([mean - sd * below[:, ::-1], mean, mean + sd * above], axis=1)
        return np.ascontiguousarray(ends)

    def extend(self, slopes: Array, ceilings: Array, largest_scale: float) -> bool:
        """Move last ends outwards where rows may rise faster, and higher, than the law falls.

        Whether any was moved.
        """
        law, reach = self._law, self._reach
        wanted = np.clip(ceilings - self._peaks, 0.0, MAX_EXCESS) + MIN_FALL
        mass = ceilings - self._peaks + self._density(reach)
        if law.name == "normal":
            falls, further = reach, np.sqrt(2.0 * wanted)
        elif law.name == "logistic":
            falls, further = np.tanh(0.5 * reach), wanted + 2.0 * np.log(2.0)
        else:
            falls, mass = np.full_like(reach, UNDERFLOW), mass + np.log(reach / law.shape)
            further = np.sqrt(law.shape) * np.exp(wanted / law.shape)
        lacking = (largest_scale * slopes > falls) & (mass > MAX_MASS)
        limited = np.minimum(further, MAX_END / largest_scale)
        self._reach = np.where(lacking, np.maximum(limited, reach), reach)
        return bool(lacking.any())

    def withdraw(self, curvatures: Array) -> bool:
        """Move last ends back in groups whose curvatures are unbounded; whether any was moved."""
        unbounded = ~(curvatures < np.inf).all(axis=1, keepdims=True)
        is_back = unbounded & (self._reach > self._nearest)
        self._reach = np.where(is_back, self._nearest, self._reach)
        return bool(is_back.any())


class _RowsAround:
    """Rows of groups over a ball, as functions of the effects."""

    def __init__(self, rows: GroupRows, centre: Array, factor: Array, radius: float) -> None:
        self._layout, self.centre, self.radius = rows.layout, centre, radius
        zeros = np.zeros((rows.layout.n_groups, 1))
        self._rows = rows.at_nodes(Nodes(zeros[:, None], zeros))
        self._factor = np.ascontiguousarray(factor)
        (scale,) = rows.layout.scales
        ends = np.array([centre, centre])
        ends[:, scale.coordinate] += np.array([-radius, radius]) * np.linalg.norm(
            factor[scale.coordinate]
        )
        #: Scales τ of the effects.
        self.scales = Interval.rounded(*scale.value_at(np.maximum(ends, 0.0)))

    def bounds(self, ends: Array) -> tuple[Array, Array, Array]:
        """Curvatures, slopes and ceilings of all groups."""

        def bounds_of(first: int, last: int) -> tuple[Array, Array, Array]:
            n, far, cuts = last - first, np.full(last - first, FAR), ends[first:last].T
            tails = Interval(-far, cuts[0]), Interval(cuts[-1], far)
            curvatures, (slopes, ceilings) = np.zeros((n, len(cuts) - 1)), np.zeros((2, n, 2))
            for box in self._boxes_of(first, last):
                for k, cell in enumerate(pairwise(cuts)):
                    curvatures[:, k] += box.sums(box.over(Interval(*cell), 2)[1].hi, n)
                for k, tail in enumerate(tails):
                    value, slope = box.over(tail, 1)
                    slopes[:, k] += box.sums(slope.hi if k else -slope.lo, n)
                    ceilings[:, k] += box.sums(value.hi, n)
            return curvatures, slopes, ceilings

        curvatures, slopes, ceilings = zip(*self._of_all_groups(bounds_of), strict=True)
        return np.concatenate(curvatures), np.concatenate(slopes), np.concatenate(ceilings)

    def _of_all_groups(self, work: Callable[[int, int], Any]) -> list[Any]:
        """Results of `work` on ranges of groups, given by the first group and the end."""
        n_groups, size = self._layout.n_groups, GROUPS_IN_TASK
        tasks = [(k, min(k + size, n_groups)) for k in range(0, n_groups, size)]
        return list(on_all_cores(lambda task: work(*task), tasks))

    def _boxes_of(self, first: int, last: int) -> Iterator["_EffectBox"]:
        """Rows of each term that has some, with their predictors without the effects."""
        rows, begin, end = self._rows.part(first, last)
        layout, starts = rows.layout, rows.layout.starts[:, begin : end + 1]
        widths = [len(f.arguments) for f in layout.functions]
        begins = np.cumsum([0, *((starts[:, -1] - starts[:, 0]) * widths)])
        values, norms = np.empty((2, begins[-1]))
        arguments = rows.record(), self.centre, self._factor, begin, end, begins[:-1].copy()
        function("mh_place_nodes")(*arguments, values, norms)
        for k, term in enumerate(layout.functions):
            part = slice(begins[k], begins[k + 1])
            value, norm = (x[part].reshape(-1, widths[k]).T for x in (values, norms))
            ends = zip(value - self.radius * norm, value + self.radius * norm, strict=True)
            if value.size:
                data = RowData(term, layout.rows[starts[k, 0] : starts[k, -1]])
                groups = np.repeat(np.arange(last - first, dtype=np.int64), np.diff(starts[k]))
                boxes = [Interval.rounded(*pair) for pair in ends]
                yield _EffectBox(data, groups, boxes, layout.size, self.scales)


class _EffectBox:
    """Predictors of rows of a term over intervals of their groups' effects."""

    def __init__(
        self, data: RowData, groups: NDArray[np.int64], boxes: Sequence[Interval], size: int,
        scales: Interval,
    ) -> None:  # fmt: skip
        self._data, self._groups, self._boxes, self._scales = data, groups, boxes, scales
        self._coefficients = _coefficients(data, size)

    def over(self, effects: Interval, order: int) -> tuple[Interval, Interval]:
        """Enclosures of the rows' values and derivatives over standardised effects."""
        effect = (self._scales * effects).take(self._groups)
        boxes = [
            box + self._coefficients[a] * effect if a in self._coefficients else box
            for a, box in enumerate(self._boxes)
        ]
        return _along_effect(self._data, boxes, self._coefficients, order)

    def sums(self, bounds: Array, n_groups: int) -> Array:
        """Sums of upper bounds of rows over each group, rounded upwards."""
        return np.bincount(self._groups, bounds + RELATIVE * np.abs(bounds), n_groups)


def _coefficients(data: RowData, size: int) -> dict[int, Array]:
    """Coefficients of the effect at coordinate `size` in predictors that have it, (rows,)."""
    totals: dict[int, Array] = {}
    for a, form in enumerate(data.function.arguments):
        for term in form.terms:
            if term.place == size:
                factor = term.factor * math.prod(data.value(x) for x in term.monomial)
                totals[a] = totals.get(a, 0.0) + np.broadcast_to(factor, data.rows.shape)
    return totals


def _along_effect(
    data: RowData, boxes: Sequence[Interval], coefficients: dict[int, Array], order: int
) -> tuple[Interval, Interval]:
    """Enclosures of rows' values, and of derivatives of an order in the effect, shape (rows,)."""
    ends = np.empty((4, data.rows.size))
    with np.errstate(all="ignore"):
        for rows, part, branch in branches_by_data(data.function.root, data):
            jet = Jets(part, [box.take(rows) for box in boxes], order).of(branch)
            taken = {a: c[rows] for a, c in coefficients.items()}
            value, along = jet[()], _directional(jet, taken, order)
            for k, end in enumerate((value.lo, value.hi, along.lo, along.hi)):
                ends[k, rows] = end
    ends[::2] = np.where(np.isnan(ends[::2]), -np.inf, ends[::2])
    ends[1::2] = np.where(np.isnan(ends[1::2]), np.inf, ends[1::2])
    return Interval(*ends[:2]), Interval(*ends[2:])


def _directional(jet: Jet, coefficients: dict[int, Array], order: int) -> Interval:
    """Enclosure of the derivative of an order along the effect."""
    total = Interval.point(0.0)
    for index in combinations_with_replacement(sorted(coefficients), order):
        if index in jet:
            times = n_orderings(index) * math.prod(coefficients[a] for a in index)
            total = total + jet[index] * times
    return total
