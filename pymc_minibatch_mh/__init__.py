"""Markov chain Monte Carlo on tall data, inside PyMC."""

from pymc_minibatch_mh.bounds.given import Bounds
from pymc_minibatch_mh.diagnostics.audit import audit
from pymc_minibatch_mh.diagnostics.explain import explain
from pymc_minibatch_mh.diagnostics.explanation import Explanation
from pymc_minibatch_mh.diagnostics.loglikelihood import log_likelihood
from pymc_minibatch_mh.diagnostics.loo import loo_subsample
from pymc_minibatch_mh.diagnostics.plots import plot_audit, plot_bounds, plot_rows
from pymc_minibatch_mh.diagnostics.predictive import posterior_predictive
from pymc_minibatch_mh.errors import (
    BoundsError,
    BoundViolationError,
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
from pymc_minibatch_mh.steps.factorized import FactorizedMH
from pymc_minibatch_mh.steps.penalty import PenaltyMH
from pymc_minibatch_mh.steps.scalable import ScalableSubsamplingMH
from pymc_minibatch_mh.steps.tuna import TunaMH

__all__ = [
    "AustereMH",
    "BarkerMinibatchMH",
    "BoundViolationError",
    "Bounds",
    "BoundsError",
    "Explanation",
    "FactorizedMH",
    "Laplace",
    "MinibatchError",
    "Mixture",
    "ModeError",
    "PenaltyMH",
    "Proposal",
    "RandomWalk",
    "ScalableSubsamplingMH",
    "SettingError",
    "SplitCheckError",
    "StaleDataError",
    "TunaMH",
    "UnsplittableModelError",
    "audit",
    "explain",
    "log_likelihood",
    "loo_subsample",
    "overdispersed_initvals",
    "plot_audit",
    "plot_bounds",
    "plot_rows",
    "posterior_predictive",
    "split",
]
