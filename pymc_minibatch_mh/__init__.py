"""Markov chain Monte Carlo on tall data, inside PyMC."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pymc_minibatch_mh.errors import (
    BoundsError,
    BoundViolationError,
    MinibatchError,
    ModeError,
    SettingError,
    SourceError,
    SplitCheckError,
    StaleDataError,
    UnsplittableModelError,
)

if TYPE_CHECKING:
    from pymc_minibatch_mh.bounds.user_bounds import Bounds
    from pymc_minibatch_mh.bounds.user_ranges import Ranges
    from pymc_minibatch_mh.diagnostics.after.loglikelihood import log_likelihood
    from pymc_minibatch_mh.diagnostics.after.loo import loo_subsample
    from pymc_minibatch_mh.diagnostics.after.predictive import posterior_predictive
    from pymc_minibatch_mh.diagnostics.audit.audit import audit
    from pymc_minibatch_mh.diagnostics.forecast.design import design_sequential_test, tried_moves
    from pymc_minibatch_mh.diagnostics.forecast.explain import explain
    from pymc_minibatch_mh.diagnostics.forecast.explanation import Explanation
    from pymc_minibatch_mh.diagnostics.plots import plot_audit, plot_bounds, plot_rows
    from pymc_minibatch_mh.kernels.batch import rows_gradient
    from pymc_minibatch_mh.methods.tables.designs import PerUpdate, SequentialDesign
    from pymc_minibatch_mh.methods.tables.ridge import correction_errors
    from pymc_minibatch_mh.methods.tables.sequential import sequential_error, sequential_use
    from pymc_minibatch_mh.methods.tables.tried_moves import TriedMoves
    from pymc_minibatch_mh.model.reading.split import split
    from pymc_minibatch_mh.model.reading.stored import Rows
    from pymc_minibatch_mh.proposals.base import Proposal
    from pymc_minibatch_mh.proposals.langevin import Langevin
    from pymc_minibatch_mh.proposals.mixture import Mixture
    from pymc_minibatch_mh.proposals.own_move import OwnMove
    from pymc_minibatch_mh.proposals.single import Laplace
    from pymc_minibatch_mh.proposals.stiefel import StiefelWalk
    from pymc_minibatch_mh.proposals.walk import RandomWalk
    from pymc_minibatch_mh.sampling.driver import sample
    from pymc_minibatch_mh.sampling.initvals import overdispersed_initvals
    from pymc_minibatch_mh.step.austere import AustereMH
    from pymc_minibatch_mh.step.barker import BarkerMinibatchMH
    from pymc_minibatch_mh.step.confidence import ConfidenceMH
    from pymc_minibatch_mh.step.factorized import FactorizedMH
    from pymc_minibatch_mh.step.firefly import FireflyMH
    from pymc_minibatch_mh.step.own_test import OwnTestMH
    from pymc_minibatch_mh.step.penalty import PenaltyMH
    from pymc_minibatch_mh.step.poisson import PoissonMH
    from pymc_minibatch_mh.step.scalable import ScalableSubsamplingMH
    from pymc_minibatch_mh.step.tuna import TunaMH

#: Where the names live. SciPy, ArviZ and Matplotlib stand behind them and take seconds to import:
#: each is imported when it is first asked for, and type checkers read the imports above.
_ON_FIRST_USE = {
    "AustereMH": "step.austere",
    "BarkerMinibatchMH": "step.barker",
    "Bounds": "bounds.user_bounds",
    "ConfidenceMH": "step.confidence",
    "Explanation": "diagnostics.forecast.explanation",
    "FactorizedMH": "step.factorized",
    "FireflyMH": "step.firefly",
    "Langevin": "proposals.langevin",
    "Laplace": "proposals.single",
    "Mixture": "proposals.mixture",
    "OwnMove": "proposals.own_move",
    "OwnTestMH": "step.own_test",
    "PenaltyMH": "step.penalty",
    "PerUpdate": "methods.tables.designs",
    "PoissonMH": "step.poisson",
    "Proposal": "proposals.base",
    "RandomWalk": "proposals.walk",
    "Ranges": "bounds.user_ranges",
    "Rows": "model.reading.stored",
    "ScalableSubsamplingMH": "step.scalable",
    "SequentialDesign": "methods.tables.designs",
    "StiefelWalk": "proposals.stiefel",
    "TriedMoves": "methods.tables.tried_moves",
    "TunaMH": "step.tuna",
    "audit": "diagnostics.audit.audit",
    "correction_errors": "methods.tables.ridge",
    "design_sequential_test": "diagnostics.forecast.design",
    "explain": "diagnostics.forecast.explain",
    "log_likelihood": "diagnostics.after.loglikelihood",
    "loo_subsample": "diagnostics.after.loo",
    "overdispersed_initvals": "sampling.initvals",
    "plot_audit": "diagnostics.plots",
    "plot_bounds": "diagnostics.plots",
    "plot_rows": "diagnostics.plots",
    "posterior_predictive": "diagnostics.after.predictive",
    "rows_gradient": "kernels.batch",
    "sample": "sampling.driver",
    "sequential_error": "methods.tables.sequential",
    "sequential_use": "methods.tables.sequential",
    "split": "model.reading.split",
    "tried_moves": "diagnostics.forecast.design",
}

__all__ = [
    "AustereMH",
    "BarkerMinibatchMH",
    "BoundViolationError",
    "Bounds",
    "BoundsError",
    "ConfidenceMH",
    "Explanation",
    "FactorizedMH",
    "FireflyMH",
    "Langevin",
    "Laplace",
    "MinibatchError",
    "Mixture",
    "ModeError",
    "OwnMove",
    "OwnTestMH",
    "PenaltyMH",
    "PerUpdate",
    "PoissonMH",
    "Proposal",
    "RandomWalk",
    "Ranges",
    "Rows",
    "ScalableSubsamplingMH",
    "SequentialDesign",
    "SettingError",
    "SourceError",
    "SplitCheckError",
    "StaleDataError",
    "StiefelWalk",
    "TriedMoves",
    "TunaMH",
    "UnsplittableModelError",
    "audit",
    "correction_errors",
    "design_sequential_test",
    "explain",
    "log_likelihood",
    "loo_subsample",
    "overdispersed_initvals",
    "plot_audit",
    "plot_bounds",
    "plot_rows",
    "posterior_predictive",
    "rows_gradient",
    "sample",
    "sequential_error",
    "sequential_use",
    "split",
    "tried_moves",
]


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Put off Python's search for objects that only refer to each other.

    Imports make so many objects that last that searching them takes a sixth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def __getattr__(name: str) -> Any:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _collection_paused():
        value = getattr(import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
