"""Computation of the bounds of all rows, over nested trust regions."""

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Self

import numpy as np
from psutil import virtual_memory
from scipy.special import chdtrc, chdtri

from pymc_minibatch_mh import costs
from pymc_minibatch_mh.bounds.exponential_sums import is_nonlinear_mixture, use_joint_bound
from pymc_minibatch_mh.bounds.geometry import Geometry, Groups, groups_of
from pymc_minibatch_mh.bounds.kink_bounds import KinkedRows
from pymc_minibatch_mh.bounds.remainder import rounded_up
from pymc_minibatch_mh.bounds.row_pass import BOUNDING, RowPass
from pymc_minibatch_mh.bounds.smooth_bounds import SmoothRows
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.bounds.unbounded import explain_unbounded
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.functions.interval import Array
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.whitened_copy import NO_COPY, WhitenedCopy, empty_lines, width_of
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Probabilities of a normal posterior outside each nested trust region: `TAILS` without groups of
#: rows; `TAILS_OF_GROUPS` with groups, because some group of many is often far out.
TAILS, TAILS_OF_GROUPS = (1e-2, 1e-6, 1e-12), (1e-1, 1e-6, 1e-12)
#: Probability of a normal posterior outside the smallest region of a single group, if each group
#: has a region of its own.
TAIL_OF_A_GROUP = 0.1
#: Number of trial rows for the choice of regions and interval pieces.
TRIAL_ROWS = 512
#: Maximum number of boxes into which the smallest region is cut: for all rows; for one row.
MAX_BOXES, MAX_BOXES_OF_A_ROW = 1_000_000, 16
#: Number of evaluated rows per update below which bounds are not tightened any more; evaluations
#: of each row above which that would not help, as all rows are evaluated.
FEW_ROWS, HOPELESS = 0.1, 100.0
#: Minimum relative decrease of Σc_i for one more cut; for one more table, with a smaller radius.
WORTH_A_CUT, WORTH_A_TABLE = 0.04, 0.05
#: Maximum relative excess of Σc_i at which infinite radius replaces the largest finite radius.
WORTH_INFINITY = 0.25

#: `WORTH_GROUPS`: minimum C M of a typical proposal for which groups of rows are computed;
#: `WORTH_OF_GROUPS`: maximum fraction of C M with groups, beyond which they are not used.
WORTH_GROUPS, WORTH_OF_GROUPS = 20.0, 0.5
#: Conditions for a whitened copy of rows, which rejects candidates early: more than `NARROW`
#: coordinates, C M of typical proposals >= `WORTH_A_COPY`, and a size of at most `MAX_OF_DATA`
#: times the data and `MAX_OF_FREE` of free memory (bounds and alias tables take as much again).
NARROW, WORTH_A_COPY, MAX_OF_DATA, MAX_OF_FREE = 30.0, 10.0, 4.0, 0.3

#: Maximum share of rows without a bound, which every update evaluates.
MOST_UNBOUNDED = 0.05
#: The same of trial rows around their own mode, from which that of all rows may be far: a model is
#: refused later rather than unfairly.
MOST_UNBOUNDED_IN_TRIAL = 0.25


_log = logging.getLogger("pymc")


