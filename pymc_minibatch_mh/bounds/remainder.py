"""Bounds c_i of the remainders of rows, from enclosures of derivatives.

With D_abc >= sup |∂³f| over the trust region and n_a the norms of a row's linear predictors, a
second-order remainder satisfies β |r_i(θ') - r_i(θ)| <= c_i M(θ, θ') for

    c_i = β Σ_abc D_abc n_a n_b n_c    with the directional M, and
    c̃_i = β λ^{3/2} max_{|s|=1} Σ_abc D_abc n_a n_b n_c s_a s_b s_c    with the joint M.

Sums run over ordered tuples; λ is the largest eigenvalue of the predictors' correlation matrix.
Orders 1 and 0 have two indices and one. :mod:`pymc_minibatch_mh.native.moves` has M.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import batched, pairwise, product
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray
from pytensor.scalar.basic import Switch
from scipy.special import logit

from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.jets import Index, Jets
from pymc_minibatch_mh.expressions.graph import Expr
from pymc_minibatch_mh.expressions.patterns import is_a
from pymc_minibatch_mh.functions.interval import RELATIVE, Array, Interval
from pymc_minibatch_mh.structure.row_function import RowData

#: Number of rows in boxes that are bounded together: few rows take longer to call than to bound.
STACKED_ROWS = 8_192


def derivative_suprema(
    data: RowData,
    boxes: Sequence[Interval],
    order: int,
    pieces: Sequence[int],
    part: Expr | None = None,
) -> dict[Index, Array]:
    """Bounds of the absolute partial derivatives of one order, by sorted multi-index.

    They belong to `part` (default: the root), and have shape (rows,) or (). Each linear predictor's
    interval is cut into `pieces`, because interval arithmetic overestimates less on small boxes.
    BoundsError if an operation has no rule.
    """
    result: dict[Index, Array] = {}
    cuts = [cut_interval(box, count) for box, count in zip(boxes, pieces, strict=True)]
    root, together = part or data.function.root, max(1, STACKED_ROWS // max(data.rows.size, 1))
    for some in batched(product(*cuts), together):
        found = _largest_in_boxes(data, some, order, root)
        for index, largest in found.items():
            known = result.get(index)
            result[index] = largest if known is None else np.maximum(known, largest)
    return result


def _largest_in_boxes(
    data: RowData, boxes: Sequence[Sequence[Interval]], order: int, root: Expr
) -> dict[Index, Array]:
    """Largest absolute derivatives over several boxes."""
    n, count = data.rows.size, len(boxes)
    if count == 1:
        return _largest_derivatives(data, boxes[0], order, root)
    repeated = data.part(np.tile(np.arange(n), count))
    sides = [_stacked(side, n) for side in zip(*boxes, strict=True)]
    return {
        index: np.broadcast_to(largest, n * count).reshape(count, n).max(axis=0)
        for index, largest in _largest_derivatives(repeated, sides, order, root).items()
    }


def _stacked(sides: Sequence[Interval], n: int) -> Interval:
    """Intervals of n rows in several boxes, one box after the other; one that is equal in all."""
    if not sides[0].shape and all(side is sides[0] for side in sides):
        return sides[0]
    ends = zip(*((side.lo, side.hi) for side in sides), strict=True)
    return Interval(*(np.concatenate([np.broadcast_to(x, n) for x in end]) for end in ends))


def _largest_derivatives(
    data: RowData, box: Sequence[Interval], order: int, root: Expr
) -> dict[Index, Array]:
    """Largest absolute derivatives over a box; a branch selected by data uses its rows only."""
    result: dict[Index, Array] = {}
    for rows, part, branch in branches_by_data(root, data):
        own = box if part is data else [side.take(rows) for side in box]
        jet = Jets(part, own, order).of(branch)
        found = {index: value.magnitude for index, value in jet.items() if len(index) == order}
        if part is data:
            return found
        for index, largest in found.items():
            result.setdefault(index, np.zeros(data.rows.size))[rows] = largest
    return result


def branches_by_data(
    root: Expr, data: RowData
) -> Iterator[tuple[NDArray[np.int64], RowData, Expr]]:
    """Row indices, row data and expression of each branch that is selected by data."""
    if not (is_a(root, Switch) and root.inputs[0].is_data):
        yield np.arange(data.rows.size), data, root
        return
    condition, *branches = root.inputs
    for rows, branch in zip(data.where(condition), branches, strict=True):
        if rows.size:
            part = data if rows.size == data.rows.size else data.part(rows)
            for inner, own, found in branches_by_data(branch, part):
                yield rows[inner], own, found


def cut_interval(box: Interval, count: int, *, without_end: bool = False) -> list[Interval]:
    """Cut intervals into `count` pieces; infinite ones, if `without_end`, at logistic quantiles."""
    finite = np.isfinite(box.lo) & np.isfinite(box.hi)
    if count == 1 or not (without_end or finite.all()):
        return [box]
    with np.errstate(invalid="ignore"):
        even = [box.lo + (box.hi - box.lo) * (k / count) for k in range(1, count)]
    odd = [np.clip(logit(k / count), box.lo, box.hi) for k in range(1, count)]
    inner = [np.where(finite, one, other) for one, other in zip(even, odd, strict=True)]
    # Neighbouring pieces share an end, so that the pieces cover the interval.
    return [Interval(np.minimum(a, b), b) for a, b in pairwise([box.lo, *inner, box.hi])]


#: Number of angles of the grid for a maximum over a quarter circle.
ANGLES = 17


def n_orderings(index: Index) -> int:
    """Number of ordered tuples that are permutations of a multi-index."""
    return factorial(len(index)) // prod(factorial(index.count(k)) for k in set(index))


def times_norms(derivatives: Mapping[Index, Array], norms: tuple[Array, ...]) -> dict[Index, Array]:
    """Products D_abc n_a n_b n_c for every multi-index; 0 where a norm is 0."""
    result = {}
    for index, bound in derivatives.items():
        size = prod((norms[k] for k in index), start=np.ones(()))
        with np.errstate(invalid="ignore"):
            result[index] = np.where(size == 0.0, 0.0, bound * size)
    return result


def pair_of(
    derivatives: Mapping[Index, Array], place: Geometry, order: int, inverse_temperature: float
) -> tuple[Array, Array]:
    """Bounds c_i and c̃_i at inverse temperature β, from bounds of derivatives of one order."""
    terms = times_norms(derivatives, place.norms)
    if not terms:
        return np.zeros(()), np.zeros(())
    some = place.of(sorted({k for index in terms for k in index}))
    along = directional_bound(terms, inverse_temperature)
    return along, joint_bound(terms, some.correlation_norm(), order - 1, inverse_temperature)


def directional_bound(terms: Mapping[Index, Array], inverse_temperature: float) -> Array:
    """Bound c_i of a remainder, from the `terms` D_abc n_a n_b n_c."""
    total = sum(n_orderings(index) * term for index, term in terms.items())
    return np.asarray(inverse_temperature * total * (1.0 + RELATIVE))


def joint_bound(
    terms: Mapping[Index, Array], correlation: Array, order: int, inverse_temperature: float
) -> Array:
    """Bound c̃_i of a remainder; slightly too large for three or more linear predictors."""
    arguments = sorted({k for index in terms for k in index})
    if len(arguments) == 2:
        form = _largest_of_two(terms, arguments)
    else:
        # The Frobenius norm is an upper bound of the multilinear form on the unit sphere.
        form = np.sqrt(sum(n_orderings(index) * term**2 for index, term in terms.items()))
    scale = correlation ** (0.5 * (order + 1))
    return np.asarray(inverse_temperature * scale * form * (1.0 + RELATIVE))


def _largest_of_two(terms: Mapping[Index, Array], arguments: list[int]) -> Array:
    # A trigonometric polynomial of degree n exceeds its maximum on a grid of spacing h by a factor
    # of at most 1/cos(n h / 2): Ehlich, Zeller (1964), doi:10.1007/BF01111276.
    degree = len(next(iter(terms)))
    angles = np.linspace(0.0, np.pi / 2.0, ANGLES)
    largest = np.zeros(())
    for angle in angles:
        s = {arguments[0]: np.cos(angle), arguments[1]: np.sin(angle)}
        with np.errstate(invalid="ignore"):
            value = sum(n_orderings(k) * prod(s[a] for a in k) * term for k, term in terms.items())
        # NaN is 0 * inf for an unbounded derivative, and means no bound.
        largest = np.where(np.isnan(value), np.inf, np.maximum(largest, value))
    return largest / np.cos(degree * (angles[1] - angles[0]) / 2.0)


def rounded_up(c: Array) -> np.ndarray:
    """Values as float32, rounded up."""
    with np.errstate(over="ignore"):
        single = np.asarray(c, dtype=np.float32)
    return np.where(single < c, np.nextafter(single, np.float32(np.inf)), single)
