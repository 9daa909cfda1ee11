"""Records of hierarchies: effects that are accepted one at a time, and effects given their scales.

All observations may depend on the common coordinates w, and each on one effect e per factor:
elements.c documents an iteration, element_test.c its exactness, parts.c the bounds.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import record_of
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


class Parts(record_of("mh_parts")):  # type: ignore[misc]
    """Look-ups of all rows, by which their ceilings are found: ``mh_parts`` has the shapes."""

    @property
    def n_rows(self) -> int:
        """Number of observations N."""
        return self.border.size

    @property
    def n_factors(self) -> int:
        """Number of factors and choices F."""
        return self.first.size - 1


class Ends(record_of("mh_part_ends")):  # type: ignore[misc]
    """Both ends of a move: effects, shape (L,), and ‖w‖, ‖w'‖ and ‖w' - w‖: ``mh_part_ends``."""


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


class ScaleConditional(record_of("mh_scale_conditional")):  # type: ignore[misc]
    """Normal distribution of effects given their scales, and a distribution of the scales.

    Scales φ = φ₀ + A z, and the rest x = m(z) + W(z)⁻¹ w: see scale_conditional.c. The tables,
    ``mh_scale_conditional`` has the shapes, only affect acceptance rates, never exactness.
    """

    @property
    def n_normal_knots(self) -> int:
        """Number of knots of u."""
        return self.points.shape[1]

    @property
    def n_knots(self) -> int:
        """Number of knots of z."""
        return self.means.shape[1]
