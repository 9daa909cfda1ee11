"""Rows as the library takes them: records of `mh.h`, and where linear forms of rows lie.

Coefficients of forms are of two kinds. *Fixed* ones belong to the same coordinates of the position
in every row; *chosen* ones to coordinates that the data choose, as in ``a[group]``.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import LaidOut, function

#: Kinds of pieces of a form: a run of numbers of a row, a product of leaves, or such a product for
#: a coordinate that a leaf chooses.
RUN, PRODUCT, CHOICE = range(3)


class Leaf(NamedTuple):
    """One number of each row: address of row 0, bytes from row to row, and the place of its type.

    Types are those of :data:`data.arrays.STORED`.
    """

    address: int
    stride: int
    type: int
    #: Which array it lies in.
    array: Any = None


class Piece(NamedTuple):
    """Coefficients of one form: ``mh_piece``."""

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

    @property
    def n_arguments(self) -> int:
        """Number of linear forms m."""
        return len(self.fixed_ends)

    @property
    def n_fixed(self) -> int:
        """Number of fixed coefficients."""
        return len(self.fixed_coordinates)

    @property
    def n_chosen(self) -> int:
        """Number of chosen coefficients."""
        return len(self.chosen_arguments)


class RowSpace(NamedTuple):
    """Where the rows are, and the compiled functions of them that were asked for."""

    #: Number of coordinates d.
    size: int
    #: First row of each term, and the number of all rows, int64.
    term_starts: np.ndarray
    #: Addresses that functions of the model take, int64.
    context: np.ndarray
    #: The terms of rows that are functions of forms, laid out; None where they are graphs.
    terms: LaidOut | None = None
    #: Graphs of all rows (``mh_graph_differences``, ``mh_graph_derivatives``).
    differences: Any = None
    derivatives: Any = None

    @property
    def n_terms(self) -> int:
        """Number of observed variables."""
        return len(self.term_starts) - 1


class PlacedForms(NamedTuple):
    """Where the forms of n rows lie."""

    #: The forms of the centre, and the sums of the absolute products in them, shape (n, m).
    values: np.ndarray
    sizes: np.ndarray
    #: Lᵀ times each form: its length, shape (n, m), and itself where there is room, (n, m, d).
    norms: np.ndarray
    whitened: np.ndarray


def place_forms(
    term: LaidOut, rows: np.ndarray, centre: np.ndarray, factor: np.ndarray, placed: PlacedForms
) -> None:
    """Place the linear forms of some rows of a term, numbered within it; `placed` is overwritten.

    `factor` is L, which is zero above its diagonal.
    """
    values, sizes, norms, whitened = placed
    room = whitened if len(whitened) else None
    function("mh_place_forms")(
        term, rows, rows.size, centre, factor, centre.size, values, sizes, norms, room
    )
