"""Tables of the distribution of scales, and of conditional normal distributions given scales.

The log-likelihood is approximated by its quadratic expansion at the centre. Best x, its precision
and log-density V given scales come from :mod:`pymc_minibatch_mh.reference.marginal`, along one axis
per scale, by the symmetric root of V's curvature. Proposals from tables are corrected exactly, and
are not used if other proposals are accepted more often.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError
from scipy.special import log_ndtr

from pymc_minibatch_mh.native.elements import ScaleConditional, Truncated
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.full_data import Derivatives
from pymc_minibatch_mh.reference.marginal import Given, Marginal, skewness_shift
from pymc_minibatch_mh.reference.mode import whitening_factors
from pymc_minibatch_mh.reference.target import Target

#: Maximum number of scales; maximum number of values in all tables.
MAX_SCALES, MAX_NUMBERS = 8, 5_000_000
#: `KNOT_GAP`: distance of knots in standard deviations of a scale; `DEPTH`, `MAX_KNOTS`: fall of V
#: and number of knots per side at which knots end; `FINER`: table intervals per knot interval.
KNOT_GAP, DEPTH, MAX_KNOTS, FINER = 1.0, 14.0, 20, 2
#: Minimum number of knots on either side.
MIN_KNOTS = 3
#: Maximum distance of the maximum of V from the centre, in each scale.
REACH = 2.0
#: Minimum distance of a coordinate from its lower bound 0, in standard deviations.
FAR = 4.0
#: Standard normal values at which quantiles of scales are tabulated.
NORMALS = np.linspace(-5.0, 5.0, 41)
#: Integration points per knot interval; intervals beyond the last knot; minimum |slope| there.
FINE, BEYOND, MIN_SLOPE = 100, 10, 0.5
#: Number of draws from each of two compared distributions; seed of the draws.
COMPARED, SEED = 400, 20_261_122


def scale_conditional(target: Target, reference: Reference) -> ScaleConditional | None:
    """Tables for a model with scales; None if it has no scales, or if tables do not help."""
    if target.covariance is not None or reference.order < 2 or target.source.others.size:
        return None
    near, scales = near_bounds(target, reference), target.scales(reference.centre)
    size = reference.centre.size - len(scales) - near.size
    if not (0 < len(scales) <= MAX_SCALES and size):
        return None
    if len(scales) * (2 * FINER * MAX_KNOTS + 1) * size * (size + 1) // 2 > MAX_NUMBERS:
        return None
    among = _conditional_on(reference, near)
    rows = averaged_rows(target, among)
    marginal = Marginal.freeze_rows(target.full_data.prior, scales, among.centre, rows, near)
    axes = _Axes.around(marginal)
    tables = None if axes is None else axes.tables()
    if tables is None or not _is_better(target, among, rows, tables):
        return None
    if not near.size:
        return tables
    slope = target.full_data.prior(among.centre, hessian=False).gradient + rows.gradient
    return tables._replace(truncated=Truncated.around(reference, near, slope[near]))


def near_bounds(target: Target, reference: Reference) -> np.ndarray:
    """Coordinates bounded by 0 that are not FAR from it."""
    ends = np.array(target.factorization.boundary, dtype=np.int64)
    deviations = np.sqrt(np.sum(reference.factor[ends] ** 2, axis=1))
    return ends[reference.centre[ends] < FAR * deviations]


def _conditional_on(reference: Reference, ends: np.ndarray) -> Reference:
    """Reference whose factor is that of all other coordinates, given those at the centre."""
    if not ends.size:
        return reference
    rest = np.setdiff1d(np.arange(reference.centre.size), ends)
    precision = reference.whitener[:, rest].T @ reference.whitener[:, rest]
    factor = np.zeros_like(reference.factor)
    factor[np.ix_(rest, rest)] = whitening_factors(precision)[1]
    return reference._replace(factor=factor)


def averaged_rows(target: Target, reference: Reference) -> Derivatives:
    """Tempered derivatives of the log-likelihood, with the posterior average of the gradient."""
    beta, rng = reference.inverse_temperature, np.random.default_rng(SEED)
    if target.meets_kinks:
        # Averages across kinks are in the reference's precision; the centre is their maximum.
        prior = target.full_data.prior(reference.centre, hessian=True)
        precision = reference.whitener.T @ reference.whitener
        return Derivatives(0.0, -prior.gradient, -precision - prior.hessian)
    gradient = beta * reference.gradient
    skewness = skewness_shift(target.full_data, reference.centre, reference.factor, beta, rng)
    return Derivatives(0.0, gradient + skewness, beta * reference.hessian)


@dataclass(frozen=True, eq=False)
class _Axes:
    """Log-density V of the scales around its maximum, along one axis per scale.

    `spread` and `narrow` are the symmetric roots of V's inverse curvature and of V's curvature.
    """

    marginal: Marginal
    best: Given
    spread: np.ndarray
    narrow: np.ndarray

    @classmethod
    def around(cls, marginal: Marginal) -> "_Axes | None":
        """Axes at the maximum of V; None if there is no maximum nearby."""
        start = marginal.given(marginal.anchor[marginal.scales])
        if start is None:
            return None
        best = marginal.best(start, np.full(marginal.scales.size, REACH))
        curvature = marginal.curvature_at(best)
        if not np.isfinite(curvature).all():
            return None
        values, vectors = np.linalg.eigh(curvature)
        if not values[0] > 0.0:
            return None
        roots = np.sqrt(values)
        return cls(marginal, best, (vectors / roots) @ vectors.T, (vectors * roots) @ vectors.T)

    def tables(self) -> ScaleConditional | None:
        """Tables; None if the precision of x is not positive definite or knots are too few."""
        middle = self._knot_at(self.best)
        if middle is None:
            return None
        marginal, count = self.marginal, self.marginal.scales.size
        sides = [[list(self._knots_to_side(k, way)) for way in (-1, 1)] for k in range(count)]
        if min(len(side) for pair in sides for side in pair) < MIN_KNOTS:
            return None
        low, high = (FINER * max(len(pair[side]) for pair in sides) for side in (0, 1))
        means = np.zeros((count, low + high + 1, middle[1].size))
        whiteners = np.zeros((count, low + high + 1, middle[2].size))
        points, slopes = np.empty((2, count, NORMALS.size))
        for k, (below, above) in enumerate(sides):
            knots = [*reversed(below), middle, *above]
            heights = np.array([value for value, _, _ in knots])
            points[k], slopes[k] = _quantiles_of_knots(heights - middle[0], -len(below))
            first, last = -len(below), len(above)
            # Tables are extended as constants beyond the last knots.
            asked = np.clip(np.arange(-low, high + 1) / FINER, first, last)
            for table, part in ((means, 1), (whiteners, 2)):
                lines = np.array([knot[part] for knot in knots]) - middle[part]
                table[k] = _cubic_spline(np.arange(first, last + 1), lines)(asked)
        return ScaleConditional(
            np.ascontiguousarray(marginal.scales, dtype=np.int64),
            np.ascontiguousarray(marginal.rest, dtype=np.int64),
            np.ascontiguousarray(self.best.position[marginal.scales]),
            np.ascontiguousarray(self.spread),
            np.ascontiguousarray(self.narrow),
            float(NORMALS[0]),
            float(NORMALS[1] - NORMALS[0]),
            points,
            slopes,
            -low / FINER * KNOT_GAP,
            KNOT_GAP / FINER,
            middle[1],
            middle[2],
            means,
            whiteners,
            None,
        )

    def _knots_to_side(self, k: int, way: int) -> Iterator[tuple[float, np.ndarray, np.ndarray]]:
        """Yield V, best x and whitener at successive knots on one side, until V falls by DEPTH."""
        highest, near = self.best.value - self.best.log_volume, self.best.position
        for knot in range(1, MAX_KNOTS + 1):
            away = way * knot * KNOT_GAP * self.spread[:, k]
            given = self.marginal.given(self.best.position[self.marginal.scales] + away, near)
            found = None if given is None else self._knot_at(given)
            if given is None or found is None:
                return
            yield found
            if found[0] < highest - DEPTH:
                return
            near = given.position

    def _knot_at(self, given: Given) -> tuple[float, np.ndarray, np.ndarray] | None:
        """V, x and packed whitener given scales; None if the precision is not positive definite."""
        try:
            whitener, _ = whitening_factors(given.precision)
        except LinAlgError:
            return None
        diagonal = np.diag(whitener).copy()
        whitener /= diagonal[:, None]
        np.fill_diagonal(whitener, np.log(diagonal))
        lines, value = whitener[np.tril_indices(len(whitener))], given.value - given.log_volume
        if not (np.isfinite(value) and np.isfinite(lines).all()):
            return None
        return value, given.position[self.marginal.rest], lines


def _cubic_spline(knots: np.ndarray, heights: np.ndarray) -> Callable[..., np.ndarray]:
    """Cubic spline through points."""
    # Imported here, because the import is slow and most models do not need it.
    from scipy.interpolate import CubicSpline  # noqa: PLC0415

    return CubicSpline(knots, heights)


def _quantiles_of_knots(heights: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles z at the standard normal values, and derivatives of z there.

    `heights` is the log-density at knots, up to a constant, from knot number `first` on.
    """
    knots = KNOT_GAP * (first + np.arange(heights.size))
    inner = np.linspace(knots[0], knots[-1], 1 + FINE * (knots.size - 1))
    step = inner[1] - inner[0]
    outer = step * np.arange(1, 1 + FINE * BEYOND)
    spline = _cubic_spline(knots, heights)
    low = max(float(spline(knots[0], 1)), MIN_SLOPE)
    high = min(float(spline(knots[-1], 1)), -MIN_SLOPE)
    places = np.concatenate([knots[0] - outer[::-1], inner, knots[-1] + outer])
    logs = np.concatenate(
        [heights[0] - low * outer[::-1], spline(inner), heights[-1] + high * outer]
    )
    exprs = np.logaddexp(logs[:-1], logs[1:]) + np.log(0.5 * step)
    first_tail, last_tail = logs[0] - np.log(low), logs[-1] - np.log(-high)
    below = np.logaddexp.accumulate([first_tail, *exprs])
    above = np.logaddexp.accumulate([last_tail, *exprs[::-1]])[::-1]
    total = np.logaddexp(below[-1], last_tail)
    # Each half is integrated from its own tail, to avoid rounding errors.
    lower, upper = NORMALS[NORMALS <= 0.0], NORMALS[NORMALS > 0.0]
    ends = np.concatenate(
        [
            np.interp(log_ndtr(lower), below - total, places),
            np.interp(log_ndtr(-upper), (above - total)[::-1], places[::-1]),
        ]
    )
    normal = -0.5 * NORMALS**2 - 0.5 * np.log(2.0 * np.pi)
    slopes = np.exp(normal - np.interp(ends, places, logs) + total)
    # Quantiles are integrals of the piecewise linear slopes, from the median on.
    steps = 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(NORMALS)
    points = np.concatenate([[0.0], np.cumsum(steps)])
    median = NORMALS.size // 2
    return points - points[median] + ends[median], slopes


