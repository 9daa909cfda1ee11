"""The posterior mode by damped Newton steps, first on a subsample, and the expansion around it.

The Hessian does not measure the width of a log-likelihood with kinks. The covariance of the rows'
scores does, and agrees with the Hessian in a model that fits.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.native.bound_tables import NO_ROWS
from pymc_minibatch_mh.native.looks import unit_noise
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.full_data import Derivatives, FullData
from pymc_minibatch_mh.reference.influential import Largest
from pymc_minibatch_mh.reference.messages import WAY_ON
from pymc_minibatch_mh.reference.newton import first_found, newton_search

#: Subsample size of the first search: minimum, and number of rows per coordinate.
SUBSAMPLE, SUBSAMPLE_PER_COORDINATE = 20_000, 50
#: Maximum final distance from the mode in posterior standard deviations: `TOLERANCE` by default;
#: `LOOSE_TOLERANCE` before a step to the mean; `COARSE_TOLERANCE` on a subsample.
TOLERANCE, LOOSE_TOLERANCE, COARSE_TOLERANCE = 1e-3, 0.3, 0.1
#: Half-widths of the jitter of further starts; maximum halvings until the density is positive.
JITTERS, MOST_HALVINGS = (1.0, 0.1), 10


@dataclass(frozen=True)
class Mode:
    """Mode, tempered precision A, and untempered log-likelihood of all rows with derivatives.

    Along the coordinates `kinked`, the precision is averaged across kinks of the prior. The scales
    `marginal` are at the mode of their marginal density, and have its curvature.
    """

    position: np.ndarray
    precision: np.ndarray
    likelihood: Derivatives
    kinked: tuple[int, ...] = ()
    marginal: tuple[int, ...] = ()


def find_mode(
    whole: Density, start: np.ndarray, rng: np.random.Generator, tolerance: float = TOLERANCE
) -> Mode:
    """Mode of the tempered posterior, within `tolerance` posterior standard deviations.

    ModeError names the parameters along which the log-posterior is flat or unbounded.
    """
    start = np.array(start, dtype=np.float64)
    rows = rows_of_few(whole.full_data, start.size, rng)
    if rows is None:
        starts = _starts(whole, start, rng)
        mode, density = first_found(lambda x: newton_search(whole, x, tolerance), starts)
    else:
        coarse = whole.subsampled(rows)
        try:
            starts = _starts(coarse, start, rng)
            near, found = first_found(lambda x: newton_search(coarse, x, COARSE_TOLERANCE), starts)
        except ModeError:
            # A subsample may be separable, without a finite mode, although the full data are not.
            mode, density = newton_search(whole, start, tolerance)
        else:
            whole = whole.over_kinks(found.kinks)
            mode, density = newton_search(whole, near.position, tolerance)
    return Mode(mode.position, -mode.total.hessian, mode.likelihood, density.kinked)


def rows_of_few(full_data: FullData, size: int, rng: np.random.Generator) -> np.ndarray | None:
    """Sorted random subsample for the first search; None if the data are not much larger."""
    few = max(SUBSAMPLE, SUBSAMPLE_PER_COORDINATE * size)
    if full_data.n_rows <= 4 * few:
        return None
    return np.sort(rng.choice(full_data.n_rows, few, replace=False))


def _starts(density: Density, start: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The start, and jittered starts with a finite log-density."""
    yield start
    for jitter in JITTERS:
        away = rng.uniform(-jitter, jitter, start.size)
        tried = (start + 0.5**halvings * away for halvings in range(MOST_HALVINGS))
        yield next((x for x in tried if density.at(x, hessian=False).is_finite), start)


#: Number of row evaluations of a calibration; minimum and maximum number of its proposals.
CALIBRATION_READS, MIN_MOVES, MOST_MOVES = 4_000_000, 4, 32
#: Fraction of calibration proposals whose variance the prediction must exceed.
COVERED = 0.9


class Calibration(NamedTuple):
    """Moments over sampled rows of their differences, for typical proposals.

    κ M(θ, θ')² predicts the variance of βN times the difference of one row. The other fields are
    maxima over proposals of |skewness| and of the standardised third absolute moment.
    """

    kappa: float
    skewness: float
    third_absolute: float


def reference_at(mode: Mode, order: int, inverse_temperature: float) -> Reference:
    """Control variates of a given order around a mode."""
    size = mode.position.size
    whitener, factor = whitening_factors(mode.precision)
    curvature = mode.likelihood.hessian if order >= 2 else np.zeros((size, size))
    gradient = mode.likelihood.gradient if order >= 1 else np.zeros(size)
    return Reference(
        np.ascontiguousarray(mode.position),
        factor,
        whitener,
        np.ascontiguousarray(gradient),
        np.ascontiguousarray(curvature),
        order,
        inverse_temperature,
    )


