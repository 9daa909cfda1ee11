"""From the mode to the mean: a centre that a skewed posterior balances on.

Moves drawn around the mode of a skewed posterior miss its mass on one side. The centre at which
the gradient vanishes *on average over the Gaussian approximation* is the mean, up to terms of
third order. Any centre leaves a test exact; this one is accepted more often.
"""

import numpy as np

from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Passes
from pymc_minibatch_mh.expansion.taylor import whitening

#: Rows that the average gradient is estimated from: its noise goes like d^1.5 / N.
SUBSAMPLE = 20_000
#: Distances in posterior standard deviations: below the first, moving gains nothing; beyond the
#: second, per root of d, the third-order terms are not to be trusted.
WORTH_MOVING, TRUSTED = 0.02, 0.5


def smoothed(
    passes: Passes, mode: Mode, inverse_temperature: float, rng: np.random.Generator
) -> Mode:
    """Move a mode towards the mean of the posterior.

    Parameters
    ----------
    passes
        Passes over the rows.
    mode
        The mode.
    inverse_temperature
        β, which multiplies the log-likelihood.
    rng
        Draws the rows that the average gradient is estimated from.

    Returns
    -------
    Mode
        Position and derivatives at the new centre, or `mode` where moving is of no use.
    """
    # A second step, which would correct what the first moved, is not worth its pass with Hessian.
    moved = _moved(passes, mode, inverse_temperature, rng)
    if moved is None:
        return mode
    far = _distance(mode, moved.position - mode.position) > TRUSTED * np.sqrt(mode.position.size)
    return mode if far else moved


def _moved(
    passes: Passes, here: Mode, inverse_temperature: float, rng: np.random.Generator
) -> Mode | None:
    _, factor = whitening(here.precision)
    gradient = inverse_temperature * here.likelihood.gradient
    gradient = gradient + passes.prior(here.position, hessian=False).gradient
    rows, weight = None, inverse_temperature
    if passes.n_rows > SUBSAMPLE:
        rows = np.sort(rng.choice(passes.n_rows, SUBSAMPLE, replace=False))
        weight *= passes.n_rows / SUBSAMPLE
    bend = weight * passes.bend(here.position, factor, rows)
    tilt = factor.T @ (gradient + bend) + passes.bend_of_prior(here.position, factor)
    shift = factor @ tilt
    if not _distance(here, shift) > WORTH_MOVING:
        return None
    position = here.position + shift
    likelihood = passes.likelihood(position, hessian=True)
    curvature = passes.prior(position, hessian=True).hessian
    precision = -inverse_temperature * likelihood.hessian - curvature
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0.0:
        return None
    return Mode(position, precision, likelihood)


def _distance(mode: Mode, shift: np.ndarray) -> float:
    return float(np.sqrt(shift @ mode.precision @ shift))
