"""A centre and a scale for posteriors with kinks, from the scores of rows.

Where a log-likelihood has kinks its Hessian says nothing of its width, but the spread of the
scores of rows does: for a model that fits, the two agree. Any centre and scale leave a test
exact; good ones only make it fast. Control variates of order 0 need no more.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.expansion.findings import WAY_ON
from pymc_minibatch_mh.expansion.mode import Mode
from pymc_minibatch_mh.expansion.passes import Passes

#: Groups of rows whose scores are compared, and rows of a group.
GROUPS_PER_COORDINATE, LEAST_GROUPS, GROUP = 20, 200, 64
#: Distance from the mode, in posterior standard deviations, that is near enough.
TOLERANCE = 0.1
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
        if distance < TOLERANCE or (better is None and distance < 1.0):
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
