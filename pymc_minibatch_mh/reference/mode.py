"""The posterior mode by damped Newton steps, first on a subsample, and the expansion around it.

The Hessian of a log-likelihood with kinks is no measure of its width. The spread of the scores of
rows is, and agrees with the Hessian in a model that fits.
"""

from collections.abc import Iterator, Sequence
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

#: Rows of the subsample of the first search, at least and per coordinate.
SUBSAMPLE, SUBSAMPLE_PER_COORDINATE = 20_000, 50
#: Final distance from the mode in posterior standard deviations, also where the step to the mean
#: follows, and on a subsample, whose mode is sqrt(N / rows) standard deviations off.
TOLERANCE, LOOSE_TOLERANCE, COARSE_TOLERANCE = 1e-3, 0.3, 0.1
#: Jitters of further starts, as in PyMC and smaller, and halvings of one without density.
JITTERS, MOST_HALVINGS = (1.0, 0.1), 10


@dataclass(frozen=True)
class Mode:
    """The mode, the tempered precision A, and the untempered likelihood of all rows.

    Across kinks of the prior along the coordinates `kinked`, the precision is an average. The
    scales `marginal` have mode and curvature with all other coordinates integrated over.
    """

    position: np.ndarray
    precision: np.ndarray
    likelihood: Derivatives
    kinked: tuple[int, ...] = ()
    marginal: tuple[int, ...] = ()


def find_mode(
    full_data: FullData,
    start: np.ndarray,
    inverse_temperature: float,
    names: Sequence[str],
    rng: np.random.Generator,
    tolerance: float = TOLERANCE,
) -> Mode:
    """Mode of the tempered posterior, within `tolerance` posterior standard deviations.

    ModeError names the parameters along which the log-posterior is flat or unbounded.
    """
    start = np.array(start, dtype=np.float64)
    whole = Density(full_data, inverse_temperature)
    rows = rows_of_few(full_data, start.size, rng)
    if rows is None:
        starts = _starts(whole, start, rng)
        mode, density = first_found(lambda x: newton_search(whole, x, names, tolerance), starts)
    else:
        coarse = Density(full_data, inverse_temperature * full_data.n_rows / rows.size, rows)
        try:
            starts = _starts(coarse, start, rng)
            near, found = first_found(
                lambda x: newton_search(coarse, x, names, COARSE_TOLERANCE), starts
            )
        except ModeError:
            # A few rows may be separable where all are not.
            mode, density = newton_search(whole, start, names, tolerance)
        else:
            whole = whole.over_kinks(found.kinks)
            mode, density = newton_search(whole, near.position, names, tolerance)
    return Mode(mode.position, -mode.total.hessian, mode.likelihood, density.kinked)


def rows_of_few(full_data: FullData, size: int, rng: np.random.Generator) -> np.ndarray | None:
    """Rows of a subsample for the first search; None if all are about as few."""
    few = max(SUBSAMPLE, SUBSAMPLE_PER_COORDINATE * size)
    if full_data.n_rows <= 4 * few:
        return None
    return np.sort(rng.choice(full_data.n_rows, few, replace=False))


def _starts(density: Density, start: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """A start, and points around it with a density."""
    yield start
    for jitter in JITTERS:
        away = rng.uniform(-jitter, jitter, start.size)
        tried = (start + 0.5**halvings * away for halvings in range(MOST_HALVINGS))
        yield next((x for x in tried if density.at(x, hessian=False).is_finite), start)


#: Rows times moves of a calibration, and the fewest and most moves.
CALIBRATION_READS, FEWEST_MOVES, MOST_MOVES = 4_000_000, 4, 32
#: Share of calibration moves with a variance below its prediction.
COVERED = 0.9


class Calibration(NamedTuple):
    """Moments of the differences of sampled rows, over typical moves.

    κ M(θ, θ')² predicts the variance of βN times the difference of one row. The others are the
    largest |skewness| and the largest standardised third absolute moment over rows.
    """

    kappa: float
    skewness: float
    third_absolute: float


def reference_at(mode: Mode, order: int, inverse_temperature: float) -> Reference:
    """Control variates of one order around a mode."""
    size = mode.position.size
    whitener, factor = whitening_factors(mode.precision)
    curvature = mode.likelihood.hessian if order == 2 else np.zeros((size, size))
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
    """L⁻¹ and the lower triangular L of a precision A, L Lᵀ = A⁻¹."""
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
    """Calibration of the sampled rows over typical moves, and influential rows, if sought.

    It predicts batch sizes, symmetrically in a move and frozen while a chain runs: a batch size
    that reacts to its batch would bias the test.
    """
    report_stage("Measuring remainders")
    count = int(np.clip(CALIBRATION_READS // full_data.n_rows, FEWEST_MOVES, MOST_MOVES))
    moves, centre = _typical_moves(count, reference, rng), reference.centre
    largest = Largest(full_data.n_rows, reference.inverse_temperature) if seeks_heavy else None
    found, heavy = full_data.moves(order, moves, centre, largest=largest), NO_ROWS
    units = [unit_noise(reference, *ends) for ends in moves]
    if largest is not None:
        counted = np.isfinite([moments.variance for moments in found])
        further = _typical_moves(MOST_MOVES - count, reference, rng)
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


def _typical_moves(
    count: int, reference: Reference, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Moves between points of the Gaussian approximation."""
    noise = rng.standard_normal((count, 2, reference.centre.size))
    return [tuple(reference.centre + reference.factor @ z for z in pair) for pair in noise]


#: Groups of rows with one score each, per coordinate and at least, and rows of a group.
GROUPS_PER_COORDINATE, LEAST_GROUPS, GROUP = 20, 200, 64
#: Steps of Fisher scoring at most, and final distance in posterior standard deviations.
MAX_STEPS, SCORING_TOLERANCE = 60, 0.1


def find_centre(
    full_data: FullData,
    start: np.ndarray,
    inverse_temperature: float,
    names: Sequence[str],
    rng: np.random.Generator,
) -> Mode:
    """Neighbourhood of the mode by Fisher scoring; ModeError without a scale or a mode."""
    density, position = Density(full_data, inverse_temperature), np.array(start, dtype=np.float64)
    for _ in range(MAX_STEPS):
        precision = _precision_of_scores(full_data, position, inverse_temperature, rng)
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
            break
        here = density.at(position, hessian=False).total
        step = cho_solve(cho_factor(precision), here.gradient)
        distance = float(np.sqrt(step @ here.gradient))
        tried = (density.at(position + 0.5**k * step, hessian=False) for k in range(20))
        better = next((x for x in tried if here.value < x.total.value < np.inf), None)
        if distance < SCORING_TOLERANCE or (better is None and distance < 1.0):
            return Mode(position, precision, full_data.likelihood(position, hessian=True))
        if better is None:
            break
        position = better.position
    raise ModeError(
        f"{', '.join(map(repr, names[:3]))}: no scale was found, because the log-posterior has "
        f"no curvature at its mode, and no observations pull in all directions. {WAY_ON}"
    )


def _precision_of_scores(
    full_data: FullData, position: np.ndarray, inverse_temperature: float, rng: np.random.Generator
) -> np.ndarray:
    groups = max(LEAST_GROUPS, GROUPS_PER_COORDINATE * position.size)
    drawn = (rng.integers(0, full_data.n_rows, GROUP) for _ in range(groups))
    scores = np.array(
        [full_data.likelihood(position, hessian=False, rows=rows).gradient for rows in drawn]
    )
    information = np.atleast_2d(np.cov(scores.T)) * (full_data.n_rows / GROUP)
    return inverse_temperature * information - full_data.prior(position, hessian=True).hessian
