"""Tables of bounds, the choice of a table for a proposal, and prefetched rows: bounds.c, draw.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import function, record_of
from pymc_minibatch_mh.native.whitened_copy import NO_COPY, WhitenedCopy

# Columns of `BoundTables.headers`.
RADIUS, KIND, TOTAL = range(3)
NO_ROWS = np.empty(0, np.int64)
NO_DIRECTIONS = np.empty((0, 0))
EVERYWHERE = -np.inf, np.inf


class Table(record_of("mh_table")):  # type: ignore[misc]
    """Bounds of all observations for proposals within a radius: ``mh_table``.

    A table without arrays only serves to select the table of a proposal.
    """


#: Columns of the supplies: next unused slot, end of the filled slots, number of supplies made.
NEXT, END, NUMBER = range(3)
#: Request to `refill` for the change of all rows, not a table's rows; ALL - n requests n rows.
ALL = -1


class Supply(NamedTuple):
    """Prefetched rows of one chain: ``mh_supply``; `places` has columns NEXT, END, NUMBER."""

    places: np.ndarray
    refill: Any
    change: np.ndarray
    room: int
    n_rows: int
    rows: np.ndarray


NO_SUPPLY = Supply(np.empty((0, 3), np.int64), None, np.empty(1), 0, 0, NO_ROWS)


class BoundTables(NamedTuple):
    """Bounds |dU_i| <= c_i M over nested regions of proposals, smallest first: ``mh_bounds``."""

    #: Radius, kind and Σc_i of each table, shape (T, 3).
    headers: np.ndarray
    #: Bounds c_i, float32, and alias tables to sample rows in proportion to them, shape (T, N).
    c: np.ndarray
    thresholds: np.ndarray
    aliases: np.ndarray
    #: A custom metric M (``mh_metric``), for tables of the kind GIVEN.
    metric: Any = None
    #: Influential observations, which are always evaluated: totals and alias tables cover the rest
    #: of the data. Tests without bounds may have influential observations too.
    heavy: np.ndarray = NO_ROWS
    #: Orthonormal basis of the null space of the likelihood. If directions are known by groups of
    #: observations instead: `shared` by all groups and `own` ones; M is the largest over groups.
    unread: np.ndarray = NO_DIRECTIONS
    shared: np.ndarray = NO_DIRECTIONS
    own: np.ndarray = NO_DIRECTIONS
    each: int = 1
    #: Group of each row, shares of its bound by shared and own directions, and rows by group: see
    #: group_rates.c, which also explains `sums`, shape (T, groups, 4).
    labels: np.ndarray | None = None
    shares: np.ndarray | None = None
    members: np.ndarray | None = None
    starts: np.ndarray | None = None
    sums: np.ndarray | None = None
    #: Unit vector along which tables have `intervals`, shape (T, 2); radii are those of the rest.
    along: np.ndarray | None = None
    intervals: np.ndarray | None = None
    #: Prefetched rows of stored data, whose row numbers are then slots of the buffer.
    supply: Supply = NO_SUPPLY
    copy: WhitenedCopy = NO_COPY

    @property
    def tables(self) -> list[Table]:
        """List of the tables, as one record each."""
        sums = () if self.sums is None else self.sums
        arrays = self.c, self.thresholds, self.aliases, sums
        ends = [EVERYWHERE] * len(self.headers) if self.intervals is None else self.intervals
        return [
            Table(radius, *ends[k], int(kind), total, *(x[k] if len(x) else None for x in arrays))
            for k, (radius, kind, total) in enumerate(self.headers.tolist())
        ]

    @property
    def n_drawn(self) -> int:
        """Number of entries in the alias tables."""
        return self.thresholds.shape[-1]

    @property
    def n_groups(self) -> int:
        """Number of groups of observations, 0 without groups."""
        return len(self.own) // self.each


def no_tables() -> BoundTables:
    """Empty tables of a test without bounds."""
    empty = np.empty((0, 0))
    return BoundTables(np.empty((0, 3)), empty.astype(np.float32), empty, empty.astype(np.int32))


def table_of_move(
    tables: BoundTables, reference: Any, position: np.ndarray, new: np.ndarray
) -> tuple[int, float]:
    """Index of the table with the smallest C M among those that cover a proposal, and its M.

    Symmetric in the two positions. The index is -1 without a table.
    """
    table, m = np.empty(1, np.int64), np.empty(1)
    function("mh_table_of_move")(tables, reference, position, new, table, m)
    return int(table[0]), float(m[0])


def sizes_between(tables: BoundTables, reference: Any, ends: np.ndarray) -> np.ndarray:
    """C M of proposals with `ends` of shape (proposals, 2, d); infinite without a table."""
    sizes = np.empty(len(ends))
    function("mh_sizes_between")(tables, reference, len(ends), ends, sizes)
    return sizes
