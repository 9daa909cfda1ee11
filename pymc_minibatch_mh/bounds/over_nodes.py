"""Bounds of groups' remainders, from enclosures of their rows' derivatives at all nodes.

A group has |r(w)| <= c |w|³/6 for whitened w in a ball: c averages the third derivative along the
way from the centre, where it is computed; further out, bounds of the fourth derivative over nested
balls add to it. Rows enter by their derivatives D over the intervals of their predictors: with
directions v_a of length n_a, |Σ D x_a x_b ...| <= Σ ω_a x_a² along any unit vector, x_a its product
with v_a, and ω_a = n_a⁻² Σ D n_a n_b ... over all indices that begin with a.
"""

from itertools import combinations_with_replacement
from math import prod

import numpy as np
from scipy.special import chdtri

from pymc_minibatch_mh.bounds.bound_check import PREPARATION_SEED
from pymc_minibatch_mh.bounds.bounds_pass import BOUNDING
from pymc_minibatch_mh.bounds.jets import Jet, Jets
from pymc_minibatch_mh.bounds.remainder import branches_by_data, n_orderings
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.compiled.group_rows import GroupRows
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.moves import ENDS
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Probabilities of a normal posterior outside of each ball.
TAILS = (0.3, 0.02, 1e-4, 1e-12)
#: Number of normal proposals for which influential groups are chosen.
TYPICAL_MOVES = 1_000
#: Number of ranges of groups in a forecast, and groups in each; number of groups drawn in an update
#: up to which inner balls would save little.
TRIALS, TRIAL_GROUPS, FEW_GROUPS = 8, 64, 2.0
#: Inner balls, whose derivatives are bounded as well, by their share of the smallest radius.
INNER = (0.25, 0.5, 0.75)
#: Bound that stands for none; maximum share of groups without one, which every update evaluates.
NO_BOUND, MAX_WITHOUT = 1e30, 0.02
#: Number of evaluations, rows times nodes, in a task.
EVALUATIONS_IN_TASK = 65_536
#: Kinds of suprema of a node: second, third and fourth derivative, and the second upwards.
KINDS = 4


