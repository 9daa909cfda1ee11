"""Bounds of groups' remainders, from enclosures of their rows' derivatives at all nodes.

A group has |r(w)| <= c |w|³/6 for whitened w in a ball: c averages the third derivative along the
way from the centre, where it is computed; further out, bounds of the fourth derivative over nested
balls add to it. If the coordinate is the square of a scale, or fewer groups are drawn by it,
positions are covered by slabs, each between two values of a scale, and |r| is bounded in ellipsoids
about the middle of each slab, where r and three derivatives are computed.

Rows enter by their derivatives D over the intervals of their predictors: with directions v_a of
length n_a, |Σ D x_a x_b ...| <= Σ ω_a x_a² along any unit vector, x_a its product with v_a, and
ω_a = n_a⁻² Σ D n_a n_b ... over all indices that begin with a.
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement, pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED
from pymc_minibatch_mh.bounds.jets import Jet, Jets
from pymc_minibatch_mh.bounds.remainder import branches_by_data, n_orderings
from pymc_minibatch_mh.bounds.row_pass import BOUNDING
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.compiled.group_rows import GroupRows, ScaleRecord
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.native.bound_tables import RADIUS, TOTAL
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.moves import CONSTANT, ENDS
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Probabilities of a normal posterior outside of each ball, and of the balls across each slab.
TAILS, ACROSS = (0.3, 0.02, 1e-4, 1e-12), (0.3, 0.02, 1e-4, 1e-7)
#: The same outside of each of many balls; share of all groups up to which they save little.
MANY_TAILS, WORTH_MANY = (0.5, 0.3, 0.15, 0.07, 0.02, 0.004, 1e-4, 1e-12), 1.0 / 50.0
#: Maximum numbers of nodes of which pairs are bounded as well, by coarse covers and by fine ones.
PAIRED, ALL_PAIRED = 32, 128
#: First and last value of the square of a scale that slabs hold, in its standard deviations.
ENDS_OF_SLABS = -4.5, 5.3
#: Slabs that are tried: half width in standard deviations of the scale, number of balls in which
#: derivatives are bounded, and share of all groups up to which drawing fewer saves little.
SLABS = (1.5, 1, 0.0), (0.75, 1, 0.0), (0.5, len(ACROSS), 1.0 / 300.0)
#: Ends of slabs along an entry of the factor of two effects, in its standard deviations; width of
#: their ellipsoids along it, relative to that across; share of a ball's width that tells which
#: entry bounds depend on.
ENDS_ALONG = np.array([-4.5, -3.0, -2.0, -1.25, -0.75, -0.25, 0.25, 0.75, 1.25, 2.0, 3.0, 4.5])
ASPECT, NARROWED = 0.7, 0.25
#: Number of normal proposals for which influential groups are chosen.
TYPICAL_MOVES = 1_000
#: Number of ranges of groups that regions are tried on, and groups in each: for bounds, and for a
#: forecast; number of groups drawn in an update up to which smaller regions save little.
TRIALS, TRIAL_GROUPS, FORECAST_GROUPS, FEW_GROUPS = 8, 64, 16, 2.0
#: Inner balls, whose derivatives are bounded as well, by their share of the smallest radius.
INNER = (0.25, 0.5, 0.75)
#: Bound that stands for none; maximum share of groups without one, which every update evaluates.
NO_BOUND, MAX_WITHOUT = 1e30, 0.02
#: Share of the groups beyond which updates are forecast to evaluate all: bounds would save little.
MOST_EVALUATED = 0.95
#: Number of evaluations, rows times nodes, in a task.
EVALUATIONS_IN_TASK = 65_536
#: Kinds of suprema of a node: second, third and fourth derivative, and the second upwards.
KINDS = 4


class Region(NamedTuple):
    """Balls in coordinates y of positions θ + factor y, with ascending `radii`: ``mh_region``.

    Derivatives are bounded in the last `n_kinds` balls, and elsewhere as in the first of these. The
    last `lengths.size` balls hold positions up to these lengths, between two numbers along a line.
    """

    theta: np.ndarray
    factor: np.ndarray
    radii: np.ndarray
    n_kinds: int
    lengths: np.ndarray
    interval: tuple[float, float] = (-np.inf, np.inf)
    most_paired: int = PAIRED


class Cover(NamedTuple):
    """Regions that hold all likely positions: slabs along a unit vector, or balls if it is None.

    Groups are not worth a finer cover if these draw at most this `share` of them, or few.
    """

    regions: list[Region]
    along: np.ndarray | None
    share: float = 0.0


class NodeBoundsPass:
    """Bounds of all groups around a centre, over balls with several radii or over slabs."""

    def __init__(self, rows: GroupRows, reference: Reference) -> None:
        self._rows, self._reference = rows, reference
        # Coordinate that is the square of a scale, or -1, and its direction.
        squares = [scale.coordinate for scale in rows.layout.scales if scale.root == 2]
        self._squared = squares[0] if squares else -1
        self._along: np.ndarray | None = None
        if squares:
            self._length = float(np.linalg.norm(reference.factor[self._squared]))
            self._along = reference.factor[self._squared] / self._length

    def tables(self) -> Tables:
        """Bounds of all groups; BoundsError if a group has none over the smallest region."""
        report_stage(BOUNDING)
        cover, evaluated = self._best_cover(TRIAL_GROUPS)
        if cover.along is None and evaluated > MOST_EVALUATED * self._rows.layout.n_groups:
            cover = Cover([self._ball(self._balls_of_mode()[:1])], None)
        headers, intervals, c = self._tables_of(cover, self._tasks())
        usable = _usable(c)
        if not usable.size:
            group = int(np.argmax(c[0]))
            name = self._rows.layout.groups.name
            raise BoundsError(f"group {group} of {name!r} has no bound over the trust region")
        c = c[usable].astype(np.float32)
        c = np.nextafter(c, np.float32(np.inf))
        headers, intervals = headers[usable], intervals[usable]
        headers[:, TOTAL] = c.sum(axis=1, dtype=np.float64)
        heavy = _influential_groups(self._mean_sizes(cover.along, headers, intervals) @ c)[0]
        if cover.along is None:
            return Tables(headers, c, heavy=heavy)
        return Tables(headers, c, heavy=heavy, along=cover.along, intervals=intervals)

    def _mean_sizes(
        self, axis: np.ndarray | None, headers: np.ndarray, intervals: np.ndarray
    ) -> np.ndarray:
        """Mean over typical moves of the size M by each table, 0 in moves that use another one."""
        rng = np.random.default_rng(PREPARATION_SEED)
        ends = rng.standard_normal((TYPICAL_MOVES, 2, self._reference.size))
        along = np.zeros(ends.shape[:2]) if axis is None else ends @ axis
        lengths = np.sqrt((ends**2).sum(axis=2) - along**2)
        sizes = np.ones(TYPICAL_MOVES)
        if axis is None:
            sizes = (lengths**3).sum(axis=1) / 6.0
        low, high = intervals.T[:, :, None, None]
        holds = (low <= along) & (along <= high) & (lengths <= headers[:, RADIUS, None, None])
        totals = np.where(holds.all(axis=2), headers[:, TOTAL, None], np.inf)
        table, some = np.argmin(totals, axis=0), np.isfinite(totals).any(axis=0)
        return np.bincount(table[some], sizes[some], len(headers)) / TYPICAL_MOVES

    def forecast_evaluated(self) -> float:
        """Mean number of groups that an update evaluates, forecast from some groups."""
        return self._best_cover(FORECAST_GROUPS)[1]

    def _best_cover(self, length: int) -> tuple[Cover, float]:
        """Cover by which fewest groups are drawn, of those until few are, and their number.

        It is tried on ranges of groups of some length.
        """
        n_groups = self._rows.layout.n_groups
        firsts = np.linspace(0, n_groups - length, TRIALS).astype(int).clip(0)
        trials = [(k, min(k + length, n_groups)) for k in np.unique(firsts).tolist()]
        tried = sum(last - first for first, last in trials) / n_groups
        best, least = Cover([], None), np.inf
        for cover in self._covers(trials):
            if best.regions and least <= max(FEW_GROUPS, cover.share * n_groups):
                break
            headers, intervals, c = self._tables_of(cover, trials)
            usable, read = _usable(c), np.inf
            if usable.size:
                sizes = self._mean_sizes(cover.along, headers[usable], intervals[usable])
                read = _influential_groups(sizes @ c[usable])[1] / tried
            if not best.regions or read <= least:
                best, least = cover, read
        return best, least

    def _covers(self, trials: list[tuple[int, int]]) -> Iterator[Cover]:
        """Covers from coarse to fine ones; `trials` are ranges of groups that stand for all."""
        if self._along is not None:
            yield from self._slabs(self._along)
            return
        yield from self._balls()
        scales = self._rows.layout.free_scales
        if len(self._rows.layout.offsets) > 1 and scales:
            yield self._slabs_along(min(scales, key=partial(self._narrowed, trials)))

    def _balls_of_mode(self, tails: tuple[float, ...] = TAILS) -> np.ndarray:
        """Radii of the balls about the centre."""
        return np.sqrt([chdtri(self._reference.size, tail) for tail in tails])

    def _balls(self) -> Iterator[Cover]:
        """Balls about the centre, without inner ones, with them, and many with all nodes' pairs."""
        shares, outer = np.array(INNER), self._balls_of_mode()
        for inner in (shares[:0], shares):
            yield Cover([self._ball(outer, outer[0] * inner)], None)
        outer = self._balls_of_mode(MANY_TAILS)
        many = self._ball(outer, outer[0] * shares)._replace(most_paired=ALL_PAIRED)
        yield Cover([many], None, WORTH_MANY)

    def _ball(self, outer: np.ndarray, inner: np.ndarray | tuple = ()) -> Region:
        """Balls about the centre that have bounds, and inner ones."""
        radii = np.concatenate([inner, outer])
        return Region(self._reference.centre, self._reference.factor, radii, radii.size, outer)

    def _narrowed(self, trials: list[tuple[int, int]], scale: ScaleRecord) -> float:
        """Sum of bounds in a ball that is narrow along an entry of the effects' factor."""
        factor, radius = self._reference.factor, self._balls_of_mode()[1:2]
        along = _unit(factor[scale.coordinate])
        narrow = factor - (1.0 - NARROWED) * np.outer(factor @ along, along)
        ball = Region(self._reference.centre, narrow, radius, 1, radius)
        return float(self._tables_of(Cover([ball], None), trials)[2].sum())

    def _slabs_along(self, scale: ScaleRecord) -> Cover:
        """Ellipsoids about the middles of slabs along an entry of the effects' factor."""
        reference, k = self._reference, scale.coordinate
        along, size = _unit(reference.factor[k]), float(np.linalg.norm(reference.factor[k]))
        line = reference.factor @ along
        sideways, ends = reference.factor - np.outer(line, along), ENDS_ALONG
        if scale.row == scale.column:
            # Standard deviations are positive.
            first = -reference.centre[k] / size
            ends = np.unique(np.maximum(ends, first))
        rest = np.sqrt([chdtri(max(reference.size - 1, 1), tail) for tail in ACROSS])
        radii, regions = np.hypot(ASPECT * rest[0], rest), []
        for low, high in pairwise(ends.tolist()):
            factor = sideways + np.outer(line, along) * (high - low) / (2.0 * ASPECT * rest[0])
            theta = reference.centre + line * (low + high) / 2.0
            regions.append(Region(theta, factor, radii, radii.size, rest, (low, high)))
        return Cover(regions, along)

    def _slabs(self, along: np.ndarray) -> Iterator[Cover]:
        """Slabs of equal widths in the scale, ascending, from coarse to fine ones."""
        length, square = self._length, self._reference.centre[self._squared]
        low, high = np.sqrt(np.maximum(square + length * np.array(ENDS_OF_SLABS), 0.0))
        for half_width, n_kinds, share in SLABS:
            count = np.ceil((high - low) * np.sqrt(square) / (half_width * length))
            edges = np.linspace(low, high, int(count) + 1)
            slabs = [self._slab(*pair, along, n_kinds) for pair in pairwise(edges)]
            yield Cover(slabs, along, share)

    def _slab(self, low: float, high: float, along: np.ndarray, n_kinds: int) -> Region:
        """Ellipsoids about the middle of a slab between two values of the scale τ.

        With z = `along` · w, positions are centre + F z along + F u in coordinates with τ², and
        linear in z - z₀ = (2 τ₀ a + a²)/length, a = τ - τ₀: the part in a² moves u.
        """
        reference, k = self._reference, self._squared
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        square, length = reference.centre[k], self._length
        twist = float(np.linalg.norm(along - length * reference.whitener[:, k]))
        rest = np.sqrt([chdtri(max(reference.size - 1, 1), tail) for tail in ACROSS])
        reach = rest + twist * half**2 / length
        line = reference.factor @ along
        theta = reference.centre + line * (middle**2 - square) / length
        sideways = reference.factor - np.outer(line, along)
        line = line * 2.0 * middle / length
        theta[k], line[k], sideways[k] = middle, 1.0, 0.0
        factor = sideways + np.outer(line, along) * half / reach[0]
        interval = (low**2 - square) / length, (high**2 - square) / length
        return Region(theta, factor, np.hypot(reach[0], reach), n_kinds, rest, interval)

    def _tables_of(
        self, cover: Cover, tasks: list[tuple[int, int]]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Headers and intervals of tables, shapes (T, 3) and (T, 2), and bounds of some groups."""
        regions, lengths = cover.regions, cover.regions[0].lengths
        parts = list(on_all_cores(partial(self._bound_task, regions), tasks, BOUNDING))
        each = np.concatenate(parts, axis=2)[:, -lengths.size :]
        if cover.along is None:
            c, kind = 6.0 * each[0] / lengths[:, None] ** 3, ENDS
            intervals = np.array([regions[0].interval] * lengths.size)
        else:
            hulls, together = _nested(each, np.array([x.interval for x in regions]))
            # Of both ends.
            c, kind = 2.0 * together, CONSTANT
            intervals = np.repeat(hulls, lengths.size, axis=0)
        c, radii = np.where(c < NO_BOUND, c, NO_BOUND), np.resize(lengths, len(c))
        headers = np.stack([radii, np.full(len(c), float(kind)), c.sum(axis=1)], axis=1)
        return headers, intervals, c

    def _tasks(self) -> list[tuple[int, int]]:
        """Ranges of groups with about the same number of evaluations."""
        starts = self._rows.layout.starts
        ends = np.cumsum((starts[:, 1:] - starts[:, :-1]).sum(axis=0) + 1)
        each = max(1, EVALUATIONS_IN_TASK // self._rows.nodes.z.shape[2])
        cuts = np.searchsorted(ends, np.arange(each, ends[-1], each), side="left") + 1
        cuts = np.unique([0, *cuts, ends.size])
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def _bound_task(self, regions: list[Region], task: tuple[int, int]) -> np.ndarray:
        """Bounds of |r| of some groups in the balls of regions, shape (regions, radii, groups)."""
        rows, *task_of_rows = self._rows.part(*task)
        return np.array([self._bound_in(region, rows, *task_of_rows) for region in regions])

    def _bound_in(self, region: Region, rows: GroupRows, first: int, last: int) -> np.ndarray:
        """Bounds of |r| of a range of groups in the balls of a region, shape (radii, groups)."""
        layout, n_nodes = rows.layout, rows.nodes.z.shape[2]
        counts = layout.starts[:, last] - layout.starts[:, first]
        # Rows of large groups are evaluated at one node.
        times = [n_nodes if k < layout.n_integrated else 1 for k in range(len(counts))]
        widths = [len(f.arguments) * n for f, n in zip(layout.functions, times, strict=True)]
        begins = np.cumsum([0, *(n * width for n, width in zip(counts, widths, strict=True))])
        values, norms = np.empty(begins[-1]), np.empty(begins[-1])
        # Bounds hold in scales themselves, in which predictors are linear.
        groups = rows.record_of_scales()
        arguments = groups, region.theta, region.factor, first, last, begins[:-1].copy()
        function("mh_place_nodes")(*arguments, values, norms)
        weights = np.empty((region.n_kinds, KINDS, begins[-1]))
        for k, term in enumerate(layout.functions):
            part = slice(begins[k], begins[k + 1])
            if counts[k]:
                numbers = layout.rows[layout.starts[k, first] : layout.starts[k, last]]
                m = len(term.arguments)
                some = values[part].reshape(-1, m), norms[part].reshape(-1, m)
                for r, radius in enumerate(region.radii[-region.n_kinds :]):
                    weighted = _weights_of(term, np.repeat(numbers, times[k]), *some, radius)
                    weights[r, :, part] = weighted.reshape(KINDS, -1)
        suprema = np.empty((region.n_kinds, KINDS, last - first, n_nodes))
        n_weights = region.n_kinds * KINDS
        function("mh_norms_of_nodes")(*arguments, begins[-1], n_weights, weights, suprema)
        bounds = np.empty((region.radii.size, last - first))
        centre = self._reference.centre
        control = None if region.theta is centre else rows.record()
        function("mh_bound_groups")(
            groups, first, last, region, suprema, control, centre, self._squared, bounds
        )
        return bounds


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / np.linalg.norm(vector)


def _usable(c: np.ndarray) -> np.ndarray:
    """Tables in which most groups have a bound."""
    return np.flatnonzero((c >= NO_BOUND).mean(axis=1) <= MAX_WITHOUT)


def _influential_groups(drawn: np.ndarray) -> tuple[np.ndarray, float]:
    """Groups that every update evaluates, and number of groups that it evaluates on average.

    The groups are as many as make this number least; `drawn` has expected draws of each group.
    """
    order = np.argsort(-drawn, kind="stable")
    rest = np.append(np.cumsum(drawn[order][::-1])[::-1], 0.0)
    read = np.arange(rest.size) + rest
    count = int(np.argmin(read))
    return np.sort(order[:count]).astype(np.int64), float(read[count])


def _nested(bounds: np.ndarray, intervals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nested intervals, shape (slabs, 2), and bounds over each, shape (slabs · lengths, groups).

    They grow from the slab with the smallest `bounds`, shape (slabs, lengths, groups), to either
    side.
    """
    totals = bounds[:, 0].sum(axis=1)
    low = high = int(np.argmin(totals))
    hulls, together = [intervals[low]], [bounds[low]]
    while len(hulls) < len(bounds):
        if high + 1 == len(bounds) or (low > 0 and totals[low - 1] < totals[high + 1]):
            low = added = low - 1
        else:
            high = added = high + 1
        hulls.append([intervals[low, 0], intervals[high, 1]])
        together.append(np.maximum(together[-1], bounds[added]))
    return np.array(hulls), np.concatenate(together)


def _weights_of(
    term: RowFunction, rows: np.ndarray, values: np.ndarray, norms: np.ndarray, radius: float
) -> np.ndarray:
    """Weights of the squared directions of predictors, shape (kinds, rows, m), over a ball."""
    m = values.shape[1]
    reach = radius * norms
    boxes = [
        Interval.rounded(values[:, a] - reach[:, a], values[:, a] + reach[:, a]) for a in range(m)
    ]
    weighted = np.zeros((KINDS, rows.size, m))
    with np.errstate(all="ignore"):
        for some, data, branch in branches_by_data(term.root, RowData(term, rows)):
            box = boxes if some.size == rows.size else [side.take(some) for side in boxes]
            jet = Jets(data, box, 4).of(branch)
            for order in (2, 3, 4):
                weighted[order - 2, some] = _by_predictor(jet, order, norms[some])
            weighted[3, some] = _upward(jet, norms[some], weighted[0, some])
    return np.where(np.isnan(weighted), np.inf, weighted)


def _by_predictor(jet: Jet, order: int, norms: np.ndarray) -> np.ndarray:
    """Weights of an order, shape (rows, m): sums over indices that contain a predictor."""
    m = norms.shape[1]
    total = np.zeros(norms.shape)
    for index in combinations_with_replacement(range(m), order):
        if index not in jet:
            continue
        size = jet[index].magnitude * prod(norms[:, k] for k in index)
        for a in set(index):
            # Of the orderings of an index, this share begins with the predictor.
            share = index.count(a) / order * n_orderings(index)
            total[:, a] += share * size
    return np.where(norms > 0.0, total / norms**2, 0.0)


def _upward(jet: Jet, norms: np.ndarray, absolute: np.ndarray) -> np.ndarray:
    """Weights of the second derivative upwards: 0 for a concave function of one predictor."""
    if norms.shape[1] > 1 or (0, 0) not in jet:
        return absolute
    return np.broadcast_to(np.maximum(jet[0, 0].hi, 0.0), (norms.shape[0],))[:, None]
