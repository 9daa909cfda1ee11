"""Records of hierarchies: group effects accepted one by one, or proposed given their scales.

All observations may depend on the common effects w, and each on one group effect e per factor.
elements.c documents an iteration, element_test.c its exactness, parts.c the bounds.
"""

from typing import Any, NamedTuple, Self

import numpy as np

from pymc_minibatch_mh.native.library import record_of
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.native.run import KernelState


class Geometry(record_of("mh_geometry")):  # type: ignore[misc]
    """Coordinates (w, e), and the expansion of the log-likelihood in them: see ``mh_geometry``."""

    @property
    def n_elements(self) -> int:
        """Number L of group effects, over all factors."""
        return self.places.size

    @property
    def n_factors(self) -> int:
        """Number F of grouping factors."""
        return self.densities.size


class Parts(record_of("mh_parts")):  # type: ignore[misc]
    """Look-up tables of observations for their thinning bounds: ``mh_parts`` has the shapes."""

    @property
    def n_rows(self) -> int:
        """Number of observations N."""
        return self.border.size

    @property
    def n_factors(self) -> int:
        """Number F of factors: grouping factors, and sets of common effects that data index."""
        return self.first.size - 1


class Ends(record_of("mh_part_ends")):  # type: ignore[misc]
    """Both ends of a proposal: effects, shape (L,), ‖w‖, ‖w'‖ and ‖w' - w‖: ``mh_part_ends``."""


class ElementTest(NamedTuple):
    """Poisson test of each move type: common effects, each factor's effects, each scale, ..."""

    rates: Any
    #: Rate factor κ of each move type.
    kappa: np.ndarray


class ElementChain(NamedTuple):
    """State of a chain that accepts group effects separately: ``mh_element_chain``."""

    #: Chain without proposal and test; it has a tally for each move type.
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
        """Ends of the proposal with the largest violation of a bound, as in ``KernelState``."""
        return self.chain.worst_move


class Truncated(record_of("mh_truncated")):  # type: ignore[misc]
    """Normal distribution of coordinates bounded by zero, truncated there: ``mh_truncated``."""

    @classmethod
    def around(cls, reference: Reference, ends: np.ndarray, slope: np.ndarray) -> Self:
        """Distribution of the coordinates `ends`, from the log posterior's slopes there."""
        rest = np.setdiff1d(np.arange(reference.centre.size), ends)
        order, count = np.concatenate([ends, rest]), ends.size
        covariance = reference.factor @ reference.factor.T
        factor = np.linalg.cholesky(covariance[np.ix_(order, order)])[:, :count]
        shifts = np.zeros((order.size, count))
        shifts[rest] = factor[count:]
        corner = np.ascontiguousarray(factor[:count])
        return cls(ends, reference.centre[ends], corner, corner.T @ slope, shifts)


class ScaleConditional(record_of("mh_scale_conditional")):  # type: ignore[misc]
    """Normal distribution of effects given their scales, and a distribution of the scales.

    Scales φ = φ₀ + A z, other coordinates x = m(z) + W(z)⁻¹ w: see scale_conditional.c. The tables
    only affect acceptance rates, never exactness. ``mh_scale_conditional`` has the shapes.
    """

    @property
    def n_normal_knots(self) -> int:
        """Number of knots (grid points) of each standard normal variable u."""
        return self.points.shape[1]

    @property
    def n_knots(self) -> int:
        """Number of knots (grid points) of each scale variable z."""
        return self.means.shape[1]
