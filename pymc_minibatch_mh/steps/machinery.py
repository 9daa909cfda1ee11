"""What steps are built from, and all that takes long to import: numba, kernels, reading a model.

Step classes reach it as ``steps.machinery``, so that only building a step waits for it. The kernels
of the tests are compiled when they are imported, which only a step of theirs has to wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scipy.special import chdtri

from pymc_minibatch_mh.acceptance.poisson import chi_for_gap
from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.generator import generator_addresses
from pymc_minibatch_mh.kernels.surrogate import pack, whitened_norm
from pymc_minibatch_mh.kernels.update import update
from pymc_minibatch_mh.proposals.mixture import Mixture
from pymc_minibatch_mh.steps.audit import audited
from pymc_minibatch_mh.steps.decision import LookDecision, bound_arrays
from pymc_minibatch_mh.steps.deterministics import tell_of_large
from pymc_minibatch_mh.steps.poisson import PoissonDecision
from pymc_minibatch_mh.steps.prepared import Prepared, first_difference, key_of, write
from pymc_minibatch_mh.steps.sharing import read_model

if TYPE_CHECKING:
    from pymc_minibatch_mh.acceptance import austere, barker, penalty

__all__ = [
    "Bounds",
    "LookDecision",
    "Mixture",
    "PoissonDecision",
    "Prepared",
    "Target",
    "address_of",
    "audited",
    "austere",
    "barker",
    "bound_arrays",
    "chdtri",
    "chi_for_gap",
    "first_difference",
    "generator_addresses",
    "key_of",
    "pack",
    "penalty",
    "read_model",
    "tell_of_large",
    "update",
    "whitened_norm",
    "write",
]


def __getattr__(name: str) -> Any:
    if name not in ("austere", "barker", "penalty"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"pymc_minibatch_mh.acceptance.{name}")
