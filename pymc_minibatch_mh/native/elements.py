"""Updates with an accept of their own for every element: thousands of effects from a few rows.

There are a border w of coordinates that all rows may read, and elements e of each factor, of which
a row reads one: elements.c says what an iteration does, element_test.c why it is exact.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.parts import Parts
from pymc_minibatch_mh.native.run import KernelState


class Geometry(NamedTuple):
    """Coordinates (w, e), and expansions in them: ``mh_geometry``.

    There are L elements of F factors, and a border of n coordinates.
    """

    #: Coordinates of the position: of the border, shape (n,), and of the elements, (L,).
    border: np.ndarray
    places: np.ndarray
    #: T and its inverse, shape (n, n), and R, shape (n, L), with a line for each coordinate of w.
    factor: np.ndarray
    whitener: np.ndarray
    response: np.ndarray
    #: Posterior standard deviation of each e, given w.
    sd: np.ndarray
    #: The expansion of all rows: slopes and second derivatives in w and e, and of pairs of elements
    #: of different factors, the cells, in compressed lines.
    border_slope: np.ndarray
    slopes: np.ndarray
    border_hessian: np.ndarray
    between: np.ndarray
    hessian: np.ndarray
    cell_starts: np.ndarray
    cell_elements: np.ndarray
    cells: np.ndarray
    #: By how much the average over the posterior changes the rows' slopes in w and e: proposals are
    #: centred by it, and the expansion, which decides, is not.
    border_tilt: np.ndarray
    tilts: np.ndarray
    #: The prior at the centre: the part of its slope in w that is not the elements', directions of
    #: the elements' locations in w, shape (n, L), and precisions; of each factor the sum of the
    #: precisions, (F,), and of their products with the directions, (F, n, n).
    prior_slope: np.ndarray
    directions: np.ndarray
    precisions: np.ndarray
    total_precision: np.ndarray
    stiffness: np.ndarray
    #: Address of the log-densities of each factor's elements (``mh_element_density``).
    densities: np.ndarray
    #: Scales that move with the elements of a factor: coordinates, steps, and the factors.
    scales: np.ndarray
    scale_steps: np.ndarray
    scale_factors: np.ndarray
    #: Directions V in e, shape (K, L), of a standard deviation each; slopes and second derivatives
    #: of the rows' expansion along them: (K,), with w (K, n), with e (K, L), and their own (K,).
    along: np.ndarray
    along_slope: np.ndarray
    along_border: np.ndarray
    along_elements: np.ndarray
    along_own: np.ndarray
    #: Coordinates of the border that rows choose, numbered in it, K for all choices; and Q, shape
    #: (r, n), of the rest of it, which is Q w in its own standard coordinates.
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
