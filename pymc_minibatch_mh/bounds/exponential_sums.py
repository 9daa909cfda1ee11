"""Joint bounds of log Σ_k exp(l_k), as in softmax and mixtures, along all directions at once.

With p = softmax(l) and D the derivative along a direction, the second and the third derivative are

    Var(Dl) + E D²l    and    E(Dl - E Dl)³ + 3 Cov(Dl, D²l) + E D³l,

central moments under p if exponents are linear. Other summands of a log-likelihood are bounded by
partial derivatives, and added. docs/background/derivation.md proves the bounds of the moments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.bounds.over_states import state_bounds
from pymc_minibatch_mh.bounds.remainder import branches_by_data, derivative_suprema, pair_of
from pymc_minibatch_mh.expressions.graph import Expr
from pymc_minibatch_mh.expressions.log_sums import (
    LogSum,
    NonlinearParts,
    Weights,
    has_log_sums,
    nonlinear_parts,
    parts_of_branches,
)
from pymc_minibatch_mh.expressions.state_sums import split_states
from pymc_minibatch_mh.functions.interval import RELATIVE, TINY, Array, Interval
from pymc_minibatch_mh.structure.row_function import MAX_ARGUMENTS, RowData, RowFunction

#: Largest third central moment of a distribution on an interval of length one: 1/(6√3).
LARGEST_THIRD = np.sqrt(3.0) / 18.0
#: Largest mean of |x - E x|³ of a distribution on an interval of length one.
LARGEST_CUBE = 0.125
#: Factor that exceeds the rounding errors of a dozen operations and of eigenvalues.
ROUNDED = 1.0 + 100.0 * RELATIVE


@dataclass(frozen=True, eq=False)
class Exponents:
    """Exponents l_k of some rows at the centre of a trust region, shape (rows, K).

    `weights`, shape (rows, K, m), are gradients in the linear predictors, whose whitened gradients
    have `norms` and Gram matrices `gram`; `turns` bounds changes of exponents' whitened gradients.
    """

    values: Interval
    weights: Array
    norms: Array
    gram: Array
    turns: Array

    def distances(self) -> Array:
        """Bounds of |z_k - z_l| for whitened gradients z_k, with rounding, shape (rows, K, K)."""
        products = self._gram_products(self.weights)
        squares = np.einsum("nkk->nk", products)
        sizes = self._weighted_norms()
        doubts = RELATIVE * (sizes[:, :, None] + sizes[:, None, :]) ** 2
        gaps = squares[:, :, None] + squares[:, None, :] - 2.0 * products
        result = np.sqrt(np.maximum(gaps, 0.0) + doubts) * ROUNDED
        result += self.turns[:, :, None] + self.turns[:, None, :]
        every = range(result.shape[1])
        result[:, every, every] = 0.0
        return result

    def largest_shares(self, distances: Array, radius: float) -> Array:
        """Upper bounds of softmax probabilities p_k = 1/Σ_l exp(l_l - l_k) over the region."""
        low, high = self.values.lo, self.values.hi
        with np.errstate(all="ignore"):
            gaps = low[:, None, :] - high[:, :, None] - radius * distances
            every = range(gaps.shape[1])
            gaps[:, every, every] = 0.0
            return np.fmin(ROUNDED / np.exp(gaps).sum(axis=2) + TINY, 1.0)

    def centred_products(self) -> tuple[Array, Array, Array]:
        """x_k·x_l and |x_k| for centred gradients x_k = z_k - mean; rounding errors of products."""
        middle = 0.5 * (self.values.lo + self.values.hi)
        shares = np.exp(middle - middle.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        rest = self.weights - (shares[:, :, None] * self.weights).sum(axis=1, keepdims=True)
        products = self._gram_products(rest)
        doubt = 4.0 * RELATIVE * self._weighted_norms().max(axis=1) ** 2
        squares = np.maximum(np.einsum("nkk->nk", products), 0.0)
        return products, np.sqrt(squares + doubt[:, None]) * ROUNDED, doubt

    def _gram_products(self, weights: Array) -> Array:
        return np.asarray(weights @ self.gram @ weights.transpose(0, 2, 1))

    def _weighted_norms(self) -> Array:
        return np.asarray((np.abs(self.weights) * self.norms[:, None, :]).sum(axis=2))


@dataclass(frozen=True, eq=False)
class Moments:
    """Bounds of probabilities p_k, shape (rows, K), and of moments in any direction, shape (rows,).

    The moments are the variance, the third central moment and the mean of |z_k - E z|³.
    """

    shares: Array
    variance: Array
    third: Array
    cubes: Array


def moment_bounds(exponents: Exponents, radius: float) -> Moments:
    """Bounds of softmax probabilities and moments over a trust region of any radius."""
    distances = exponents.distances()
    widest = distances.max(axis=(1, 2))
    variance, third = 0.25 * widest**2, LARGEST_THIRD * widest**3
    if radius == np.inf:
        unknown = np.full(widest.shape, np.inf)
        every = np.ones(exponents.weights.shape[:2])
        return Moments(every, variance * ROUNDED, third * ROUNDED, unknown)
    shares = exponents.largest_shares(distances, radius)
    products, lengths, doubt = exponents.centred_products()
    turns = exponents.turns
    root = np.sqrt(_largest_eigenvalue(products, shares, doubt))
    spread = (root + np.sqrt((shares * turns**2).sum(axis=1))) ** 2
    variance = np.fmin(variance, spread)
    # Rounding errors of exponents at the centre, and of their mean.
    rounding = widest * exponents.values.width.max(axis=1) + np.sqrt(RELATIVE * doubt)
    shift = radius * variance + mean_bound(shares, turns) + rounding
    root = np.cbrt(_largest_eigenvalue(products, shares * lengths, doubt))
    cubes = (root + np.cbrt((shares * turns**3).sum(axis=1))) ** 3
    near = np.fmin(cubes + 3.0 * shift * spread, (np.cbrt(cubes) + shift) ** 3)
    apart = (shares * (lengths + turns + shift[:, None]) ** 3).sum(axis=1)
    third = np.fmin(third, near)
    return Moments(shares, variance * ROUNDED, third * ROUNDED, apart * ROUNDED)


def mean_bound(shares: Array, sizes: Array) -> Array:
    """Upper bound of Σ p_k s_k for s_k >= 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.fmin((shares * sizes).sum(axis=1), sizes.max(axis=1)))


