"""Bounds of stored rows: sums and maxima of blocks, and rejection sampling by them.

A block is drawn in proportion to its length times its largest c_i, then a row uniformly, which is
accepted with probability c_i / largest c_i. c_i is computed from the fetched row, and checked
against the largest. If bounds are too uneven for this, and rows are few, all c_i are computed, and
rows are sampled in proportion to them.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.bounds.row_pass import BOUNDING
from pymc_minibatch_mh.bounds.tables import Tables, without_cached
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.data.source import BLOCK_ROWS, SampledRows, StoredRows
from pymc_minibatch_mh.errors import BoundsError, SourceError
from pymc_minibatch_mh.native.bound_tables import NO_ROWS, TOTAL, BoundTables, no_tables
from pymc_minibatch_mh.native.whitened_copy import NO_COPY, WhitenedCopy
from pymc_minibatch_mh.progress import report_stage
from pymc_minibatch_mh.reference.full_data import Chunk, chunks_of, over_rows
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction, with_rows, without_rows

#: Number of rows per block.
BLOCK = 4096
#: Maximum number of candidate rows that are fetched at once.
MAX_FETCHED = 262_144


def _on_block(asked: Any, bounds: "BlockBounds", block: ArrayRows, numbers: np.ndarray) -> Any:
    """Call `asked(bounds, data)` in the process that stores a block, for its rows `numbers`."""
    function = with_rows(bounds.function, block)
    return asked(bounds.of_functions([function]), RowData(function, numbers))


def _c_of(table: int, bounds: "BlockBounds", data: RowData) -> np.ndarray:
    """Bounds c_i of some rows, from one table, float32."""
    return bounds.of(table, data)


class Kept(NamedTuple):
    """Sampled rows: indices, c_i, data; first row with c_i above its block's maximum (-1: none)."""

    places: np.ndarray
    c: np.ndarray
    columns: tuple[tuple[str, np.ndarray], ...]
    exceeding: int


def _first_exceeding(c: np.ndarray, largest: np.ndarray) -> int:
    """Index of the first row whose c_i exceeds its block's recorded maximum; -1 if none does."""
    within = c <= largest
    return -1 if within.all() else int(np.argmin(within))


def kept_of(
    table: int, largest: np.ndarray, chances: np.ndarray, bounds: "BlockBounds", data: RowData
) -> Kept:
    """Rejection sampling: keep candidates with a uniform number `chances` < c_i / `largest`."""
    c = bounds.of(table, data)
    kept = np.flatnonzero(chances * largest < c)
    columns = tuple((x.name, x.values[data.rows[kept]]) for x in data.function.columns)
    return Kept(kept, c[kept], columns, _first_exceeding(c, largest))


def drawn_of(
    table: int, largest: np.ndarray, chances: np.ndarray, bounds: "BlockBounds", data: RowData
) -> Kept:
    """Rows sampled in proportion to c_i, by inverting cumulative sums at random `chances`."""
    c = bounds.of(table, data)
    exceeding = _first_exceeding(c, largest)
    if exceeding >= 0:
        return Kept(np.zeros(0, dtype=np.int64), c[:0], (), exceeding)
    upto = np.cumsum(c, dtype=np.float64)
    drawn = np.searchsorted(upto, chances * upto[-1], side="right")
    # A product that rounds up to the total would select an index beyond the last row.
    drawn = np.minimum(drawn, np.searchsorted(upto, upto[-1]))
    columns = tuple((x.name, x.values[data.rows[drawn]]) for x in data.function.columns)
    return Kept(drawn, c[drawn], columns, -1)