class BoundsPass(RowPass):
    """Bounds of every row of a model's terms over nested trust regions."""

    def __init__(
        self,
        functions: Sequence[RowFunction],
        reference: Reference,
        support: tuple[Array, Array],
        names: Sequence[str] = (),
    ) -> None:
        super().__init__(functions, reference, support, names)
        self.order = reference.order + 1
        self.size = reference.centre.size
        self._groups: Groups | None = None
        self._copy = NO_COPY
        #: How rows are bounded: as smooth ones, or as rows that meet kinks.
        self.kind = SmoothRows(reference, support)

    #: Whether every update may evaluate a few rows that have no bound.
    reads_unbounded = True

    def tables(self) -> Tables:
        """Bounds of all rows; BoundsError if many are unbounded over the smallest region."""
        report_stage(BOUNDING)
        smooth = self._over_regions()
        if smooth.n_unbounded and self._has_kinks:
            across = self._of_kinked_rows()
            other = across._over_regions()
            if other.n_unbounded < smooth.n_unbounded:
                return across._tables_of(other)
        return self._tables_of(smooth)

    @property
    def _has_kinks(self) -> bool:
        return self.order > 1 and any(kinks_of(f.exprs, f.root) for f in self._functions)

    def _of_kinked_rows(self) -> Self:
        """The same pass for bounds of rows that meet kinks."""
        across = copy(self)
        across.kind, across._groups = KinkedRows(self._reference, self._support), None
        return across

    def _over_regions(self) -> "_Bounded":
        trials, radii, plans = self._plan_regions()
        self._copy = self._worthwhile_copy(trials)
        if self._groups is not None and self._draws_by_groups:
            self._groups = self._groups.with_rows(self._n_rows, self.order)
        return self._bounds_over(radii, plans)

    def _bounds_over(
        self, radii: Sequence[float], plans: Sequence[Sequence[Sequence[int]]]
    ) -> "_Bounded":
        """Bounds c_i and c̃_i of all rows; `plans`: numbers of pieces by region and term."""
        c = np.empty((len(radii), 2, self._n_rows), dtype=np.float32)
        self._fill_rows(c, partial(self._bound_pairs, radii, plans))
        return _Bounded(radii, c)

    def _tables_of(self, bounded: "_Bounded") -> Tables:
        """Bounds tables; every update evaluates rows that are unbounded in one of their regions.

        Beside them it evaluates the rows that it would draw anyway, in the regions it is in.
        """
        if bounded.n_unbounded > MOST_UNBOUNDED * self._n_rows:
            row = int(np.flatnonzero(bounded.unbounded[0])[0])
            raise self._unbounded_error(row, bounded.radii[0])
        served = bounded.regions_worth(self._probability_beyond)
        unbounded = bounded.unbounded[served[-1]]
        always = unbounded
        if unbounded.any():
            always = unbounded | (self._expected_draws(bounded, served) > 1.0)
        tables = [
            (bounded.radii[k], kind, bounded.c[k, number])
            for k in served
            for number, kind in self.kind.table_kinds(self._functions, *bounded.totals(k, ~always))
        ]
        headers = np.array([[radius, kind, _total(c, ~unbounded)] for radius, kind, c in tables])
        c = np.stack([c for _, _, c in tables])
        c[:, unbounded] = np.inf
        heavy = np.flatnonzero(always)
        return Tables(headers, c, heavy=heavy, groups=self._groups, copy=self._copy)

    def _expected_draws(self, bounded: "_Bounded", served: Sequence[int]) -> Array:
        """How often a typical update draws each row, by the probabilities of the regions."""
        draws, probability = np.zeros(self._n_rows), 1.0
        for k in served:
            wider = min(bounded.radii[k] / bounded.radii[0], 2.0)
            size = self.typical_move_size * wider**self.order
            draws += probability * size * np.fmin(*bounded.c[k])
            probability = self._probability_beyond(bounded.radii[k])
        return draws

    def _plan_regions(self) -> tuple[list["_Trial"], list[float], list[list[Sequence[int]]]]:
        """Plan the trust regions: trial rows, radii, and interval pieces per region and term."""
        trials = [_Trial(self, function) for function in self._functions]
        if self.reads_unbounded and not np.isfinite(self._forecast_total(trials)):
            for trial in trials:
                trial.reads_unbounded = True
        self._groups = self._worthwhile_groups(trials)
        radii = self._region_radii(trials)
        plans: list[list[Sequence[int]]] = [[trial.pieces(radii[0]) for trial in trials]]
        plans += [[trial.whole for trial in trials] for _ in radii[1:]]
        return trials, radii, plans

    def forecast(self) -> float:
        """C M, C = Σ c_i, of a typical proposal, estimated on a few rows; inf if unbounded."""
        return self._forecast_total([_Trial(self, function) for function in self._functions])

    def rows_in_trial(self) -> float:
        """Forecast of :meth:`forecast` if a few rows without a bound are always evaluated.

        BoundsError if very many of a few rows are unbounded over the smallest region.
        """
        self._require_bounds_in_trial()
        trials = [_Trial(self, function) for function in self._functions]
        for trial in trials:
            trial.reads_unbounded = True
        return min(self._forecast_total(trials), float(self._n_rows))

    def _require_bounds_in_trial(self) -> None:
        passes = [self, self._of_kinked_rows()] if self._has_kinks else [self]
        unbounded = [rows for rows in (x._unbounded_in_trial() for x in passes) if rows.size]
        if len(unbounded) == len(passes):
            raise self._unbounded_error(int(unbounded[0][0]), self._least_radius)

    def _unbounded_in_trial(self) -> np.ndarray:
        """Trial rows without a bound over the smallest region; empty if they are not very many."""
        trials = [_Trial(self, function) for function in self._functions]
        self._groups = self._worthwhile_groups(trials)
        radius = self._least_radius
        starts = np.cumsum([0, *(function.n_rows for function in self._functions)])
        rows = [start + x.unbounded(radius) for start, x in zip(starts, trials, strict=False)]
        total = sum(trial.n_rows for trial in trials)
        unbounded = np.concatenate(rows)
        return unbounded[: unbounded.size * (unbounded.size > MOST_UNBOUNDED_IN_TRIAL * total)]

    @property
    def typical_move_size(self) -> float:
        """Size M of a typical proposal."""
        ungrouped = self._groups is None
        return self.kind.move_size(self.size**0.5 if ungrouped else self._normal_radius(0.5))

    @property
    def _draws_by_groups(self) -> bool:
        """Whether each group of rows has a region and rates of its own."""
        return self._groups is not None and all(_has_one_predictor(f) for f in self._functions)

    @property
    def _tail_probabilities(self) -> Sequence[float]:
        return TAILS if self._groups is None else TAILS_OF_GROUPS

    def _normal_radius(self, tail: float) -> float:
        """Radius that a normal posterior exceeds with probability of at most `tail`."""
        if self._groups is None:
            return float(np.sqrt(chdtri(self.size, tail)))
        return float(np.sqrt(chdtri(self._groups.size, tail / self._groups.n_groups)))

    def _probability_beyond(self, radius: float) -> float:
        """Probability that a normal posterior is outside of a trust region."""
        if self._groups is None:
            return float(chdtrc(self.size, radius**2))
        return self._groups.n_groups * float(chdtrc(self._groups.size, radius**2))

    def _forecast_total(self, trials: Sequence["_Trial"]) -> float:
        radius = self._normal_radius(self._tail_probabilities[0])
        return self.typical_move_size * sum(trial.total(radius, trial.whole) for trial in trials)

    def _worthwhile_groups(self, trials: Sequence["_Trial"]) -> Groups | None:
        """Groups of rows, if they reduce C M enough; None otherwise."""
        whole = self._forecast_total(trials)
        if not (self.kind.has_groups and whole > WORTH_GROUPS):
            return None
        self._groups = groups_of(self._functions, self._reference.factor)
        worth = self._groups is not None and self._forecast_total(trials) < WORTH_OF_GROUPS * whole
        return self._groups if worth else None

    def _worthwhile_copy(self, trials: Sequence["_Trial"]) -> WhitenedCopy:
        """Allocate a whitened copy of the rows, to be filled later, if it is worth its memory."""
        narrow = self.kind.needs_width and self.size <= NARROW
        if narrow or self._forecast_total(trials) < WORTH_A_COPY:
            return NO_COPY
        own = self.kind.copied_directions(self._functions)
        width = width_of(self.size, own, self.kind.bytes_behind)
        columns = {id(c.values): c.values.nbytes for f in self._functions for c in f.columns}
        if not own or width * self._n_rows > MAX_OF_DATA * sum(columns.values()):
            return NO_COPY
        if not _fits_memory(width * self._n_rows):
            return NO_COPY
        return self.kind.copy_on(empty_lines(self._n_rows, width), self._functions)

    def _label_rows(self, function: RowFunction, first: int, geometry: Geometry) -> None:
        """Write groups of some rows of a term, from its row `first` on."""
        assert self._groups is not None
        pairs = zip(function.arguments, geometry.whitened, strict=True)
        (whitened,) = (w for form, w in pairs if not form.is_global)
        rows = slice(first, first + len(whitened))
        self._groups.label_rows(rows, whitened, self.kind.shared_directions(self._functions))

    @property
    def _least_radius(self) -> float:
        return self._nested_radii[0]

    @property
    def _nested_radii(self) -> list[float]:
        nested = [self._normal_radius(tail) for tail in self._tail_probabilities]
        if self._draws_by_groups:
            assert self._groups is not None
            nested.insert(0, float(np.sqrt(chdtri(self._groups.size, TAIL_OF_A_GROUP))))
        return nested

    def _region_radii(self, trials: Sequence["_Trial"]) -> list[float]:
        nested = self._nested_radii
        totals = {r: sum(t.total(r, t.whole) for t in trials) for r in [*nested, np.inf]}
        # A table of infinite radius avoids all full-data evaluations.
        kept = [np.inf] if np.isfinite(totals[np.inf]) else []
        if not kept or totals[np.inf] > (1.0 + WORTH_INFINITY) * totals[nested[-1]]:
            kept.insert(0, nested[-1])
        several = any(trial.reads_unbounded for trial in trials)
        for radius in reversed(nested[:-1]):
            # The number of unbounded rows of each region is known after all rows are bounded.
            if several or not totals[radius] > (1.0 - WORTH_A_TABLE) * totals[kept[0]]:
                kept.insert(0, radius)
        return kept

    def _bound_pairs(
        self,
        radii: Sequence[float],
        plans: Sequence[Sequence[Sequence[int]]],
        k: int,
        first: int,
        data: RowData,
    ) -> np.ndarray:
        """Bounds c_i and c̃_i of some rows of a term, shape (regions, 2, n), float32 rounded up.

        The rows are also written to the whitened copy, if there is one, from its row `first` on.
        """
        function, copied = self._functions[k], self._copy.lines.shape[0] > 0
        labelled = self._groups is not None and self._groups.labels.size > 0
        place = self.geometry(data, directions=copied or labelled)
        if labelled:
            self._label_rows(function, first, place)
        if copied:
            lines = self._copy.lines[first : first + data.rows.size]
            self.kind.pack(self._copy, lines, data, place, radii)
        result = np.empty((len(radii), 2, data.rows.size), dtype=np.float32)
        for number, radius in enumerate(radii):
            pair = self.kind.bounds(data, place, radius, plans[number][k])
            for kind, c in enumerate(pair):
                result[number, kind] = rounded_up(c)
        return result

    def _unbounded_error(self, row: int, radius: float) -> BoundsError:
        function, row = self._term_of(row)
        data = RowData(function, np.array([row]))
        boxes = self.kind.boxes(data, self.geometry(data), radius)
        return explain_unbounded(data, boxes, self.order, row, self._names)


