"""Rows that were drawn and fetched, and rows that are drawn evenly."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.data.arrays import Column
from pymc_minibatch_mh.data.stored import StoredRows, read_columns


class Drawn(NamedTuple):
    """Rows that were drawn, by their bounds or evenly.

    Parameters
    ----------
    rows : ndarray of int64, shape (n,)
        Their numbers, in the order in which they were drawn.
    c : ndarray of float32, shape (n,)
        What they were drawn in proportion to.
    columns
        Their data.
    """

    rows: np.ndarray
    c: np.ndarray
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class EvenRows:
    """Stored rows that are drawn evenly, for tests that know no bounds.

    Parameters
    ----------
    source
        The rows.
    heavy : ndarray of int64
        Rows that every update reads and none is drawn of, in order.
    """

    source: StoredRows
    heavy: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.source.n_rows

    @property
    def n_tables(self) -> int:
        """Ways in which rows are drawn: one."""
        return 1

    def read_heavy(self) -> tuple[Column, ...]:
        """Return the rows that every update reads."""
        return read_columns(self.source.columns, self.heavy)

    def draw(self, table: int, rng: np.random.Generator, count: int) -> Drawn:
        """Draw rows with replacement, each as probable as any other, and fetch them.

        Raises
        ------
        SourceError
            If they are not there any more.
        """
        numbers = rng.integers(0, self.n_rows - self.heavy.size, count)
        # How many heavy rows lie before the row that a number stands for.
        before = self.heavy - np.arange(self.heavy.size)
        rows = numbers + np.searchsorted(before, numbers, side="right")
        order = np.argsort(rows, kind="stable")
        places = np.empty(count, dtype=np.int64)
        places[order] = np.arange(count)
        columns = tuple(
            Column(column.name, column.values[places], 0)
            for column in read_columns(self.source.columns, rows[order])
        )
        return Drawn(rows, np.ones(count, dtype=np.float32), columns)
