"""Rows in memory: arrays that keep their type, their layout and their place."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: How many evenly spaced rows a fingerprint reads.
FINGERPRINT_ROWS = 4096
#: Rows that a digest of all rows takes at a time.
DIGEST_ROWS = 65_536


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

    def fingerprint(self) -> str:
        """Digest of the shape, the type and evenly spaced rows of the array."""
        view = self.rows_first
        digest = hashlib.blake2b(f"{view.shape}{view.dtype}".encode(), digest_size=16)
        stride = max(1, view.shape[0] // FINGERPRINT_ROWS)
        digest.update(np.ascontiguousarray(view[::stride]).tobytes())
        return digest.hexdigest()

    def digest(self) -> str:
        """Digest of the shape, the type and every row of the array."""
        view = self.rows_first
        digest = hashlib.blake2b(f"{view.shape}{view.dtype}".encode(), digest_size=16)
        for first in range(0, view.shape[0], DIGEST_ROWS):
            digest.update(np.ascontiguousarray(view[first : first + DIGEST_ROWS]).data)
        return digest.hexdigest()


class ArrayRows:
    """The rows of all subsampled terms, held in memory.

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
        addresses = [column.address for column in self.columns]
        addresses.append(Column("other variables", self.others[None], 0).address)
        starts = np.cumsum([0, *(len(address) for address in addresses)])[:-1]
        self.slots, self.others_slot = starts[:-1], int(starts[-1])
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

    def fingerprint(self) -> tuple[str, ...]:
        """One digest per column, cheap enough to be taken before every chain."""
        return tuple(column.fingerprint() for column in self.columns)