def _largest_eigenvalue(products: Array, weights: Array, doubt: Array) -> Array:
    """Upper bound of the largest eigenvalue of Σ w_k x_k x_kᵀ, from products x_k·x_l."""
    roots = np.sqrt(weights)
    matrix = products * roots[:, :, None] * roots[:, None, :]
    largest = np.maximum(np.linalg.eigvalsh(matrix)[:, -1], 0.0)
    return largest * ROUNDED + doubt * weights.sum(axis=1)


#: Minimum over unit vectors s and t of the maximum over unit vectors x of (s·x)² |t·x|.
MIN_DIRECTION = 2.0 / (3.0 * np.sqrt(3.0))


def least_directional(order: int) -> float:
    """Least directional M in units of the joint M."""
    return {1: 1.0, 2: 0.5, 3: MIN_DIRECTION}[order]


def log_sum_bounds(
    log_sum: LogSum, data: RowData, place: Geometry, radius: float, order: int
) -> tuple[Array, Array]:
    """Bounds c_i and c̃_i, for β = 1, of the log of a sum of exponentials of linear functions."""
    factor = np.abs(_sum_of_products(log_sum.factor, data)[0])
    found = moment_bounds(_linear_exponents(log_sum, data, place), radius)
    if order == 2:
        return factor * found.variance, factor * found.variance
    along = np.fmin(found.cubes, found.third / MIN_DIRECTION)
    return factor * along, factor * found.third


def mixture_bounds(
    terms: Sequence[Expr], data: RowData, place: Geometry, radius: float, order: int
) -> Array:
    """Bounds c̃_i, for β = 1, of the log of a sum of exponentials of nonlinear functions."""
    rows = data.rows.size
    if radius == np.inf:
        return np.full(rows, np.inf)
    orders = range(2, order + 1)
    sizes = [[_derivative_size(x, data, place, radius, n) for x in terms] for n in orders]
    bends = np.stack(sizes[0], axis=1)
    found = moment_bounds(_curved_exponents(terms, data, place, radius * bends), radius)
    if order == 2:
        return np.asarray((found.variance + mean_bound(found.shares, bends)) * ROUNDED)
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(np.fmin((found.shares * bends**2).sum(axis=1), bends.max(axis=1) ** 2))
        between = 3.0 * np.sqrt(found.variance) * deviation
        total = found.third + between + mean_bound(found.shares, np.stack(sizes[1], axis=1))
    return np.where(np.isnan(total), np.inf, total * ROUNDED)


