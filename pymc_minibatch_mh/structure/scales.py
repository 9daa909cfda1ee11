"""Scales of a hierarchy: coordinates that change the prior's curvature in others.

In ``alpha ~ Normal(mu, tau)`` the prior's curvature in alpha changes with tau and not with mu. The
rule uses *slopes*: differences of gradients between two points, which priors with kinks also have.

1. A coordinate without observations is a scale if it changes the prior's slope between two points
   that differ in the coordinates on which observations depend.
2. Other coordinates without observations are locations if the prior is quadratic in them, and then
   count as coordinates of observations. A coordinate that changes a slope between points that
   differ in any of these is a scale, such as the scale of groups of groups.
3. A remaining coordinate, such as a scale of scales, is a scale if the prior couples it to scales
   alone.

A scale is *local* if it changes the slope of only one coordinate on which observations depend.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Minimum relative change of a slope that is not attributed to rounding.
MIN_SLOPE_CHANGE = 1e-7
#: Distance of the two points in unconstrained coordinates, and the maximum number of halvings until
#: the prior part has a density at both.
POINT_DISTANCE, MAX_HALVINGS = 1.0, 10
#: Multiples of this distance at which slopes are compared; the larger one catches distant kinks.
DISTANCE_FACTORS = (1.0, 30.0)
#: Seed of the random points, which avoid accidental symmetries of a model.
SEED = 20_260_917

#: Derivatives of a log-density: (position, hessian=False) -> a record with `gradient`.
Derivatives = Callable[..., Any]


def read_by_slopes(likelihood: Derivatives, start: np.ndarray) -> set[int]:
    """Coordinates in which the gradient of a likelihood is nonzero at one of two points."""
    near = start + 0.1 * np.random.default_rng(SEED).standard_normal(start.size)
    slopes = [likelihood(point, hessian=False).gradient for point in (start, near)]
    return set(np.flatnonzero(np.any([slope != 0.0 for slope in slopes], axis=0)).tolist())


def find_scales(prior: Derivatives, read: set[int], start: np.ndarray) -> tuple[int, ...]:
    """Scales of a prior near `start`, by the rule of this module; observations depend on `read`."""
    unread = [k for k in range(start.size) if k not in read]
    probe = _SlopeProbe.near_start(prior, start) if unread else None
    if probe is None:
        return ()
    others = np.zeros(start.size, dtype=bool)
    others[list(read)] = True
    scales = {k for k in unread if probe.changes_slopes(k, others)}
    rest = [k for k in unread if k not in scales]
    locations = {k for k in rest if probe.is_quadratic_in(k)}
    others[list(locations)] = True
    rest = [k for k in rest if k not in locations]
    scales |= {k for k in rest if probe.changes_slopes(k, others)}
    rest = [k for k in rest if k not in scales and not probe.is_coupled(k, others)]
    known = np.zeros_like(others)
    while True:
        known[list(scales)] = True
        added = {k for k in rest if k not in scales and probe.is_coupled(k, known)}
        if not added:
            return tuple(sorted(scales))
        scales |= added


def local_scales(
    prior: Derivatives, scales: Sequence[int], read: set[int], start: np.ndarray
) -> tuple[int, ...]:
    """Those of the `scales` that scale one coordinate each; observations depend on `read`."""
    probe = _SlopeProbe.near_start(prior, start) if scales else None
    if probe is None:
        return ()
    others = np.zeros(start.size, dtype=bool)
    others[list(read)] = True
    return tuple(k for k in scales if probe.changed_slopes(k, others).sum() == 1)


@dataclass(frozen=True, eq=False)
class _SlopeProbe:
    """Gradients of the prior part near the midpoint of two points."""

    prior: Derivatives
    middle: np.ndarray
    #: Vector from the midpoint to either point.
    way: np.ndarray

    @classmethod
    def near_start(cls, prior: Derivatives, start: np.ndarray) -> "_SlopeProbe | None":
        """Probe with finite gradients at all its points; None if none is found."""
        rng = np.random.default_rng(SEED)
        away, way = rng.uniform(0.2, 1.0, (2, start.size)) * rng.choice([-1, 1], (2, start.size))
        for halvings in range(MAX_HALVINGS):
            length = POINT_DISTANCE * 0.5**halvings
            middle, side = start + length * away, length * way
            ends = (middle + side, middle - side, middle)
            if all(np.isfinite(prior(end, hessian=False).gradient).all() for end in ends):
                return cls(prior, middle, side)
        return None

    def _slopes_at(self, k: int, times: float, way: np.ndarray | float = 0.0) -> np.ndarray:
        place = self.middle + way
        place[k] += times * float(np.abs(self.way).max())
        return self.prior(place, hessian=False).gradient

    def changes_slopes(self, k: int, others: np.ndarray) -> bool:
        """Whether differences of slopes between two points (different `others`) change with k."""
        return any(self._changed_at(k, others, length).any() for length in DISTANCE_FACTORS)

    def changed_slopes(self, k: int, others: np.ndarray) -> np.ndarray:
        """The coordinates, as booleans, whose differences of slopes change with k."""
        changed = [self._changed_at(k, others, length) for length in DISTANCE_FACTORS]
        return np.any(changed, axis=0)

    def _changed_at(self, k: int, others: np.ndarray, length: float) -> np.ndarray:
        chosen = others.copy()
        chosen[k] = False
        way = np.where(chosen, length * self.way, 0.0)
        ends = [self._slopes_at(k, t, side * way) for t in (0.0, 1.0) for side in (1.0, -1.0)]
        return _differ((1.0, -1.0, -1.0, 1.0), ends) & chosen

    def is_quadratic_in(self, k: int) -> bool:
        """Whether the prior is quadratic in k: its derivative in k is linear."""
        ends = [self._slopes_at(k, t) for t in (-1.0, 0.0, 1.0)]
        own = np.arange(self.middle.size) == k
        return not (_differ((1.0, -2.0, 1.0), ends) & own).any()

    def is_coupled(self, k: int, others: np.ndarray) -> bool:
        """Whether derivatives in the coordinates `others` change with k."""
        ends = [self._slopes_at(k, t) for t in (0.0, 1.0)]
        chosen = others.copy()
        chosen[k] = False
        return bool((_differ((1.0, -1.0), ends) & chosen).any())


def _differ(weights: tuple[float, ...], slopes: Sequence[np.ndarray]) -> np.ndarray:
    """Whether weighted sums of slopes differ from 0 by more than rounding."""
    with np.errstate(invalid="ignore"):
        change = np.array(weights) @ np.array(slopes)
        # Slopes that are not finite count as equal: comparisons with NaN are false.
        return np.abs(change) > MIN_SLOPE_CHANGE * np.sum(np.abs(slopes), axis=0)
