"""Tempered log-posterior for the search for its mode, and its quadratic approximation.

Curvatures are compared after scaling each coordinate by its own curvature, because a predictor
such as the calendar year makes the raw condition number 10¹².
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.prior_kinks import Kink, averaged_prior

#: Curvature below which a direction is flat, with coordinates scaled to unit curvature.
FLAT = 1e-12
#: Minimum divisor of a Newton step at a non-concave point, relative to the largest |eigenvalue|.
MIN_DIVISOR = 1e-8
#: Minimum upward curvature that identifies a saddle point in spite of rounding errors.
SADDLE = 1e-8
#: Maximum step in each coordinate if the Hessian is not finite.
BLIND_STEP = 1.0


@dataclass(frozen=True)
class Quadratic:
    """Factorised negative Hessian, for Newton steps.

    `scale` is the square root of each coordinate's curvature. The scaled curvature has the lower
    Cholesky `factor` if it is positive definite, else the eigenvalues `values` and `vectors`.
    `known` says which coordinates have a finite curvature.
    """

    scale: np.ndarray
    factor: np.ndarray | None
    values: np.ndarray
    vectors: np.ndarray
    known: np.ndarray

    @property
    def is_concave(self) -> bool:
        """Whether the curvature is positive definite."""
        return self.factor is not None

    @property
    def complete(self) -> bool:
        """Whether the whole Hessian is finite."""
        return bool(self.known.all())

    def step(self, gradient: np.ndarray) -> np.ndarray:
        """Newton step; at a non-concave point, a step that ascends along every eigenvector."""
        if not self.complete:
            # Without a finite Hessian: gradient step, each coordinate scaled by its own curvature.
            return np.clip(gradient / self.scale**2, -BLIND_STEP, BLIND_STEP)
        scaled = gradient / self.scale
        if self.factor is not None:
            return cho_solve((self.factor, True), scaled) / self.scale
        sizes = np.abs(self.values)
        divisors = np.maximum(sizes, MIN_DIVISOR * sizes.max() or 1.0)
        return self.vectors @ ((self.vectors.T @ scaled) / divisors) / self.scale

    def way_out(self) -> np.ndarray | None:
        """Step off a saddle point along the largest upward curvature; None if it is no saddle."""
        if self.is_concave or not self.complete or self.values[0] > -SADDLE:
            return None
        return self.vectors[:, 0] / np.sqrt(-self.values[0]) / self.scale

    def coordinate_deviations(self) -> np.ndarray:
        """Posterior standard deviations of coordinates; conditional ones if not concave."""
        if self.factor is None:
            return 1.0 / self.scale
        inverse = cho_solve((self.factor, True), np.eye(self.scale.size))
        return np.sqrt(np.diag(inverse)) / self.scale

    def deviation_along(self, direction: np.ndarray) -> float:
        """Posterior standard deviation of the inner product of a direction and the position."""
        scaled = direction / self.scale
        solved = scaled if self.factor is None else cho_solve((self.factor, True), scaled)
        return float(np.sqrt(scaled @ solved))

    def flattest_direction(self) -> np.ndarray:
        """Absolute weights of the scaled coordinates in the direction of smallest |curvature|."""
        return np.abs(self.vectors[:, np.argmin(np.abs(self.values))])


def quadratic_of(hessian: np.ndarray) -> Quadratic:
    """Quadratic from a Hessian; coordinates are scaled by curvature, or by coupling if it is 0."""
    curvature, none = -hessian, np.empty((0, 0))
    known, own = np.isfinite(curvature).all(axis=0), np.abs(np.diag(curvature))
    finite = np.where(np.isfinite(curvature), np.abs(curvature), 0.0)
    own = np.where(np.isfinite(own) & (own > 0.0), own, finite.max(axis=0))
    scale = np.sqrt(np.where(own > 0.0, own, 1.0))
    if not known.all():
        return Quadratic(scale, None, none, none, known)
    scaled = curvature / np.outer(scale, scale)
    try:
        factor = cholesky(scaled, lower=True)
    except LinAlgError:
        factor = None
    if factor is not None and np.diag(factor).min() ** 2 > FLAT:
        return Quadratic(scale, factor, none, none, known)
    values, vectors = np.linalg.eigh(scaled)
    return Quadratic(scale, None, values, vectors, known)


@dataclass(frozen=True)
class Point:
    """A position, its tempered log-posterior, and the untempered log-likelihood of rows."""

    position: np.ndarray
    total: Derivatives
    likelihood: Derivatives

    @property
    def is_finite(self) -> bool:
        """Whether value and gradient are finite."""
        return bool(np.isfinite(self.total.value) and np.isfinite(self.total.gradient).all())


@dataclass(frozen=True)
class Density:
    """Tempered log-posterior: log prior, averaged over `kinks`, plus `weight` × log-likelihood.

    The log-likelihood is summed over `rows` (default: all). With `rest`, the density is a function
    of these coordinates alone, and all others are fixed at `fixed`, shape (d,).
    """

    full_data: FullData
    coordinate_names: Sequence[str]
    weight: float
    rows: np.ndarray | None = None
    kinks: tuple[Kink, ...] = ()
    rest: np.ndarray | None = None
    fixed: np.ndarray | None = None

    @property
    def names(self) -> Sequence[str]:
        """Names of the coordinates of which it is a function."""
        names = self.coordinate_names
        return names if self.rest is None else [names[int(k)] for k in self.rest]

    @property
    def first_names(self) -> str:
        """Up to three of the names, in quotes, for messages."""
        return ", ".join(map(repr, self.names[:3]))

    def subsampled(self, rows: np.ndarray) -> "Density":
        """Density of all rows, estimated from some."""
        return replace(self, rows=rows, weight=self.weight * self.full_data.n_rows / rows.size)

    @property
    def logs(self) -> np.ndarray:
        """Coordinates that are logarithms of variables bounded below by 0."""
        logs = self.full_data.logs
        return logs if self.rest is None else np.flatnonzero(np.isin(self.rest, logs))

    @property
    def prior(self) -> Callable[..., Derivatives]:
        """Derivatives of the prior, averaged over its kinks."""
        return averaged_prior(self.kinked_prior, self.kinks) if self.kinks else self.kinked_prior

    def kinked_prior(self, position: np.ndarray, *, hessian: bool) -> Derivatives:
        """Derivatives of the prior, not averaged over its kinks."""
        return self._of_rest(self.full_data.prior(self.in_full(position), hessian=hessian))

    def at(self, position: np.ndarray, *, hessian: bool) -> Point:
        """Log-posterior and log-likelihood at a position, with derivatives."""
        prior, whole = self.prior(position, hessian=hessian), self.in_full(position)
        rows = self._of_rest(self.full_data.likelihood(whole, hessian=hessian, rows=self.rows))
        total = Derivatives(
            prior.value + self.weight * rows.value,
            prior.gradient + self.weight * rows.gradient,
            prior.hessian + self.weight * rows.hessian,
        )
        return Point(position, total, rows)

    def in_full(self, position: np.ndarray) -> np.ndarray:
        """Position completed by the fixed coordinates, shape (d,)."""
        if self.rest is None or self.fixed is None:
            return position
        whole = self.fixed.copy()
        whole[self.rest] = position
        return whole

    def _of_rest(self, found: Derivatives) -> Derivatives:
        if self.rest is None:
            return found
        hessian = (
            found.hessian[np.ix_(self.rest, self.rest)] if found.has_hessian else found.hessian
        )
        return Derivatives(found.value, found.gradient[self.rest], hessian)

    def over_kinks(self, kinks: Iterable[Kink]) -> "Density":
        """The same density with the prior averaged over other kinks."""
        return replace(self, kinks=tuple(kinks))

    @property
    def kinked(self) -> tuple[int, ...]:
        """Coordinates with a nonzero entry in the normal of a kink."""
        return tuple(sorted({int(k) for kink in self.kinks for k in np.flatnonzero(kink.normal)}))