def plain_reference(
    centre: np.ndarray, covariance: np.ndarray, inverse_temperature: float
) -> Reference:
    """Control variates of order 0, all zero, around a given centre."""
    size = centre.size
    factor = np.ascontiguousarray(cholesky(covariance, lower=True))
    whitener = np.ascontiguousarray(solve_triangular(factor, np.eye(size), lower=True))
    gradient, hessian = np.zeros(size), np.zeros((size, size))
    return Reference(np.array(centre), factor, whitener, gradient, hessian, 0, inverse_temperature)


def whitening_factors(precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L⁻¹ and the lower triangular L with L Lᵀ = A⁻¹, for a precision A."""
    size = precision.shape[0]
    flipped = cholesky(precision[::-1, ::-1], lower=True)
    whitener = np.ascontiguousarray(flipped[::-1, ::-1].T)
    factor = solve_triangular(whitener, np.eye(size), lower=True)
    return whitener, np.ascontiguousarray(factor)


def calibrate_remainders(
    full_data: FullData,
    order: int,
    reference: Reference,
    rng: np.random.Generator,
    *,
    seeks_heavy: bool = False,
) -> tuple[Calibration, np.ndarray]:
    """Calibration of the sampled rows on typical proposals, and influential rows if requested.

    Predicted batch sizes are symmetric in the end points of a proposal, and frozen while a chain
    runs: a batch size that depends on its batch would bias the test.
    """
    report_stage("Measuring remainders")
    count = int(np.clip(CALIBRATION_READS // full_data.n_rows, MIN_MOVES, MOST_MOVES))
    moves, centre = typical_moves(count, reference, rng), reference.centre
    largest = Largest(full_data.n_rows, reference.inverse_temperature) if seeks_heavy else None
    found, heavy = full_data.moves(order, moves, centre, largest=largest), NO_ROWS
    units = [unit_noise(reference, *ends) for ends in moves]
    if largest is not None:
        counted = np.isfinite([moments.variance for moments in found])
        further = typical_moves(MOST_MOVES - count, reference, rng)
        seen = full_data.differences(order, further, centre, largest.rows)
        noise = (np.array(units), np.array([unit_noise(reference, *ends) for ends in further]))
        largest.look_again(seen, *noise)
        heavy = largest.heavy(np.append(counted, np.isfinite(seen).all(axis=1)))
    if heavy.size:
        found = full_data.moves(order, moves, centre, heavy)
    weight = (reference.inverse_temperature * (full_data.n_rows - heavy.size)) ** 2
    ratios, skews, thirds = [], [0.0], [0.0]
    for unit, moments in zip(units, found, strict=True):
        if np.isfinite(moments.variance) and unit > 0.0:
            ratios.append(weight * moments.variance / unit)
            skews.append(abs(moments.skewness))
            thirds.append(moments.third_absolute)
    kappa = float(np.quantile(ratios, COVERED)) if ratios else np.inf
    return Calibration(kappa, max(skews), max(thirds)), heavy


def typical_moves(
    count: int, reference: Reference, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of draws from the Gaussian approximation, as typical proposals."""
    noise = rng.standard_normal((count, 2, reference.centre.size))
    return [tuple(reference.centre + reference.factor @ z for z in pair) for pair in noise]


#: Row groups for the covariance of scores: number per coordinate; minimum number; rows per group.
GROUPS_PER_COORDINATE, MIN_GROUPS, GROUP = 20, 200, 64
#: Maximum number of Fisher scoring steps; final distance in posterior standard deviations.
MAX_STEPS, SCORING_TOLERANCE = 60, 0.1


def find_centre(density: Density, start: np.ndarray, rng: np.random.Generator) -> Mode:
    """Point near the mode by Fisher scoring; ModeError if precisions are singular or steps fail."""
    position = np.array(start, dtype=np.float64)
    for _ in range(MAX_STEPS):
        precision = precision_of_scores(density, position, rng)
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
            break
        here = density.at(position, hessian=False).total
        step = cho_solve(cho_factor(precision), here.gradient)
        distance = float(np.sqrt(step @ here.gradient))
        tried = (density.at(position + 0.5**k * step, hessian=False) for k in range(20))
        better = next((x for x in tried if here.value < x.total.value < np.inf), None)
        if distance < SCORING_TOLERANCE or (better is None and distance < 1.0):
            likelihood = density.full_data.likelihood(position, hessian=True)
            return Mode(position, precision, likelihood)
        if better is None:
            break
        position = better.position
    raise ModeError(
        f"{density.first_names}: no scale was found, because the log-posterior has "
        f"no curvature at its mode, and no observations pull in all directions. {WAY_ON}"
    )


def precision_of_scores(
    density: Density, position: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Covariance of the gradient of all rows, from random groups, plus the prior's precision."""
    full_data = density.full_data
    groups = max(MIN_GROUPS, GROUPS_PER_COORDINATE * position.size)
    drawn = (rng.integers(0, full_data.n_rows, GROUP) for _ in range(groups))
    scores = np.array(
        [full_data.likelihood(position, hessian=False, rows=rows).gradient for rows in drawn]
    )
    information = np.atleast_2d(np.cov(scores.T)) * (full_data.n_rows / GROUP)
    return density.weight * information - full_data.prior(position, hessian=True).hessian
