"""Proposals around a Gaussian approximation, drawn by the shipped moves."""

import numpy as np

from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.library import LaidOut, Status, dtype_of, function
from pymc_minibatch_mh.native.moves import Move
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.native.run import linked
from pymc_minibatch_mh.proposals.custom_proposal import GaussianRows

CENTRE = np.array([0.3, -1.0, 2.0])
FACTOR = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [-0.4, 0.3, 0.5]])
COVARIANCE = FACTOR @ FACTOR.T


def gaussian(first, centre=CENTRE, factor=FACTOR):
    """Return a posterior of which moves know the Gaussian approximation."""
    zero = np.zeros(factor.shape)
    reference = Reference(centre, factor, np.linalg.inv(factor), zero[0], zero, 2, 1.0, first)
    rows = GaussianRows(centre.size, np.zeros(2, np.int64), np.zeros(3, np.int64))
    return Posterior(None, rows, reference, no_tables())


def proposed_for(posterior, positions, numbers, rng):
    """Return proposals, their density ratios and their components, one for each position."""
    move, reference = Move(*np.zeros((5, positions.shape[1]))), posterior.reference
    chain, record = linked(posterior, numbers, None, rng, move), LaidOut(numbers.LAYOUT, numbers)
    propose, out = function(numbers.propose), np.zeros(1, dtype_of("mh_proposed"))
    new, log_q = np.empty_like(positions), np.empty(len(positions))
    components = np.empty(len(positions), dtype=np.int64)
    for k, position in enumerate(positions):
        move.position[:] = position
        move.here[:] = reference.whitener @ (position - reference.centre)
        assert propose(record, chain, out) == Status.OK
        new[k], (log_q[k], components[k]) = move.new, out[0]
    return new, log_q, components


def proposed(positions, numbers, rng, first=0):
    return proposed_for(gaussian(first), positions, numbers, rng)


def repeated(position, numbers, rng, count, first=0):
    return proposed(np.tile(position, (count, 1)), numbers, rng, first)


def walked_by(numbers, start, rng, steps):
    """Return where a walk of some steps ends, all of them taken, and its last density ratio."""
    posterior = gaussian(0, np.zeros(start.size), np.eye(start.size))
    move, out = Move(start.copy(), *np.zeros((4, start.size))), np.zeros(1, dtype_of("mh_proposed"))
    chain, record = linked(posterior, numbers, None, rng, move), LaidOut(numbers.LAYOUT, numbers)
    for _ in range(steps):
        assert function(numbers.propose)(record, chain, out) == Status.OK
        move.position[:] = move.new
    return move.new, out["log_q"][0]
