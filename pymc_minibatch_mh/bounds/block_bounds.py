"""The pass that bounds rows that are stored, by blocks: here, or where the rows are."""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.blocks import BLOCK, BlockTables
from pymc_minibatch_mh.bounds.bounds_pass import BOUNDING, BoundsPass
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.stored import BLOCK_ROWS, StoredRows
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expansion.parallel import Chunk, chunks_of, over_rows
from pymc_minibatch_mh.kernels.moves import DIRECTIONAL, JOINT, SHARP
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.values import RowData, with_rows, without_rows
from pymc_minibatch_mh.progress import report

#: Rows that are bounded at a time: working memory is some hundred numbers for each.
CHUNK = 4 * BLOCK
#: What the largest c_i are raised by: the same row can round differently among other rows.
ROUNDING = 1e-6


class Regions(NamedTuple):
    """Over what rows are bounded.

    Parameters
    ----------
    radii
        Of nested trust regions.
    plans
        Of each, into how many pieces the arguments' intervals of each term are cut.
    served
        Number of the region and kind of every table; none before all rows are bounded.
    """

    radii: Sequence[float]
    plans: Sequence[Sequence[Sequence[int]]]
    served: Sequence[tuple[int, int]] = ()


class BlockBounds(BoundsPass):
    """Bounds every row of a term that is stored: see :class:`BoundsPass`."""

    regions = Regions((), ())

    def __getstate__(self) -> dict[str, Any]:
        """Leave the terms behind: they are read again where they are needed."""
        return {**self.__dict__, "_functions": ()}

    def over(self, regions: Regions) -> "BlockBounds":
        """Return the same over some regions."""
        other = self.of_functions(self._functions)
        other.regions = regions
        return other

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
        trials, radii, plans = self._plan()
        tried, n_rows = self.over(Regions(radii, plans)), self.function.n_rows
        sums, largest = tried.sums_and_largest(0)
        finite = np.isfinite(largest).all(axis=2)
        usable = [k for k in range(len(finite)) if finite[k].all()]
        if not usable:
            raise self._unbounded(tried.first_unbounded(largest[0]), radii[0])
        served = [(k, kind) for k in usable for kind in self._worthwhile(sums[k])]
        bounds = self.over(Regions(radii, plans, served))
        base = sum(trial.total(0.0, trial.whole) for trial in trials)
        kept, kept_sums = bounds.of_served(largest), bounds.of_served(sums)
        looseness = float(kept_sums.sum(axis=1).min() / base) if base > 0.0 else 1.0
        heads = bounds.heads(kept_sums)
        return BlockTables(
            heads, kept * (1.0 + ROUNDING), bounds, n_rows, looseness, BLOCK, kept_sums
        )

    def extended(self, tables: BlockTables) -> BlockTables:
        """Return tables of fewer rows, extended to all; read are the rows that are new.

        Raises
        ------
        BoundsError
            If a new row has no bound over every region of a table.
        """
        full = tables.n_rows // BLOCK
        sums, largest = self.sums_and_largest(full * BLOCK)
        if not np.isfinite(self.of_served(largest)).all():
            raise BoundsError(f"{self.function.name!r}: a new row has no bound around this centre")
        raised = self.of_served(largest) * (1.0 + ROUNDING)
        all_sums = np.concatenate([tables.sums[:, :full], self.of_served(sums)], axis=1)
        return replace(
            tables,
            heads=self.heads(all_sums),
            largest=np.concatenate([tables.largest[:, :full], raised], axis=1),
            bounds=self,
            n_rows=self.function.n_rows,
            sums=all_sums,
        )

    def of_served(self, found: np.ndarray) -> np.ndarray:
        """Return of every region and kind those that tables were made of, float64."""
        return np.array([found[k, kind] for k, kind in self.regions.served], dtype=np.float64)

    def heads(self, sums: np.ndarray) -> np.ndarray:
        """Return radius, kind and Σc_i of every table."""
        return np.array(
            [
                [self.regions.radii[k], self._kind_of(kind), own.sum()]
                for (k, kind), own in zip(self.regions.served, sums, strict=True)
            ]
        )

    def _worthwhile_groups(self, trials: Sequence[Any]) -> None:
        """Tell no groups of rows: which there are, all rows would have to tell."""

    def of(self, table: int, data: RowData) -> np.ndarray:
        """Return c_i of some rows in a table, float32 rounded up."""
        region, kind = self.regions.served[table]
        return self.over_some(slice(region, region + 1), data)[0, kind]

    def over_some(self, some: slice, data: RowData) -> np.ndarray:
        """Return c_i and c̃_i of some rows over some regions, shape (regions, 2, n)."""
        return self._pairs(0, data, self.regions.radii[some], self.regions.plans[some])

    def sums_and_largest(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Return Σc_i and the largest c_i of every region, kind and block from `start` on."""
        cuts = StoredRows(self.function.columns).cuts
        chunks = chunks_of(self.function.n_rows, BLOCK_ROWS, start, cuts, BLOCK)
        found = list(self._over([(chunk, OfBlocks()) for chunk in chunks]))
        sums, largest = zip(*found, strict=True)
        return np.concatenate(sums, axis=2), np.concatenate(largest, axis=2)

    def found(self, asked: Any, rows: np.ndarray) -> Any:
        """Return what is asked of the bounds of some rows, found where these are."""
        (found,) = self._over([(rows, asked)])
        return found

    def _over(self, asked: Sequence[tuple[Chunk, Any]]) -> Iterator[Any]:
        work = BoundsWork(self, self.function)
        return over_rows(work, StoredRows(self.function.columns), asked, BOUNDING)

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

    def first_unbounded(self, largest: np.ndarray) -> int:
        """Return the first row without a bound over the smallest region, given its blocks."""
        block = int(np.flatnonzero(~np.isfinite(largest).all(axis=0))[0])
        rows = np.arange(BLOCK * block, min(BLOCK * (block + 1), self.function.n_rows))
        pairs = self.over_some(slice(1), RowData(self.function, rows))
        return int(rows[np.flatnonzero(~np.isfinite(pairs[0]).all(axis=0))[0]])


class OfBlocks(NamedTuple):
    """Ask for Σc_i and the largest c_i of every region and kind, of blocks of some rows."""

    def of(self, bounds: BlockBounds, data: RowData) -> tuple[np.ndarray, np.ndarray]:
        """Return both, shape (regions, 2, blocks)."""
        sums, largest = [], []
        for first in range(0, data.rows.size, CHUNK):
            places = np.arange(first, min(first + CHUNK, data.rows.size))
            pairs = bounds.over_some(slice(None), data.part(places))
            starts = np.arange(0, places.size, BLOCK)
            largest.append(np.maximum.reduceat(pairs, starts, axis=2))
            sums.append(np.add.reduceat(pairs.astype(np.float64), starts, axis=2))
        return np.concatenate(sums, axis=2), np.concatenate(largest, axis=2)


@dataclass(frozen=True, eq=False)
class BoundsWork:
    """Bounds rows wherever they are read; a pickle has none of them.

    Parameters
    ----------
    bounds
        How rows are bounded.
    function
        The term.
    """

    bounds: BlockBounds
    function: RowFunction

    def __reduce__(self) -> tuple:
        return BoundsWork, (self.bounds, without_rows(self.function))

    def of_rows(self, rows: np.ndarray, asked: Any) -> Any:
        """Return what is asked of rows by their numbers, which are read here."""
        return self._of(RowData(self.function, rows), asked)

    def of_read(self, read: ArrayRows, asked: Any) -> Any:
        """Return what is asked of rows that were read, in whatever process."""
        function = with_rows(self.function, read)
        return self._of(RowData(function, slice(0, read.n_rows)), asked)

    def _of(self, data: RowData, asked: Any) -> Any:
        return asked.of(self.bounds.of_functions([data.function]), data)
