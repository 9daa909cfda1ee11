"""Kinks in the prior of elements, as of a Laplace distribution, and averages over them.

At a kink the prior has no second derivative. Averaged over an interval around each element, which
is about as wide as its posterior, it has one: the mean of a derivative over an interval is a
difference of what it is the derivative of, so that no quadrature blurs it. Elements of one factor
are independent given the rest, and are shifted at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.reference.density import HALF_WIDTH, HALVINGS, LEAST_JUMP

Gradient = Callable[[np.ndarray], np.ndarray]


def are_kinked(
    gradient: Gradient, position: np.ndarray, factors: Sequence[np.ndarray], reach: np.ndarray
) -> np.ndarray:
    """Whether the prior's slope in each element jumps within its `reach`, bool, shape (L,).

    `factors` are the coordinates of the elements of each factor, L in all, and `reach` is about a
    posterior standard deviation.
    """
    found, start = [], 0
    for places in factors:
        own = reach[start : start + places.size]
        found.append(_jumps(gradient, position, places, own))
        start += places.size
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def _jumps(
    gradient: Gradient, position: np.ndarray, places: np.ndarray, reach: np.ndarray
) -> np.ndarray:
    """Halve the interval around each element towards the larger change of its slope."""

    def slope(x: np.ndarray) -> np.ndarray:
        there = position.copy()
        there[places] = x
        return gradient(there)[places]

    low, high = position[places] - reach, position[places] + reach
    below, above = slope(low), slope(high)
    changes = []
    for _ in range(HALVINGS):
        changes.append(np.abs(above - below))
        middle = 0.5 * (low + high)
        between = slope(middle)
        lower = np.abs(between - below) > np.abs(above - between)
        low, below = np.where(lower, low, middle), np.where(lower, below, between)
        high, above = np.where(lower, middle, high), np.where(lower, between, above)
    # Of a smooth slope, however steep, the change would vanish with the interval.
    steep = changes[-1] > 0.5 * changes[HALVINGS // 2]
    return steep & (changes[-1] > LEAST_JUMP / reach) & np.isfinite(changes[-1])


@dataclass(frozen=True, eq=False)
class AveragedPrior:
    """Slope and curvature of the prior in elements, averaged over an interval around each.

    `densities` has the log-density of every element of a factor at a position, and `deviations`
    posterior standard deviations, shape (L,), which a uniform distribution over the interval has.
    """

    gradient: Gradient
    densities: Callable[[int, np.ndarray], np.ndarray]
    factors: Sequence[np.ndarray]
    deviations: np.ndarray

    def slope(self, position: np.ndarray) -> np.ndarray:
        """Return the averaged slope in each element, shape (L,)."""
        found = [
            (self.densities(f, up) - self.densities(f, down)) / (up - down)[places]
            for f, (places, up, down) in enumerate(self._ends(position))
        ]
        return np.concatenate(found)

    def curvature(self, position: np.ndarray) -> np.ndarray:
        """Return minus the averaged second derivative in each element, shape (L,)."""
        found = [
            (self.gradient(down) - self.gradient(up))[places] / (up - down)[places]
            for places, up, down in self._ends(position)
        ]
        return np.concatenate(found)

    def _ends(self, position: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield the coordinates of a factor, and positions at both ends of its intervals."""
        start = 0
        for places in self.factors:
            up, down = position.copy(), position.copy()
            reach = HALF_WIDTH * self.deviations[start : start + places.size]
            up[places] += reach
            down[places] -= reach
            yield places, up, down
            start += places.size
