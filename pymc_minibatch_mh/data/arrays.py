"""Rows in memory: arrays that keep their type and layout, without copies."""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_minibatch_mh.data.digests import array_digest
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.threads import map_in_threads


def native_type(what: str, dtype: np.dtype) -> np.dtype:
    """Stored type in native byte order; SettingError if compiled code does not support it."""
    if dtype.kind not in "fiub":
        raise SettingError(
            f"{what} has type {dtype}. Give real numbers: floats, integers or bools."
        )
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        raise SettingError(
            f"{what} has type {dtype}, but compiled code reads only floats of 32 or 64 bits. "
            "Store it as float32 or float64."
        )
    return dtype.newbyteorder("=")


def require_names(what: str, names: Collection[str]) -> None:
    """Raise a SettingError with the name of the source if it has no arrays."""
    if not names:
        raise SettingError(f"{what} has no arrays. Name some, such as X and y.")


def common_length(lengths: Mapping[str, int]) -> int:
    """Common length of all arrays; SettingError for empty arrays or different lengths."""
    first, length = next(iter(lengths.items()))
    for what, n_rows in lengths.items():
        if not n_rows:
            raise SettingError(f"{what} has no rows. Give an array with at least one.")
    for what, n_rows in lengths.items():
        if n_rows != length:
            raise SettingError(
                f"{what} has {n_rows:,} rows, and {first} has {length:,}. Give arrays of equal "
                "length."
            )
    return length


def dtype_in_batch(dtype: np.dtype) -> str:
    """Name of the type to which stored numbers are converted in a batch."""
    return {"f": "float64", "b": "bool"}.get(dtype.kind, "int64")


@dataclass(frozen=True, eq=False)
class Column:
    """Data array of the model, or a `StoredArray`, with the axis of its rows."""

    name: str
    values: Any
    axis: int

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a single row."""
        return (*self.values.shape[: self.axis], *self.values.shape[self.axis + 1 :])

    @property
    def rows_first(self) -> np.ndarray:
        """View of the array with rows on axis 0."""
        return np.moveaxis(self.values, self.axis, 0)

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Selected rows, on axis 0."""
        if isinstance(self.values, np.ndarray):
            return self.rows_first[rows]
        return self.values.read(rows)

    @property
    def address(self) -> np.ndarray:
        """Address of the first row in memory, and the strides of all axes, int64."""
        view = self.rows_first
        return np.array([view.ctypes.data, *view.strides], dtype=np.int64)

    def digest(self) -> str:
        """Digest of the shape, the type and all bytes of the array."""
        if isinstance(self.values, np.ndarray):
            return array_digest(self.rows_first)
        return str(self.values.stamp)


class ArrayRows:
    """Rows of all subsampled terms, in memory, with a common numbering over the terms.

    Compiled code finds them by the int64 array `context`: the address of `others`, values that all
    rows share and that change between updates, then the address of each column from its slot.
    """

    #: Whether the rows have fixed addresses in memory.
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
        self.context = np.concatenate(addresses)

    @property
    def n_rows(self) -> int:
        """Number of rows over all terms."""
        return int(self.term_starts[-1])

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return sum(column.values.nbytes for column in self.columns)

    @property
    def cuts(self) -> Sequence[int]:
        """Rows at which the storage location changes; none for rows in memory."""
        return ()

    def map_blocks(self, work: Any, blocks: Sequence["RowBlock"]) -> Generator[Any]:
        """Apply each block's function to its rows in threads; yield the results in order."""

        def compute_block(block: RowBlock) -> Any:
            rows, call = block
            if isinstance(rows, slice):
                rows = np.arange(rows.start, rows.stop, dtype=np.int64)
            return call(work, self, rows)

        return map_in_threads(compute_block, blocks)

    def place(self, row: int) -> str:
        """File of a row, in brackets, for messages; empty for rows in memory."""
        return ""

    @property
    def stamp(self) -> str:
        """Text that identifies stored rows; empty for rows in memory, which the trace contains."""
        return ""


#: Row numbers of a block, and a function of (shared work, rows in memory, row numbers in memory).
RowBlock = tuple[slice | np.ndarray, Callable[[Any, ArrayRows, np.ndarray], Any]]

#: Supported types of stored numbers; compiled code identifies them by their positions (forms.c).
STORED_TYPES = tuple(
    map(np.dtype, ("f8", "f4", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"))
)


def read_entries(column: Column, rows: np.ndarray, entry: tuple[int, ...]) -> np.ndarray:
    """One entry of each of some rows of a data array, as float64, shape (n,)."""
    start, stride, *inner = map(int, column.address)
    start += sum(k * step for k, step in zip(entry, inner, strict=True))
    out, numbers = np.empty(rows.size), np.ascontiguousarray(rows, dtype=np.int64)
    kind = STORED_TYPES.index(column.values.dtype)
    function("mh_read_numbers")(start, stride, 0, kind, numbers, rows.size, 1, out, 1)
    return out
