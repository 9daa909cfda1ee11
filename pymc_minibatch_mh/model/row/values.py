"""Values of data cells and coefficients of linear forms, for some rows of a term."""

from dataclasses import replace

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.reading import read_entries
from pymc_minibatch_mh.data.stored import consecutive, read_columns
from pymc_minibatch_mh.model.row.cells import (
    Apply,
    Cell,
    Constant,
    Data,
    Gather,
    Lookup,
    RowNumber,
)
from pymc_minibatch_mh.model.row.function import LinearForm, RowFunction
from pymc_minibatch_mh.model.row.operations import numpy_of


def read(function: RowFunction, rows: np.ndarray) -> tuple[RowFunction, np.ndarray]:
    """Return a term with some rows in memory, and their numbers there.

    Where its data are in memory already, that is the term itself.
    """
    if not function.is_stored:
        return function, rows
    columns = read_columns(function.columns, consecutive(rows))
    return replace(function, n_rows=rows.size, columns=columns), np.arange(rows.size)


def with_rows(function: RowFunction, read: ArrayRows) -> RowFunction:
    """Return a term of rows that were read, in the place of those that it had."""
    return replace(function, n_rows=read.n_rows, columns=read.columns)


def without_rows(function: RowFunction) -> RowFunction:
    """Return a term without its rows: what it says of any row."""
    return replace(function, n_rows=0, columns=())


class RowData:
    """Values of data cells for consecutive rows of one likelihood term.

    Parameters
    ----------
    function
        The term.
    rows
        Row numbers, a slice or an array.
    """

    def __init__(self, function: RowFunction, rows: slice | np.ndarray) -> None:
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        #: The term with the rows in memory, and their numbers there, int64.
        self.function, self.rows = read(function, rows)
        self._known: dict[Cell, np.ndarray] = {}

    def value(self, cell: Cell) -> np.ndarray:
        """Return a data cell, shape (rows,) or ()."""
        if cell not in self._known:
            with np.errstate(all="ignore"):
                self._known[cell] = self._value(cell)
        return self._known[cell]

    def part(self, chosen: np.ndarray) -> "RowData":
        """Return some of the rows, by their places among these."""
        return RowData(self.function, self.rows.take(chosen))

    def where(self, condition: Cell) -> tuple[np.ndarray, np.ndarray]:
        """Return the places of the rows for which a data cell holds, and those of the others."""
        holds = np.broadcast_to(self.value(condition), self.rows.shape).astype(bool)
        return np.flatnonzero(holds), np.flatnonzero(~holds)

    def coefficients(self, form: LinearForm, size: int) -> np.ndarray:
        """Return the matrix of a linear form, shape (rows, d), or (1, d) for a global one."""
        count = 1 if form.is_global else self.rows.size
        matrix = np.zeros((count, size))
        for term in form.terms:
            factor = np.asarray(term.factor)
            for cell in term.monomial:
                factor = factor * self.value(cell)
            if isinstance(term.place, Gather):
                index = np.asarray(self.value(term.place.index), dtype=np.int64)
                wrapped = np.where(index < 0, index + term.place.size, index)
                places = np.broadcast_to(term.place.first + term.place.step * wrapped, count)
                matrix[np.arange(count), places] += factor
            else:
                matrix[:, term.place] += factor
        return matrix

    def _value(self, cell: Cell) -> np.ndarray:
        if isinstance(cell, Constant):
            return np.asarray(cell.value)
        if isinstance(cell, Data):
            column = self.function.columns[cell.column]
            return read_entries(column, self.rows, cell.entry).astype(cell.dtype, copy=False)
        if isinstance(cell, RowNumber):
            return self.rows
        if isinstance(cell, Lookup):
            return cell.table[np.asarray(self.value(cell.index), dtype=np.int64)]
        if isinstance(cell, Apply):
            return np.asarray(numpy_of(cell.op)(*(self.value(x) for x in cell.inputs)))
        raise TypeError(f"{type(cell).__name__} is not data")
