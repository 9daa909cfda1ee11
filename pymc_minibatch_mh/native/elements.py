"""Updates with an accept of their own for every element: thousands of effects from a few rows.

There are a border w of coordinates that all rows may read, and elements e of each factor, of which
a row reads one: elements.c says what an iteration does, element_test.c why it is exact.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.parts import Parts
from pymc_minibatch_mh.native.run import KernelState


class Geometry(NamedTuple):
    """Coordinates (w, e), and expansions in them: ``mh_geometry``, which has their shapes."""

    border: np.ndarray
    places: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray
    response: np.ndarray
    sd: np.ndarray
    border_slope: np.ndarray
    slopes: np.ndarray
    border_hessian: np.ndarray
    between: np.ndarray
    hessian: np.ndarray
    cell_starts: np.ndarray
    cell_elements: np.ndarray
    cells: np.ndarray
    border_tilt: np.ndarray
    tilts: np.ndarray
    prior_slope: np.ndarray
    directions: np.ndarray
    precisions: np.ndarray
    total_precision: np.ndarray
    stiffness: np.ndarray
    densities: np.ndarray
    scales: np.ndarray
    scale_steps: np.ndarray
    scale_factors: np.ndarray
    along: np.ndarray
    along_slope: np.ndarray
    along_border: np.ndarray
    along_elements: np.ndarray
    along_own: np.ndarray
    chosen: np.ndarray
    read: np.ndarray

    @property
    def n_elements(self) -> int:
        """Elements of all factors L."""
        return self.places.size

    @property
    def n_factors(self) -> int:
        """Factors F."""
        return self.densities.size


class ElementTest(NamedTuple):
    """Poisson test of all kinds of moves: the border, each factor's elements, each scale, ..."""

    rates: Any
    #: κ of each kind, by which it raises rates.
    kappa: np.ndarray


class ElementChain(NamedTuple):
    """State of a chain of elements: ``mh_element_chain``."""

    #: A chain without a proposal and a test of its own; tallies are those of kinds of moves.
    chain: KernelState
    #: The record of a Poisson test, with χ = 1: rates are raised by κ - 1 in the place of χ C M.
    test: Any
    geometry: Geometry
    parts: Parts
    kappa: np.ndarray
    #: Densities of elements, which have to be kept.
    functions: Any

    @property
    def worst_move(self) -> np.ndarray | None:
        """See ``KernelState``."""
        return self.chain.worst_move
