"""Bounds that a user gives, and ranges of rows over all of the parameters' space.

Relative to their values at a centre θ̂, log-likelihoods satisfy

    -m_i <= β [ℓ_i(θ) - ℓ_i(θ̂)] <= M_i - m_i    for every θ,    so that 0 <= m_i <= M_i.

They are enclosed over the box that the supports of the parameters span, the value at the centre by
the same expression. The first table holds the M_i, which bound the change of a row in any move, and
the second, which serves no move, the m_i.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np
from numpy.typing import ArrayLike
from pytensor.scalar.basic import Switch
from scipy.special import logit

from pymc_minibatch_mh.bounds.bounds_pass import (
    BOUNDING,
    CHUNK,
    MOST_BOXES,
    MOST_BOXES_OF_A_ROW,
    TRIAL_ROWS,
    WORTH_A_CUT,
    explain_without_range,
)
from pymc_minibatch_mh.bounds.geometry import box_of_support, geometry
from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.bounds.rules import NoRuleError
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.errors import BoundsError, SettingError
from pymc_minibatch_mh.kernels.intervals import RELATIVE
from pymc_minibatch_mh.kernels.moves import DIRECTIONAL, GIVEN, RANGE
from pymc_minibatch_mh.kernels.posterior import Surrogate
from pymc_minibatch_mh.likelihood.cells import Apply, Cell
from pymc_minibatch_mh.likelihood.function import WAY_ON, RowData, RowFunction
from pymc_minibatch_mh.likelihood.inputs import array_of
from pymc_minibatch_mh.progress import report
from pymc_minibatch_mh.reference.passes import on_all_cores

#: Radius of the table of the m_i: no move is that short.
OF_NO_MOVE = -1.0


def table_of_ranges(low: Array, high: Array, *, verified: bool) -> Tables:
    """Return tables of ranges, ends of β [ℓ_i(θ) - ℓ_i(θ̂)] on either side of 0, shapes (N,)."""
    below = _rounded_up(np.maximum(-low, 0.0))
    widths = _rounded_up(below.astype(np.float64) + np.maximum(high, 0.0))
    totals = [c.sum(dtype=np.float64) for c in (widths, below)]
    heads = np.array([[np.inf, RANGE, totals[0]], [OF_NO_MOVE, RANGE, totals[1]]])
    return Tables(heads, np.stack([widths, below]), float("nan"), verified)


class RangesPass:
    """Encloses the log-likelihood of every row of a model's terms over the whole space."""

    def __init__(
        self, functions: Sequence[RowFunction], surrogate: Surrogate, support: tuple[Array, Array]
    ) -> None:
        self._functions = functions
        self._surrogate = surrogate
        self._support = support

    def tables(self) -> Tables:
        """Enclose all rows; BoundsError if one is not bounded on both sides, or has no rule."""
        report(BOUNDING)
        starts = np.concatenate([[0], np.cumsum([f.n_rows for f in self._functions])])
        pieces = [self._pieces(function) for function in self._functions]
        low, high = np.empty((2, int(starts[-1])))
        chunks = [
            (k, first, min(first + CHUNK, function.n_rows))
            for k, function in enumerate(self._functions)
            for first in range(0, function.n_rows, CHUNK)
        ]

        def work(chunk: tuple[int, int, int]) -> None:
            k, first, last = chunk
            data = RowData(self._functions[k], slice(first, last))
            target = slice(starts[k] + first, starts[k] + last)
            low[target], high[target] = self._relative(self._functions[k], data, pieces[k])

        for _ in on_all_cores(work, chunks, BOUNDING):
            pass
        self._require_bounded(low, high, starts)
        beta = self._surrogate.inverse_temperature
        widened = beta * (1.0 + RELATIVE)
        return table_of_ranges(widened * low, widened * high, verified=True)

    def _relative(
        self, function: RowFunction, data: RowData, pieces: Sequence[int]
    ) -> tuple[Array, Array]:
        """Return the ends of ℓ_i(θ) - ℓ_i(θ̂), which hold 0."""
        whole = self._enclosed(function, data, pieces)
        place = geometry(function, data, self._surrogate.centre, self._surrogate.factor)
        relative = whole - _value(data, place.boxes(0.0), function.root)
        shape = data.rows.shape
        return (
            np.broadcast_to(np.minimum(relative.lo, 0.0), shape),
            np.broadcast_to(np.maximum(relative.hi, 0.0), shape),
        )

    def _enclosed(self, function: RowFunction, data: RowData, pieces: Sequence[int]) -> Interval:
        """Return the enclosure over the whole space, of the log-likelihood of some rows."""
        boxes = box_of_support(function, data, *self._support)
        cuts = [_cut(box, count) for box, count in zip(boxes, pieces, strict=True)]
        found = None
        for piece in product(*cuts):
            try:
                value = _value(data, piece, function.root)
            except NoRuleError as error:
                raise BoundsError(
                    f"{function.name!r} goes through {error.op}, which no rule bounds. {WAY_ON}"
                ) from error
            found = value if found is None else found.hull(value)
        assert found is not None
        return found

    def _pieces(self, function: RowFunction) -> tuple[int, ...]:
        """Return into how many pieces the interval of each argument is best cut."""
        rows = np.unique(np.linspace(0, function.n_rows - 1, TRIAL_ROWS).astype(np.int64))
        data = RowData(function, rows)
        most = min(MOST_BOXES_OF_A_ROW, MOST_BOXES // function.n_rows)

        def total(pieces: tuple[int, ...]) -> float:
            width = self._enclosed(function, data, pieces).width
            return float(np.broadcast_to(width, rows.shape).mean())

        best = (1,) * len(function.arguments)
        smallest = total(best)
        while 2 * np.prod(best) <= most:
            finer = [(*best[:k], 2 * n, *best[k + 1 :]) for k, n in enumerate(best)]
            widths = [total(pieces) for pieces in finer]
            k = int(np.argmin(widths)) if widths else -1
            if k < 0 or not widths[k] < (1.0 - WORTH_A_CUT) * smallest:
                break
            best, smallest = finer[k], widths[k]
        return best

    def _require_bounded(self, low: Array, high: Array, starts: Array) -> None:
        bounded = np.isfinite(low) & np.isfinite(high)
        if bounded.all():
            return
        row = int(np.argmin(bounded))
        term = int(np.searchsorted(starts, row, side="right")) - 1
        function, inside = self._functions[term], row - int(starts[term])
        data = RowData(function, np.array([inside]))
        boxes = box_of_support(function, data, *self._support)
        raise explain_without_range(function, data, boxes, inside)


def _value(data: RowData, box: Sequence[Interval], root: Cell) -> Interval:
    """Return the enclosure of a log-likelihood over a box, each branch over its own rows only."""
    if not (isinstance(root, Apply) and isinstance(root.op, Switch) and root.inputs[0].is_data):
        return Jets(data, box, 1).of(root)[()]
    condition, *branches = root.inputs
    low, high = np.empty((2, data.rows.size))
    for rows, branch in zip(data.where(condition), branches, strict=True):
        if rows.size:
            part = [side.take(rows) for side in box]
            found = Jets(data.part(rows), part, 1).of(branch)[()]
            low[rows], high[rows] = found.lo, found.hi
    return Interval(low, high)


def _cut(box: Interval, count: int) -> list[Interval]:
    """Cut intervals into pieces, those without an end where a logistic variable is as likely."""
    if count == 1:
        return [box]
    finite = np.isfinite(box.lo) & np.isfinite(box.hi)
    with np.errstate(invalid="ignore"):
        even = [box.lo + (box.hi - box.lo) * (k / count) for k in range(1, count)]
    odd = [np.clip(logit(k / count), box.lo, box.hi) for k in range(1, count)]
    inner = [np.where(finite, one, other) for one, other in zip(even, odd, strict=True)]
    # Neighbours share an end, so that no number between them is lost.
    return [Interval(np.minimum(a, b), b) for a, b in pairwise([box.lo, *inner, box.hi])]


def _rounded_up(values: Array) -> np.ndarray:
    with np.errstate(over="ignore"):
        single = np.asarray(values, dtype=np.float32)
    return np.where(single < values, np.nextafter(single, np.float32(np.inf)), single)


@dataclass(frozen=True, eq=False)
class Ranges:
    """Ranges ``low_i <= ℓ_i(θ) - ℓ_i(θ̂) <= high_i`` for every θ, which were derived by hand.

    They are of the log-likelihood of a row as the model has it, at temperature 1, relative to its
    value at the centre θ̂, so that constants do not count. They are taken as they are: the trace is
    exact if they hold, which nobody has verified. Every row that is read is checked.

    Parameters
    ----------
    low, high : array_like, shape (N,)
        Ends of the range of every row, ``low <= 0 <= high``, rows of all subsampled terms one after
        the other. Where only the width w of a range is known, -w and w are ends of it.
    """

    low: ArrayLike
    high: ArrayLike

    def tables(self, n_rows: int, inverse_temperature: float) -> Tables:
        """Return them as tables; SettingError unless all ends are finite, with 0 between them."""
        low, high = self._end("low", n_rows), self._end("high", n_rows)
        wrong = ~((low <= 0.0) & (high >= 0.0))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise SettingError(
                f"ranges=Ranges(low, high) has low[{row}]={low[row]} and high[{row}]={high[row]}, "
                "between which 0 is not, the value at the centre. Give ends relative to that."
            )
        beta = inverse_temperature
        return table_of_ranges(beta * low, beta * high, verified=False)

    def _end(self, name: str, n_rows: int) -> np.ndarray:
        given = array_of(f"ranges=Ranges(low, high) has a {name} with", getattr(self, name))
        try:
            end = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(
                f"ranges=Ranges(low, high) has a {name} that is no array of numbers. Give one "
                "number per row of the subsampled terms."
            ) from error
        if end.shape != (n_rows,):
            raise SettingError(
                f"ranges=Ranges(low, high) has {name} of shape {end.shape} for {n_rows:,} rows. "
                "Give one number per row of the subsampled terms."
            )
        if not np.isfinite(end).all():
            row = int(np.argmin(np.isfinite(end)))
            raise SettingError(
                f"ranges=Ranges(low, high) has {name}[{row}]={end[row]}, which bounds nothing. "
                "Give finite numbers."
            )
        return end


@dataclass(frozen=True, eq=False)
class Bounds:
    """Bounds ``β |r_i(θ') - r_i(θ)| <= c_i M(θ, θ')`` that were derived by hand.

    They are taken as they are: the trace is exact if they hold, which nobody has verified. Every
    row that is read is checked.

    Parameters
    ----------
    c : array_like, shape (N,)
        c_i >= 0 of every row, rows of all subsampled terms one after the other.
    metric : callable or None
        M(θ, θ'), a function of two ravelled positions of shape (d,) that numba can compile,
        symmetric and non-negative. None stands for the M of automatic bounds: the distance in
        posterior standard deviations at ``taylor_order=0``, and the larger powers of it that
        belong to orders 1 and 2.
    """

    c: ArrayLike
    metric: Callable[..., float] | None = None

    def tables(self, n_rows: int) -> Tables:
        """Return the one table, without a radius; SettingError unless each c is finite, >= 0."""
        if self.metric is not None and not callable(self.metric):
            raise SettingError(
                f"bounds=Bounds(c, metric) has metric={self.metric!r}, which is no function. Give "
                "one of two positions, or leave it out for that of derived bounds."
            )
        given = array_of("bounds=Bounds(c) has a c with", self.c)
        try:
            c = given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise SettingError(
                "bounds=Bounds(c) has a c that is no array of numbers. Give one number per row of "
                "the subsampled terms."
            ) from error
        if c.shape != (n_rows,):
            raise SettingError(
                f"bounds=Bounds(c) has c of shape {c.shape} for {n_rows:,} rows. Give one number "
                "per row of the subsampled terms."
            )
        if not (np.isfinite(c) & (c >= 0.0)).all():
            row = int(np.argmin(np.isfinite(c) & (c >= 0.0)))
            raise SettingError(
                f"bounds=Bounds(c) has c[{row}]={c[row]}, which bounds nothing. Give finite, "
                "non-negative numbers."
            )
        single = c.astype(np.float32)
        single = np.where(single < c, np.nextafter(single, np.float32(np.inf)), single)
        kind = DIRECTIONAL if self.metric is None else GIVEN
        heads = np.array([[np.inf, kind, single.sum(dtype=np.float64)]])
        return Tables(heads, single[None], float("nan"), verified=False, metric=self.metric)
