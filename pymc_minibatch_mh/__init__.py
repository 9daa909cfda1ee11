"""Markov chain Monte Carlo on tall data, inside PyMC."""

from pymc_minibatch_mh.steps.penalty import PenaltyMH

__all__ = ["PenaltyMH"]
