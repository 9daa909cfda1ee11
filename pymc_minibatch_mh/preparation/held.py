"""Stored rows held against their bounds, read once for both, wherever they are."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.bounds.block_bounds import BlockBounds
from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.stored import StoredRows, consecutive
from pymc_minibatch_mh.expansion.row_sums import BoundedMove, RatioIn, RowSums
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.values import RowData, with_rows, without_rows


class RatioToBounds(NamedTuple):
    """Ask for the largest |dU_i| / (c_i M) of rows in a move."""

    move: BoundedMove

    def found(self, sums: RowSums, read: ArrayRows, c: np.ndarray) -> tuple[float, int]:
        """Return the ratio of rows that were read, and the place of the row that has it."""
        found: tuple[float, int] = sums.of_read(read, RatioIn(self.move, c))
        return found


@dataclass(frozen=True, eq=False)
class HeldAgainstBounds:
    """Bounds rows and computes what they change by; a pickle has none of them.

    What is asked has a `move`, and finds something of the sums, of rows that were read and of their
    c_i in the table that serves it.

    Parameters
    ----------
    sums, bounds
        What does either; no bounds where nobody asks for them.
    function
        The term.
    source
        The rows; None in another process.
    """

    sums: RowSums
    bounds: BlockBounds | None
    function: RowFunction
    source: StoredRows | None

    def __reduce__(self) -> tuple:
        return HeldAgainstBounds, (self.sums, self.bounds, without_rows(self.function), None)

    def of_rows(self, rows: np.ndarray, asked: Any) -> Any:
        """Return what is asked of rows by their numbers, which are read here."""
        assert self.source is not None
        return self.of_read(self.source.read(consecutive(rows)), asked)

    def of_read(self, read: ArrayRows, asked: Any) -> Any:
        """Return what is asked of rows that were read, in whatever process."""
        c = None
        if asked.move.table >= 0:
            assert self.bounds is not None
            function = with_rows(self.function, read)
            data = RowData(function, slice(0, read.n_rows))
            c = self.bounds.of_functions([function]).of(asked.move.table, data)
        return asked.found(self.sums, read, c)
