r"""Joint bounds of log Σ_k exp(l_k), as in softmax: along every direction at once.

With p = softmax(l), every l_k linear in the position and v_k the change of l_k along a direction,
the second and the third derivative along it are the second and the third central moment of v
under p. With z_k the whitened gradient of l_k, v_k = z_k·δ for |δ| <= 1, and bounds are

1. for all p: the variance is at most R²/4, and the third moment at most R³/(6√3), where R is the
   largest |z_k - z_l|. Among the laws on an interval with a given mean, what is linear in the law
   is largest at one of two points, and there the moments are h² q(1 - q) and
   h³ q(1 - q)(1 - 2q), h <= R;
2. for the p of a trust region, P_k >= p_k, and x_k = z_k - c with a fixed c, the mean of z at the
   centre: the variance is at most E(x·δ)² <= σ, the largest eigenvalue of Σ P_k x_k x_kᵀ. The mean
   μ of x·δ changes with p at the rate of a variance, so that |μ| <= e = ρ σ. The third moment is

       E(x·δ)³ - μ (3 E(x·δ)² - 2 μ²),   at most   λ + 3 e σ,

   with λ the largest eigenvalue of Σ P_k |x_k| x_k x_kᵀ, for |x·δ|³ <= |x| (x·δ)², and as
   0 <= 3 E(x·δ)² - 2 μ² <= 3 E(x·δ)². By Minkowski's inequality it is at most (λ^{1/3} + e)³,
   too.

For M along directions a cubic form has to be a sum of cubes, Σ p_k (x_k·δ - μ)³, which
Σ P_k (|x_k| + e)³ bounds; or what bounds it in one direction is divided by the least M in units
of lengths, 2/(3√3). A form of second order without negative values needs neither.
"""

from collections.abc import Sequence

import numpy as np

from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.kernels.intervals import RELATIVE, TINY
from pymc_minibatch_mh.model.row.log_sums import Linear, LogSum, Weights
from pymc_minibatch_mh.model.row.values import RowData

#: Largest third central moment on an interval of length one: 1/(6√3).
LARGEST_THIRD = np.sqrt(3.0) / 18.0
#: Least value over x of |s·x|² |t·x| for unit s and t, largest over unit x: 2/(3√3).
LEAST_DIRECTION = 2.0 / (3.0 * np.sqrt(3.0))


