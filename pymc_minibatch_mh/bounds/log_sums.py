r"""Joint bounds of log Σ_k exp(l_k), as in softmax and mixtures: along all directions at once.

With p = softmax(l), the second derivative of the logarithm along a direction is

    Var(Dl) + E D²l,

and the third, the moments under p (:mod:`pymc_minibatch_mh.bounds.moments`),

    E(Dl - E Dl)³ + 3 Cov(Dl, D²l) + E D³l.

In softmax exponents are linear and the first of these is all. Otherwise the second and third
derivatives of each exponent are bounded by themselves, the fewer arguments each has the better,
and a covariance by the product of two standard deviations.

For M along directions a cubic form has to be a sum of cubes, as the first moment is, of which
the mean of |z_k - E z|³ is a bound; or what bounds it in one direction is divided by the least M in
units of lengths, 2/(3√3). A form of second order without negative values needs neither.
"""

from collections.abc import Sequence

import numpy as np

from pymc_minibatch_mh.bounds.enclose import suprema
from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.bounds.moments import ROUNDED, Exponents, mean, moments
from pymc_minibatch_mh.bounds.remainder import pair_of
from pymc_minibatch_mh.kernels.intervals import RELATIVE
from pymc_minibatch_mh.model.row.cells import Cell
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.log_sums import LogSum, Weights
from pymc_minibatch_mh.model.row.values import RowData

#: Least value over unit s and t of the largest (s·x)² |t·x| over unit x.
LEAST_DIRECTION = 2.0 / (3.0 * np.sqrt(3.0))


def log_sum_bounds(
    log_sum: LogSum, data: RowData, place: Geometry, radius: float, order: int
) -> tuple[Array, Array]:
    """Bound the derivatives of the logarithm of a sum of exponentials of linear functions.

    Parameters
    ----------
    log_sum, data
        The rows.
    place
        Where their arguments lie.
    radius
        Of the trust region.
    order
        Of the derivatives: 2 or 3.

    Returns
    -------
    ndarray, shape (rows,)
        c_i for M along directions, at temperature 1.
    ndarray, shape (rows,)
        The same for M of lengths.
    """
    factor = np.abs(_value(log_sum.factor, data)[0])
    found = moments(_linear_exponents(log_sum, data, place), radius)
    if order == 2:
        return factor * found.variance, factor * found.variance
    along = np.fmin(found.cubes, found.third / LEAST_DIRECTION)
    return factor * along, factor * found.third


def mixture_bounds(
    function: RowFunction,
    terms: Sequence[Cell],
    data: RowData,
    place: Geometry,
    radius: float,
    order: int,
) -> Array:
    """Bound the derivatives of the logarithm of a sum of exponentials, for M of lengths.

    Parameters
    ----------
    function, data
        The rows.
    terms
        The exponents.
    place, radius, order
        As for :func:`log_sum_bounds`.

    Returns
    -------
    ndarray, shape (rows,)

    Raises
    ------
    BoundsError
        If an operation has no rule.
    """
    rows = data.rows.size
    if radius == np.inf:
        return np.full(rows, np.inf)
    orders = range(2, order + 1)
    sizes = [[_size(function, x, data, place, radius, n) for x in terms] for n in orders]
    bends = np.stack(sizes[0], axis=1)
    found = moments(_curved_exponents(terms, data, place, radius * bends), radius)
    if order == 2:
        return np.asarray((found.variance + mean(found.shares, bends)) * ROUNDED)
    with np.errstate(invalid="ignore"):
        deviation = np.sqrt(np.fmin((found.shares * bends**2).sum(axis=1), bends.max(axis=1) ** 2))
        between = 3.0 * np.sqrt(found.variance) * deviation
        total = found.third + between + mean(found.shares, np.stack(sizes[1], axis=1))
    return np.where(np.isnan(total), np.inf, total * ROUNDED)


def _size(
    function: RowFunction, term: Cell, data: RowData, place: Geometry, radius: float, order: int
) -> Array:
    """Bound a derivative of an exponent along any direction."""
    whole = (1,) * len(place.norms)
    found = suprema(function, data, place.boxes(radius), order, whole, term)
    along, together = pair_of(found, place, order, 1.0)
    return np.broadcast_to(np.fmin(along, together), data.rows.size)


def _curved_exponents(
    terms: Sequence[Cell], data: RowData, place: Geometry, turns: Array
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
    return Exponents(Interval(*ends), weights, norms, place.products(rows), turns)


def _linear_exponents(log_sum: LogSum, data: RowData, place: Geometry) -> Exponents:
    terms, rows = log_sum.terms, data.rows.size
    used = sorted({a for term in terms for a in term.weights})
    some = place.of(used)
    weights = np.zeros((rows, len(terms), len(used)))
    offsets, sizes = np.zeros((2, rows, len(terms)))
    for k, term in enumerate(terms):
        offsets[:, k], sizes[:, k] = _value(term.offset, data)
        for a, weight in term.weights.items():
            weights[:, k, used.index(a)] = _value(weight, data)[0]
    low = np.stack([np.broadcast_to(u.lo, rows) for u in some.centres], axis=1)
    high = np.stack([np.broadcast_to(u.hi, rows) for u in some.centres], axis=1)
    middle, error = 0.5 * (low + high), 0.5 * (high - low)
    values = (weights @ middle[:, :, None])[:, :, 0] + offsets
    error = error + RELATIVE * np.abs(middle)
    doubt = (np.abs(weights) @ error[:, :, None])[:, :, 0] + RELATIVE * sizes
    norms = np.stack([np.broadcast_to(n, rows) for n in some.norms], axis=1)
    enclosed = Interval.rounded(values - doubt, values + doubt)
    return Exponents(enclosed, weights, norms, some.products(rows), np.zeros(offsets.shape))


def _value(weights: Weights, data: RowData) -> tuple[Array, Array]:
    """Return a sum of products of data, and that of their absolute values."""
    total, size = np.zeros(()), np.zeros(())
    for product in weights:
        factor = np.ones(())
        for cell in product:
            factor = factor * np.asarray(data.value(cell), dtype=np.float64)
        total, size = total + factor, size + np.abs(factor)
    return total, size
