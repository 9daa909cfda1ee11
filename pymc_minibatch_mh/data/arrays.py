"""Rows in memory: arrays that keep their type, their layout and their place."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_minibatch_mh.data.contents import digest


def dtype_once_read(dtype: np.dtype) -> str:
    """Return the type that numbers of a stored type have in a batch of rows."""
    return {"f": "float64", "b": "bool"}.get(dtype.kind, "int64")


@dataclass(frozen=True, eq=False)
class Column:
    """One data array and the axis along which its rows lie.

    Parameters
    ----------
    name
        Name of the array in the model, for messages.
    values : ndarray or StoredArray
        The array itself, of any numeric type and layout; it is never copied. Or what stands for
        it where it is stored, which has no address.
    axis
        The observation axis.
    """

    name: str
    values: Any
    axis: int

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return (*self.values.shape[: self.axis], *self.values.shape[self.axis + 1 :])

    @property
    def rows_first(self) -> np.ndarray:
        """The array with its rows on axis 0, as a view."""
        return np.moveaxis(self.values, self.axis, 0)

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows, on axis 0, wherever they lie."""
        if isinstance(self.values, np.ndarray):
            return self.rows_first[rows]
        return self.values.read(rows)

    @property
    def address(self) -> np.ndarray:
        """Where the rows are: start of the buffer and the stride of every axis, int64."""
        view = self.rows_first
        return np.array([view.ctypes.data, *view.strides], dtype=np.int64)

    def digest(self) -> str:
        """Digest of the shape, the type and every row of the array."""
        if isinstance(self.values, np.ndarray):
            return digest(self.rows_first)
        return str(self.values.stamp)


class ArrayRows:
    """The rows of all subsampled terms, held in memory.

    What compiled code needs to reach them, the context, begins with the address of `others`.

    Parameters
    ----------
    columns
        The data arrays, in the order of the slots that the batch graphs refer to.
    term_lengths
        Number of rows of each term. Rows are numbered through all terms.
    n_others
        Length of `others`, values that all rows share and that change between updates. Compiled
        batches read them where they lie.
    others : ndarray, optional
        These values, where other rows have them already.
    """

    #: Whether the rows have addresses as they are, or only once they are read.
    in_memory = True

    def __init__(
        self,
        columns: Sequence[Column],
        term_lengths: Sequence[int],
        n_others: int = 0,
        others: np.ndarray | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.term_starts = np.concatenate([[0], np.cumsum(term_lengths)]).astype(np.int64)
        self.others = np.zeros(n_others) if others is None else others
        self.others_address = Column("other variables", self.others[None], 0).address
        addresses = [self.others_address, *(column.address for column in self.columns)]
        starts = np.cumsum([0, *(len(address) for address in addresses)])[:-1]
        self.slots = starts[1:]
        self._context = np.concatenate(addresses)

    @property
    def n_rows(self) -> int:
        """Number of rows over all terms."""
        return int(self.term_starts[-1])

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return sum(column.values.nbytes for column in self.columns)

    def place(self, row: int) -> str:
        """Return the file that a stored row lies in, in brackets; empty for rows in memory."""
        return ""

    @property
    def stamp(self) -> str:
        """What tells stored rows from others; empty where the trace holds what was observed."""
        return ""

    @property
    def context(self) -> np.ndarray:
        """What a compiled batch needs to reach the rows: addresses and strides, int64."""
        return self._context
