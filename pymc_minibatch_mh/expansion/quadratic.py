"""The quadratic around a point, in coordinates that are scaled to unit curvature.

Newton's method does not care for the scale of a parameter or for correlation, but the verdict on
which directions are curved at all does: a year as a predictor makes the raw condition number 10¹².
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

#: Curvature, in units of that of the single coordinates, below which a direction is flat.
FLAT = 1e-12
#: The same for steps where some direction is not concave: the least that a step divides by.
LEAST_DIVISOR = 1e-8
#: Curvature the wrong way that is more than rounding.
SADDLE = 1e-8
#: Largest step along a coordinate whose curvature is not known.
BLIND_STEP = 1.0


@dataclass(frozen=True)
class Quadratic:
    """Minus a Hessian as it is divided by: by its Cholesky factor, or by its eigenvectors.

    Parameters
    ----------
    scale : ndarray, shape (d,)
        Root of the curvature along each coordinate.
    factor
        Lower Cholesky factor of the scaled curvature; None if that is not positive definite.
    values, vectors
        Eigenvalues and eigenvectors of the scaled curvature where there is no factor.
    known : ndarray of bool, shape (d,)
        Coordinates whose curvature is finite.
    """

    scale: np.ndarray
    factor: np.ndarray | None
    values: np.ndarray
    vectors: np.ndarray
    known: np.ndarray

    @property
    def concave(self) -> bool:
        """Whether the log-density is curved downwards in all directions."""
        return self.factor is not None

    @property
    def complete(self) -> bool:
        """Whether all of the Hessian was finite."""
        return bool(self.known.all())

    def step(self, gradient: np.ndarray) -> np.ndarray:
        """Return the Newton step; away from concavity it climbs along every eigenvector."""
        if not self.complete:
            # Without a Hessian: along the gradient, as far as single coordinates allow.
            return np.clip(gradient / self.scale**2, -BLIND_STEP, BLIND_STEP)
        scaled = gradient / self.scale
        if self.factor is not None:
            return cho_solve((self.factor, True), scaled) / self.scale
        sizes = np.abs(self.values)
        divisors = np.maximum(sizes, LEAST_DIVISOR * sizes.max() or 1.0)
        return self.vectors @ ((self.vectors.T @ scaled) / divisors) / self.scale

    def way_out(self) -> np.ndarray | None:
        """Return the step off a saddle, along the direction that is curved most upwards."""
        if self.concave or not self.complete or self.values[0] > -SADDLE:
            return None
        return self.vectors[:, 0] / np.sqrt(-self.values[0]) / self.scale

    def deviations(self) -> np.ndarray:
        """Return posterior standard deviations of the coordinates, as far as they are known."""
        if self.factor is None:
            return 1.0 / self.scale
        inverse = cho_solve((self.factor, True), np.eye(self.scale.size))
        return np.sqrt(np.diag(inverse)) / self.scale

    def deviation_along(self, direction: np.ndarray) -> float:
        """Return the posterior standard deviation of the product of a direction with a position."""
        scaled = direction / self.scale
        solved = scaled if self.factor is None else cho_solve((self.factor, True), scaled)
        return float(np.sqrt(scaled @ solved))

    def flattest(self) -> np.ndarray:
        """Return the weights of the coordinates in the direction of least curvature."""
        return np.abs(self.vectors[:, np.argmin(np.abs(self.values))])

    def least_concave(self) -> np.ndarray:
        """Return the same for the direction that is curved most upwards, or least downwards."""
        return np.abs(self.vectors[:, 0])


def quadratic_of(hessian: np.ndarray) -> Quadratic:
    """Prepare minus a Hessian for division."""
    curvature = -hessian
    known = np.isfinite(curvature).all(axis=0)
    scale = _scale_of(curvature)
    none = np.empty((0, 0))
    if not known.all():
        return Quadratic(scale, None, none, none, known)
    scaled = curvature / np.outer(scale, scale)
    try:
        factor = cholesky(scaled, lower=True)
    except LinAlgError:
        factor = None
    if factor is not None and np.diag(factor).min() ** 2 > FLAT:
        return Quadratic(scale, factor, none, none, known)
    return Quadratic(scale, None, *np.linalg.eigh(scaled), known)


def _scale_of(curvature: np.ndarray) -> np.ndarray:
    """Return the root of the curvature along each coordinate, or of what couples it to others."""
    own = np.abs(np.diag(curvature))
    finite = np.where(np.isfinite(curvature), np.abs(curvature), 0.0)
    own = np.where(np.isfinite(own) & (own > 0.0), own, finite.max(axis=0))
    return np.sqrt(np.where(own > 0.0, own, 1.0))
