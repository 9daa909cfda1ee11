"""Markov chain Monte Carlo on tall data, inside PyMC."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pymc_minibatch_mh import errors as errors

if TYPE_CHECKING:
    from pymc_minibatch_mh.bounds.user_bounds import Bounds as Bounds
    from pymc_minibatch_mh.diagnostics.audit import audit as audit
    from pymc_minibatch_mh.diagnostics.explain import explain as explain
    from pymc_minibatch_mh.diagnostics.plots import plot_audit as plot_audit
    from pymc_minibatch_mh.diagnostics.plots import plot_bounds as plot_bounds
    from pymc_minibatch_mh.diagnostics.plots import plot_rows as plot_rows
    from pymc_minibatch_mh.diagnostics.plots import plot_summary as plot_summary
    from pymc_minibatch_mh.diagnostics.predictive import log_likelihood as log_likelihood
    from pymc_minibatch_mh.diagnostics.predictive import loo_subsample as loo_subsample
    from pymc_minibatch_mh.diagnostics.predictive import (
        posterior_predictive as posterior_predictive,
    )
    from pymc_minibatch_mh.errors import MinibatchError as MinibatchError
    from pymc_minibatch_mh.model.factorization import factorize as factorize
    from pymc_minibatch_mh.model.rows import Rows as Rows
    from pymc_minibatch_mh.proposals.base import Proposal as Proposal
    from pymc_minibatch_mh.proposals.custom_proposal import CustomProposal as CustomProposal
    from pymc_minibatch_mh.proposals.langevin import Langevin as Langevin
    from pymc_minibatch_mh.proposals.mixture import Laplace as Laplace
    from pymc_minibatch_mh.proposals.mixture import Mixture as Mixture
    from pymc_minibatch_mh.proposals.user_functions import rows_gradient as rows_gradient
    from pymc_minibatch_mh.proposals.walk import RandomWalk as RandomWalk
    from pymc_minibatch_mh.published.barker_paper import BarkerPaperMH as BarkerPaperMH
    from pymc_minibatch_mh.published.confidence_scan import ConfidenceScanMH as ConfidenceScanMH
    from pymc_minibatch_mh.published.firefly import FireflyMH as FireflyMH
    from pymc_minibatch_mh.published.poisson import PoissonMH as PoissonMH
    from pymc_minibatch_mh.published.ranges import Ranges as Ranges
    from pymc_minibatch_mh.published.tuna_paper import TunaPaperMH as TunaPaperMH
    from pymc_minibatch_mh.sampling.driver import sample as sample
    from pymc_minibatch_mh.sampling.initial_points import (
        overdispersed_initvals as overdispersed_initvals,
    )
    from pymc_minibatch_mh.sampling.later_effects import draw_effects as draw_effects
    from pymc_minibatch_mh.sampling.later_effects import (
        group_log_likelihood as group_log_likelihood,
    )
    from pymc_minibatch_mh.steps.austere import AustereMH as AustereMH
    from pymc_minibatch_mh.steps.barker import BarkerMinibatchMH as BarkerMinibatchMH
    from pymc_minibatch_mh.steps.confidence import ConfidenceMH as ConfidenceMH
    from pymc_minibatch_mh.steps.custom import CustomTestMH as CustomTestMH
    from pymc_minibatch_mh.steps.penalty import PenaltyMH as PenaltyMH
    from pymc_minibatch_mh.steps.tuna import FactorizedMH as FactorizedMH
    from pymc_minibatch_mh.steps.tuna import ScalableSubsamplingMH as ScalableSubsamplingMH
    from pymc_minibatch_mh.steps.tuna import TunaMH as TunaMH

#: Module of each public name. SciPy, ArviZ and Matplotlib take seconds to import, so each name is
#: imported at its first use; type checkers read the imports above.
_ON_FIRST_USE = {
    "AustereMH": "steps.austere",
    "BarkerMinibatchMH": "steps.barker",
    "BarkerPaperMH": "published.barker_paper",
    "Bounds": "bounds.user_bounds",
    "ConfidenceMH": "steps.confidence",
    "ConfidenceScanMH": "published.confidence_scan",
    "CustomProposal": "proposals.custom_proposal",
    "CustomTestMH": "steps.custom",
    "FactorizedMH": "steps.tuna",
    "FireflyMH": "published.firefly",
    "Langevin": "proposals.langevin",
    "Laplace": "proposals.mixture",
    "MinibatchError": "errors",
    "Mixture": "proposals.mixture",
    "PenaltyMH": "steps.penalty",
    "PoissonMH": "published.poisson",
    "Proposal": "proposals.base",
    "RandomWalk": "proposals.walk",
    "Ranges": "published.ranges",
    "Rows": "model.rows",
    "ScalableSubsamplingMH": "steps.tuna",
    "TunaMH": "steps.tuna",
    "TunaPaperMH": "published.tuna_paper",
    "audit": "diagnostics.audit",
    "draw_effects": "sampling.later_effects",
    "explain": "diagnostics.explain",
    "factorize": "model.factorization",
    "group_log_likelihood": "sampling.later_effects",
    "log_likelihood": "diagnostics.predictive",
    "loo_subsample": "diagnostics.predictive",
    "overdispersed_initvals": "sampling.initial_points",
    "plot_audit": "diagnostics.plots",
    "plot_bounds": "diagnostics.plots",
    "plot_rows": "diagnostics.plots",
    "plot_summary": "diagnostics.plots",
    "posterior_predictive": "diagnostics.predictive",
    "rows_gradient": "proposals.user_functions",
    "sample": "sampling.driver",
}

__all__ = list(_ON_FIRST_USE)


@contextmanager
def _collection_paused() -> Iterator[None]:
    """Pause Python's cyclic garbage collector during imports.

    Imports create many long-lived objects; scanning them takes a sixth of the import time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("pymc-minibatch-mh")
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    show_progress = import_module(f"{__name__}.progress").show_progress
    with _collection_paused(), show_progress(f"Importing {__name__}"):
        value = getattr(import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    dunders = {name for name in globals() if name.startswith("__")}
    return sorted({*__all__, *dunders, "__version__"})
