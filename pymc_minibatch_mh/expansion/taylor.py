"""Taylor control variates around the mode, and how large their remainders are."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Passes
from pymc_minibatch_mh.kernels.looks import unit_noise
from pymc_minibatch_mh.kernels.surrogate import Surrogate

#: Rows times moves that a calibration reads, and the least and most moves.
CALIBRATION_READS = 4_000_000
FEWEST_MOVES, MOST_MOVES = 4, 32
#: Share of the calibration moves whose variance the prediction must cover.
COVERED = 0.9


@dataclass(frozen=True)
class Calibration:
    """Moments of the differences of rows, over moves like those of a chain.

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
    evaluate: Callable,
    surrogate: Surrogate,
    rng: np.random.Generator,
) -> Calibration:
    """Measure the remainders on all rows, over moves from the Gaussian approximation.

    The batch size of a move is chosen from the resulting prediction, which is symmetric in the
    move and frozen while a chain runs: a batch size that reacts to the batch would bias the test.
    """
    moves = int(np.clip(CALIBRATION_READS // passes.n_rows, FEWEST_MOVES, MOST_MOVES))
    weight = (surrogate.inverse_temperature * passes.n_rows) ** 2
    ratios, skews, thirds = [], [0.0], [0.0]
    for _ in range(moves):
        a, b = rng.standard_normal((2, surrogate.centre.size))
        theta = surrogate.centre + surrogate.factor @ a
        new = surrogate.centre + surrogate.factor @ b
        moments = passes.move(evaluate, theta, new, surrogate.centre)
        unit = unit_noise(surrogate, theta, new)
        if np.isfinite(moments.variance) and unit > 0.0:
            ratios.append(weight * moments.variance / unit)
            skews.append(abs(moments.skewness))
            thirds.append(moments.third_absolute)
    kappa = float(np.quantile(ratios, COVERED)) if ratios else np.inf
    return Calibration(kappa, max(skews), max(thirds))
