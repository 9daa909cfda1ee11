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

from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.target import Target

#: Distance of the last points on either side, in standard deviations; distance between points.
REACH, GAP = 8.0, 0.5
#: Updates after which local moves leave a place.
STAY = 300.0
#: Maximum number of steps back to the ridge at every point; rise of log π that ends them.
RIDGE_STEPS, SMALL_RISE = 3, 0.1


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

    @classmethod
    def around(
        cls, target: Target, reference: Reference, rows: np.ndarray, share: float = 1.0
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
        return cls(target, rows, weight, centre, mean, covariance, slope, bend)

    @cached_property
    def _precision(self) -> np.ndarray:
        return np.linalg.inv(self.covariance)

    def efficiency_along(self, direction: np.ndarray) -> float:
        """Efficiency of independent proposals along a linear function of the position.

        `direction`, shape (d,), has its coefficients. Points outside of the support are left out.
        """
        axis = self.covariance @ direction / np.sqrt(direction @ self.covariance @ direction)
        logs = [*self._along_ridge(-axis)[1:], *self._along_ridge(axis)]
        if not logs:
            return 0.0
        posterior, normal = np.array(logs).T
        posterior, normal = posterior - logsumexp(posterior), normal - logsumexp(normal)
        stays = np.exp(np.minimum(posterior - normal, np.log(STAY)))
        return 1.0 / float(np.exp(posterior) @ stays)

    def _along_ridge(self, axis: np.ndarray) -> list[tuple[float, float]]:
        """Log-densities of posterior and proposal on the ridge, from the mean on along an axis."""
        across = self.covariance - np.outer(axis, axis)
        found, away = [], np.zeros(axis.size)
        for t in np.arange(0.0, REACH + GAP, GAP):
            place = self.mean + t * axis
            here = self.density_at(place + away)
            for _ in range(RIDGE_STEPS if np.isfinite(here.value) else 0):
                step = across @ here.gradient
                new = self.density_at(place + away + step)
                if not new.value > here.value:
                    break
                rise, here, away = new.value - here.value, new, away + step
                if rise < SMALL_RISE:
                    break
            step = t * axis + away
            found.append((here.value, -0.5 * float(step @ self._precision @ step)))
        return found

    def density_at(self, position: np.ndarray) -> Derivatives:
        """Log posterior with its gradient; -inf outside of the support."""
        parts, nothing = self.target.factorization, np.zeros((0, 0))
        if not ((position > parts.lower) & (position < parts.upper)).all():
            return Derivatives(-np.inf, np.zeros(position.size), nothing)
        prior = self.target.full_data.prior(position, hessian=False)
        rows = self.target.full_data.likelihood(position, hessian=False, rows=self.rows)
        way = position - self.centre
        curved = self.bend @ way
        value = prior.value + self.weight * rows.value + float((self.slope + 0.5 * curved) @ way)
        gradient = prior.gradient + self.weight * rows.gradient + self.slope + curved
        value = value if np.isfinite(gradient).all() and not np.isnan(value) else -np.inf
        return Derivatives(value, gradient, nothing)
