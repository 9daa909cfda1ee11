"""Moves that end at zero, and a law that is enumerated: where updates lead from a few positions."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm, truncnorm

from law.exactness.compiled import chance
from law.statistical.budget import LEVEL
from proposals import proposing
from pymc_minibatch_mh.proposals.mixture import LowerBoundedNumbers, MixtureNumbers

#: A normal approximation around a centre, whose mean lies below zero with this tilt.
CENTRE, SD, TILT, SCALE = 0.6, 0.9, -1.6, 0.7
#: The walk, then Laplace components.
WEIGHTS, RHO = np.array([0.3, 0.3, 0.2, 0.2]), np.array([-0.3, 0.0, 0.8])
STARTS = np.array([0.02, 0.5, 1.9])
EDGES = np.array([0.0, 0.1, 0.3, 0.6, 1.0, 1.6, 2.4, np.inf])
UPDATES = 20_000


class Move(NamedTuple):
    """One component: its density, and what it is drawn from in whitened coordinates."""

    rho: float
    scale: float

    def density(self, here, there):
        low = -CENTRE / SD
        mean = TILT + self.rho * ((here - CENTRE) / SD - TILT)
        white = (there - CENTRE) / SD
        return truncnorm.pdf(white, (low - mean) / self.scale, np.inf, mean, self.scale) / SD


MOVES = [Move(1.0, SCALE), *(Move(r, np.sqrt(1.0 - r * r)) for r in RHO)]


def posterior(x):
    """A density that is not the approximation."""
    return norm.pdf(x, 0.3, 0.8) * (1.0 + x)


def law(start):
    """Return the chances of where an update leads: of every bin, and that the position stays."""
    moved = np.zeros(EDGES.size - 1)
    for weight, move in zip(WEIGHTS, MOVES, strict=True):

        def accepted(x, move=move):
            there, back = move.density(start, x), move.density(x, start)
            ratio = posterior(x) * back / (posterior(start) * there)
            return there * min(1.0, ratio)

        ends = np.minimum(EDGES, 12.0)
        moved += [weight * quad(accepted, a, b)[0] for a, b in pairwise(ends)]
    return np.append(moved, 1.0 - moved.sum())


@pytest.fixture(scope="module")
def matrix():
    return np.array([law(start) for start in STARTS])


def counted(correct=1.0):
    """Return how often an update with the shipped moves led to each bin."""
    rng, factor = np.random.default_rng(7), np.full((1, 1), SD)
    around = proposing.gaussian(0, np.array([CENTRE]), factor)
    order, tilt = np.zeros(1, dtype=np.int64), np.array([TILT])
    mixture = MixtureNumbers(SCALE, WEIGHTS, RHO)
    numbers = LowerBoundedNumbers(mixture, order, 1, factor, 1.0 / factor, tilt)
    found = np.zeros((STARTS.size, EDGES.size))
    for row, start in zip(found, STARTS, strict=True):
        positions = np.full((UPDATES, 1), start)
        new, log_q, _ = proposing.proposed_for(around, positions, numbers, rng)
        ratio = np.log(posterior(new[:, 0]) / posterior(start)) + correct * log_q
        accept = np.log(rng.random(UPDATES)) < ratio
        row[:-1] = np.histogram(new[accept, 0], EDGES)[0]
        row[-1] = (~accept).sum()
    return found


def test_updates_lead_where_the_enumeration_says(matrix):
    assert chance(counted(), matrix) > LEVEL


def test_moves_without_their_density_ratio_do_not(matrix):
    assert chance(counted(0.0), matrix) < 1e-3 * LEVEL
