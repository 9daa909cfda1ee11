"""Taylor control variates around the mode, and how large their remainders are."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_minibatch_mh.expansion.heavy import Largest
from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Passes
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS
from pymc_minibatch_mh.kernels.looks import unit_noise
from pymc_minibatch_mh.kernels.surrogate import Surrogate

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
        Whether rows are sought that every update better reads: see :mod:`expansion.heavy`.

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
