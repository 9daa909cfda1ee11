"""Ranges of log-likelihoods over the whole parameter space.

Relative to their values at a centre θ̂, log-likelihoods satisfy

    -m_i <= β [ℓ_i(θ) - ℓ_i(θ̂)] <= M_i - m_i    for every θ,    so that 0 <= m_i <= M_i.

Interval arithmetic encloses them over the box of the parameters' supports. The first table holds
the M_i, which bound the change of an observation in any proposal; the second holds the m_i, and
covers no proposal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from pymc_minibatch_mh.bounds.block_tables import AnyTables
from pymc_minibatch_mh.bounds.bound_check import CHUNK, BoundedPosterior, violation_message
from pymc_minibatch_mh.bounds.bounds_pass import best_cuts, trial_rows
from pymc_minibatch_mh.bounds.geometry import box_of_support
from pymc_minibatch_mh.bounds.jets import Jets, require_rules
from pymc_minibatch_mh.bounds.remainder import branches_by_data, cut_interval, rounded_up
from pymc_minibatch_mh.bounds.row_pass import BOUNDING, RowPass
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.bounds.unbounded import are_bounded, first_unbounded, words_of_operation
from pymc_minibatch_mh.bounds.user_bounds import numbers_per_row
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import BoundsError, SettingError
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.native.bound_tables import KIND
from pymc_minibatch_mh.native.moves import CONSTANT
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.row_sums import differences_of, largest_of
from pymc_minibatch_mh.plan.bound_sources import BoundSource, UserSource, functions_of, support_of
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Radius of the table of the m_i: negative, so that the table covers no proposal.
NO_MOVE_RADIUS = -1.0


def table_of_ranges(low: Array, high: Array, *, verified: bool) -> Tables:
    """Tables of ranges from limits `low` <= 0 <= `high` of β [ℓ_i(θ) - ℓ_i(θ̂)], shapes (N,)."""
    below = rounded_up(np.maximum(-low, 0.0))
    widths = rounded_up(below.astype(np.float64) + np.maximum(high, 0.0))
    totals = [c.sum(dtype=np.float64) for c in (widths, below)]
    headers = np.array([[np.inf, CONSTANT, totals[0]], [NO_MOVE_RADIUS, CONSTANT, totals[1]]])
    return Tables(headers, np.stack([widths, below]), verified)


class RangesPass(RowPass):
    """Full-data evaluation of ranges: encloses each log-likelihood over the whole space."""

    def tables(self) -> Tables:
        """Tables of ranges; BoundsError for an unbounded observation or an unknown operation."""
        report_stage(BOUNDING)
        pieces = [_best_pieces(function, self._support) for function in self._functions]
        ends = np.empty((2, self._n_rows))
        self._fill_rows(ends, lambda k, _, data: self._ends_of(data, pieces[k]))
        bounded = np.isfinite(ends).all(axis=0)
        if not bounded.all():
            raise _without_range(*self._term_of(int(np.argmin(bounded))), self._support)
        widened = self._reference.inverse_temperature * (1.0 + RELATIVE)
        return table_of_ranges(*(widened * ends), verified=True)

    def _ends_of(self, data: RowData, pieces: Sequence[int]) -> np.ndarray:
        """Lower (<= 0) and upper (>= 0) limits of ℓ_i(θ) - ℓ_i(θ̂), shape (2, n)."""
        whole = _enclose_rows(data, pieces, self._support)
        relative = whole - _enclose_over(data, self.geometry(data).argument_boxes(0.0))
        ends = np.minimum(relative.lo, 0.0), np.maximum(relative.hi, 0.0)
        return np.stack([np.broadcast_to(end, data.rows.shape) for end in ends])


def _require_ranges(functions: Sequence[RowFunction], support: tuple[Array, Array]) -> None:
    """Raise BoundsError before the mode search if one of a few trial observations has no range."""
    for function in functions:
        data = trial_rows(function)
        enclosure = _enclose_rows(data, _best_pieces(function, support), support)
        bounded = np.broadcast_to(np.isfinite(enclosure.width), data.rows.shape)
        if not bounded.all():
            raise _without_range(function, int(data.rows[np.argmin(bounded)]), support)


def _enclose_rows(data: RowData, pieces: Sequence[int], support: tuple[Array, Array]) -> Interval:
    """Enclosure of the log-likelihoods of some observations over the whole space."""
    boxes = box_of_support(data, *support)
    cuts = [cut_interval(*both, without_end=True) for both in zip(boxes, pieces, strict=True)]
    return reduce(Interval.hull, (_enclose_over(data, piece) for piece in product(*cuts)))


def _best_pieces(function: RowFunction, support: tuple[Array, Array]) -> tuple[int, ...]:
    """Number of pieces into which the interval of each linear predictor is cut."""
    data = trial_rows(function)

    @cache
    def mean_width(pieces: tuple[int, ...]) -> float:
        width = _enclose_rows(data, pieces, support).width
        return float(np.broadcast_to(width, data.rows.shape).mean())

    return best_cuts(function, mean_width, few=0.0)


def _without_range(function: RowFunction, row: int, support: tuple[Array, Array]) -> BoundsError:
    """Error that names the first operation with unbounded values in an observation."""
    data = RowData(function, np.array([row]))
    jets = Jets(data, box_of_support(data, *support), 1)
    culprit = first_unbounded(function.root, lambda expr: are_bounded([jets.of(expr)[()]]))
    why = "the sampled parameters have no bound that limits it"
    if culprit is not None:
        why = f"{words_of_operation(culprit)} has no bound"
    return BoundsError(
        f"{function.name!r} has no range: in row {row} its log-likelihood is not bounded on both "
        f"sides over the supports of the parameters, because {why}. Use bounded priors such as "
        "pm.Uniform, pass ranges=Ranges(low, high), or use TunaMH(), which needs bounds of "
        "differences only."
    )


def _enclose_over(data: RowData, box: Sequence[Interval]) -> Interval:
    """Enclosure of a log-likelihood over a box; each branch is evaluated on its own rows."""
    low, high = np.empty((2, data.rows.size))
    for rows, part, branch in branches_by_data(data.function.root, data):
        enclosure = Jets(part, [side.take(rows) for side in box], 1).of(branch)[()]
        low[rows], high[rows] = enclosure.lo, enclosure.hi
    return Interval(low, high)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Custom ranges ``low_i <= ℓ_i(θ) - ℓ_i(θ̂) <= high_i`` for every θ.

    They bound the log-likelihood of an observation in the model, at temperature 1, relative to its
    value at the centre θ̂, so constants cancel. They are not verified: the trace is exact if they
    hold. Every evaluated observation is checked.

    Parameters
    ----------
    low, high : array_like, shape (N,)
        Ends of the range of every observation, ``low <= 0 <= high``, for all subsampled variables
        in order. If you know only the width w of a range, give -w and w.
    """

    low: ArrayLike
    high: ArrayLike

    def tables(self, n_rows: int, inverse_temperature: float) -> Tables:
        """Tables of the ranges; SettingError unless all ends are finite, with 0 between them."""
        setting = "ranges=Ranges(low, high)"
        low = numbers_per_row(setting, "low", self.low, n_rows, -np.inf)
        high = numbers_per_row(setting, "high", self.high, n_rows, -np.inf)
        wrong = ~((low <= 0.0) & (high >= 0.0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise SettingError(
                f"ranges=Ranges(low, high) has low[{row}]={low[row]} and high[{row}]={high[row]}, "
                "but the range has to contain 0, the value at the centre. Give both ends "
                "relative to that value."
            )
        beta = inverse_temperature
        return table_of_ranges(beta * low, beta * high, verified=False)


CustomRanges = Ranges | Callable[[dict[str, np.ndarray]], Ranges]


class RangeSource(BoundSource):
    """Ranges of log-likelihoods, in place of bounds of remainders."""

    meaning = "the widths of the ranges of all log-likelihoods"
    order_reason = "log-likelihoods themselves have ranges, so nothing is expanded"

    def has_made(self, tables: AnyTables) -> bool:
        """Whether tables hold ranges."""
        return bool(tables.headers[0, KIND] == CONSTANT)

    def audit(
        self, bounded: BoundedPosterior, rng: np.random.Generator, rows: np.ndarray | None = None
    ) -> str:
        """Description of the first observation outside its range in audited proposals, or ""."""
        target = bounded.target
        for move in bounded.audited_moves(rng):
            *both_ends, centre = move.ends
            for position in both_ends:
                ratio, row = _furthest_out(*bounded, position)
                if not ratio <= 1.0:
                    return violation_message(target, row, centre, position, *self.excess(ratio))
        return ""

    def excess(self, ratio: float) -> tuple[str, str]:
        """Phrases of an error message: distance from the middle of a range, and the setting."""
        return f"is {ratio:.3g} half-widths of its range from the middle", "ranges"


class DerivedRanges(RangeSource):
    """Ranges derived from the model."""

    def require_possible(self, model: CompiledModel) -> None:
        """Raise BoundsError if an operation has no rule, or a trial observation no range."""
        functions = functions_of(model)
        for function in functions:
            require_rules(function)
        _require_ranges(functions, support_of(model))

    def tables(self, target: Target, reference: Reference) -> Tables:
        """Ranges by interval arithmetic."""
        return RangesPass(functions_of(target), reference, support_of(target)).tables()


class UserRanges(RangeSource, UserSource):
    """Custom ranges."""

    kind, setting, call = Ranges, "ranges", "Ranges(low, high)"

    def tables(self, target: Target, reference: Reference) -> Tables:
        """Ranges as the user gives them, unverified."""
        ranges = self.given(target, reference)
        return ranges.tables(target.source.n_rows, reference.inverse_temperature)


def _furthest_out(
    target: Target, reference: Reference, tables: AnyTables, position: np.ndarray
) -> tuple[float, int]:
    """Largest distance of a row from the middle of its range, in half widths, and that row."""
    assert isinstance(tables, Tables)
    beta = reference.inverse_temperature
    largest, worst = 0.0, 0
    for first in range(0, target.source.n_rows, CHUNK):
        last = min(first + CHUNK, target.source.n_rows)
        differences, scales = np.zeros((2, last - first))
        ends = reference.centre, position, reference.centre
        differences_of(target.space, ends, np.arange(first, last), differences, scales)
        width, below = tables.c[:, first:last].astype(np.float64)
        differences += (below - 0.5 * width) / beta
        ratio, index = largest_of(differences, scales, width, 0.5, beta)
        if ratio > largest:
            largest, worst = ratio, first + index
    return largest, worst
