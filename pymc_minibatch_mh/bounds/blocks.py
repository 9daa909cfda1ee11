"""Bounds of rows that are stored: totals and maxima of blocks, and rows drawn by them.

A table with an entry for every row would outgrow memory before the method does. Kept are, of
blocks of consecutive rows, the sum of the c_i and the largest of them. A row is drawn in
proportion to c_i by drawing a block in proportion to its length times its largest c_i, a row of it
uniformly, and keeping the row with probability c_i over the largest: c_i is computed from the row
itself, which has to be fetched in any case. The largest is the certificate: it is checked whenever
a row is drawn. Where bounds are so uneven that there would be more candidates than rows, and rows
are few enough to be read at once, the c_i of all rows are computed instead and rows drawn by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.drawn import Drawn
from pymc_minibatch_mh.errors import SourceError
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS, TOTAL, BoundTables, no_tables
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.values import RowData

if TYPE_CHECKING:
    from pymc_minibatch_mh.bounds.block_bounds import BlockBounds

#: Rows of a block.
BLOCK = 4096
#: Candidates that are fetched at a time, at most.
MOST_FETCHED = 262_144


class BoundsIn(NamedTuple):
    """Ask for the c_i of some rows in a table."""

    table: int

    def of(self, bounds: "BlockBounds", data: RowData) -> np.ndarray:
        """Return them, float32."""
        return bounds.of(self.table, data)


class Kept(NamedTuple):
    """Rows that are kept of candidates, or drawn of all.

    Parameters
    ----------
    places : ndarray of int64
        Which of the rows asked about they are.
    c : ndarray of float32
    columns
        Name and values of each array.
    exceeding
        First row above the largest c_i of its block; -1 where there is none, as has to be.
    """

    places: np.ndarray
    c: np.ndarray
    columns: tuple[tuple[str, np.ndarray], ...]
    exceeding: int


def _exceeding(c: np.ndarray, largest: np.ndarray) -> int:
    """Return the first row above the largest c_i of its block, -1 where there is none."""
    within = c <= largest
    return -1 if within.all() else int(np.argmin(within))


class KeptOf(NamedTuple):
    """Ask which of some rows are kept, and for their data.

    Parameters
    ----------
    table
        Table of the bounds.
    largest, chances : ndarray
        The largest c_i of each row's block, and a number below which its share of that keeps it.
    """

    table: int
    largest: np.ndarray
    chances: np.ndarray

    def of(self, bounds: "BlockBounds", data: RowData) -> Kept:
        """Return those that are kept."""
        c = bounds.of(self.table, data)
        kept = np.flatnonzero(self.chances * self.largest < c)
        columns = tuple((x.name, x.values[data.rows[kept]]) for x in data.function.columns)
        return Kept(kept, c[kept], columns, _exceeding(c, self.largest))


class DrawnOf(NamedTuple):
    """Ask for rows drawn in proportion to their c_i, of all.

    Parameters
    ----------
    table
        Table of the bounds.
    largest : ndarray
        The largest c_i of each row's block.
    chances : ndarray
        For each draw, the share of Σc_i that lies before it.
    """

    table: int
    largest: np.ndarray
    chances: np.ndarray

    def of(self, bounds: "BlockBounds", data: RowData) -> Kept:
        """Return those that are drawn, in their order."""
        c = bounds.of(self.table, data)
        exceeding = _exceeding(c, self.largest)
        if exceeding >= 0:
            return Kept(np.zeros(0, dtype=np.int64), c[:0], (), exceeding)
        upto = np.cumsum(c, dtype=np.float64)
        drawn = np.searchsorted(upto, self.chances * upto[-1], side="right")
        # A product with a chance next to 1 can round up to the sum.
        drawn = np.minimum(drawn, np.searchsorted(upto, upto[-1]))
        columns = tuple((x.name, x.values[data.rows[drawn]]) for x in data.function.columns)
        return Kept(drawn, c[drawn], columns, -1)


@dataclass(frozen=True, eq=False)
class BlockTables:
    """Bounds of all rows over nested trust regions, by blocks.

    Parameters
    ----------
    heads : ndarray, shape (T, 3)
        As in :class:`~pymc_minibatch_mh.bounds.tables.Tables`.
    largest : ndarray of float64, shape (T, blocks)
        The largest c_i of every block, raised a little.
    bounds
        Bounds any rows anew.
    n_rows
        Number of all rows.
    looseness
        As in :class:`~pymc_minibatch_mh.bounds.tables.Tables`.
    length
        Rows of a block; the last may have fewer.
    sums : ndarray, shape (T, blocks)
        Σc_i of every block.
    most_at_once
        Rows of which all c_i are computed for a supply, at most.
    """

    heads: np.ndarray
    largest: np.ndarray
    bounds: "BlockBounds"
    n_rows: int
    looseness: float
    length: int = BLOCK
    sums: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    most_at_once: int = MOST_FETCHED

    verified = True
    are_ranges = False
    metric = None
    heavy = NO_ROWS
    #: What tells these bounds from others of one model and one centre.
    key = "derived"

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what has addresses of this process."""
        return {name: value for name, value in self.__dict__.items() if name != "undrawn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was kept."""
        self.__dict__.update(state)

    def of_functions(self, functions: Sequence[RowFunction]) -> "BlockTables":
        """Return the same with the terms of this process."""
        return replace(self, bounds=self.bounds.of_functions(functions))

    def extended(self, functions: Sequence[RowFunction]) -> "BlockTables":
        """Return the bounds of terms with more rows, of which these are the first.

        Raises
        ------
        BoundsError
            If a new row has no bound over every region of a table.
        """
        return self.bounds.of_functions(functions).extended(self)

    @property
    def heads_of_drawn(self) -> np.ndarray:
        """The heads: all rows are drawn."""
        return self.heads

    @cached_property
    def undrawn(self) -> BoundTables:
        """The tables without rows, as which of them serves a move is found by them."""
        return no_tables()._replace(heads=self.heads)

    @property
    def arrays(self) -> BoundTables:
        """The same: rows are supplied by the chain that draws them."""
        return self.undrawn

    @property
    def n_tables(self) -> int:
        """Ways in which rows are drawn: one of each table."""
        return len(self.heads)

    @property
    def nbytes(self) -> int:
        """Size of what is kept, in bytes."""
        return self.heads.nbytes + self.largest.nbytes

    def of(self, table: int, rows: slice | np.ndarray) -> np.ndarray:
        """Return c_i of some rows in a table, float32."""
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        return self.bounds.found(BoundsIn(table), rows)

    @cached_property
    def _candidates(self) -> np.ndarray:
        """Cumulated lengths of blocks times their largest c_i, shape (T, blocks)."""
        lengths = np.full(self.largest.shape[1], self.length, dtype=np.float64)
        lengths[-1] = self.n_rows - self.length * (lengths.size - 1)
        return np.cumsum(self.largest * lengths, axis=1)

    def kept_share(self, table: int) -> float:
        """Return the share of the candidates that are kept."""
        return float(self.heads[table, TOTAL] / self._candidates[table, -1])

    def draw(self, table: int, rng: np.random.Generator, count: int) -> Drawn:
        """Draw rows in proportion to their c_i, with replacement, and fetch them.

        Raises
        ------
        SourceError
            If a row exceeds the largest c_i of its block: it is not the one that was bounded.
        """
        parts: list[Drawn] = []
        missing, share = count, self.kept_share(table)
        if self.n_rows <= self.most_at_once and missing / share > self.n_rows:
            return self._drawn_of_all(table, rng, count)
        while missing > 0:
            tried = int(min(1.1 * missing / share + 64.0, MOST_FETCHED))
            part = self._kept(table, self._tried(table, rng, tried), rng)
            parts.append(part)
            missing -= part.rows.size
        return _joined(parts, count)

    def _tried(self, table: int, rng: np.random.Generator, count: int) -> np.ndarray:
        """Draw rows, each block in proportion to its length times its largest c_i."""
        upto = self._candidates[table]
        blocks = np.searchsorted(upto, rng.random(count) * upto[-1], side="right")
        blocks = np.minimum(blocks, upto.size - 1)
        first = self.length * blocks.astype(np.int64)
        return first + rng.integers(0, np.minimum(self.length, self.n_rows - first))

    def _drawn_of_all(self, table: int, rng: np.random.Generator, count: int) -> Drawn:
        """Compute the c_i of all rows and draw by them."""
        rows = np.arange(self.n_rows)
        largest = self.largest[table, rows // self.length]
        read = self.bounds.found(DrawnOf(table, largest, rng.random(count)), rows)
        if read.exceeding >= 0:
            raise self._changed(read.exceeding)
        columns = tuple(Column(name, values, 0) for name, values in read.columns)
        return Drawn(read.places, read.c, columns)

    def _changed(self, row: int) -> SourceError:
        return SourceError(
            f"row {row:,} of {self.bounds.function.name!r} is not the one that was bounded: its "
            "data have changed. Build the model and the step again."
        )

    def _kept(self, table: int, rows: np.ndarray, rng: np.random.Generator) -> Drawn:
        """Fetch rows and keep each with probability c_i over the largest of its block."""
        order = np.argsort(rows, kind="stable")
        largest = self.largest[table, rows // self.length]
        chances = rng.random(rows.size)
        read = self.bounds.found(KeptOf(table, largest[order], chances[order]), rows[order])
        if read.exceeding >= 0:
            raise self._changed(rows[order[read.exceeding]])
        # In the order in which they were drawn.
        drawn = np.argsort(order[read.places])
        kept = order[read.places[drawn]]
        columns = tuple(Column(name, values[drawn], 0) for name, values in read.columns)
        return Drawn(rows[kept], read.c[drawn], columns)


#: Bounds of all rows, in memory or stored.
AnyTables = Tables | BlockTables


def _joined(parts: Sequence[Drawn], count: int) -> Drawn:
    columns = tuple(
        Column(same[0].name, np.concatenate([column.values for column in same])[:count], 0)
        for same in zip(*(part.columns for part in parts), strict=True)
    )
    rows = np.concatenate([part.rows for part in parts])[:count]
    return Drawn(rows, np.concatenate([part.c for part in parts])[:count], columns)
