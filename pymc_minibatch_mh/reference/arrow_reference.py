"""Arrow-shaped precision of common and group effects, and the reference in its coordinates.

The precision A is dense in the border b: common effects, which all rows may depend on, and prior
locations. Group effects α of the largest factor are not coupled to each other, so no d × d matrix
is needed. With R₀ = -A_αα⁻¹ A_αb and S = A_bb + A_bα R₀, coordinates (w, e) are defined by
b = b̂ + T w, T = chol(S)⁻ᵀ, and α = α̂ + R₀ T w + e.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from pymc_minibatch_mh.native.elements import Ends
from pymc_minibatch_mh.native.posterior import Reference


class Arrow:
    """Precision of common and group effects; the block of the first `n_first` is diagonal."""

    def __init__(
        self, border: np.ndarray, between: np.ndarray, within: sparse.csr_array, n_first: int
    ) -> None:
        self.within = within
        self._first = within.diagonal()[:n_first]
        self._n_first = n_first
        self._cells = sparse.csr_array(within[:n_first, n_first:])
        self._scaled = sparse.csr_array(sparse.diags_array(1.0 / self._first) @ self._cells)
        self._rest = None
        if within.shape[0] > n_first:
            rest = within[n_first:, n_first:] - self._cells.T @ self._scaled
            self._rest = cholesky(rest.toarray(order="F"), lower=True, overwrite_a=True)
        self.response = -self.solve_levels(between)
        self._schur = cho_factor(border + between.T @ self.response, lower=True)

    def solve_levels(self, right: np.ndarray) -> np.ndarray:
        """A_αα⁻¹ times vectors, shape (L, ...)."""
        first = (right[: self._n_first].T / self._first).T
        if self._rest is None:
            return first
        other = cho_solve((self._rest, True), right[self._n_first :] - self._cells.T @ first)
        return np.concatenate([first - self._scaled @ other, other])

    def step(self, border: np.ndarray, elements: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A⁻¹ times a gradient in common effects (`border`) and group effects (`elements`)."""
        way = cho_solve(self._schur, border + self.response.T @ elements)
        return way, self.solve_levels(elements) + self.response @ way

    @cached_property
    def _to_rest(self) -> np.ndarray:
        """Covariances A_αα⁻¹ of all levels with those beyond the first factor, shape (L, L - n)."""
        lower = dpotri(self._rest, lower=1)[0]
        inverse = lower + np.tril(lower, -1).T
        return np.concatenate([-(self._scaled @ inverse), inverse])

    @cached_property
    def variances(self) -> np.ndarray:
        """The diagonal of A_αα⁻¹."""
        first = 1.0 / self._first
        if self._rest is None:
            return first
        n, to_rest = self._n_first, self._to_rest
        first -= self._scaled.multiply(to_rest[:n]).sum(axis=1)
        return np.concatenate([first, to_rest[n:].diagonal()])

    def covariances(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Entries of A_αα⁻¹ for pairs of levels; `right` are not of the first factor."""
        return self._to_rest[left, right - self._n_first]

    def from_noise(self, noise: np.ndarray) -> np.ndarray:
        """Vectors with covariance A_αα⁻¹ from uncorrelated noise, shape (L, k)."""
        first = (noise[: self._n_first].T / np.sqrt(self._first)).T
        if self._rest is None:
            return first
        other = solve_triangular(self._rest, noise[self._n_first :], lower=True, trans="T")
        return np.concatenate([first - self._scaled @ other, other])

    @cached_property
    def border_factor(self) -> np.ndarray:
        """T, with T Tᵀ the inverse of the Schur complement of the common effects."""
        factor = np.tril(self._schur[0])
        return np.ascontiguousarray(solve_triangular(factor, np.eye(len(factor)), lower=True).T)


class GroupedReference(NamedTuple):
    """Centre, coordinates (w, e) around it, and expansions of likelihood and prior in (w, e).

    `border`, int64, shape (n,), lists coordinates of `n_fixed` common effects, then of locations.
    `places`, int64, shape (L,), lists group effects; factor f begins at `starts[f]`.
    """

    centre: np.ndarray
    border: np.ndarray
    n_fixed: int
    places: np.ndarray
    starts: np.ndarray
    #: T, shape (n, n), and the group effects' response R₀ T to w, shape (L, n).
    border_factor: np.ndarray
    response: np.ndarray
    #: Posterior standard deviation of each e given w and the scales, shape (L,).
    sd: np.ndarray
    #: Gradients and Hessians of the log-likelihood in w and e; pairs of effects as a CSR matrix.
    gw: np.ndarray
    ge: np.ndarray
    Hww: np.ndarray
    Hew: np.ndarray
    he: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    #: Posterior average of the likelihood's gradient minus its value at the centre, in w and e.
    border_tilt: np.ndarray
    tilts: np.ndarray
    #: Prior precisions of group effects, shape (L,); derivatives in w of effects minus prior means,
    #: (L, n); precision of w due to each factor, (F, n, n); remaining prior gradient in w, (n,).
    prior_curvature: np.ndarray
    prior_direction: np.ndarray
    prior_stiffness: np.ndarray
    border_slope: np.ndarray
    #: Scales, their posterior standard deviations, and their factors (-1 for none), shape (p,).
    scales: np.ndarray
    scale_sd: np.ndarray
    scale_factor: np.ndarray
    #: Joint directions in e across factors, scaled to one conditional sd, shape (K, L).
    along: np.ndarray
    #: Crossed levels: their indices among the common effects, factor by factor; the first of each
    #: factor in `chosen`, and the end; their posterior standard deviations.
    chosen: np.ndarray
    choices: np.ndarray
    chosen_sd: np.ndarray
    #: Q with orthonormal rows, shape (r, n): Q w is the standardised border without crossed levels.
    read: np.ndarray

    @property
    def n_chosen(self) -> int:
        """Number of border coordinates that are crossed levels."""
        return self.border.size - len(self.read)

    def ends(self, here: np.ndarray, there: np.ndarray) -> Ends:
        """Both ends of a proposal, relative to the centre: effects, crossed levels, and |Q w|."""
        (w, e), (other, new_e) = (self.coordinates(x) for x in (here, there))
        one, two, way = (float(np.linalg.norm(self.read @ x)) for x in (w, other, other - w))
        away = [(x - self.centre)[self.border[self.chosen]] for x in (here, there)]
        return Ends(np.append(e, away[0]), np.append(new_e, away[1]), (one, two, way))

    @property
    def rows_hessian(self) -> sparse.csr_array:
        """Hessian of the log-likelihood in e, shape (L, L)."""
        size = self.he.size
        cells = sparse.csr_array((self.data, self.indices, self.indptr), shape=(size, size))
        return sparse.csr_array(cells + sparse.diags_array(self.he))

    @property
    def fixed(self) -> np.ndarray:
        """Border coordinates that occur in the likelihood."""
        return self.border[: self.n_fixed]

    def reference(self, inverse_temperature: float) -> Reference:
        """Reference with the centre only: metric and expansion are not stored as matrices."""
        none = np.empty((0, 0))
        return Reference(self.centre, none, none, np.empty(0), none, 2, inverse_temperature)

    def told(self) -> str:
        """Description of the centre and of the updates."""
        sizes = " and ".join(f"{size:,}" for size in np.diff(self.starts))
        moved = [f"{sizes} effects are updated one at a time"] if sizes else []
        if self.n_chosen:
            several = "effects that appear several times in one row are updated together"
            moved.append(f"{self.n_chosen:,} {several}")
        how = ", found without a matrix of all parameters" if sizes else ""
        return (
            f"near the mean of the posterior{how}: {', and '.join(moved)}, beside "
            f"{len(self.read)} parameters that all observations share"
        )

    def coordinates(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates (w, e) of a position."""
        away = position - self.centre
        w = np.linalg.solve(self.border_factor, away[self.border])
        return w, away[self.places] - self.response @ w

    def position(self, w: np.ndarray, e: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Position, shape (d,), with coordinates (w, e) and scales."""
        found = self.centre.copy()
        found[self.border] += self.border_factor @ w
        found[self.places] += self.response @ w + e
        found[self.scales] = scales
        return found

    def draw(self, rng: np.random.Generator, scale: float) -> np.ndarray:
        """Draw from the Gaussian approximation, `scale` times as wide."""
        sizes = self.border.size, self.sd.size, self.scales.size
        w, e, away = (rng.standard_normal(size) for size in sizes)
        scales = self.centre[self.scales] + scale * self.scale_sd * away
        # With crossed levels, w starts near the centre: its joint updates converge slowly.
        wide = 1.0 if self.chosen.size else scale
        return self.position(wide * w, scale * self.sd * e, scales)

    def distance(self, position: np.ndarray) -> float:
        """Distance of a position from the centre, in standard deviations."""
        w, e = self.coordinates(position)
        away = (position - self.centre)[self.scales] / self.scale_sd
        return float(np.sqrt(w @ w + ((e / self.sd) ** 2).sum() + away @ away))

    def unread_steps(self) -> tuple[np.ndarray, np.ndarray]:
        """Orthonormal basis of the likelihood's null space, shape (k, d), and 1/sd along each."""
        locations = self.border[self.n_fixed :]
        spread = np.linalg.norm(self.border_factor[self.n_fixed :], axis=1)
        places = np.concatenate([self.scales, locations])
        directions = np.zeros((places.size, self.centre.size))
        directions[np.arange(places.size), places] = 1.0
        return directions, 1.0 / np.concatenate([self.scale_sd, spread])

    @property
    def moved_by(self) -> tuple[np.ndarray, np.ndarray]:
        """Border coordinates, and scales of a factor, which are updated with its effects."""
        return self.border, self.scales[self.scale_factor >= 0]
