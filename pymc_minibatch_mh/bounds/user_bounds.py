"""Bounds that a user gives, and ranges of rows over all of the parameters' space.

Relative to their values at a centre θ̂, log-likelihoods satisfy

    -m_i <= β [ℓ_i(θ) - ℓ_i(θ̂)] <= M_i - m_i    for every θ,    so that 0 <= m_i <= M_i.

They are enclosed over the box that the supports of the parameters span. The first table holds the
M_i, which bound the change of a row in any move, and the second, which serves no move, the m_i.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import product

import numpy as np
from numpy.typing import ArrayLike

from pymc_minibatch_mh.bounds.bounds_pass import (
    BOUNDING,
    RowPass,
    best_cuts,
    explain_without_range,
    rounded_up,
    trial_rows,
)
from pymc_minibatch_mh.bounds.geometry import box_of_support
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.bounds.remainder import branches_by_data, cut
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.errors import BoundsError, SettingError
from pymc_minibatch_mh.expressions.graph import Expr
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.model.inputs import array_of
from pymc_minibatch_mh.native.moves import CONSTANT, DIRECTIONAL, GIVEN
from pymc_minibatch_mh.progress import report
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: Radius of the table of the m_i: every proposal is longer.
OF_NO_MOVE = -1.0


def table_of_ranges(low: Array, high: Array, *, verified: bool) -> Tables:
    """Return tables of ranges, ends of β [ℓ_i(θ) - ℓ_i(θ̂)] on either side of 0, shapes (N,)."""
    below = rounded_up(np.maximum(-low, 0.0))
    widths = rounded_up(below.astype(np.float64) + np.maximum(high, 0.0))
    totals = [c.sum(dtype=np.float64) for c in (widths, below)]
    headers = np.array([[np.inf, CONSTANT, totals[0]], [OF_NO_MOVE, CONSTANT, totals[1]]])
    return Tables(headers, np.stack([widths, below]), float("nan"), verified)


class RangesPass(RowPass):
    """Encloses the log-likelihood of every row of a model's terms over the whole space."""

    def tables(self) -> Tables:
        """Enclose all rows; BoundsError if one is not bounded on both sides, or has no rule."""
        report(BOUNDING)
        pieces = [_pieces(function, self._support) for function in self._functions]
        ends = np.empty((2, self._n_rows))
        self._fill(ends, lambda k, _, data: self._relative(self._functions[k], data, pieces[k]))
        bounded = np.isfinite(ends).all(axis=0)
        if not bounded.all():
            raise _without_range(*self._term_of(int(np.argmin(bounded))), self._support)
        widened = self._reference.inverse_temperature * (1.0 + RELATIVE)
        return table_of_ranges(*(widened * ends), verified=True)

    def _relative(self, function: RowFunction, data: RowData, pieces: Sequence[int]) -> np.ndarray:
        """Return the ends of ℓ_i(θ) - ℓ_i(θ̂), on either side of 0, shape (2, n)."""
        whole = _enclosed(function, data, pieces, self._support)
        relative = whole - _value(data, self.geometry(function, data).boxes(0.0), function.root)
        ends = np.minimum(relative.lo, 0.0), np.maximum(relative.hi, 0.0)
        return np.stack([np.broadcast_to(end, data.rows.shape) for end in ends])


def require_ranges(functions: Sequence[RowFunction], support: tuple[Array, Array]) -> None:
    """Refuse a model of which one of a few rows has no range, by a BoundsError, knowing no mode."""
    for function in functions:
        data = trial_rows(function)
        found = _enclosed(function, data, _pieces(function, support), support)
        bounded = np.broadcast_to(np.isfinite(found.width), data.rows.shape)
        if not bounded.all():
            raise _without_range(function, int(data.rows[np.argmin(bounded)]), support)


def _enclosed(
    function: RowFunction, data: RowData, pieces: Sequence[int], support: tuple[Array, Array]
) -> Interval:
    """Return the enclosure over the whole space, of the log-likelihood of some rows."""
    boxes = box_of_support(function, data, *support)
    cuts = [cut(*both, without_end=True) for both in zip(boxes, pieces, strict=True)]
    return reduce(Interval.hull, (_value(data, piece, function.root) for piece in product(*cuts)))


