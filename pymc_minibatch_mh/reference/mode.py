"""The posterior mode, by damped Newton steps: on a subsample first, then on all rows.

A centre and a scale for posteriors with kinks, from the scores of rows.

Where a log-likelihood has kinks its Hessian says nothing of its width, but the spread of the
scores of rows does: for a model that fits, the two agree. Any centre and scale leave a test
exact; good ones only make it fast. Control variates of order 0 need no more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS
from pymc_minibatch_mh.kernels.looks import unit_noise
from pymc_minibatch_mh.kernels.posterior import Surrogate
from pymc_minibatch_mh.reference.climb import climb
from pymc_minibatch_mh.reference.density import WAY_ON, Density, Point
from pymc_minibatch_mh.reference.heavy import Largest
from pymc_minibatch_mh.reference.passes import Derivatives, Passes

#: Rows of the subsample that finds the neighbourhood of the mode, at least and per coordinate.
SUBSAMPLE, SUBSAMPLE_PER_COORDINATE = 20_000, 50
#: Distance from the mode, in posterior standard deviations, at which the search ends; and where
#: what is left of it is made up for together with the way from the mode to the mean.
TOLERANCE, LOOSE_TOLERANCE = 1e-3, 0.3
#: The same for the subsample, whose mode is sqrt(N / rows) standard deviations off anyway.
COARSE_TOLERANCE = 0.1
#: How far from a start that leads nowhere others are drawn: that of PyMC's own jitter, and less.
JITTERS = (1.0, 0.1)
#: How often a jittered start without density is brought nearer to the first.
MOST_HALVINGS = 10


@dataclass(frozen=True)
class Mode:
    """The mode and the sums of derivatives there.

    Parameters
    ----------
    position : ndarray, shape (d,)
    precision : ndarray, shape (d, d)
        A: minus the Hessian of the tempered log-posterior, positive definite.
    likelihood : Derivatives
        Of the untempered log-likelihood of all rows.
    kinked
        Coordinates along which the prior part has a kink nearby; `precision` is then an average.
    marginal
        Coordinates, scales of a hierarchy, whose density was maximised with the others integrated
        over; `precision` then has their curvature from there. Empty for a joint mode.
    """

    position: np.ndarray
    precision: np.ndarray
    likelihood: Derivatives
    kinked: tuple[int, ...] = ()
    marginal: tuple[int, ...] = ()


def find_mode(
    passes: Passes,
    start: np.ndarray,
    inverse_temperature: float,
    names: Sequence[str],
    rng: np.random.Generator,
    tolerance: float = TOLERANCE,
) -> Mode:
    """Find the mode of the tempered posterior and the sums of derivatives there.

    Parameters
    ----------
    passes
        Passes over the rows.
    start : ndarray, shape (d,)
        A position with finite log-density.
    inverse_temperature
        β, which multiplies the log-likelihood.
    names
        Name of each coordinate, for messages.
    rng
        Draws the subsample, and other starts where the first leads nowhere.
    tolerance
        Distance from the mode, in posterior standard deviations, at which the search ends.

    Raises
    ------
    ModeError
        If the log-posterior is flat or unbounded along some direction; names the parameters.
    """
    start = np.array(start, dtype=np.float64)
    whole = Density(passes, inverse_temperature)
    few = max(SUBSAMPLE, SUBSAMPLE_PER_COORDINATE * start.size)
    if passes.n_rows <= 4 * few:
        mode, density = _climbed_from_several(whole, start, names, tolerance, rng)
    else:
        rows = np.sort(rng.choice(passes.n_rows, few, replace=False))
        coarse = Density(passes, inverse_temperature * passes.n_rows / few, rows)
        try:
            near, found = _climbed_from_several(coarse, start, names, COARSE_TOLERANCE, rng)
        except ModeError:
            # A few rows may be separated where all are not; all rows have the last word.
            mode, density = climb(whole, start, names, tolerance)
        else:
            whole = whole.over(found.kinks)
            mode, density = climb(whole, near.position, names, tolerance)
    return Mode(mode.position, -mode.total.hessian, mode.likelihood, density.kinked)


def _climbed_from_several(
    density: Density,
    start: np.ndarray,
    names: Sequence[str],
    tolerance: float,
    rng: np.random.Generator,
) -> tuple[Point, Density]:
    """Climb from `start`, and where that leads nowhere from points around it."""
    try:
        return climb(density, start, names, tolerance)
    except ModeError as error:
        first = error
    for jitter in JITTERS:
        try:
            return climb(density, _jittered(density, start, jitter, rng), names, tolerance)
        except ModeError:
            # What is told is what the given start led to.
            continue
    raise first


def _jittered(
    density: Density, start: np.ndarray, jitter: float, rng: np.random.Generator
) -> np.ndarray:
    away = rng.uniform(-jitter, jitter, start.size)
    for halvings in range(MOST_HALVINGS):
        there = start + 0.5**halvings * away
        if density.at(there, hessian=False).finite:
            return there
    return start


#: Rows times moves that a calibration reads, and the least and most moves.
CALIBRATION_READS = 4_000_000
FEWEST_MOVES, MOST_MOVES = 4, 32
#: Share of the calibration moves whose variance the prediction must cover.
COVERED = 0.9


@dataclass(frozen=True)
class Calibration:
    """Moments of the differences of rows that are drawn, over moves like those of a chain.

    Parameters
    ----------
    kappa
        κ: the variance of βN times the difference of one row is predicted as κ M(θ, θ')².
    skewness
        Largest |skewness| over rows that was seen.
    third_absolute
        Largest standardised third absolute moment that was seen.
    """

    kappa: float
    skewness: float
    third_absolute: float


def surrogate_at(mode: Mode, order: int, inverse_temperature: float) -> Surrogate:
    """Build control variates of one order around a mode."""
    size = mode.position.size
    whitener, factor = whitening(mode.precision)
    curvature = mode.likelihood.hessian if order == 2 else np.zeros((size, size))
    gradient = mode.likelihood.gradient if order >= 1 else np.zeros(size)
    return Surrogate(
        np.ascontiguousarray(mode.position),
        factor,
        whitener,
        np.ascontiguousarray(gradient),
        np.ascontiguousarray(curvature),
        order,
        inverse_temperature,
    )


def plain_surrogate(
    centre: np.ndarray, covariance: np.ndarray, inverse_temperature: float
) -> Surrogate:
    """Return control variates of order 0, all of them zero, around a point that nobody sought."""
    size = centre.size
    factor = np.ascontiguousarray(cholesky(covariance, lower=True))
    whitener = np.ascontiguousarray(solve_triangular(factor, np.eye(size), lower=True))
    gradient, hessian = np.zeros(size), np.zeros((size, size))
    return Surrogate(np.array(centre), factor, whitener, gradient, hessian, 0, inverse_temperature)


def whitening(precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return L⁻¹ and L of a precision matrix."""
    # L Lᵀ = A⁻¹ with L lower triangular, so that norms need half of a product.
    size = precision.shape[0]
    flipped = cholesky(precision[::-1, ::-1], lower=True)
    whitener = np.ascontiguousarray(flipped[::-1, ::-1].T)
    factor = solve_triangular(whitener, np.eye(size), lower=True)
    return whitener, np.ascontiguousarray(factor)


def calibrate(
    passes: Passes,
    order: int,
    surrogate: Surrogate,
    rng: np.random.Generator,
    *,
    seeks_heavy: bool = False,
) -> tuple[Calibration, np.ndarray]:
    """Measure the remainders on all rows, over moves from the Gaussian approximation.

    The batch size of a move is chosen from the resulting prediction, which is symmetric in the
    move and frozen while a chain runs: a batch size that reacts to the batch would bias the test.

    Parameters
    ----------
    passes, order, surrogate
        The rows, the order of their expansion and the control variates.
    rng
        Draws the moves.
    seeks_heavy
        Whether rows are sought that every update better reads: see :mod:`reference.heavy`.

    Returns
    -------
    tuple
        What was measured of the rows that are drawn, and the rows that are not: every update
        reads them.
    """
    count = int(np.clip(CALIBRATION_READS // passes.n_rows, FEWEST_MOVES, MOST_MOVES))
    moves, centre = _typical_moves(count, surrogate, rng), surrogate.centre
    largest = Largest(passes.n_rows, surrogate.inverse_temperature) if seeks_heavy else None
    found, heavy = passes.moves(order, moves, centre, largest=largest), NO_ROWS
    units = _units(surrogate, moves)
    if largest is not None:
        counted = np.isfinite([moments.variance for moments in found])
        further = _typical_moves(MOST_MOVES - count, surrogate, rng)
        seen = passes.differences(order, further, centre, largest.rows)
        largest.look_again(seen, units, _units(surrogate, further))
        heavy = largest.heavy(np.append(counted, np.isfinite(seen).all(axis=1)))
    if heavy.size:
        found = passes.moves(order, moves, centre, heavy)
    weight = (surrogate.inverse_temperature * (passes.n_rows - heavy.size)) ** 2
    ratios, skews, thirds = [], [0.0], [0.0]
    for unit, moments in zip(units, found, strict=True):
        if np.isfinite(moments.variance) and unit > 0.0:
            ratios.append(weight * moments.variance / unit)
            skews.append(abs(moments.skewness))
            thirds.append(moments.third_absolute)
    kappa = float(np.quantile(ratios, COVERED)) if ratios else np.inf
    return Calibration(kappa, max(skews), max(thirds)), heavy


def _units(surrogate: Surrogate, moves: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the noise that is predicted of moves for κ = 1."""
    return np.array([unit_noise(surrogate, *ends) for ends in moves])


def _typical_moves(
    count: int, surrogate: Surrogate, rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw moves between points of the Gaussian approximation."""
    noise = rng.standard_normal((count, 2, surrogate.centre.size))
    return [
        (surrogate.centre + surrogate.factor @ a, surrogate.centre + surrogate.factor @ b)
        for a, b in noise
    ]


#: Groups of rows whose scores are compared, and rows of a group.
GROUPS_PER_COORDINATE, LEAST_GROUPS, GROUP = 20, 200, 64
#: Distance from the mode, in posterior standard deviations, that is near enough.
SCORING_TOLERANCE = 0.1
MAX_STEPS = 60


def find_centre(
    passes: Passes,
    start: np.ndarray,
    inverse_temperature: float,
    names: Sequence[str],
    rng: np.random.Generator,
) -> Mode:
    """Climb to the neighbourhood of the mode by Fisher scoring with the rows' own scores.

    Parameters
    ----------
    passes
        Passes over the rows.
    start : ndarray, shape (d,)
        A position with finite log-density.
    inverse_temperature
        β, which multiplies the log-likelihood.
    names
        Name of each coordinate, for messages.
    rng
        Draws the groups.

    Raises
    ------
    ModeError
        If the log-posterior has no scale or no mode.
    """
    position = np.array(start, dtype=np.float64)
    for _ in range(MAX_STEPS):
        precision = _precision(passes, position, inverse_temperature, rng)
        if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
            break
        value, gradient = _value_and_gradient(passes, position, inverse_temperature)
        step = cho_solve(cho_factor(precision), gradient)
        distance = float(np.sqrt(step @ gradient))
        better = _climbed(passes, position, step, value, inverse_temperature)
        if distance < SCORING_TOLERANCE or (better is None and distance < 1.0):
            return Mode(position, precision, passes.likelihood(position, hessian=True))
        if better is None:
            break
        position = better
    raise ModeError(
        f"{', '.join(map(repr, names[:3]))} have no scale that was found: the log-posterior has "
        f"neither curvature at its mode nor rows that pull in all directions. {WAY_ON}"
    )


def _value_and_gradient(
    passes: Passes, position: np.ndarray, inverse_temperature: float
) -> tuple[float, np.ndarray]:
    prior = passes.prior(position, hessian=False)
    rows = passes.likelihood(position, hessian=False)
    return (
        prior.value + inverse_temperature * rows.value,
        prior.gradient + inverse_temperature * rows.gradient,
    )


def _climbed(
    passes: Passes,
    position: np.ndarray,
    step: np.ndarray,
    value: float,
    inverse_temperature: float,
) -> np.ndarray | None:
    for halvings in range(20):
        there = position + 0.5**halvings * step
        reached = _value_and_gradient(passes, there, inverse_temperature)[0]
        if np.isfinite(reached) and reached > value:
            return there
    return None


def _precision(
    passes: Passes, position: np.ndarray, inverse_temperature: float, rng: np.random.Generator
) -> np.ndarray:
    groups = max(LEAST_GROUPS, GROUPS_PER_COORDINATE * position.size)
    scores = np.array(
        [
            passes.likelihood(
                position, hessian=False, rows=rng.integers(0, passes.n_rows, GROUP)
            ).gradient
            for _ in range(groups)
        ]
    )
    information = np.atleast_2d(np.cov(scores.T)) * (passes.n_rows / GROUP)
    return inverse_temperature * information - passes.prior(position, hessian=True).hessian
