"""Rows in memory: arrays that keep their type, their layout and their place."""

from collections.abc import Sequence
from dataclasses import dataclass

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
    values : ndarray
        The array itself, of any numeric type and layout; it is never copied.
    axis
        The observation axis.
    """

    name: str
    values: np.ndarray
    axis: int

    @property
    def rows_first(self) -> np.ndarray:
        """The array with its rows on axis 0, as a view."""
        return np.moveaxis(self.values, self.axis, 0)

    @property
    def address(self) -> np.ndarray:
        """Where the rows are: start of the buffer and the stride of every axis, int64."""
        view = self.rows_first
        return np.array([view.ctypes.data, *view.strides], dtype=np.int64)

    def digest(self) -> str:
        """Digest of the shape, the type and every row of the array."""
        return digest(self.rows_first)


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
    """

    def __init__(
        self, columns: Sequence[Column], term_lengths: Sequence[int], n_others: int = 0
    ) -> None:
        self.columns = tuple(columns)
        self.term_starts = np.concatenate([[0], np.cumsum(term_lengths)]).astype(np.int64)
        self.others = np.zeros(n_others)
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

    @property
    def context(self) -> np.ndarray:
        """What a compiled batch needs to reach the rows: addresses and strides, int64."""
        return self._context
