"""Moves, each one reversible with respect to a known density."""

from pymc_minibatch_mh.proposals.base import Proposal
from pymc_minibatch_mh.proposals.mixture import Mixture
from pymc_minibatch_mh.proposals.single import Laplace, RandomWalk

__all__ = ["Laplace", "Mixture", "Proposal", "RandomWalk"]