def _pieces(function: RowFunction, support: tuple[Array, Array]) -> tuple[int, ...]:
    """Return into how many pieces the interval of each argument is best cut."""
    data = trial_rows(function)

    @cache
    def total(pieces: tuple[int, ...]) -> float:
        width = _enclosed(function, data, pieces, support).width
        return float(np.broadcast_to(width, data.rows.shape).mean())

    return best_cuts(function, total, few=0.0)


def _without_range(function: RowFunction, row: int, support: tuple[Array, Array]) -> BoundsError:
    data = RowData(function, np.array([row]))
    return explain_without_range(function, data, box_of_support(function, data, *support), row)


def _value(data: RowData, box: Sequence[Interval], root: Expr) -> Interval:
    """Return the enclosure of a log-likelihood over a box, each branch over its own rows only."""
    low, high = np.empty((2, data.rows.size))
    for rows, part, branch in branches_by_data(root, data):
        found = Jets(part, [side.take(rows) for side in box], 1).of(branch)[()]
        low[rows], high[rows] = found.lo, found.hi
    return Interval(low, high)


def _of_rows(setting: str, name: str, given: ArrayLike, n_rows: int, least: float) -> np.ndarray:
    """Return a number per row that a user gave, float64; SettingError unless finite, >= `least`."""
    array = array_of(f"{setting} has a {name} with", given)
    per_row = "Give one number per row of the subsampled terms."
    try:
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{setting} has a {name} that is not an array of numbers. {per_row}"
        ) from error
    if numbers.shape != (n_rows,):
        raise SettingError(
            f"{setting} has {name} of shape {numbers.shape} for {n_rows:,} rows. {per_row}"
        )
    bounds = np.isfinite(numbers) & (numbers >= least)
    if not bounds.all():
        row, signs = int(np.argmin(bounds)), ", non-negative" if least == 0.0 else ""
        raise SettingError(
            f"{setting} has {name}[{row}]={numbers[row]}, which bounds nothing. Give "
            f"finite{signs} numbers."
        )
    return numbers


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
        """Return them as tables; SettingError unless all ends are finite, with 0 between them."""
        setting = "ranges=Ranges(low, high)"
        low = _of_rows(setting, "low", self.low, n_rows, -np.inf)
        high = _of_rows(setting, "high", self.high, n_rows, -np.inf)
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


@dataclass(frozen=True, eq=False)
class Bounds:
    """Custom bounds ``β |r_i(θ') - r_i(θ)| <= c_i M(θ, θ')``.

    They are not verified: the trace is exact if they hold. Every evaluated observation is checked.

    Parameters
    ----------
    c : array_like, shape (N,)
        c_i >= 0 of every observation, for all subsampled variables in order.
    metric : callable or None
        M(θ, θ'), a symmetric, non-negative function of two ravelled positions of shape (d,) that
        numba can compile. None selects the M of derived bounds: the distance in posterior standard
        deviations at ``taylor_order=0``, and its higher powers at orders 1 and 2.
    """

    c: ArrayLike
    metric: Callable[..., float] | None = None

    def tables(self, n_rows: int) -> Tables:
        """Return the one table, without a radius; SettingError unless each c is finite, >= 0."""
        if self.metric is not None and not callable(self.metric):
            raise SettingError(
                f"bounds=Bounds(c, metric) has metric={self.metric!r}, which is not a function. "
                "Give a function of two positions, or leave it out to use the metric of derived "
                "bounds."
            )
        single = rounded_up(_of_rows("bounds=Bounds(c)", "c", self.c, n_rows, 0.0))
        kind = DIRECTIONAL if self.metric is None else GIVEN
        headers = np.array([[np.inf, kind, single.sum(dtype=np.float64)]])
        return Tables(headers, single[None], float("nan"), verified=False, metric=self.metric)