class NodeBoundsPass:
    """Bounds of all groups around a centre, over balls with several radii."""

    def __init__(self, rows: GroupRows, reference: Reference) -> None:
        self._rows, self._reference = rows, reference
        # Bounds hold in the scale itself, in which predictors are linear, also if the coordinate is
        # its square x: the root has the derivative 1/(2 √x).
        self._centre, self._factor = reference.centre.copy(), reference.factor.copy()
        self._unit: np.ndarray | None = None
        self._squared = -1
        for scale in rows.layout.scales:
            if scale.root == 2:
                k = self._squared = scale.coordinate
                self._centre[k] = np.sqrt(reference.centre[k])
                self._factor[k] /= 2.0 * self._centre[k]
                self._unit = 2.0 * self._centre[k] * reference.whitener[:, k]
        size = reference.centre.size
        self.outer = self.radii = np.sqrt([chdtri(size, tail) for tail in TAILS])

    def tables(self) -> Tables:
        """Bounds of all groups; BoundsError if a group has none over the smallest ball."""
        report_stage(BOUNDING)
        tasks = self._tasks()
        if self.forecast() > FEW_GROUPS:
            self.radii = np.concatenate([self.outer[0] * np.array(INNER), self.outer])
        parts = list(on_all_cores(self._bound_task, tasks, BOUNDING))
        c = np.concatenate(parts, axis=1)[-self.outer.size :]
        without = ~(c < NO_BOUND)
        usable = np.flatnonzero(without.mean(axis=1) <= MAX_WITHOUT)
        if not usable.size:
            group = int(np.argmax(without[0]))
            name = self._rows.layout.groups.name
            raise BoundsError(f"group {group} of {name!r} has no bound over the trust region")
        c = np.where(without, NO_BOUND, c)[usable].astype(np.float32)
        c = np.nextafter(c, np.float32(np.inf))
        totals = c.sum(axis=1, dtype=np.float64)
        kinds = np.full(usable.size, float(ENDS))
        headers = np.stack([self.outer[usable], kinds, totals], axis=1)
        heavy = self._influential_groups(self.outer[usable], c)
        return Tables(headers, c, 1.0, heavy=heavy, squared=self._squared)

    def _influential_groups(self, radii: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Groups that every update evaluates: as many as make it evaluate fewest on average."""
        size, rng = self._reference.size, np.random.default_rng(PREPARATION_SEED)
        lengths = np.sqrt(rng.chisquare(size, (TYPICAL_MOVES, 2)))
        table = np.minimum(np.searchsorted(radii, lengths.max(axis=1)), radii.size - 1)
        sizes = (lengths**3).sum(axis=1) / 6.0
        units = np.bincount(table, sizes, radii.size) / TYPICAL_MOVES
        order = np.argsort(-(units @ c), kind="stable")
        drawn = np.append(np.cumsum((units @ c)[order][::-1])[::-1], 0.0)
        count = int(np.argmin(np.arange(drawn.size) + drawn))
        return np.sort(order[:count]).astype(np.int64)

    def forecast(self) -> float:
        """Number of groups that a typical update draws, estimated on some ranges of groups."""
        n_groups = self._rows.layout.n_groups
        firsts = np.linspace(0, n_groups - TRIAL_GROUPS, TRIALS).astype(int).clip(0)
        trials = [(k, min(k + TRIAL_GROUPS, n_groups)) for k in np.unique(firsts).tolist()]
        parts = list(on_all_cores(self._bound_task, trials, BOUNDING))
        mean = np.concatenate(parts, axis=1)[1].mean()
        return float(mean * n_groups * (2.0 * self._reference.size**1.5) / 6.0)

    def _tasks(self) -> list[tuple[int, int]]:
        """Ranges of groups with about the same number of evaluations."""
        starts = self._rows.layout.starts
        ends = np.cumsum((starts[:, 1:] - starts[:, :-1]).sum(axis=0) + 1)
        each = max(1, EVALUATIONS_IN_TASK // self._rows.nodes.z.shape[2])
        cuts = np.searchsorted(ends, np.arange(each, ends[-1], each), side="left") + 1
        cuts = np.unique([0, *cuts, ends.size])
        return list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))

    def _bound_task(self, task: tuple[int, int]) -> np.ndarray:
        """Bounds of some groups, shape (radii, groups)."""
        rows, first, last = self._rows.part(*task)
        layout, n_nodes = rows.layout, rows.nodes.z.shape[2]
        counts = layout.starts[:, last] - layout.starts[:, first]
        widths = [len(f.arguments) * n_nodes for f in layout.functions]
        begins = np.cumsum([0, *(n * width for n, width in zip(counts, widths, strict=True))])
        values, norms = np.empty(begins[-1]), np.empty(begins[-1])
        arguments = (
            rows.record_of_scales(),
            self._centre,
            self._factor,
            first,
            last,
            begins[:-1].copy(),
        )
        function("mh_place_nodes")(*arguments, values, norms)
        weights = np.empty((self.radii.size, KINDS, begins[-1]))
        for k, term in enumerate(layout.functions):
            part = slice(begins[k], begins[k + 1])
            if counts[k]:
                numbers = layout.rows[layout.starts[k, first] : layout.starts[k, last]]
                m = len(term.arguments)
                some = values[part].reshape(-1, m), norms[part].reshape(-1, m)
                for r, radius in enumerate(self.radii):
                    weighted = _weights_of(term, np.repeat(numbers, n_nodes), *some, radius)
                    weights[r, :, part] = weighted.reshape(KINDS, -1)
        suprema = np.empty((self.radii.size, KINDS, last - first, n_nodes))
        n_kinds = self.radii.size * KINDS
        function("mh_norms_of_nodes")(*arguments, begins[-1], n_kinds, weights, suprema)
        c = np.empty((self.radii.size, last - first))
        function("mh_bound_groups")(
            *arguments[:-1], self.radii.size, self.radii, suprema, self._unit, c
        )
        return c


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
