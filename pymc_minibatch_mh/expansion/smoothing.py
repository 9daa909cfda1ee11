"""From the mode to the mean: a centre that a skewed posterior balances on.

Moves drawn around the mode of a skewed posterior miss its mass on one side. The centre at which
the gradient vanishes *on average over the Gaussian approximation* is the mean, up to terms of
third order. Any centre leaves a test exact; this one is accepted more often.
"""

import numpy as np

from pymc_minibatch_mh.expansion.marginal import Marginal
from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Derivatives, Passes
from pymc_minibatch_mh.expansion.taylor import whitening

#: Rows that the average gradient is estimated from: its noise goes like d^1.5 / N.
SUBSAMPLE = 20_000
#: Distances in posterior standard deviations: below the first, moving gains nothing; beyond the
#: second, per root of d, the third-order terms are not to be trusted.
WORTH_MOVING, TRUSTED = 0.02, 0.5
#: Steps at most where scales were maximised with the rest integrated over, and the length of one
#: after which another gains nothing.
STEPS_WITH_SCALES, WORTH_ANOTHER = 3, 0.1


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
    # A second step, which would correct what the first moved, is not worth its pass with Hessian,
    # but where scales move the rest follows.
    moved = None
    for _ in range(STEPS_WITH_SCALES if mode.marginal else 1):
        further = _moved(passes, moved or mode, inverse_temperature, rng)
        if further is None:
            break
        way = further.position - (moved or mode).position
        moved = further
        if _distance(further, way) < WORTH_ANOTHER:
            break
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
    precision = _precision(passes, here, position, likelihood, inverse_temperature)
    if precision is None or np.linalg.eigvalsh(precision)[0] <= 0.0:
        return None
    return Mode(position, precision, likelihood, marginal=here.marginal)


def _precision(
    passes: Passes,
    here: Mode,
    position: np.ndarray,
    likelihood: Derivatives,
    inverse_temperature: float,
) -> np.ndarray | None:
    """Return the precision at a position as `here` has its own, None where it is not finite."""
    hessian = inverse_temperature * likelihood.hessian
    if not here.marginal:
        precision = -hessian - passes.prior(position, hessian=True).hessian
        return precision if np.isfinite(precision).all() else None
    rows = Derivatives(likelihood.value, inverse_temperature * likelihood.gradient, hessian)
    marginal = Marginal.frozen(passes.prior, here.marginal, position, rows)
    given = marginal.at(position)
    return None if given is None else marginal.precision(given, marginal.curvature_at(given))


def _distance(mode: Mode, shift: np.ndarray) -> float:
    return float(np.sqrt(shift @ mode.precision @ shift))