def _total(c: Array, rows: np.ndarray) -> float:
    """Σ c_i over some rows."""
    return float(c.sum(dtype=np.float64, where=rows))


@dataclass(frozen=True, eq=False)
class _Bounded:
    """Bounds `c` of all rows over nested regions, shape (regions, 2, rows)."""

    radii: Sequence[float]
    c: np.ndarray

    @cached_property
    def unbounded(self) -> np.ndarray:
        """Whether a row has no bound over a region or a smaller one, shape (regions, rows)."""
        return np.logical_or.accumulate(~np.isfinite(self.c).all(axis=1), axis=0)

    @property
    def n_unbounded(self) -> int:
        """Number of rows without a bound over the smallest region."""
        return int(np.count_nonzero(self.unbounded[0]))

    def totals(self, region: int, rows: np.ndarray) -> tuple[float, float]:
        """Σ c_i and Σ c̃_i of some rows over a region."""
        return _total(self.c[region, 0], rows), _total(self.c[region, 1], rows)

    def regions_worth(self, beyond: Callable[[float], float]) -> list[int]:
        """Regions to use: unbounded rows that are added cost less than passes over all rows.

        Those happen outside of the last region, with the probability `beyond` its radius.
        """
        counts, n_rows = self.unbounded.sum(axis=1), self.unbounded.shape[1]
        served = [0]
        for k in range(1, len(self.radii)):
            if counts[k] - counts[served[-1]] <= n_rows * beyond(self.radii[served[-1]]):
                served.append(k)
        return served


