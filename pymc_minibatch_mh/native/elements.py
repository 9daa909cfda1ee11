"""Updates that accept thousands of random effects one at a time, each from a few observations.

All observations may depend on the common coordinates w, and each on one effect e per factor:
elements.c documents an iteration, element_test.c its exactness.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import record_of
from pymc_minibatch_mh.native.parts import Parts
from pymc_minibatch_mh.native.run import KernelState


class Geometry(record_of("mh_geometry")):  # type: ignore[misc]
    """Coordinates (w, e), and expansions in them: ``mh_geometry`` has the shapes."""

    @property
    def n_elements(self) -> int:
        """Number of effects of all factors, L."""
        return self.places.size

    @property
    def n_factors(self) -> int:
        """Number of factors F."""
        return self.densities.size


class ElementTest(NamedTuple):
    """Poisson test of all move types: common coordinates, each factor's effects, each scale, ..."""

    rates: Any
    #: Rate factor κ of each move type.
    kappa: np.ndarray


class ElementChain(NamedTuple):
    """State of a chain of effects: ``mh_element_chain``."""

    #: Chain without proposal and test; its tallies count move types.
    chain: KernelState
    #: Record of a Poisson test with χ = 1: rate factors κ - 1 replace χ C M.
    test: Any
    geometry: Geometry
    parts: Parts
    kappa: np.ndarray
    #: Compiled densities of effects; this reference keeps them alive.
    functions: Any

    @property
    def worst_move(self) -> np.ndarray | None:
        """Worst violation, as in ``KernelState``."""
        return self.chain.worst_move
