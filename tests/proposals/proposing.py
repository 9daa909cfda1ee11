"""Proposals around a Gaussian approximation, drawn by the shipped moves."""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels import roles
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.moves import Move, whiten
from pymc_minibatch_mh.kernels.posterior import Posterior, Reference, RowSpace

CENTRE = np.array([0.3, -1.0, 2.0])
FACTOR = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.4, 0.3, 0.5]])
WHITENER = np.linalg.inv(FACTOR)
COVARIANCE = FACTOR @ FACTOR.T


NOTHING = np.zeros(0, dtype=np.int64)


def gaussian(first):
    """Return a posterior of which moves know the Gaussian approximation."""
    reference = Reference(CENTRE, FACTOR, WHITENER, np.zeros(3), np.zeros((3, 3)), 2, 1.0, first)
    return Posterior(0, 0, RowSpace(NOTHING, NOTHING), reference, no_tables())


@compiled()
def _proposed(numbers, posterior, positions, rng, new, log_q, components):
    reference, here = posterior.reference, np.empty(new.shape[1])
    there, step = np.empty(new.shape[1]), np.empty(new.shape[1])
    for k in range(len(positions)):
        whiten(reference.whitener, positions[k], reference.centre, here)
        move = Move(positions[k], new[k], here, there, step)
        log_q[k], components[k] = roles.propose(numbers, move, posterior, rng)


def proposed(positions, numbers, rng, first=0):
    """Return proposals, their density ratios and their components, one for each position."""
    new, log_q = np.empty_like(positions), np.empty(len(positions))
    components = np.empty(len(positions), dtype=np.int64)
    _proposed(numbers, gaussian(first), positions, rng, new, log_q, components)
    return new, log_q, components


def repeated(position, numbers, rng, count, first=0):
    return proposed(np.tile(position, (count, 1)), numbers, rng, first)
