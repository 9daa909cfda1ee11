"""Tables of bounds, and which of them serves a move: bounds.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.draw import NO_SUPPLY, Supply
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.whitened_copy import NO_COPY, WhitenedCopy

# Columns of the headers of tables.
RADIUS, KIND, TOTAL = range(3)
NO_ROWS = np.empty(0, np.int64)
NO_DIRECTIONS = np.empty((0, 0))


class Table(NamedTuple):
    """Bounds of all rows while a move stays within a radius: ``mh_table``.

    Without arrays which table serves a move can be asked, and nothing else.
    """

    radius: float
    kind: int
    total: float
    c: np.ndarray | None
    thresholds: np.ndarray | None
    aliases: np.ndarray | None


class BoundTables(NamedTuple):
    """Bounds |dU_i| <= c_i M of all rows over nested regions, smallest first: ``mh_bounds``."""

    #: Radius, kind and Σc_i of every table, shape (T, 3).
    headers: np.ndarray
    #: The c_i, float32, and alias tables to draw rows in proportion to them, shape (T, N).
    c: np.ndarray
    thresholds: np.ndarray
    aliases: np.ndarray
    #: A custom metric M (``mh_metric``), for tables of the kind GIVEN.
    metric: Any = None
    #: Rows that every update reads and never draws, in order: totals and alias tables are those
    #: of all others, and batches are drawn from these. Tests without bounds may have them too.
    heavy: np.ndarray = NO_ROWS
    #: Orthonormal whitened directions along which no row changes, shape (n, d): bounds take moves
    #: without their components along them.
    unread: np.ndarray = NO_DIRECTIONS
    #: Orthonormal whitened directions that all rows may depend on, shape (s, d), where they are
    #: known by groups of rows: M is then the largest of the groups', and `unread` is not asked.
    shared: np.ndarray = NO_DIRECTIONS
    #: Those of each group beside them, `each` of a group: shape (groups * each, d).
    own: np.ndarray = NO_DIRECTIONS
    each: int = 1
    #: Rows that were drawn ahead, where rows are stored: numbers of rows are then places in it.
    supply: Supply = NO_SUPPLY
    #: Whitened directions of rows, which thin candidates before they are evaluated.
    copy: WhitenedCopy = NO_COPY

    @property
    def tables(self) -> list[Table]:
        """The tables one by one."""
        arrays = self.c, self.thresholds, self.aliases
        return [
            Table(radius, int(kind), total, *(x[k] if len(x) else None for x in arrays))
            for k, (radius, kind, total) in enumerate(self.headers.tolist())
        ]

    @property
    def n_drawn(self) -> int:
        """Places of the alias tables."""
        return self.thresholds.shape[1]

    @property
    def n_groups(self) -> int:
        """Number of groups of rows, 0 where none are told apart."""
        return len(self.own) // self.each


def no_tables() -> BoundTables:
    """Return the empty tables of a test without bounds."""
    empty = np.empty((0, 0))
    return BoundTables(np.empty((0, 3)), empty.astype(np.float32), empty, empty.astype(np.int32))


def table_of_move(
    tables: BoundTables, reference: Any, position: np.ndarray, new: np.ndarray
) -> tuple[int, float]:
    """Return the table with the smallest C M of those that hold for a move, and its M.

    Symmetric in the two positions. Without a table the number is -1.
    """
    table, m = np.empty(1, np.int64), np.empty(1)
    function("mh_table_of_move")(tables, reference, position, new, table, m)
    return int(table[0]), float(m[0])


def sizes_between(tables: BoundTables, reference: Any, ends: np.ndarray) -> np.ndarray:
    """Return C M of some moves, `ends` of shape (moves, 2, d); infinite where none is bounded."""
    sizes = np.empty(len(ends))
    function("mh_sizes_between")(tables, reference, len(ends), ends, sizes)
    return sizes