@dataclass(frozen=True, eq=False)
class BlockTables:
    """Bounds of all rows over nested trust regions, by blocks of `length` rows.

    `headers` are as in :class:`~pymc_minibatch_mh.bounds.tables.Tables`. `largest`, slightly
    raised, and `sums` are maxima and sums of c_i per block, shape (T, blocks). `bounds` computes
    the c_i of any rows, and of all rows at once if these are at most `most_at_once`.
    """

    headers: np.ndarray
    largest: np.ndarray
    bounds: "BlockBounds"
    n_rows: int
    length: int = BLOCK
    sums: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    most_at_once: int = MAX_FETCHED

    verified = True
    metric = None
    heavy = unbounded = NO_ROWS
    #: Key that identifies these bounds, for a given model and centre.
    key = "derived"

    def __getstate__(self) -> dict[str, Any]:
        """State for pickles, without addresses of this process."""
        return without_cached(self)

    def of_functions(self, functions: Sequence[RowFunction]) -> "BlockTables":
        """The same bounds with other row functions, which are valid in this process."""
        return replace(self, bounds=self.bounds.of_functions(functions))

    def extended(self, functions: Sequence[RowFunction]) -> "BlockTables":
        """Bounds of the same data with appended rows."""
        return self.bounds.of_functions(functions).extended(self)

    @property
    def heads_of_drawn(self) -> np.ndarray:
        """Headers with Σc_i over all rows, because no row is always included."""
        return self.headers

    @cached_property
    def without_sampling_tables(self) -> BoundTables:
        """Headers without c_i, which are sufficient to select a table for a proposal."""
        return no_tables()._replace(headers=self.headers)

    @property
    def arrays(self) -> BoundTables:
        """Headers without c_i, because chains supply the sampled rows."""
        return self.without_sampling_tables

    @property
    def n_tables(self) -> int:
        """Number of sampling distributions, one per table."""
        return len(self.headers)

    @property
    def nbytes(self) -> int:
        """Size of the tables, in bytes."""
        return self.headers.nbytes + self.largest.nbytes

    def of(self, table: int, rows: slice | np.ndarray) -> np.ndarray:
        """Bounds c_i of some rows, from one table, float32."""
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        return self.bounds.found(partial(_c_of, table), rows)

    @cached_property
    def _candidate_sums(self) -> np.ndarray:
        """Cumulative sums of block length times largest c_i, shape (T, blocks)."""
        lengths = np.full(self.largest.shape[1], self.length, dtype=np.float64)
        lengths[-1] = self.n_rows - self.length * (lengths.size - 1)
        return np.cumsum(self.largest * lengths, axis=1)

    def kept_share(self, table: int) -> float:
        """Acceptance rate of candidate rows in rejection sampling."""
        return float(self.headers[table, TOTAL] / self._candidate_sums[table, -1])

    def draw(self, table: int, rng: np.random.Generator, count: int) -> SampledRows:
        """Sample rows in proportion to c_i, with replacement; SourceError if data have changed."""
        parts: list[SampledRows] = []
        missing, share = count, self.kept_share(table)
        if self.n_rows <= self.most_at_once and missing / share > self.n_rows:
            return self._draw_exactly(table, rng, count)
        while missing > 0:
            tried = int(min(1.1 * missing / share + 64.0, MAX_FETCHED))
            part = self._accept_rows(table, self._draw_candidates(table, rng, tried), rng)
            parts.append(part)
            missing -= part.rows.size
        return _join_samples(parts, count)

    def _draw_candidates(self, table: int, rng: np.random.Generator, count: int) -> np.ndarray:
        """Candidates: a block in proportion to length times largest c_i, then a uniform row."""
        upto = self._candidate_sums[table]
        blocks = np.searchsorted(upto, rng.random(count) * upto[-1], side="right")
        blocks = np.minimum(blocks, upto.size - 1)
        first = self.length * blocks.astype(np.int64)
        return first + rng.integers(0, np.minimum(self.length, self.n_rows - first))

    def _draw_exactly(self, table: int, rng: np.random.Generator, count: int) -> SampledRows:
        """Sample rows in proportion to c_i, after computing the c_i of all rows."""
        rows = np.arange(self.n_rows)
        largest = self.largest[table, rows // self.length]
        read = self.bounds.found(partial(drawn_of, table, largest, rng.random(count)), rows)
        if read.exceeding >= 0:
            raise self._changed_row_error(read.exceeding)
        columns = tuple(Column(name, values, 0) for name, values in read.columns)
        return SampledRows(read.places, read.c, columns)

    def _changed_row_error(self, row: int) -> SourceError:
        return SourceError(
            f"row {row:,} of {self.bounds.function.name!r} has changed since it was bounded. "
            "Build the model and the step again."
        )

    def _accept_rows(self, table: int, rows: np.ndarray, rng: np.random.Generator) -> SampledRows:
        """Accepted candidates; the probability of each is c_i / (largest c_i of its block)."""
        order = np.argsort(rows, kind="stable")
        largest = self.largest[table, rows // self.length]
        chances = rng.random(rows.size)
        asked = partial(kept_of, table, largest[order], chances[order])
        read = self.bounds.found(asked, rows[order])
        if read.exceeding >= 0:
            raise self._changed_row_error(rows[order[read.exceeding]])
        # Restore the order in which the rows were drawn.
        drawn = np.argsort(order[read.places])
        kept = order[read.places[drawn]]
        columns = tuple(Column(name, values[drawn], 0) for name, values in read.columns)
        return SampledRows(rows[kept], read.c[drawn], columns)


#: Bounds of all rows: tables of c_i in memory, or sums and maxima of c_i per block.
AnyTables = Tables | BlockTables


def _join_samples(parts: Sequence[SampledRows], count: int) -> SampledRows:
    columns = tuple(
        Column(same[0].name, np.concatenate([column.values for column in same])[:count], 0)
        for same in zip(*(part.columns for part in parts), strict=True)
    )
    rows = np.concatenate([part.rows for part in parts])[:count]
    return SampledRows(rows, np.concatenate([part.c for part in parts])[:count], columns)


#: Number of rows per chunk; each row needs a few hundred numbers of working memory.
CHUNK = 4 * BLOCK
#: Relative margin of the largest c_i: the rounding error of a row's c_i depends on its chunk.
ROUNDING = 1e-6


class Regions(NamedTuple):
    """Trust regions: radii, numbers of pieces per term, and (region, bound, kind) per table."""

    radii: Sequence[float]
    plans: Sequence[Sequence[Sequence[int]]]
    served: Sequence[tuple[int, int, int]] = ()


class BlockBounds(BoundsPass):
    """Bounds of all rows of a term, computed where they are stored: see :class:`BoundsPass`.

    If a whitened copy of the rows is in memory, all bounds are in memory too.
    """

    regions = Regions((), ())
    reads_unbounded = False

    def __getstate__(self) -> dict[str, Any]:
        """State for pickles, without the data of rows."""
        return {**self.__dict__, "_functions": [without_rows(f) for f in self._functions]}

    def over_regions(self, regions: Regions) -> "BlockBounds":
        """The same bounds over other trust regions."""
        other = self.of_functions(self._functions)
        other.regions = regions
        return other

    def of_functions(self, functions: Sequence[RowFunction]) -> "BlockBounds":
        """The same bounds with other row functions, which are valid in this process."""
        other = copy(self)
        other._functions = functions
        return other

    @property
    def function(self) -> RowFunction:
        """Row function of the term."""
        return self._functions[0]

    def _read_at_once(self, function: RowFunction) -> int:
        return BLOCK_ROWS

    def _worthwhile_copy(self, trials: Sequence[Any]) -> WhitenedCopy:
        """Whitened copy of rows if worthwhile; empty if reading an update's few rows is slow."""
        quick = StoredRows(self.function.columns).reads_few_quickly
        return super()._worthwhile_copy(trials) if quick else NO_COPY

    def tables(self) -> "AnyTables":  # type: ignore[override]
        """Bounds of all rows; BoundsError if a row is unbounded over the smallest region."""
        report_stage(BOUNDING)
        try:
            return self._found_tables()
        except BoundsError:
            if not self._has_kinks:
                raise
        return self._of_kinked_rows()._found_tables()

    def _found_tables(self) -> "AnyTables":
        trials, radii, plans = self._plan_regions()
        self._copy = self._worthwhile_copy(trials)
        if self._copy.lines.size:
            return self._tables_of(self._bounds_over(radii, plans))
        tried, n_rows = self.over_regions(Regions(radii, plans)), self.function.n_rows
        sums, largest = tried.sums_and_largest(0)
        finite = np.isfinite(largest).all(axis=2)
        usable = [k for k in range(len(finite)) if finite[k].all()]
        if not usable:
            raise self._unbounded_error(tried.first_unbounded(largest[0]), radii[0])
        served = [
            (k, *found)
            for k in usable
            for found in self.kind.table_kinds(self._functions, *sums[k].sum(axis=1))
        ]
        bounds = self.over_regions(Regions(radii, plans, served))
        kept, kept_sums = bounds.selected_tables(largest), bounds.selected_tables(sums)
        headers, raised = bounds.headers(kept_sums), kept * (1.0 + ROUNDING)
        return BlockTables(headers, raised, bounds, n_rows, BLOCK, kept_sums)

    def extended(self, tables: BlockTables) -> BlockTables:
        """Tables extended by appended rows; BoundsError if a new row is unbounded in a region."""
        full = tables.n_rows // BLOCK
        sums, largest = self.sums_and_largest(full * BLOCK)
        if not np.isfinite(self.selected_tables(largest)).all():
            raise BoundsError(f"{self.function.name!r}: a new row has no bound around this centre")
        raised = self.selected_tables(largest) * (1.0 + ROUNDING)
        all_sums = np.concatenate([tables.sums[:, :full], self.selected_tables(sums)], axis=1)
        return replace(
            tables,
            headers=self.headers(all_sums),
            largest=np.concatenate([tables.largest[:, :full], raised], axis=1),
            bounds=self,
            n_rows=self.function.n_rows,
            sums=all_sums,
        )

    def selected_tables(self, found: np.ndarray) -> np.ndarray:
        """Entries of `found` for the region and bound of each table, shape (T, blocks)."""
        served = self.regions.served
        return np.array([found[k, number] for k, number, _ in served], dtype=np.float64)

    def headers(self, sums: np.ndarray) -> np.ndarray:
        """Radius, kind and Σc_i of every table, shape (T, 3)."""
        return np.array(
            [
                [self.regions.radii[k], kind, own.sum()]
                for (k, _, kind), own in zip(self.regions.served, sums, strict=True)
            ]
        )

    def _worthwhile_groups(self, trials: Sequence[Any]) -> None:
        """No groups of rows, because finding groups would need all rows in memory."""

    def of(self, table: int, data: RowData) -> np.ndarray:
        """Bounds c_i of some rows, from one table, float32 rounded up."""
        region, number, _ = self.regions.served[table]
        return self.over_some(slice(region, region + 1), data)[0, number]

    def of_block(self, table: int, block: ArrayRows) -> np.ndarray:
        """Bounds c_i of all rows of a block, from one table."""
        return _on_block(partial(_c_of, table), self, block, np.arange(block.n_rows))

    def over_some(self, some: slice, data: RowData) -> np.ndarray:
        """Bounds c_i and c̃_i of some rows over some trust regions, shape (regions, 2, n)."""
        return self._bound_pairs(self.regions.radii[some], self.regions.plans[some], 0, 0, data)

    def sums_and_largest(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Σc_i and largest c_i for every region, kind and block of rows, from row `start` on."""
        cuts = StoredRows(self.function.columns).cuts
        chunks = chunks_of(self.function.n_rows, BLOCK_ROWS, start, cuts, BLOCK)
        found = list(self._on_rows([(chunk, _of_blocks) for chunk in chunks]))
        sums, largest = zip(*found, strict=True)
        return np.concatenate(sums, axis=2), np.concatenate(largest, axis=2)

    def found(self, asked: Any, rows: np.ndarray) -> Any:
        """Call `asked(bounds, data)` for some rows, where the rows are stored."""
        (found,) = self._on_rows([(rows, asked)])
        return found

    def _on_rows(self, asked: Sequence[tuple[Chunk, Any]]) -> Iterator[Any]:
        blocks = [(rows, partial(_on_block, call)) for rows, call in asked]
        return over_rows(self, StoredRows(self.function.columns), blocks, BOUNDING)

    def first_unbounded(self, largest: np.ndarray) -> int:
        """First row without a bound over the smallest region, located by infinite block maxima."""
        block = int(np.flatnonzero(~np.isfinite(largest).all(axis=0))[0])
        rows = np.arange(BLOCK * block, min(BLOCK * (block + 1), self.function.n_rows))
        pairs = self.over_some(slice(1), RowData(self.function, rows))
        return int(rows[np.flatnonzero(~np.isfinite(pairs[0]).all(axis=0))[0]])


def _of_blocks(bounds: BlockBounds, data: RowData) -> tuple[np.ndarray, np.ndarray]:
    """Σc_i and largest c_i for every region, kind and block of rows, shape (regions, 2, blocks)."""
    sums, largest = [], []
    for first in range(0, data.rows.size, CHUNK):
        places = np.arange(first, min(first + CHUNK, data.rows.size))
        pairs = bounds.over_some(slice(None), data.part(places))
        starts = np.arange(0, places.size, BLOCK)
        largest.append(np.maximum.reduceat(pairs, starts, axis=2))
        sums.append(np.add.reduceat(pairs.astype(np.float64), starts, axis=2))
    return np.concatenate(sums, axis=2), np.concatenate(largest, axis=2)