def log_sum_bounds(
    log_sum: LogSum, data: RowData, place: Geometry, radius: float, order: int
) -> tuple[Array, Array]:
    """Bound the derivatives of a logarithm of a sum of exponentials, for M of both kinds.

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
    rows = data.rows.size
    factor = np.abs(_value(log_sum.factor, data)[0])
    exponents = _Exponents(log_sum.terms, data, place)
    widest = exponents.widest()
    if order == 2:
        along = together = 0.25 * widest**2
    else:
        together = LARGEST_THIRD * widest**3
        along = together / LEAST_DIRECTION
    if radius < np.inf:
        near_along, near_together = _within(exponents, widest, radius, order)
        together = np.fmin(together, near_together)
        along = np.fmin(along, np.fmin(near_along, together / LEAST_DIRECTION))
    if order == 2:
        along = together
    scale = factor * (1.0 + 10.0 * RELATIVE)
    return np.broadcast_to(scale * along, rows), np.broadcast_to(scale * together, rows)


def _within(
    exponents: "_Exponents", widest: Array, radius: float, order: int
) -> tuple[Array, Array]:
    """Return the bounds that hold for the shares of a trust region."""
    shares = exponents.largest_shares(radius)
    products, lengths, doubt = exponents.centred()
    spread = _largest_eigenvalue(products, shares, doubt)
    if order == 2:
        return spread, spread
    variance = np.fmin(spread, 0.25 * widest**2)
    shift = radius * variance + widest * exponents.doubt() + np.sqrt(RELATIVE * doubt)
    cubes = _largest_eigenvalue(products, shares * lengths, doubt)
    together = np.fmin(cubes + 3.0 * shift * spread, (np.cbrt(cubes) + shift) ** 3)
    along = (shares * (lengths + shift[:, None]) ** 3).sum(axis=1)
    return along, together


def _largest_eigenvalue(products: Array, weights: Array, doubt: Array) -> Array:
    """Return the largest eigenvalue of Σ w_k x_k x_kᵀ, from products and their error."""
    roots = np.sqrt(weights)
    matrix = products * roots[:, :, None] * roots[:, None, :]
    rounding = doubt * weights.sum(axis=1)
    return np.maximum(np.linalg.eigvalsh(matrix)[:, -1], 0.0) * (1.0 + RELATIVE) + rounding


class _Exponents:
    """The exponents of some rows: linear functions l_k of the arguments.

    Parameters
    ----------
    terms
        The functions.
    data, place
        The rows, and where their arguments lie.
    """

    def __init__(self, terms: Sequence[Linear], data: RowData, place: Geometry) -> None:
        self._used = sorted({a for term in terms for a in term.weights})
        rows = data.rows.size
        self._weights = np.zeros((rows, len(terms), len(self._used)))
        for k, term in enumerate(terms):
            for a, weights in term.weights.items():
                self._weights[:, k, self._used.index(a)] = _value(weights, data)[0]
        norms = [np.broadcast_to(place.norms[a], rows) for a in self._used]
        self._norms = np.stack(norms, axis=1)
        self._gram = _gram([place.whitened[a] for a in self._used], rows)
        values = [_enclosed(term, data, place, rows) for term in terms]
        self._low = np.stack([value.lo for value in values], axis=1)
        self._high = np.stack([value.hi for value in values], axis=1)
        self._distances = self._between()

    def _between(self) -> Array:
        """Return |z_k - z_l|, shape (rows, K, K); what cancels there is off by the sizes."""
        products = self._products(self._weights)
        squares = np.einsum("nkk->nk", products)
        sizes = (np.abs(self._weights) * self._norms[:, None, :]).sum(axis=2)
        doubts = RELATIVE * (sizes[:, :, None] + sizes[:, None, :]) ** 2
        gaps = squares[:, :, None] + squares[:, None, :] - 2.0 * products
        distances = np.sqrt(np.maximum(gaps, 0.0) + doubts)
        distances[:, range(len(sizes[0])), range(len(sizes[0]))] = 0.0
        return distances * (1.0 + RELATIVE)

    def _products(self, weights: Array) -> Array:
        return weights @ self._gram @ weights.transpose(0, 2, 1)

    def widest(self) -> Array:
        """Return the largest |z_k - z_l| of each row."""
        return self._distances.max(axis=(1, 2))

    def doubt(self) -> Array:
        """Return by how much exponents at the centre may differ from those that are taken."""
        return (self._high - self._low).max(axis=1)

    def largest_shares(self, radius: float) -> Array:
        """Return upper bounds of the shares p_k = 1/Σ_l exp(l_l - l_k) in a trust region."""
        gaps = self._low[:, None, :] - self._high[:, :, None] - radius * self._distances
        gaps[:, range(gaps.shape[1]), range(gaps.shape[1])] = 0.0
        with np.errstate(over="ignore"):
            shares = (1.0 + 10.0 * RELATIVE) / np.exp(gaps).sum(axis=2)
        return shares + TINY

    def centred(self) -> tuple[Array, Array, Array]:
        """Return x_k·x_l, x_k = z_k less their mean, |x_k|, and the rounding error of products."""
        middle = 0.5 * (self._low + self._high)
        shares = np.exp(middle - middle.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        sizes = (np.abs(self._weights) * self._norms[:, None, :]).sum(axis=2).max(axis=1)
        rest = self._weights - (shares[:, :, None] * self._weights).sum(axis=1, keepdims=True)
        products = self._products(rest)
        squares = np.einsum("nkk->nk", products)
        doubt = 4.0 * RELATIVE * sizes**2
        lengths = np.sqrt(np.maximum(squares, 0.0) + doubt[:, None])
        return products, lengths * (1.0 + RELATIVE), doubt


def _gram(whitened: Sequence[Array], rows: int) -> Array:
    """Return the products of the arguments' whitened gradients, shape (rows, m, m)."""
    m = len(whitened)
    result = np.empty((rows, m, m))
    for a in range(m):
        for b in range(a + 1):
            result[:, a, b] = result[:, b, a] = (whitened[a] * whitened[b]).sum(axis=1)
    return result


def _enclosed(term: Linear, data: RowData, place: Geometry, rows: int) -> Interval:
    """Enclose an exponent at the centre."""
    total = _rounded(term.offset, data)
    for a, weights in term.weights.items():
        total = total + _rounded(weights, data) * place.centres[a]
    return Interval(np.broadcast_to(total.lo, rows), np.broadcast_to(total.hi, rows))


def _rounded(weights: Weights, data: RowData) -> Interval:
    value, size = _value(weights, data)
    return Interval.rounded(value, value, RELATIVE * size + TINY)


def _value(weights: Weights, data: RowData) -> tuple[Array, Array]:
    """Return a sum of products of data, and that of their absolute values."""
    total, size = np.zeros(()), np.zeros(())
    for product in weights:
        factor = np.ones(())
        for cell in product:
            factor = factor * np.asarray(data.value(cell), dtype=np.float64)
        total, size = total + factor, size + np.abs(factor)
    return total, size
