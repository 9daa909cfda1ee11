"""The posterior mode, by damped Newton steps: on a subsample first, then on all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.expansion.climb import climb
from pymc_minibatch_mh.expansion.density import Density, Point
from pymc_minibatch_mh.expansion.passes import Derivatives, Passes

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