class _Trial:
    """A few rows of a term, on which regions and numbers of interval pieces are tried."""

    def __init__(self, owner: BoundsPass, function: RowFunction) -> None:
        self._owner = owner
        self._function = function
        self._data = trial_rows(function)
        self._place = owner.geometry(self._data)
        self.whole = (1,) * len(function.arguments)
        # For nonlinear mixtures cuts tighten the joint bound only, so it alone decides on them.
        mixed = is_nonlinear_mixture(function) and use_joint_bound(function, owner.order)
        self._cut_by_parts = not mixed
        self._totals: dict[tuple[float, tuple[int, ...], bool, bool], float] = {}
        #: Whether a few unbounded rows count as rows that every update evaluates.
        self.reads_unbounded = False

    def total(self, radius: float, pieces: tuple[int, ...], *, by_parts: bool = True) -> float:
        """Estimate of Σc_i over all rows."""
        key = (radius, pieces, by_parts, self.reads_unbounded)
        if key not in self._totals:
            along, together = self._owner.kind.bounds(
                self._data, self._place, radius, pieces, by_parts=by_parts
            )
            best = np.broadcast_to(np.fmin(along, together), self._data.rows.shape)
            if self.reads_unbounded and np.isinf(best).mean() <= MOST_UNBOUNDED:
                most = costs.INCLUDED_OBSERVATION / costs.OBSERVATION
                best = np.minimum(best, most / self._owner.typical_move_size)
            self._totals[key] = float(best.mean()) * self._function.n_rows
        return self._totals[key]

    @property
    def n_rows(self) -> int:
        """Number of trial rows."""
        return self._data.rows.size

    def unbounded(self, radius: float) -> np.ndarray:
        """Trial rows without a bound over a region, numbered within their term."""
        pair = self._owner.kind.bounds(self._data, self._place, radius, self.whole)
        best = np.broadcast_to(np.fmin(*pair), self._data.rows.shape)
        return self._data.rows[~np.isfinite(best)]

    def pieces(self, radius: float) -> tuple[int, ...]:
        """Best number of pieces of each linear predictor's interval."""
        if radius == np.inf:
            return self.whole
        total = partial(self.total, radius, by_parts=self._cut_by_parts)
        few, many = FEW_ROWS, HOPELESS * self._function.n_rows
        size = self._owner.typical_move_size
        return best_cuts(self._function, total, few / size, many / size)


