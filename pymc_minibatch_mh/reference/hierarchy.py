"""The centre of a model with scales: the maximum of their marginal density.

Maximisations of V of :mod:`pymc_minibatch_mh.reference.marginal` over the scales φ, without row
evaluations, alternate with Newton steps in the rest x. V approximates the log-likelihood by a
quadratic that is valid near the best x only, so φ changes only when x is near it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference import messages
from pymc_minibatch_mh.reference.density import Density, Point
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.line_search import distance_to_maximum
from pymc_minibatch_mh.reference.marginal import Given, Marginal
from pymc_minibatch_mh.reference.mode import JITTERS, TOLERANCE, Mode, rows_of_few
from pymc_minibatch_mh.reference.newton import first_found, newton_search
from pymc_minibatch_mh.reference.prior_kinks import averaged_prior

MAX_PASSES = 60
#: Tolerances in standard deviations, divided by √d. `CALM`: of x before the scales are updated.
#: `SETTLED`: minimum tolerance at the end of the search; a larger one may be requested.
CALM, SETTLED = 1.0, 0.01
#: Maximum change of a transformed scale in one iteration: a factor e^1.5 for log scales.
REACH = 1.5
#: Number of consecutive steps limited by `REACH` after which a scale is checked for divergence.
STEADY_MOVES = 8
#: Maximum standard deviation of a transformed scale: a factor e^5 for log scales.
MAX_SPREAD = 5.0
#: Maximum decrease of the log-density that counts as rounding, relative to its absolute value.
ROUNDING = 1e-9


def find_marginal_mode(
    density: Density,
    start: np.ndarray,
    rng: np.random.Generator,
    scales: Sequence[int],
    tolerance: float = TOLERANCE,
) -> Mode:
    """Marginal mode of the `scales`, and conditional mode of all other coordinates.

    ModeError names the parameters without a mode.
    """
    start = np.array(start, dtype=np.float64)
    tolerance = max(tolerance, SETTLED * np.sqrt(start.size))
    search = _Search(density.coordinate_names, scales, tolerance)
    rows = rows_of_few(density.full_data, start.size, rng)
    if rows is None:
        return search.found_from_several(density, start, rng)
    try:
        # No weights for the subsample: they would exaggerate differences between groups.
        near = search.found_from_several(replace(density, rows=rows), start, rng)
    except ModeError:
        return search.found(density, start)
    return search.found(density, near.position)


@dataclass(frozen=True)
class _Place:
    """State of a search: the density of x at fixed scales, and a point."""

    density: Density
    point: Point
    scales: np.ndarray
    rest: np.ndarray

    @property
    def position(self) -> np.ndarray:
        """Position in all coordinates."""
        return self.density.in_full(self.point.position)

    def marginal(self) -> Marginal:
        """Marginal density of the scales, with the likelihood's quadratic at this position."""
        position, kinks = self.position, []
        for kink in self.density.kinks:
            normal = np.zeros(position.size)
            normal[self.rest] = kink.normal
            kinks.append(replace(kink, normal=normal))
        whole, rows = self.density.full_data.prior, self.point.likelihood
        slope, hessian = (self.density.weight * x for x in (rows.gradient, rows.hessian))
        prior = averaged_prior(whole, kinks) if kinks else whole
        return Marginal(prior, self.scales, self.rest, position, slope, -hessian)

    def distance(self, best: Given) -> float:
        """Distance from this x to the best x, in conditional standard deviations."""
        way = (best.position - self.position)[self.rest]
        return float(np.sqrt(max(way @ best.precision @ way, 0.0)))

    def at_mode(self, best: Given, precision: np.ndarray) -> Mode:
        """Mode with the best scales and this x."""
        position, rows = self.position, self.point.likelihood
        position[self.scales] = best.position[self.scales]
        gradient, hessian = np.zeros(position.size), np.zeros((position.size, position.size))
        gradient[self.rest] = rows.gradient
        hessian[np.ix_(self.rest, self.rest)] = rows.hessian
        kinked = tuple(int(self.rest[k]) for k in self.density.kinked)
        likelihood = Derivatives(rows.value, gradient, hessian)
        return Mode(position, precision, likelihood, kinked, tuple(map(int, self.scales)))


def _density_along(
    marginal: Marginal, best: Given, way: np.ndarray, distance: float
) -> tuple[float, float]:
    """Marginal log-density of the scales along a line, and its slope; NaN if undefined."""
    given = marginal.given(best.position[marginal.scales] + distance * way, best.position)
    if given is None:
        return np.nan, np.nan
    value, gradient = marginal.value_and_gradient(given)
    return value, float(gradient @ way)


