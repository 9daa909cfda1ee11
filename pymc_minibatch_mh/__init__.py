"""Markov chain Monte Carlo on tall data, inside PyMC."""

from pymc_minibatch_mh.errors import (
    MinibatchError,
    ModeError,
    SettingError,
    SplitCheckError,
    StaleDataError,
    UnsplittableModelError,
)
from pymc_minibatch_mh.likelihood.split import split
from pymc_minibatch_mh.proposals import Laplace, Mixture, Proposal, RandomWalk
from pymc_minibatch_mh.sampling.initvals import overdispersed_initvals
from pymc_minibatch_mh.steps.austere import AustereMH
from pymc_minibatch_mh.steps.barker import BarkerMinibatchMH
from pymc_minibatch_mh.steps.penalty import PenaltyMH

__all__ = [
    "AustereMH",
    "BarkerMinibatchMH",
    "Laplace",
    "MinibatchError",
    "Mixture",
    "ModeError",
    "PenaltyMH",
    "Proposal",
    "RandomWalk",
    "SettingError",
    "SplitCheckError",
    "StaleDataError",
    "UnsplittableModelError",
    "overdispersed_initvals",
    "split",
]