def _has_one_predictor(function: RowFunction) -> bool:
    """Whether rows have one predictor besides those that all rows share."""
    return sum(not form.is_global for form in function.arguments) == 1


def trial_rows(function: RowFunction) -> RowData:
    """Data of a few evenly spaced rows."""
    rows = np.linspace(0, function.n_rows - 1, TRIAL_ROWS).astype(np.int64)
    return RowData(function, np.unique(rows))


def best_cuts(
    function: RowFunction,
    total: Callable[[tuple[int, ...]], float],
    few: float,
    many: float = np.inf,
    most_of_a_row: int = MAX_BOXES_OF_A_ROW,
    worth_a_cut: float = WORTH_A_CUT,
) -> tuple[int, ...]:
    """Number of pieces of each predictor's interval, doubled while that lowers `total` enough.

    Not below `few`, nor if as much again by each further doubling would leave more than `many`.
    """
    most = min(most_of_a_row, MAX_BOXES // function.n_rows)
    best = (1,) * len(function.arguments)
    while best and 2 * np.prod(best) <= most and total(best) > few:
        finer = [(*best[:k], 2 * count, *best[k + 1 :]) for k, count in enumerate(best)]
        candidate = min(finer, key=total)
        gain = 1.0 - total(candidate) / max(total(best), 1e-300)
        further = np.log2(most / np.prod(candidate))
        if not gain > worth_a_cut:
            break
        if gain < 1.0 and total(candidate) * (1.0 - gain) ** further > many:
            break
        best = candidate
    return best


def _fits_memory(n_bytes: int) -> bool:
    """Whether a copy of `n_bytes` leaves enough memory free; log a warning if not."""
    free = virtual_memory().available
    if n_bytes <= MAX_OF_FREE * free:
        return True
    _log.warning(
        "Too little memory (%.1f GB free) for the %.1f GB copy of the data that makes updates "
        "faster; continuing without it.",
        free / 1e9,
        n_bytes / 1e9,
    )
    return False