class _Search:
    """Search for the mode of `scales`, and for the conditional mode of the rest."""

    def __init__(self, names: Sequence[str], scales: Sequence[int], tolerance: float) -> None:
        self._names, self._tolerance = names, tolerance
        self._scales = np.array(scales, dtype=np.int64)
        self._rest = np.setdiff1d(np.arange(len(names)), self._scales)
        # Untransformed scales have no natural unit, so their steps are not limited.
        transformed = [names[int(k)].partition("[")[0].endswith("__") for k in self._scales]
        self._reach = np.where(transformed, REACH, np.inf)

    def found_from_several(
        self, density: Density, start: np.ndarray, rng: np.random.Generator
    ) -> Mode:
        """Mode by a search from `start`, or else from the origin or jittered starts."""
        around = (start + rng.uniform(-jitter, jitter, start.size) for jitter in JITTERS)
        # Try several starts: far from the mode all groups look alike, and a search may fail.
        starts = chain([start, np.zeros(start.size)], around)
        return first_found(lambda x: self.found(density, x), starts)

    def found(self, density: Density, start: np.ndarray) -> Mode:
        """Mode by a search from `start`."""
        place = self._climb_at_scales(density, start)
        steady = np.zeros(self._scales.size)
        for k in range(MAX_PASSES):
            marginal = place.marginal()
            best = marginal.given(place.position[self._scales])
            if best is None:
                raise messages.start_without_density()
            calm = place.distance(best) <= CALM * np.sqrt(self._rest.size)
            if calm:
                best = marginal.best(best, self._reach)
            distance, step = place.distance(best), best.position - place.position
            report_stage("Newton", f"{k + 1}/{MAX_PASSES}, distance {distance:.2g}")
            move = step[self._scales]
            if calm and distance < self._tolerance and not self._is_all_of_reach(move).any():
                curvature = marginal.curvature_at(best)
                if not np.isfinite(curvature).all():
                    bad = np.zeros(best.position.size)
                    bad[self._scales] = ~np.isfinite(curvature).all(axis=1)
                    raise messages.not_finite(self._names, best.position, bad)
                if np.sqrt(max(move @ curvature @ move, 0.0)) < self._tolerance:
                    return self._checked_mode(place, best, marginal.precision(best, curvature))
            steady = self._count_steady_moves(steady, move, marginal, best)
            place = self._step_or_climb(place, best)
        worst = int(np.argmax(np.abs(step)))
        raise messages.not_settled(
            self._names, worst, MAX_PASSES, place.position, step[worst], distance
        )

    def _is_all_of_reach(self, move: np.ndarray) -> np.ndarray:
        return np.abs(move) > 0.999 * self._reach

    def _count_steady_moves(
        self, steady: np.ndarray, move: np.ndarray, marginal: Marginal, best: Given
    ) -> np.ndarray:
        """Signed count, per scale, of consecutive maximum steps; ModeError if a scale diverges."""
        way = np.where(self._is_all_of_reach(move), np.sign(move), 0.0)
        steady = np.where(way * steady >= 0.0, (steady + way) * np.abs(way), way)
        worst = int(np.argmax(np.abs(steady)))
        if np.abs(steady[worst]) < STEADY_MOVES:
            return steady
        line = np.sign(steady) * (np.arange(steady.size) == worst)
        if distance_to_maximum(partial(_density_along, marginal, best, line)) is None:
            raise messages.scale_runs_away(
                self._names, int(self._scales[worst]), best.position, steady[worst]
            )
        return np.zeros_like(steady)

    def _climb_at_scales(self, density: Density, position: np.ndarray) -> _Place:
        """State near the best x, with scales fixed at their values in `position`."""
        near = 0.5 * CALM * np.sqrt(self._rest.size)
        density = replace(density, rest=self._rest, fixed=position)
        point, density = newton_search(density, position[self._rest], near)
        return _Place(density, point, self._scales, self._rest)

    def _step_or_climb(self, place: _Place, best: Given) -> _Place:
        """State at the best x if its density is higher, else after a search at the new scales."""
        density, here = replace(place.density, fixed=best.position), place.point
        there = density.at(best.position[self._rest], hessian=True)
        value = density.kinked_prior(here.position, hessian=False).value
        value += density.weight * here.likelihood.value
        if there.is_finite and there.total.value >= value - ROUNDING * abs(value) - 1e-6:
            return replace(place, density=density, point=there)
        return self._climb_at_scales(density, density.in_full(here.position))

    def _checked_mode(self, place: _Place, best: Given, precision: np.ndarray) -> Mode:
        values, vectors = np.linalg.eigh(precision)
        if not values[0] > 0.0:
            raise messages.density_flat(self._names, np.abs(vectors[:, 0]))
        wide = np.zeros(precision.shape[0])
        wide[self._scales] = np.sqrt(np.diag(np.linalg.inv(precision)))[self._scales]
        wide[self._scales[np.isinf(self._reach)]] = 0.0
        if wide.max() > MAX_SPREAD:
            raise messages.density_flat(self._names, wide / wide.max())
        return place.at_mode(best, precision)
