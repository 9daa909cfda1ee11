"""Kinks of the prior, as in a Laplace distribution, and averages over them.

At a kink the log prior has no second derivative. Its average over an interval about as wide as the
posterior has one: the mean of a derivative over an interval is a difference of its antiderivative,
so no quadrature is needed. A kink in joint coordinates is described by its normal vector; effects
of one factor are independent given the rest, and are shifted together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.reference.full_data import Derivatives

#: Minimum jump of a slope that counts as a kink, times the posterior standard deviation.
MIN_JUMP = 0.01
#: Number of halvings of the interval around a jump.
HALVINGS = 30
#: Half-width of the averaging interval in posterior standard deviations: a uniform distribution on
#: this interval has the same standard deviation.
HALF_WIDTH = 3**0.5
#: Maximum reach of the search for kinks, relative to 1 + |coordinate|.
FARTHEST = 1e6
#: Relative size below which an entry of a jump counts as 0; minimum |cosine| of equal normals.
NO_PART, ONE_KINK = 1e-3, 0.999

Gradient = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Kink:
    """Normal of a kink, shape (d,), and posterior standard deviation of position · normal."""

    normal: np.ndarray
    deviation: float

    @property
    def reach(self) -> np.ndarray:
        """Half of the averaging interval, as a vector along the normal, shape (d,)."""
        return HALF_WIDTH * self.deviation * self.normal / (self.normal @ self.normal)


def normals_near(
    prior: Callable[..., Derivatives],
    position: np.ndarray,
    reach: np.ndarray,
    kinks: Sequence[Kink] = (),
) -> list[np.ndarray]:
    """Normals of kinks, not in `kinks`, found by varying each coordinate within its `reach`."""

    def gradient(x: np.ndarray) -> np.ndarray:
        return prior(x, hessian=False).gradient

    found: list[np.ndarray] = []
    # Skip coordinates without curvature: in a very long interval every bend looks like a kink.
    near = np.flatnonzero(reach <= FARTHEST * (1.0 + np.abs(position)))
    for k in map(int, near):
        jump = _jump_along(gradient, position, k, reach)
        if jump is not None and not any(_are_one(jump, other, reach) for other in found):
            found.append(jump)
    return [x for x in found if not any(_are_one(x, kink.normal, reach) for kink in kinks)]


def _are_one(normal: np.ndarray, other: np.ndarray, scale: np.ndarray) -> bool:
    one, two = normal * scale, other * scale
    return bool(abs(one @ two) > ONE_KINK * np.linalg.norm(one) * np.linalg.norm(two))


def _jump_along(
    gradient: Gradient, position: np.ndarray, k: int, reach: np.ndarray
) -> np.ndarray | None:
    """Normal of the kink along a coordinate, if there is one."""
    coordinates = np.array([k])
    jumps, low, high = _locate_jumps(gradient, position, coordinates, reach[coordinates])
    if not jumps[0]:
        return None
    jump = gradient(_shifted(position, coordinates, high)) - gradient(
        _shifted(position, coordinates, low)
    )
    parts = np.abs(jump) * reach
    return np.where(parts > NO_PART * parts[k], jump, 0.0) / abs(jump[k])


def _shifted(position: np.ndarray, coordinates: np.ndarray, values: np.ndarray) -> np.ndarray:
    there = position.copy()
    there[coordinates] = values
    return there


def _locate_jumps(
    gradient: Gradient, position: np.ndarray, coordinates: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Whether slopes in coordinates jump, and the ends of short intervals around the jumps."""

    def slopes_at(x: np.ndarray) -> np.ndarray:
        return gradient(_shifted(position, coordinates, x))[coordinates]

    low, high = position[coordinates] - reach, position[coordinates] + reach
    below, above = slopes_at(low), slopes_at(high)
    changes, large = [], np.ones(coordinates.size, dtype=bool)
    for _ in range(HALVINGS):
        changes.append(np.abs(above - below))
        large &= (changes[-1] > MIN_JUMP / reach) & (changes[-1] < np.inf)
        if not large.any():
            return large, low, high
        middle = 0.5 * (low + high)
        between = slopes_at(middle)
        lower = np.abs(between - below) > np.abs(above - between)
        low, below = np.where(lower, low, middle), np.where(lower, below, between)
        high, above = np.where(lower, middle, high), np.where(lower, between, above)
    # In ever shorter intervals the change of a smooth slope vanishes, but a jump stays.
    return large & (changes[-1] > 0.5 * changes[HALVINGS // 2]), low, high


def averaged_prior(
    prior: Callable[..., Derivatives], kinks: Sequence[Kink]
) -> Callable[..., Derivatives]:
    """Derivatives of the prior, averaged across kinks; the value is not averaged."""

    @np.errstate(invalid="ignore")
    def averaged_derivatives(position: np.ndarray, *, hessian: bool) -> Derivatives:
        # Far away, densities and slopes at both ends may be infinite.
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

    return averaged_derivatives


def are_kinked(
    gradient: Gradient, position: np.ndarray, factors: Sequence[np.ndarray], reach: np.ndarray
) -> bool:
    """Whether the prior's slope in an effect of some factor jumps within `reach`, shape (L,)."""
    ends = np.cumsum([coordinates.size for coordinates in factors])[:-1]
    pairs = zip(factors, np.split(reach, ends), strict=True) if factors else ()
    return any(
        _locate_jumps(gradient, position, coordinates, own)[0].any() for coordinates, own in pairs
    )


@dataclass(frozen=True, eq=False)
class AveragedPrior:
    """Slope and curvature of the prior in effects, averaged over an interval around each.

    `densities` has the log-density of every effect of a factor at a position, and `deviations`,
    shape (L,), are the posterior standard deviations of all effects.
    """

    gradient: Gradient
    densities: Callable[[int, np.ndarray], np.ndarray]
    factors: Sequence[np.ndarray]
    deviations: np.ndarray

    def slope(self, position: np.ndarray) -> np.ndarray:
        """Averaged slope in each effect, shape (L,)."""
        found = [
            (self.densities(f, up) - self.densities(f, down)) / (up - down)[coordinates]
            for f, (coordinates, up, down) in enumerate(self._ends_of(position))
        ]
        return np.concatenate(found)

    def curvature(self, position: np.ndarray) -> np.ndarray:
        """Averaged negative second derivative in each effect, shape (L,)."""
        found = [
            (self.gradient(down) - self.gradient(up))[coordinates] / (up - down)[coordinates]
            for coordinates, up, down in self._ends_of(position)
        ]
        return np.concatenate(found)

    def _ends_of(self, position: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Coordinates of each factor, and positions at both ends of its intervals."""
        start = 0
        for coordinates in self.factors:
            reach = HALF_WIDTH * self.deviations[start : start + coordinates.size]
            here, start = position[coordinates], start + coordinates.size
            up, down = (_shifted(position, coordinates, here + side) for side in (reach, -reach))
            yield coordinates, up, down
