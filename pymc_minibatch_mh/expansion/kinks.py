"""Kinks of the prior part, as of a Laplace prior: where they are, and averages over them.

At a kink the log-density has no Hessian, and its mode may lie on it. Averaged across the kink over
an interval about as wide as the posterior, it has one. Any centre and scale leave a test exact;
good ones make it fast.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.expansion.passes import Derivatives

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

    Parameters
    ----------
    normal : ndarray, shape (d,)
        Across the kink: the direction in which the gradient jumps.
    deviation
        Posterior standard deviation of the product of the normal with the position.
    """

    normal: np.ndarray
    deviation: float

    @property
    def reach(self) -> np.ndarray:
        """Half of the interval, along the normal."""
        return HALF_WIDTH * self.deviation * self.normal / (self.normal @ self.normal)

    @property
    def coordinates(self) -> list[int]:
        """Coordinates that move across the kink."""
        return [int(k) for k in np.flatnonzero(self.normal)]


def normals_near(
    prior: Callable[..., Derivatives], position: np.ndarray, reach: np.ndarray
) -> list[np.ndarray]:
    """Return the normals of the kinks of the prior part that coordinates meet near a position.

    Parameters
    ----------
    prior
        Derivatives of the prior part.
    position : ndarray, shape (d,)
    reach : ndarray, shape (d,)
        How far to look along each coordinate: about a posterior standard deviation.
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

    Parameters
    ----------
    prior
        Derivatives of the prior part.
    kinks
        What to average over.
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
                bend = 0.5 * reach @ (up.gradient - down.gradient) - reach @ here.hessian @ reach
                curvature += bend / along**2 * np.outer(normal, normal)
        return Derivatives(here.value, gradient, curvature)

    return across