def _derivative_size(
    term: Expr, data: RowData, place: Geometry, radius: float, order: int
) -> Array:
    """Bound of a derivative of an exponent along any direction."""
    whole = (1,) * len(place.norms)
    found = derivative_suprema(data, place.argument_boxes(radius), order, whole, term)
    along, together = pair_of(found, place, order, 1.0)
    return np.broadcast_to(np.fmin(along, together), data.rows.size)


def _curved_exponents(
    terms: Sequence[Expr], data: RowData, place: Geometry, turns: Array
) -> Exponents:
    rows, m = data.rows.size, len(place.norms)
    jets = Jets(data, place.centres, 1)
    ends, weights = np.zeros((2, rows, len(terms))), np.zeros((rows, len(terms), m))
    turns = turns.copy()
    for k, term in enumerate(terms):
        jet = jets.of(term)
        ends[0, :, k], ends[1, :, k] = jet[()].lo, jet[()].hi
        for a in range(m):
            slope = jet.get((a,), Interval.point(0.0))
            weights[:, k, a] = 0.5 * (slope.lo + slope.hi)
            turns[:, k] += slope.width * place.norms[a]
    norms = np.stack([np.broadcast_to(n, rows) for n in place.norms], axis=1)
    return Exponents(Interval(*ends), weights, norms, place.gram_matrix(rows), turns)


def _linear_exponents(log_sum: LogSum, data: RowData, place: Geometry) -> Exponents:
    terms, rows = log_sum.terms, data.rows.size
    used = sorted({a for term in terms for a in term.weights})
    some = place.of(used)
    weights = np.zeros((rows, len(terms), len(used)))
    offsets, sizes = np.zeros((2, rows, len(terms)))
    for k, term in enumerate(terms):
        offsets[:, k], sizes[:, k] = _sum_of_products(term.offset, data)
        for a, weight in term.weights.items():
            weights[:, k, used.index(a)] = _sum_of_products(weight, data)[0]
    low = np.stack([np.broadcast_to(u.lo, rows) for u in some.centres], axis=1)
    high = np.stack([np.broadcast_to(u.hi, rows) for u in some.centres], axis=1)
    middle, error = 0.5 * (low + high), 0.5 * (high - low)
    values = (weights @ middle[:, :, None])[:, :, 0] + offsets
    error = error + RELATIVE * np.abs(middle)
    doubt = (np.abs(weights) @ error[:, :, None])[:, :, 0] + RELATIVE * sizes
    norms = np.stack([np.broadcast_to(n, rows) for n in some.norms], axis=1)
    enclosed = Interval.rounded(values - doubt, values + doubt)
    return Exponents(enclosed, weights, norms, some.gram_matrix(rows), np.zeros(offsets.shape))


def _sum_of_products(weights: Weights, data: RowData) -> tuple[Array, Array]:
    """Sum of products of data, and the sum of their absolute values."""
    total, size = np.zeros(()), np.zeros(())
    for product in weights:
        factor = np.ones(())
        for expr in product:
            factor = factor * np.asarray(data.value(expr), dtype=np.float64)
        total, size = total + factor, size + np.abs(factor)
    return total, size


type Places = NDArray[np.int64]
type Branch = tuple[Places, RowData, NonlinearParts]


@dataclass(frozen=True, eq=False)
class Region:
    """Trust region: radius, derivative order, number of pieces per predictor's interval, and β."""

    radius: float
    order: int
    pieces: Sequence[int]
    inverse_temperature: float


def use_joint_bound(function: RowFunction, order: int) -> bool:
    """Whether a row has few enough linear predictors to bound every partial derivative."""
    few = len(function.arguments) <= MAX_ARGUMENTS
    return order == 1 or (few and function.states is None)


def use_sum_bound(function: RowFunction, order: int) -> bool:
    """Whether bounds by summands of the log-likelihood are needed, or may be smaller."""
    # Bounds of summands are of derivatives of order 2 and 3.
    if order == 1:
        return False
    if function.states is not None:
        return True
    if not use_joint_bound(function, order):
        return function.composition is None
    if len(function.arguments) == 1:
        return False
    return has_log_sums(function.exprs, function.root) or is_nonlinear_mixture(function)


