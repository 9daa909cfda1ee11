"""What steps are built from, and all that takes long to import: numba, kernels, reading a model.

Step classes reach it as ``step.machinery``, so that only building a step waits for it. The kernels
of the tests are compiled when they are imported, which only a step of theirs has to wait for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from scipy.special import chdtri

from pymc_minibatch_mh.bounds.user_bounds import Bounds
from pymc_minibatch_mh.bounds.user_ranges import Ranges
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.points import place_at, point_of
from pymc_minibatch_mh.chain.program import Program
from pymc_minibatch_mh.chain.starts import begin
from pymc_minibatch_mh.kernels.surrogate import whitened_norm
from pymc_minibatch_mh.methods.chi import chi_for_gap
from pymc_minibatch_mh.methods.poisson import PoissonMethod
from pymc_minibatch_mh.preparation.file import first_difference, key_of, write
from pymc_minibatch_mh.preparation.sharing import ReadingSettings, read_model
from pymc_minibatch_mh.proposals.mixture import Mixture
from pymc_minibatch_mh.step.deterministics import tell_of_large

if TYPE_CHECKING:
    from pymc_minibatch_mh.methods import (
        austere,
        barker,
        confidence,
        firefly,
        own_test,
        penalty,
        poisson_levels,
    )

__all__ = [
    "Bounds",
    "Chain",
    "Mixture",
    "PoissonMethod",
    "Program",
    "Ranges",
    "ReadingSettings",
    "austere",
    "barker",
    "begin",
    "chdtri",
    "chi_for_gap",
    "confidence",
    "firefly",
    "first_difference",
    "key_of",
    "own_test",
    "penalty",
    "place_at",
    "point_of",
    "poisson_levels",
    "read_model",
    "tell_of_large",
    "whitened_norm",
    "write",
]


#: Methods whose kernels are compiled when they are imported.
_LATE = ("austere", "barker", "confidence", "firefly", "own_test", "penalty", "poisson_levels")


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"pymc_minibatch_mh.methods.{name}")
