"""Tables of separable bounds for compiled updates of group effects: see parts.c.

Third derivatives D_abc of a row are bounded over the box of its linear predictors, for common and
group effects within their radii. With typical sizes n_a of the predictors, g_a = max over b, c of
(D_abc n_a n_b n_c)^(1/3) / n_a satisfies D_abc <= g_a g_b g_c: a row is bounded like a
function of Σ g_a u_a alone, with a third derivative of at most 1.

An effect that multiplies other data in each alternative of a softmax moves all predictors along one
direction. The third derivative of log Σ exp(l_k) is the joint third central moment of its
directions, at most the product of their (E|x - E x|³)^(1/3) (Hölder), each at most half the range
of x over the alternatives: no box, no pieces, and an alternative that does not move counts as 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import ClassVar

import numpy as np
from scipy.special import chdtri

from pymc_minibatch_mh.bounds.bounds_pass import HOPELESS, TRIAL_ROWS, best_cuts
from pymc_minibatch_mh.bounds.exponential_sums import softmax_units
from pymc_minibatch_mh.bounds.geometry import Geometry, within_support
from pymc_minibatch_mh.bounds.remainder import derivative_suprema, rounded_up
from pymc_minibatch_mh.bounds.row_pass import BOUNDING, chunk_length
from pymc_minibatch_mh.bounds.unbounded import explain_unbounded
from pymc_minibatch_mh.expressions.log_sums import is_softmax
from pymc_minibatch_mh.functions.interval import Array, Interval
from pymc_minibatch_mh.native.bound_tables import NO_ROWS
from pymc_minibatch_mh.native.elements import Ends, Parts
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.arrow_reference import GroupedReference
from pymc_minibatch_mh.reference.arrow_sums import Read
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: `BORDER_TAIL`: probability of common effects beyond their radius for a normal posterior;
#: `ELEMENT_RADIUS`: radius of a group effect in posterior standard deviations.
BORDER_TAIL, ELEMENT_RADIUS = 1e-8, 6.5
#: Maximum number of boxes per row; minimum relative decrease of bounds that justifies doubling it.
MAX_PIECES, WORTH_A_CUT = 64, 0.08
#: Factor that exceeds the rounding errors of tables.
_ROUNDING = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class PartTables:
    """Bounds of all rows as functions of common and group effects."""

    parts: Parts
    verified: ClassVar[bool] = True
    key: ClassVar[str] = "derived by parts"
    heavy: np.ndarray = field(default_factory=lambda: NO_ROWS)

    @property
    def nbytes(self) -> int:
        """Size of all tables, in bytes."""
        return sum(x.nbytes for x in self.parts if isinstance(x, np.ndarray))

    def row_ceilings(self, ends: Ends) -> np.ndarray:
        """Thinning bound of every row for a proposal, shape (N,)."""
        out = np.empty(self.parts.n_rows)
        function("mh_ceilings_of")(self.parts, ends, out)
        return out


def part_tables(target: Target, found: GroupedReference) -> PartTables:
    """Bounds of all rows around a centre; BoundsError if a row has no bound."""
    report_stage(BOUNDING)
    bounds = _RowBounds(target, found)
    looked = list(on_all_cores(bounds.of, target.element_rows.read_chunks, BOUNDING))
    scale = target.inverse_temperature ** (1.0 / 3.0) * _ROUNDING
    cubes = rounded_up((scale * np.concatenate([border for border, _ in looked])) ** 3)
    weights = scale * np.concatenate([own for _, own in looked], axis=1)
    elements = np.concatenate([read.numbers for read in target.element_rows.read_chunks], axis=1)
    return PartTables(_parts_of(found, cubes, weights, elements, bounds.radius, int(bounds.signed)))


def _parts_of(
    found: GroupedReference,
    cubes: np.ndarray,
    weights: np.ndarray,
    elements: np.ndarray,
    radius: float,
    signed: int,
) -> Parts:
    first = np.append(found.starts, found.starts[-1] + found.choices[1:])
    n_factors, size = len(elements), int(first[-1])
    rows, counts = [], np.zeros(size, np.int64)
    for own in elements:
        order = np.argsort(own, kind="stable")
        rows.append(order[np.count_nonzero(own < 0) :])
        counts += np.bincount(own[own >= 0], minlength=size)
    starts = np.concatenate([[0], np.cumsum(counts)])
    chosen = np.concatenate(rows)
    running = np.concatenate(
        [np.abs(weights[f, own]) ** 3 for f, own in zip(range(n_factors), rows, strict=True)]
    )
    totals = np.empty(size)
    function("mh_fill_running")(size, starts, running, totals)
    thresholds, aliases = np.empty(cubes.size), np.empty(cubes.size, np.int32)
    if cubes.any():
        function("mh_build_alias")(cubes.size, cubes, thresholds, aliases)
    return Parts(
        np.cbrt(cubes.astype(np.float64)),
        np.ascontiguousarray(weights.T),
        signed,
        np.ascontiguousarray(elements.T, dtype=np.int32),
        first,
        starts,
        chosen,
        running,
        totals,
        float(cubes.sum(dtype=np.float64)),
        thresholds,
        aliases,
        radius,
        ELEMENT_RADIUS * np.append(found.sd, found.chosen_sd),
    )


def _geometry_along(moved: Array) -> Geometry:
    """Predictors that change by `moved`, shape (m, rows, n), times n coordinates."""
    centre = Interval.point(np.zeros(()))
    norms = np.linalg.norm(moved, axis=2) * _ROUNDING
    return Geometry(len(moved) * (centre,), tuple(norms), tuple(moved))


class _RowBounds:
    """Coefficients of effects in the bounds of rows: s_i of common, z_if of group effects."""

    def __init__(self, target: Target, found: GroupedReference) -> None:
        functions = self._functions = target.known_functions
        self._found, self._rows = found, target.element_rows
        parts = target.factorization
        self._support = parts.lower, parts.upper
        self._names = [parts.name_at(k) for k in range(parts.size)]
        self._starts = np.concatenate([[0], np.cumsum([f.n_rows for f in functions])])
        effects = target.elements
        readings = [factor.readings for factor in (*effects.factors, *effects.chosen)]
        #: Whether all group effects of a row enter the same linear predictor.
        self.signed = all(
            len({a for own in term for a, _ in own}) <= 1 for term in zip(*readings, strict=True)
        )
        self._sd = np.append(found.sd, found.chosen_sd)
        # Derivatives of the common effects without crossed levels in the coordinates Q w.
        self._fixed = (found.border_factor @ found.read.T)[: found.n_fixed - found.n_chosen]
        # Crossed levels do not change with Q w, so their derivatives are 0.
        chosen = np.zeros((found.chosen.size, len(found.read)))
        self._response = np.concatenate([found.response @ found.read.T, chosen])
        n = len(found.read)
        self.radius = float(np.sqrt(chdtri(n, BORDER_TAIL))) if n else 0.0
        self._pieces = [self._worthwhile_pieces(k) for k in range(len(functions))]

    def _worthwhile_pieces(self, term: int) -> Sequence[int] | None:
        """Number of pieces of each predictor's interval, by a few rows; None for a softmax."""
        if is_softmax(self._functions[term].exprs, self._functions[term].root):
            return None
        read = next(one for one in self._rows.read_chunks if one.term == term)
        some = np.unique(np.linspace(0, read.border.shape[1] - 1, TRIAL_ROWS).astype(np.int64))
        total = cache(partial(self._typical_total, read, some))
        # Of such a proposal, a row changes by at most (x³ + x'³)/6, with x and x' about equal.
        many = 3.0 * HOPELESS * some.size
        return best_cuts(self._functions[term], total, 0.0, many, MAX_PIECES, WORTH_A_CUT)

    def _typical_total(self, read: Read, some: np.ndarray, pieces: Sequence[int]) -> float:
        """Sum of the bounds of some rows in a typical proposal, up to a constant factor."""
        border, weights = self._of_rows(read, some, pieces)
        elements = np.maximum(read.numbers[:, some], 0)
        departed = border * np.sqrt(len(self._found.read))
        departed += (np.abs(weights) * self._sd[elements]).sum(axis=0)
        return float((departed**3).sum())

    def of(self, read: Read) -> tuple[Array, Array]:
        """Coefficients s_i, shape (rows,), and z_if, (all factors, rows), of a chunk of rows."""
        rows = np.arange(read.border.shape[1])
        pieces = self._pieces[read.term]
        if pieces is not None:
            return self._of_rows(read, rows, pieces)
        size = chunk_length(self._functions[read.term])
        parts = [self._of_softmax(read, rows[k : k + size]) for k in range(0, rows.size, size)]
        border, weights = zip(*parts, strict=True)
        return np.concatenate(border), np.concatenate(weights, axis=1)

    def _data_of(self, read: Read, some: np.ndarray) -> RowData:
        start = read.first - int(self._starts[read.term])
        return RowData(self._functions[read.term], start + some)

    def _of_softmax(self, read: Read, some: np.ndarray) -> tuple[Array, Array]:
        data, part = self._data_of(read, some), read.of_rows(some)
        moved = self._rows.argument_directions(part, self._fixed, self._response)
        border = softmax_units(data, _geometry_along(moved))
        weights = [softmax_units(data, _geometry_along(z[..., None])) for z in part.weights]
        # Effects that move one predictor along one direction add up with their signs.
        signs = np.sign(part.weights.sum(axis=1)) if self.signed else 1.0
        return border, signs * np.reshape(weights, part.numbers.shape)

    def _of_rows(self, read: Read, some: np.ndarray, pieces: Sequence[int]) -> tuple[Array, Array]:
        data, part = self._data_of(read, some), read.of_rows(some)
        norms, reach, typical = self._argument_norms(part)
        boxes = self._argument_boxes(data.function, part, reach)
        bounded = derivative_suprema(data, boxes, 3, pieces)
        units = np.zeros(typical.shape)
        for index, largest in bounded.items():
            whole = np.prod([typical[a] for a in index], axis=0) * largest
            if not np.isfinite(whole).all():
                first = np.flatnonzero(~np.isfinite(whole))[:1]
                row = int(data.rows[first[0]])
                raise explain_unbounded(data.part(first), boxes, 3, row, self._names)
            for a in index:
                units[a] = np.maximum(units[a], np.cbrt(whole))
        units = np.divide(units, typical, out=np.zeros_like(units), where=typical > 0.0)
        taken = part.weights if self.signed else np.abs(part.weights)
        return np.einsum("mr,mr->r", units, norms), np.einsum("mr,fmr->fr", units, taken)

    def _argument_norms(self, read: Read) -> tuple[Array, Array, Array]:
        """Norm of gradient in Q w, largest and typical change of predictors, shape (m, rows)."""
        sizes = np.abs(read.weights)
        directions = self._rows.argument_directions(read, self._fixed, self._response)
        norms = np.linalg.norm(directions, axis=2) * _ROUNDING
        own = np.einsum("fmr,fr->mr", sizes, self._sd[np.maximum(read.numbers, 0)])
        return (
            norms,
            self.radius * norms + ELEMENT_RADIUS * own * _ROUNDING,
            np.sqrt(len(self._found.read)) * norms + own,
        )

    def _argument_boxes(self, function: RowFunction, read: Read, reach: Array) -> list[Interval]:
        """Intervals of the linear predictors with all effects within their radii."""
        centre, found = self._found.centre, self._found
        middle = self._rows.forms(read, centre[found.fixed], centre[found.places])
        far = reach + 1e-12 * (np.abs(middle) + reach)
        boxes = [Interval.rounded(u - r, u + r) for u, r in zip(middle, far, strict=True)]
        return within_support(function, boxes, *self._support)
