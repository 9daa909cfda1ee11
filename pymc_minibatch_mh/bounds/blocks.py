"""Bounds of rows that are stored: totals and maxima of blocks, and rows drawn by them.

A table with an entry for every row would outgrow memory before the method does. Kept are, of
blocks of consecutive rows, the sum of the c_i and the largest of them. A row is drawn in
proportion to c_i by drawing a block in proportion to its length times its largest c_i, a row of it
uniformly, and keeping the row with probability c_i over the largest: c_i is computed from the row
itself, which has to be fetched in any case. The largest is the certificate: it is checked whenever
a row is drawn.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_minibatch_mh.bounds.bounds_pass import BOUNDING, BoundsPass
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.drawn import Drawn
from pymc_minibatch_mh.data.stored import BLOCK_ROWS
from pymc_minibatch_mh.errors import BoundsError, SourceError
from pymc_minibatch_mh.expansion.parallel import chunks_of, on_all_cores
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS, TOTAL, BoundTables, no_tables
from pymc_minibatch_mh.kernels.moves import DIRECTIONAL, JOINT, SHARP
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.values import RowData
from pymc_minibatch_mh.progress import report

#: Rows of a block.
BLOCK = 4096
#: Rows that are bounded at a time: working memory is some hundred numbers for each.
CHUNK = 4 * BLOCK
#: What the largest c_i are raised by: the same row can round differently among other rows.
ROUNDING = 1e-6
#: Candidates that are fetched at a time, at most.
MOST_FETCHED = 262_144


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
    """

    heads: np.ndarray
    largest: np.ndarray
    bounds: "BlockBounds"
    n_rows: int
    looseness: float
    length: int = BLOCK
    sums: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

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
        return self.bounds.of(table, RowData(self.bounds.function, rows))

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

    def _kept(self, table: int, rows: np.ndarray, rng: np.random.Generator) -> Drawn:
        """Fetch rows and keep each with probability c_i over the largest of its block."""
        order = np.argsort(rows, kind="stable")
        data = RowData(self.bounds.function, rows[order])
        c = np.empty(rows.size, dtype=np.float32)
        c[order] = self.bounds.of(table, data)
        largest = self.largest[table, rows // self.length]
        if not (c <= largest).all():
            row = int(rows[np.argmax(~(c <= largest))])
            raise SourceError(
                f"row {row:,} of {self.bounds.function.name!r} is not the one that was bounded: "
                "its data have changed. Build the model and the step again."
            )
        kept = np.flatnonzero(rng.random(rows.size) * largest < c)
        places = np.empty(rows.size, dtype=np.int64)
        places[order] = np.arange(rows.size)
        columns = tuple(
            Column(column.name, column.values[places[kept]], 0) for column in data.function.columns
        )
        return Drawn(rows[kept], c[kept], columns)


#: Bounds of all rows, in memory or stored.
AnyTables = Tables | BlockTables


def _joined(parts: Sequence[Drawn], count: int) -> Drawn:
    columns = tuple(
        Column(same[0].name, np.concatenate([column.values for column in same])[:count], 0)
        for same in zip(*(part.columns for part in parts), strict=True)
    )
    rows = np.concatenate([part.rows for part in parts])[:count]
    return Drawn(rows, np.concatenate([part.c for part in parts])[:count], columns)


class BlockBounds(BoundsPass):
    """Bounds every row of a term that is stored: see :class:`BoundsPass`."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the terms behind: they are read again where they are needed."""
        return {**self.__dict__, "_functions": ()}

    def of_functions(self, functions: Sequence[RowFunction]) -> "BlockBounds":
        """Return the same with the terms of this process."""
        other = copy(self)
        other._functions = functions
        return other

    @property
    def function(self) -> RowFunction:
        """The term."""
        return self._functions[0]

    def tables(self) -> BlockTables:  # type: ignore[override]
        """Bound all rows, block by block.

        Raises
        ------
        BoundsError
            If a row has no bound even over the smallest region.
        """
        report(BOUNDING)
        trials, self._radii_used, self._plans = self._plan()
        n_rows = self.function.n_rows
        sums, largest = self._sums_and_largest(0, n_rows)
        finite = np.isfinite(largest).all(axis=2)
        usable = [k for k in range(len(finite)) if finite[k].all()]
        if not usable:
            raise self._unbounded(self._first_unbounded(largest[0]), self._radii_used[0])
        #: Region and kind of every table.
        self._served = [(k, kind) for k in usable for kind in self._worthwhile(sums[k])]
        base = sum(trial.total(0.0, trial.whole) for trial in trials)
        kept, kept_sums = self._of_served(largest), self._of_served(sums)
        looseness = float(kept_sums.sum(axis=1).min() / base) if base > 0.0 else 1.0
        heads = self._heads(kept_sums)
        return BlockTables(
            heads, kept * (1.0 + ROUNDING), self, n_rows, looseness, BLOCK, kept_sums
        )

    def extended(self, tables: BlockTables) -> BlockTables:
        """Return tables of fewer rows, extended to all; read are the rows that are new.

        Raises
        ------
        BoundsError
            If a new row has no bound over every region of a table.
        """
        full = tables.n_rows // BLOCK
        sums, largest = self._sums_and_largest(full * BLOCK, self.function.n_rows)
        if not np.isfinite(self._of_served(largest)).all():
            raise BoundsError(f"{self.function.name!r}: a new row has no bound around this centre")
        raised = self._of_served(largest) * (1.0 + ROUNDING)
        all_sums = np.concatenate([tables.sums[:, :full], self._of_served(sums)], axis=1)
        return replace(
            tables,
            heads=self._heads(all_sums),
            largest=np.concatenate([tables.largest[:, :full], raised], axis=1),
            bounds=self,
            n_rows=self.function.n_rows,
            sums=all_sums,
        )

    def _of_served(self, found: np.ndarray) -> np.ndarray:
        """Return of every region and kind those that tables were made of, float64."""
        return np.array([found[k, kind] for k, kind in self._served], dtype=np.float64)

    def _heads(self, sums: np.ndarray) -> np.ndarray:
        """Return radius, kind and Σc_i of every table."""
        return np.array(
            [
                [self._radii_used[k], self._kind_of(kind), own.sum()]
                for (k, kind), own in zip(self._served, sums, strict=True)
            ]
        )

    def _worthwhile_groups(self, trials: Sequence[Any]) -> None:
        """Tell no groups of rows: which there are, all rows would have to tell."""

    def of(self, table: int, data: RowData) -> np.ndarray:
        """Return c_i of some rows in a table, float32 rounded up."""
        region, kind = self._served[table]
        radii, plans = self._radii_used[region : region + 1], self._plans[region : region + 1]
        return self._pairs(0, data, radii, plans)[0, kind]

    def _sums_and_largest(self, start: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return Σc_i and the largest c_i of every region, kind and block from `start` on."""
        shape = (len(self._radii_used), 2, -(-(n_rows - start) // BLOCK))
        sums, largest = np.empty(shape), np.empty(shape, dtype=np.float32)

        def work(rows: np.ndarray) -> None:
            read = RowData(self.function, rows)
            for first in range(0, rows.size, CHUNK):
                places = np.arange(first, min(first + CHUNK, rows.size))
                pairs = self._pairs(0, read.part(places), self._radii_used, self._plans)
                starts = np.arange(0, places.size, BLOCK)
                block = (int(rows[0]) - start + first) // BLOCK
                target = slice(block, block + starts.size)
                largest[:, :, target] = np.maximum.reduceat(pairs, starts, axis=2)
                sums[:, :, target] = np.add.reduceat(pairs.astype(np.float64), starts, axis=2)

        for _ in on_all_cores(work, chunks_of(n_rows, BLOCK_ROWS, start), BOUNDING):
            pass
        return sums, largest

    def _worthwhile(self, sums: np.ndarray) -> list[int]:
        """Return the kinds that are worth a table of their own in one region."""
        if self.order == 1 or all(len(f.arguments) <= 1 for f in self._functions):
            return [0]
        along, together = sums.sum(axis=1)
        kinds = [0] if along <= 2.0 * together else []
        return [*kinds, 1] if together < along else kinds

    def _kind_of(self, kind: int) -> int:
        if self.order == 1 or all(len(f.arguments) <= 1 for f in self._functions):
            return SHARP
        return (DIRECTIONAL, JOINT)[kind]

    def _first_unbounded(self, largest: np.ndarray) -> int:
        block = int(np.flatnonzero(~np.isfinite(largest).all(axis=0))[0])
        rows = np.arange(BLOCK * block, min(BLOCK * (block + 1), self.function.n_rows))
        pairs = self._pairs(0, RowData(self.function, rows), self._radii_used[:1], self._plans[:1])
        return int(rows[np.flatnonzero(~np.isfinite(pairs[0]).all(axis=0))[0]])
