r"""Bounds of central moments under shares p = softmax(l), along all directions at once.

With z_k the whitened gradient of the exponent l_k, v_k = z_k·δ is its change along a direction
|δ| <= 1. Of the variance and the third central moment of v under p there are bounds

1. for all p: R²/4 and R³/(6√3), where R is the largest |z_k - z_l|. Among the laws on an interval
   with a given mean, what is linear in the law is largest at one of two points, and there the
   moments are h² q(1 - q) and h³ q(1 - q)(1 - 2q), h <= R;
2. for the p of a trust region of radius ρ: p_k <= P_k, and x_k = z_k - c, c the mean of z at the
   centre. The variance is at most E(x·δ)² <= σ, the largest eigenvalue of Σ P_k x_k x_kᵀ. The mean
   μ of x·δ is zero at the centre and changes with the position at the rate of a variance, so that
   |μ| <= e = ρσ. The third moment is

       E(x·δ)³ - μ (3 E(x·δ)² - 2 μ²),   at most   λ + 3 e σ,

   with λ the largest eigenvalue of Σ P_k |x_k| x_k x_kᵀ, for |x·δ|³ <= |x| (x·δ)², and as
   0 <= 3 E(x·δ)² - 2 μ² <= 3 E(x·δ)². By Minkowski's inequality it is at most (λ^{1/3} + e)³,
   too.

Where exponents are curved, z_k is that at the centre and moves by at most g_k within the region.
Then R is larger by g_k + g_l, √σ by the root of Σ P_k g_k², λ^{1/3} by that of Σ P_k g_k³, both by
Minkowski's inequality, and e by the mean of g.
"""

from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.bounds.interval import Array, Interval
from pymc_minibatch_mh.kernels.intervals import RELATIVE, TINY

#: Largest third central moment on an interval of length one: 1/(6√3).
LARGEST_THIRD = np.sqrt(3.0) / 18.0
#: More than the rounding errors of a dozen operations and of eigenvalues.
ROUNDED = 1.0 + 100.0 * RELATIVE


@dataclass(frozen=True, eq=False)
class Exponents:
    """The exponents l_k of some rows at the centre of a trust region.

    Parameters
    ----------
    values
        l_k at the centre, of shape (rows, K).
    weights
        Their gradients in the arguments there, shape (rows, K, m).
    norms, gram
        Norms and products of the arguments' whitened gradients, shapes (rows, m), (rows, m, m).
    turns
        g_k: by how much a whitened gradient may differ within the region, shape (rows, K).
    """

    values: Interval
    weights: Array
    norms: Array
    gram: Array
    turns: Array

    def distances(self) -> Array:
        """Return sup |z_k - z_l|, shape (rows, K, K); what cancels is off by the sizes."""
        products = self._products(self.weights)
        squares = np.einsum("nkk->nk", products)
        sizes = self._sizes()
        doubts = RELATIVE * (sizes[:, :, None] + sizes[:, None, :]) ** 2
        gaps = squares[:, :, None] + squares[:, None, :] - 2.0 * products
        result = np.sqrt(np.maximum(gaps, 0.0) + doubts) * ROUNDED
        result += self.turns[:, :, None] + self.turns[:, None, :]
        every = range(result.shape[1])
        result[:, every, every] = 0.0
        return result

    def largest_shares(self, distances: Array, radius: float) -> Array:
        """Return P_k, upper bounds of p_k = 1/Σ_l exp(l_l - l_k) in the region."""
        low, high = self.values.lo, self.values.hi
        with np.errstate(all="ignore"):
            gaps = low[:, None, :] - high[:, :, None] - radius * distances
            every = range(gaps.shape[1])
            gaps[:, every, every] = 0.0
            return np.fmin(ROUNDED / np.exp(gaps).sum(axis=2) + TINY, 1.0)

    def centred(self) -> tuple[Array, Array, Array]:
        """Return x_k·x_l, x_k = z_k less their mean, |x_k|, and the rounding error of products."""
        middle = 0.5 * (self.values.lo + self.values.hi)
        shares = np.exp(middle - middle.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        rest = self.weights - (shares[:, :, None] * self.weights).sum(axis=1, keepdims=True)
        products = self._products(rest)
        doubt = 4.0 * RELATIVE * self._sizes().max(axis=1) ** 2
        squares = np.maximum(np.einsum("nkk->nk", products), 0.0)
        return products, np.sqrt(squares + doubt[:, None]) * ROUNDED, doubt

    def _products(self, weights: Array) -> Array:
        return np.asarray(weights @ self.gram @ weights.transpose(0, 2, 1))

    def _sizes(self) -> Array:
        return np.asarray((np.abs(self.weights) * self.norms[:, None, :]).sum(axis=2))


@dataclass(frozen=True, eq=False)
class Moments:
    """Bounds of moments of the change of exponents along directions, shapes (rows,).

    Parameters
    ----------
    shares
        P_k, shape (rows, K).
    variance, third
        Of the second and the third central moment, along any direction.
    cubes
        Of the mean of |z_k - E z|³.
    """

    shares: Array
    variance: Array
    third: Array
    cubes: Array


def moments(exponents: Exponents, radius: float) -> Moments:
    """Bound the moments over a trust region.

    Parameters
    ----------
    exponents
        The exponents.
    radius
        Of the region, or infinity.
    """
    distances = exponents.distances()
    widest = distances.max(axis=(1, 2))
    variance, third = 0.25 * widest**2, LARGEST_THIRD * widest**3
    if radius == np.inf:
        unknown = np.full(widest.shape, np.inf)
        every = np.ones(exponents.weights.shape[:2])
        return Moments(every, variance * ROUNDED, third * ROUNDED, unknown)
    shares = exponents.largest_shares(distances, radius)
    products, lengths, doubt = exponents.centred()
    turns = exponents.turns
    root = np.sqrt(_largest_eigenvalue(products, shares, doubt))
    spread = (root + np.sqrt((shares * turns**2).sum(axis=1))) ** 2
    variance = np.fmin(variance, spread)
    # Exponents at the centre are known up to rounding, and so is their mean.
    rounding = widest * exponents.values.width.max(axis=1) + np.sqrt(RELATIVE * doubt)
    shift = radius * variance + mean(shares, turns) + rounding
    root = np.cbrt(_largest_eigenvalue(products, shares * lengths, doubt))
    cubes = (root + np.cbrt((shares * turns**3).sum(axis=1))) ** 3
    near = np.fmin(cubes + 3.0 * shift * spread, (np.cbrt(cubes) + shift) ** 3)
    apart = (shares * (lengths + turns + shift[:, None]) ** 3).sum(axis=1)
    third = np.fmin(third, near)
    return Moments(shares, variance * ROUNDED, third * ROUNDED, apart * ROUNDED)


def mean(shares: Array, sizes: Array) -> Array:
    """Return a bound of Σ p_k s_k, s_k >= 0."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.fmin((shares * sizes).sum(axis=1), sizes.max(axis=1)))


def _largest_eigenvalue(products: Array, weights: Array, doubt: Array) -> Array:
    """Return the largest eigenvalue of Σ w_k x_k x_kᵀ, from products x_k·x_l and their error."""
    roots = np.sqrt(weights)
    matrix = products * roots[:, :, None] * roots[:, None, :]
    largest = np.maximum(np.linalg.eigvalsh(matrix)[:, -1], 0.0)
    return largest * ROUNDED + doubt * weights.sum(axis=1)