def is_nonlinear_mixture(function: RowFunction) -> bool:
    """Whether rows are logarithms of sums of exponentials of nonlinear functions."""
    return any(part.mixture for part in parts_of_branches(function.exprs, function.root))


def softmax_units(data: RowData, geometry: Geometry) -> Array:
    """Numbers g of rows of a softmax: third derivatives are <= g³ |a| |b| |c| at every position.

    The directions are in the whitened coordinates of `geometry`, whose centres are not used.
    With one coordinate, g is for the direction that a single effect moves all exponents in.
    """
    total = np.zeros(data.rows.size)
    for log_sum, rows in _rows_by_log_sum(list(_branches_of(data))):
        some = data.part(rows)
        factor = np.abs(_sum_of_products(log_sum.factor, some)[0])
        distances = _linear_exponents(log_sum, some, geometry.part(rows)).distances()
        total[rows] += factor * LARGEST_CUBE * distances.max(axis=(1, 2)) ** 3
    return np.asarray(np.cbrt(total) * ROUNDED)


def pair_by_parts(data: RowData, place: Geometry, region: Region) -> tuple[Array, Array]:
    """Bounds c_i and c̃_i of some rows as sums over the summands of their log-likelihood."""
    total, branches = _over_states(data, place, region), list(_branches_of(data))
    for rows, some, parts in branches:
        if parts.mixture or parts.others:
            total[:, rows] += _bounds_of_sum(parts, some, place.part(rows), region)
    for log_sum, rows in _rows_by_log_sum(branches):
        some = data.part(rows)
        pair = log_sum_bounds(log_sum, some, place.part(rows), region.radius, region.order)
        total[:, rows] += region.inverse_temperature * np.stack(np.broadcast_arrays(*pair))
    return total[0], total[1]


def _over_states(data: RowData, geometry: Geometry, region: Region) -> Array:
    """Bounds c_i and c̃_i, shape (2, rows), of branches with log-sums over states; others have 0."""
    function, total = data.function, np.zeros((2, data.rows.size))
    for rows, some, branch in branches_by_data(function.root, data):
        split = split_states(function.exprs, branch)
        if split is not None:
            bounds = state_bounds(split, some, geometry.part(rows), region.radius, region.order)
            bounds *= region.inverse_temperature
            several = len(function.arguments) > 1
            total[:, rows] = _along_and_together(bounds, region.order) if several else bounds
    return total


def _branches_of(data: RowData) -> Iterator[Branch]:
    """Row indices, row data and nonlinear summands of branches on data without sums over states."""
    exprs = data.function.exprs
    for rows, some, branch in branches_by_data(data.function.root, data):
        if split_states(exprs, branch) is None:
            yield rows, some, nonlinear_parts(exprs, branch)


def _rows_by_log_sum(branches: Sequence[Branch]) -> Iterator[tuple[LogSum, Places]]:
    """Each logarithm of a sum, which branches usually share, with the rows of all its branches."""
    shared: dict[tuple[Expr, Weights], tuple[LogSum, list[Places]]] = {}
    for rows, _, parts in branches:
        for log_sum in parts.log_sums:
            key = log_sum.core, log_sum.factor
            shared.setdefault(key, (log_sum, []))[1].append(rows)
    for log_sum, found in shared.values():
        yield log_sum, np.sort(np.concatenate(found))


def _along_and_together(together: Array, order: int) -> Array:
    """Bounds c_i and c̃_i, shape (2, rows), from bounds along all directions at once."""
    return np.stack([together / least_directional(order), together])


def _bounds_of_sum(parts: NonlinearParts, data: RowData, place: Geometry, region: Region) -> Array:
    """Bounds c_i and c̃_i of nonlinear mixtures or of other summands, shape (2, rows)."""
    if parts.mixture:
        found = mixture_bounds(parts.mixture, data, place, region.radius, region.order)
        return _along_and_together(found * region.inverse_temperature, region.order)
    rest = parts.others[0]
    if len(parts.others) > 1:
        rest = data.function.exprs.node(scalar.add, parts.others)
    boxes = place.argument_boxes(region.radius)
    largest = derivative_suprema(data, boxes, region.order, region.pieces, rest)
    pair = pair_of(largest, place, region.order, region.inverse_temperature)
    return np.stack([np.broadcast_to(c, data.rows.size) for c in pair])
