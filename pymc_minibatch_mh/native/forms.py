"""Records of `mh.h` for the observations, their linear predictors and their functions.

Coefficients of linear predictors have two kinds. *Fixed* ones belong to the same coordinates in
every row; *chosen* ones to coordinates that the data index, as in ``a[group]``.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import LaidOut

#: Kinds of pieces: consecutive numbers; product of leaves; product for an indexed coordinate.
RUN, PRODUCT, CHOICE = range(3)


class Leaf(NamedTuple):
    """One number per row: address in row 0, bytes between rows, and index of its type.

    Types are those of :data:`data.arrays.STORED_TYPES`.
    """

    address: int
    stride: int
    type: int
    #: Key of its array: a column's index, or the expression from which the array was computed.
    array: Any = None


class Piece(NamedTuple):
    """Coefficients of one linear predictor: ``mh_piece``."""

    kind: int
    factor: float
    leaves: tuple[Leaf, ...]
    first: int
    count: int = 1  # type: ignore[assignment]
    entry_stride: int = 0
    step: int = 0
    choices: int = 0
    column: int = 0
    adds: bool = False


class Term(NamedTuple):
    """The rows of one observed variable: ``mh_term``."""

    taken: tuple[Leaf, ...]
    pieces: tuple[Piece, ...]
    fixed_coordinates: np.ndarray
    fixed_ends: np.ndarray
    chosen_arguments: np.ndarray
    difference: Any = None
    slopes: Any = None
    thirds: Any = None
    values: Any = None

    @property
    def n_arguments(self) -> int:
        """Number of linear predictors m."""
        return len(self.fixed_ends)

    @property
    def n_fixed(self) -> int:
        """Number of fixed coefficients."""
        return len(self.fixed_coordinates)

    @property
    def n_chosen(self) -> int:
        """Number of coefficients whose coordinate is selected by data."""
        return len(self.chosen_arguments)


class RowSpace(NamedTuple):
    """Observations: addresses of their data and of their compiled functions: ``mh_rows``."""

    #: Number of coordinates d.
    size: int
    #: First row of each term, and the number of all rows, int64.
    term_starts: np.ndarray
    #: Addresses of the arguments of the model's functions, int64.
    context: np.ndarray
    #: Terms whose rows are functions of linear predictors; None for graphs.
    terms: LaidOut | None = None
    #: Graphs of all rows (``mh_graph_differences``, ``mh_graph_derivatives``).
    differences: Any = None
    derivatives: Any = None
    #: Groups as observations (``mh_groups``).
    groups: Any = None

    @property
    def n_terms(self) -> int:
        """Number of observed variables."""
        return len(self.term_starts) - 1


class PlacedForms(NamedTuple):
    """Linear predictors of n rows at a centre."""

    #: Linear predictors at the centre, and sums of their absolute products, shape (n, m).
    values: np.ndarray
    sizes: np.ndarray
    #: Lᵀ times each linear predictor: its norm, shape (n, m), and the vectors if requested, (n, m,
    #: d).
    norms: np.ndarray
    whitened: np.ndarray
