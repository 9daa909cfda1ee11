"""Look-ups by which compiled moves of elements bound rows: see :mod:`kernels.parts`.

Third derivatives D_abc of a row are bounded over the box of its arguments that border and elements
within their radii can reach. With n_a typical sizes of its arguments, g_a the largest
(D_abc n_a n_b n_c)^(1/3) over b and c, over n_a, has D_abc <= g_a g_b g_c, so that in units of g
a row departs along one axis, and its third derivatives are 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import chdtri

from pymc_minibatch_mh.bounds.bounds_pass import explain_unbounded, rounded_up
from pymc_minibatch_mh.bounds.geometry import within_support
from pymc_minibatch_mh.bounds.remainder import suprema
from pymc_minibatch_mh.functions.interval import Array, Interval
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS
from pymc_minibatch_mh.kernels.draw import build_alias
from pymc_minibatch_mh.kernels.parts import Ends, Parts, ceilings_of, fill_running
from pymc_minibatch_mh.likelihood.function import RowData, RowFunction
from pymc_minibatch_mh.progress import report
from pymc_minibatch_mh.reference.element_rows import Read
from pymc_minibatch_mh.reference.full_data import on_all_cores
from pymc_minibatch_mh.reference.grouped import GroupedReference
from pymc_minibatch_mh.reference.target import Target

#: Chance that a normal posterior has the border beyond its radius; radius of an element, in
#: posterior standard deviations.
BORDER_TAIL, ELEMENT_RADIUS = 1e-8, 5.5
#: Far more than the rounding errors of look-ups.
_ROUNDING = 1.0 + 1e-12


@dataclass(frozen=True, eq=False)
class PartTables:
    """Bounds of all rows by the parts that they read."""

    parts: Parts
    verified: ClassVar[bool] = True
    are_ranges: ClassVar[bool] = False
    key: ClassVar[str] = "derived by parts"
    heavy: np.ndarray = field(default_factory=lambda: NO_ROWS)

    @property
    def nbytes(self) -> int:
        """Size of all look-ups, in bytes."""
        return sum(x.nbytes for x in self.parts if isinstance(x, np.ndarray))

    def ceilings(self, ends: Ends) -> np.ndarray:
        """Return the ceiling of every row in a move."""
        out = np.empty(self.parts.border.size)
        ceilings_of(self.parts, ends, out)
        return out


def part_tables(target: Target, found: GroupedReference) -> PartTables:
    """Bound all rows around a centre; BoundsError if one has no bound."""
    report("Bounding all rows")
    functions = target.row_functions
    assert not isinstance(functions, Exception)
    support = target.factorization.lower, target.factorization.upper
    radius = float(np.sqrt(chdtri(found.border.size, BORDER_TAIL)))
    asked = partial(_look_up, functions, found, support, (radius, ELEMENT_RADIUS * found.sd))
    starts = np.concatenate([[0], np.cumsum([f.n_rows for f in functions])])
    chunks = [(read, read.first - int(starts[read.term])) for read in found.rows.chunks]
    looked = list(on_all_cores(lambda one: asked(*one), chunks, "Bounding all rows"))
    scale = target.inverse_temperature ** (1.0 / 3.0) * _ROUNDING
    cubes = rounded_up((scale * np.concatenate([border for border, _ in looked])) ** 3)
    weights = np.concatenate([own for _, own in looked], axis=1)
    elements = np.concatenate([read.elements for read in found.rows.chunks], axis=1)
    return PartTables(
        _parts(found, cubes, scale * weights, elements, radius, int(_is_signed(found)))
    )


def _is_signed(found: GroupedReference) -> bool:
    """Return whether all elements that a row reads are in one of its arguments."""
    terms = zip(*(factor.readings for factor in found.elements.factors), strict=True)
    return all(len({a for own in term for a, _ in own}) <= 1 for term in terms)


def _parts(
    found: GroupedReference,
    cubes: np.ndarray,
    weights: np.ndarray,
    elements: np.ndarray,
    radius: float,
    signed: int,
) -> Parts:
    n_factors, size = len(elements), int(found.starts[-1])
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
    fill_running(starts, running)
    thresholds, aliases = np.empty(cubes.size), np.empty(cubes.size, np.int32)
    if cubes.any():
        build_alias(cubes, thresholds, aliases)
    return Parts(
        np.cbrt(cubes.astype(np.float64)),
        np.ascontiguousarray(weights.T),
        signed,
        np.ascontiguousarray(elements.T, dtype=np.int32),
        found.starts,
        starts,
        chosen,
        running,
        float(cubes.sum(dtype=np.float64)),
        thresholds,
        aliases,
        radius,
        ELEMENT_RADIUS * found.sd,
    )


def _look_up(
    functions: Sequence[RowFunction],
    found: GroupedReference,
    support: tuple[Array, Array],
    radii: tuple[float, Array],
    read: Read,
    start: int,
) -> tuple[Array, Array]:
    """Return s_i and z_if of some rows, shapes (rows,) and (factors, rows)."""
    function, m, size = functions[read.term], len(read.border), read.border.shape[1]
    data = RowData(function, slice(start, start + size))
    directions = found.rows.directions(read, found.border_factor[: found.n_fixed], found.response)
    norms = np.linalg.norm(directions, axis=2) * _ROUNDING
    chosen = np.maximum(read.elements, 0)
    sizes = np.abs(read.weights)
    reach = radii[0] * norms + np.einsum("fmr,fr->mr", sizes, radii[1][chosen])
    centre = found.centre
    middle = read.forms(centre[found.elements.border], centre[found.places])
    slack = 1e-12 * (np.abs(middle) + reach)
    boxes = [
        Interval.rounded(u - r - e, u + r + e) for u, r, e in zip(middle, reach, slack, strict=True)
    ]
    boxes = within_support(function, boxes, *support)
    bounded = suprema(function, data, boxes, 3, [1] * m)
    typical = np.sqrt(found.border.size) * norms + np.einsum("fmr,fr->mr", sizes, found.sd[chosen])
    units = np.zeros((m, size))
    for index, largest in bounded.items():
        whole = np.broadcast_to(largest, size) * np.prod([typical[a] for a in index], axis=0)
        if not np.isfinite(whole).all():
            row = int(np.flatnonzero(~np.isfinite(whole))[0])
            raise explain_unbounded(function, data, boxes, 3, start + row)
        for a in index:
            units[a] = np.maximum(units[a], np.cbrt(whole))
    units = np.divide(units, typical, out=np.zeros_like(units), where=typical > 0.0)
    weights = np.einsum("mr,fmr->fr", units, read.weights if _is_signed(found) else sizes)
    return np.einsum("mr,mr->r", units, norms), weights
