"""Tails of the posterior against those of its normal approximation, measured before sampling.

An independence sampler with target π and proposal q stays at a position for about w = π/q updates.
If w is unbounded, a chain visits a tail rarely and for long, and diagnostics of a short run show
nothing (Mengersen & Tweedie, Annals of Statistics 24:101-121, 1996, doi:10.1214/aos/1033066201).
Local moves end a stay after some STAY updates. The efficiency along a coordinate is
1 / E_π[min(w, STAY)], with normalised densities, on the ridge of π over that coordinate out to
REACH standard deviations. It is 1 for a normal posterior.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from pymc_minibatch_mh.native.elements import ScaleConditional
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.skew_map import SkewMap
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.target import Target

#: Distance of the last points on either side, in standard deviations; distance between points.
REACH, GAP = 8.0, 0.5
#: Updates after which local moves leave a place.
STAY = 300.0
#: Maximum number of steps back to the ridge at every point; rise of log π that ends them.
RIDGE_STEPS, SMALL_RISE = 3, 0.1
#: Distance at which a tail is suspected, and log π/q there; numbers of rows that find suspects, and
#: that measure these.
SUSPECTED_AT, SUSPECTED, FEW_ROWS, MOST_ROWS = 4.0, 2.0, 2_000, 20_000
#: Maximum numbers of coordinates that are measured: effects that data index, which are alike, and
#: all others.
MAX_EFFECTS, MAX_OTHERS = 4, 32
#: Efficiency below which the ESS of short runs is misleading.
MIN_EFFICIENCY = 0.3
#: Tables of effects given scales and map of third order that proposals go through, or None.
Transformed = tuple[ScaleConditional | None, SkewMap | None]


@dataclass(frozen=True, eq=False)
class Tails:
    """Posterior around a centre, and the normal distribution of independent proposals.

    The log-likelihood is that of `rows` times `weight`, plus a quadratic polynomial, with
    coefficients `slope` and `bend` at the centre, which stands for all other rows.
    """

    target: Target
    rows: np.ndarray
    weight: float
    centre: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    slope: np.ndarray
    bend: np.ndarray
    #: Distribution of independent proposals, if it is not that normal distribution.
    tables: ScaleConditional | None = None
    map: SkewMap | None = None

    @classmethod
    def around(
        cls,
        target: Target,
        reference: Reference,
        rows: np.ndarray,
        share: float = 1.0,
        transformed: Transformed = (None, None),
    ) -> "Tails":
        """Tails around a reference of order 2, for `share` times the sum over `rows`."""
        full, centre, beta = target.full_data, reference.centre, reference.inverse_temperature
        shown = full.likelihood(centre, hessian=True, rows=rows)
        covariance, mean = reference.factor @ reference.factor.T, centre
        if target.factorization.boundary:
            slope = full.prior(centre, hessian=False).gradient + beta * reference.gradient
            mean = centre + covariance @ slope
        weight = beta * share
        slope = beta * reference.gradient - weight * shown.gradient
        bend = beta * reference.hessian - weight * shown.hessian
        return cls(target, rows, weight, centre, mean, covariance, slope, bend, *transformed)

    @cached_property
    def _precision(self) -> np.ndarray:
        return np.linalg.inv(self.covariance)

    def efficiency_along(self, direction: np.ndarray) -> float:
        """Efficiency of independent proposals along a linear function of the position.

        `direction`, shape (d,), has its coefficients. Points outside of the support are left out.
        """
        axis, steps = self._axis(direction), np.arange(0.0, REACH + GAP, GAP)
        logs = [*self._along_ridge(-axis, steps)[1:], *self._along_ridge(axis, steps)]
        posterior, proposed = (
            np.array([pair for pair in logs if pair[0] > -np.inf]).reshape(-1, 2).T
        )
        if not posterior.size:
            return 0.0
        posterior, proposed = posterior - logsumexp(posterior), proposed - logsumexp(proposed)
        stays = np.exp(np.minimum(posterior - proposed, np.log(STAY)))
        return 1.0 / float(np.exp(posterior) @ stays)

    def is_suspected(self, direction: np.ndarray) -> bool:
        """Whether the posterior is far above the proposals on either side of a linear function."""
        axis, steps = self._axis(direction), np.array([0.0, SUSPECTED_AT])
        for way in (-axis, axis):
            middle, far = (p - q for p, q in self._along_ridge(way, steps))
            if not far - middle < SUSPECTED and far > -np.inf:
                return True
        return False

    def skewness_along(self, direction: np.ndarray) -> float:
        """Third derivative of log π along the axis of a linear function, in its sds."""
        axis = self._axis(direction)
        slope = axis @ self.density_at(self.mean).gradient
        ends = [self.density_at(self.mean + way * axis).value for way in (1.0, -1.0)]
        return float(3.0 * (ends[0] - ends[1] - 2.0 * slope))

    def _axis(self, direction: np.ndarray) -> np.ndarray:
        return self.covariance @ direction / np.sqrt(direction @ self.covariance @ direction)

    def _along_ridge(self, axis: np.ndarray, steps: np.ndarray) -> list[tuple[float, float]]:
        """Log-densities of posterior and proposals on the ridge, at steps along an axis."""
        across = self.covariance - np.outer(axis, axis)
        logs, away = [], np.zeros(axis.size)
        for t in steps:
            on_axis = self.mean + t * axis
            here = self.density_at(on_axis + away)
            for _ in range(RIDGE_STEPS if np.isfinite(here.value) else 0):
                step = across @ here.gradient
                new = self.density_at(on_axis + away + step)
                if not new.value > here.value:
                    break
                rise, here, away = new.value - here.value, new, away + step
                if rise < SMALL_RISE:
                    break
            logs.append((here.value, self._log_proposal(t * axis + away)))
        return logs

    def _log_proposal(self, step: np.ndarray) -> float:
        """Log-density of an independent proposal a step away from the mean, up to a constant."""
        if self.tables is None and self.map is None:
            return -0.5 * float(step @ self._precision @ step)
        white, total = self.mean + step, 0.0
        for name, record in (("given_scales", self.tables), ("by_map", self.map)):
            if record is not None:
                position, white, log_volume = white, np.empty(step.size), np.empty(1)
                function(f"mh_whiten_{name}")(record, position, white, log_volume)
                total += float(log_volume[0])
        if self.tables is not None and self.tables.truncated is not None:
            tilt = self.tables.truncated.tilt
            white[-tilt.size :] -= tilt
        return total - 0.5 * float(white @ white)

    def density_at(self, position: np.ndarray) -> Derivatives:
        """Log posterior with its gradient; -inf outside of the support."""
        parts, nothing = self.target.factorization, np.zeros((0, 0))
        if not ((position > parts.lower) & (position < parts.upper)).all():
            return Derivatives(-np.inf, np.zeros(position.size), nothing)
        prior = self.target.full_data.prior(position, hessian=False)
        rows = self.target.full_data.likelihood(position, hessian=False, rows=self.rows)
        way = position - self.centre
        curved = self.bend @ way
        # Far out, infinite terms of either sign may meet.
        with np.errstate(invalid="ignore"):
            value = prior.value + self.weight * rows.value + (self.slope + 0.5 * curved) @ way
            gradient = prior.gradient + self.weight * rows.gradient + self.slope + curved
        value = value if np.isfinite(gradient).all() and not np.isnan(value) else -np.inf
        return Derivatives(float(value), gradient, nothing)


def heavy_tails(target: Target, reference: Reference, transformed: Transformed) -> dict[str, float]:
    """Efficiency along coordinates with a tail that proposals lack, by name; often none.

    Only some effects are measured, and the coordinates of models with up to 32 others.
    """
    if not can_measure(target, reference):
        return {}
    few, more = (_rows_around(target, reference, n, transformed) for n in (FEW_ROWS, MOST_ROWS))
    lines, names = np.eye(reference.centre.size), target.factorization.coordinate_names
    efficiencies = {
        names[k]: more.efficiency_along(lines[k])
        for k in _measured_coordinates(target, reference)
        if few.is_suspected(lines[k])
    }
    return {name: left for name, left in efficiencies.items() if left < MIN_EFFICIENCY}


def can_measure(target: Target, reference: Reference) -> bool:
    """Whether tails are measured: around a mode, with order 2 or 3, for rows in memory."""
    return reference.order >= 2 and target.covariance is None and target.source.in_memory


def largest_skewness(target: Target, reference: Reference) -> tuple[str, float]:
    """Coordinate along which the posterior is most skewed, and its skewness."""
    tails, lines = _rows_around(target, reference, MOST_ROWS), np.eye(reference.centre.size)
    names = target.factorization.coordinate_names
    measured = _measured_coordinates(target, reference)
    by_name = {names[k]: tails.skewness_along(lines[k]) for k in measured}
    return max(by_name.items(), key=lambda pair: np.nan_to_num(abs(pair[1])))


def _measured_coordinates(target: Target, reference: Reference) -> list[int]:
    """Coordinates that are measured, with a few effects."""
    free, effects = range(reference.first, reference.centre.size), target.indexed
    others = [k for k in free if k not in effects]
    return others[:MAX_OTHERS] + [k for k in free if k in effects][:MAX_EFFECTS]


def _rows_around(
    target: Target, reference: Reference, most: int, transformed: Transformed = (None, None)
) -> Tails:
    rows = np.unique(target.spread(most))
    return Tails.around(target, reference, rows, target.source.n_rows / rows.size, transformed)
