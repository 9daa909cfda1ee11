"""The tempered log-posterior that the search for its mode climbs, its quadratic, and its kinks.

The verdict on which directions are curved depends on the scales of parameters: a year as a
predictor makes the raw condition number 10¹². At a kink, as of a Laplace prior, the log-density has
no Hessian; averaged across the kink over an interval about as wide as the posterior, it has one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky

from pymc_minibatch_mh.reference.full_data import Derivatives, FullData

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

    `scale` is the root of the curvature along each coordinate; `factor` the lower Cholesky factor
    of the scaled curvature, where that is positive definite, and `values` and `vectors` its
    eigenvalues and eigenvectors where it is not. `known` are the coordinates whose curvature is
    finite.
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
    """Return the root of the curvature along each coordinate, or of its coupling to others."""
    own = np.abs(np.diag(curvature))
    finite = np.where(np.isfinite(curvature), np.abs(curvature), 0.0)
    own = np.where(np.isfinite(own) & (own > 0.0), own, finite.max(axis=0))
    return np.sqrt(np.where(own > 0.0, own, 1.0))


#: Jump of a gradient, in posterior standard deviations, below which a kink does not count.
LEAST_JUMP = 0.01
#: How often the interval around a jump is halved until it is taken for one.
HALVINGS = 30
#: Half-width of the interval that a kink is averaged over, in posterior standard deviations: a
#: uniform distribution that is as wide.
HALF_WIDTH = 3**0.5
#: How many times as far as a coordinate is from zero kinks are looked for.
FARTHEST = 1e6
#: Share of a jump below which a coordinate has no part in it, and cosine of two that are one.
NO_PART, ONE_KINK = 1e-3, 0.999


@dataclass(frozen=True, eq=False)
class Kink:
    """A kink of the prior part, and over how much it is averaged.

    The gradient jumps along `normal`, shape (d,), whose product with the position has the posterior
    standard deviation `deviation`.
    """

    normal: np.ndarray
    deviation: float

    @property
    def reach(self) -> np.ndarray:
        """Half of the interval, along the normal."""
        return HALF_WIDTH * self.deviation * self.normal / (self.normal @ self.normal)


def normals_near(
    prior: Callable[..., Derivatives], position: np.ndarray, reach: np.ndarray
) -> list[np.ndarray]:
    """Return the normals of the kinks of the prior part that coordinates meet near a position.

    How far to look along each coordinate is its `reach`: about a posterior standard deviation.
    """
    found: list[np.ndarray] = []
    # From very far off, as of a coordinate without curvature, every bend looks like a kink.
    near = np.flatnonzero(reach <= FARTHEST * (1.0 + np.abs(position)))
    for k in map(int, near):
        jump = _jump_along(prior, position, k, reach)
        if jump is not None and not any(_are_one(jump, other, reach) for other in found):
            found.append(jump)
    return found


def are_known(normal: np.ndarray, kinks: Sequence[Kink], scale: np.ndarray) -> bool:
    """Return whether a normal is that of one of some kinks."""
    return any(_are_one(normal, kink.normal, scale) for kink in kinks)


def _are_one(normal: np.ndarray, other: np.ndarray, scale: np.ndarray) -> bool:
    one, two = normal * scale, other * scale
    return bool(abs(one @ two) > ONE_KINK * np.linalg.norm(one) * np.linalg.norm(two))


def _jump_along(
    prior: Callable[..., Derivatives], position: np.ndarray, k: int, reach: np.ndarray
) -> np.ndarray | None:
    """Return the normal of the kink that is met along a coordinate, or None."""

    def slope(x: float) -> np.ndarray:
        there = position.copy()
        there[k] = x
        return prior(there, hessian=False).gradient

    low, high = position[k] - reach[k], position[k] + reach[k]
    below, above = slope(low), slope(high)
    changes = []
    for _ in range(HALVINGS):
        changes.append(abs(above[k] - below[k]))
        if not LEAST_JUMP / reach[k] < changes[-1] < np.inf:
            return None
        middle = 0.5 * (low + high)
        between = slope(middle)
        if abs(between[k] - below[k]) > abs(above[k] - between[k]):
            high, above = middle, between
        else:
            low, below = middle, between
    # Of a smooth slope, however steep, the change would vanish with the interval.
    if changes[-1] <= 0.5 * changes[HALVINGS // 2]:
        return None
    jump = above - below
    parts = np.abs(jump) * reach
    return np.where(parts > NO_PART * parts[k], jump, 0.0) / abs(jump[k])


def averaged(
    prior: Callable[..., Derivatives], kinks: Sequence[Kink]
) -> Callable[..., Derivatives]:
    """Return derivatives of the prior part, averaged across kinks.

    The mean of a derivative over an interval is a difference of what it is the derivative of, so
    that no quadrature blurs it. The value stays that of the prior itself.
    """

    def across(position: np.ndarray, *, hessian: bool) -> Derivatives:
        here = prior(position, hessian=hessian)
        gradient, curvature = here.gradient.copy(), here.hessian.copy()
        for kink in kinks:
            reach, normal = kink.reach, kink.normal
            up, down = (prior(position + side * reach, hessian=False) for side in (1.0, -1.0))
            along = reach @ normal
            excess = 0.5 * (up.value - down.value) - reach @ here.gradient
            gradient += excess / along * normal
            if hessian:
                skewness = (
                    0.5 * reach @ (up.gradient - down.gradient) - reach @ here.hessian @ reach
                )
                curvature += skewness / along**2 * np.outer(normal, normal)
        return Derivatives(here.value, gradient, curvature)

    return across


@dataclass(frozen=True)
class Point:
    """A position, the tempered log-posterior there, and the untempered log-likelihood of rows."""

    position: np.ndarray
    total: Derivatives
    likelihood: Derivatives

    @property
    def finite(self) -> bool:
        """Whether value and gradient are finite."""
        return bool(np.isfinite(self.total.value) and np.isfinite(self.total.gradient).all())


@dataclass(frozen=True)
class Density:
    """The tempered log-posterior, by passes over all rows or over some that stand for them.

    The log-likelihood of `rows`, by default all, is multiplied by `weight`. The prior part is
    averaged over `kinks`: an average has a curvature where the prior itself has none. Where it is a
    density of the coordinates `rest` alone, the others are as `fixed` has them, shape (d,).
    """

    full_data: FullData
    weight: float
    rows: np.ndarray | None = None
    kinks: tuple[Kink, ...] = ()
    rest: np.ndarray | None = None
    fixed: np.ndarray | None = None

    @property
    def logs(self) -> np.ndarray:
        """Coordinates that are logarithms of variables that may be zero, without a lower end."""
        logs = self.full_data.logs
        return logs if self.rest is None else np.flatnonzero(np.isin(self.rest, logs))

    @property
    def prior(self) -> Callable[..., Derivatives]:
        """The prior part, averaged over its kinks."""
        return averaged(self.kinked_prior, self.kinks) if self.kinks else self.kinked_prior

    def kinked_prior(self, position: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part as it is."""
        return self._own(self.full_data.prior(self.whole(position), hessian=hessian))

    def at(self, position: np.ndarray, *, hessian: bool) -> Point:
        """Evaluate at a position."""
        prior, whole = self.prior(position, hessian=hessian), self.whole(position)
        rows = self._own(self.full_data.likelihood(whole, hessian=hessian, rows=self.rows))
        total = Derivatives(
            prior.value + self.weight * rows.value,
            prior.gradient + self.weight * rows.gradient,
            prior.hessian + self.weight * rows.hessian,
        )
        return Point(position, total, rows)

    def whole(self, position: np.ndarray) -> np.ndarray:
        """Return a position with the coordinates that are fixed, shape (d,)."""
        if self.rest is None or self.fixed is None:
            return position
        whole = self.fixed.copy()
        whole[self.rest] = position
        return whole

    def _own(self, found: Derivatives) -> Derivatives:
        if self.rest is None:
            return found
        own, hessian = self.rest, found.hessian
        if found.has_hessian:
            hessian = hessian[np.ix_(own, own)]
        return Derivatives(found.value, found.gradient[own], hessian)

    def over(self, kinks: Iterable[Kink]) -> "Density":
        """Return the same with the prior part averaged over these kinks."""
        return replace(self, kinks=tuple(kinks))

    @property
    def kinked(self) -> tuple[int, ...]:
        """Coordinates that move across one of the kinks."""
        return tuple(sorted({int(k) for kink in self.kinks for k in np.flatnonzero(kink.normal)}))