def _is_better(
    target: Target, reference: Reference, rows: Derivatives, tables: ScaleConditional
) -> bool:
    """Whether independent proposals from tables are accepted more often than normal ones."""
    rng, size = np.random.default_rng(SEED), reference.centre.size
    white = rng.standard_normal((2, COMPARED, size))
    places, normal, log_volume = np.empty((2, COMPARED, size)), np.zeros(size), np.empty(1)
    widths = np.diag(reference.factor)
    log_width = np.log(widths[widths > 0.0]).sum()
    places[:] = reference.centre
    places[0] += white[0] @ reference.factor.T
    for place, numbers in zip(places[1], white[1], strict=True):
        function("mh_place_given_scales")(tables, numbers, place, log_volume)
    pooled, densities = places.reshape(-1, size), np.empty((3, 2 * COMPARED))
    for k, place in enumerate(pooled):
        way = place - reference.centre
        whitened = reference.whitener @ way
        function("mh_whiten_given_scales")(tables, place, normal, log_volume)
        densities[0, k] = (
            target.log_prior(place) + rows.gradient @ way + 0.5 * way @ rows.hessian @ way
        )
        densities[1, k] = -log_width - 0.5 * whitened @ whitened
        densities[2, k] = log_volume[0] - 0.5 * normal @ normal
    return _independent_acceptance(densities, 1) > _independent_acceptance(densities, 0)


def _independent_acceptance(densities: np.ndarray, which: int) -> float:
    """Estimated acceptance rate of independent draws from one of two distributions.

    `densities`, shape (3, 2n), are log-densities of the target and of both, at n draws of each.
    """
    aimed, *drawn = densities
    weights = aimed - np.logaddexp(*drawn)
    weights = np.exp(weights - weights.max())
    ratios = aimed - drawn[which]
    own = ratios.reshape(2, -1)[which]
    chances = np.exp(np.minimum(own[None, :] - ratios[:, None], 0.0)).mean(axis=1)
    return float(weights @ chances / weights.sum())
