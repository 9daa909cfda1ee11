"""Protocol of storages, and rows that stay in them until they are read."""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from pymc_minibatch_mh.data.arrays import (
    ArrayRows,
    Column,
    RowBlock,
    common_length,
    native_type,
    require_names,
)
from pymc_minibatch_mh.data.digests import array_digest
from pymc_minibatch_mh.data.files import FileMap, FileReader, mapped_file
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.threads import map_in_threads


@dataclass(frozen=True)
class Field:
    """Stored type of an array, and the shape of one row: () for a number."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Number of bytes per row."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=int))


class Storage(Protocol):
    """Arrays of equal length with random access to rows, in a class without ``__slots__``."""

    @property
    def n_rows(self) -> int:
        """Length of the arrays."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Type and row shape of each array, by name."""

    @property
    def stamp(self) -> str:
        """Text that identifies the contents, without reading all of them."""

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Selected rows of some arrays, in the requested order; SourceError if they are lost."""

    def where(self, row: int) -> str:
        """Location of a row, for messages."""


class Workers(Protocol):
    """Processes that compute on rows: the optional attribute ``workers`` of a storage."""

    @property
    def cuts(self) -> Sequence[int]:
        """Rows at which the storage location changes: full-data evaluations are cut there."""

    def map_blocks(
        self, names: Iterable[str], work: Any, blocks: Sequence["Block"]
    ) -> Generator[Any]:
        """Yield ``call(work, arrays)`` for picklable calls on blocks of rows, in order.

        `work` is pickled once per process. SourceError for unavailable rows.
        """


#: Ascending row numbers of a block, and a function of (shared work, arrays of these rows).
Block = tuple[slice | np.ndarray, Callable[[Any, Mapping[str, np.ndarray]], Any]]


def workers_of(storage: Storage) -> Workers | None:
    """Processes that compute on the rows of a storage; None if this process does."""
    return getattr(storage, "workers", None)


def map_blocks(
    storage: Storage, names: Iterable[str], work: Any, blocks: Sequence[Block]
) -> Generator[Any]:
    """Yield the result of each block's function on its rows, in order, from workers or threads."""
    names, workers = list(names), workers_of(storage)
    if workers is not None:
        return workers.map_blocks(names, work, blocks)
    return map_in_threads(lambda block: block[1](work, storage.read(names, block[0])), blocks)


#: Block size in rows for full-data evaluations.
BLOCK_ROWS = 262_144


class ArrayStorage:
    """Arrays in memory or mapped files, with rows on the first axis and without copies.

    A pickle refers to mapped files but contains arrays in memory.
    """

    reads_few_quickly = True

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        require_names("Rows()", arrays)
        for name, array in arrays.items():
            if not array.ndim:
                raise SettingError(
                    f"{name!r} is a single number. Give an array with rows on the first axis."
                )
        self._arrays = dict(arrays)
        self.fields = {
            name: Field(native_type(repr(name), x.dtype), x.shape[1:]) for name, x in arrays.items()
        }
        self.n_rows = common_length({repr(name): len(x) for name, x in arrays.items()})
        self._files = {name: mapped_file(x) for name, x in arrays.items()}
        self._readers = {name: FileReader.of(x) for name, x in arrays.items()}

    @property
    def stamp(self) -> str:
        """Sizes and times of the mapped files, and digests of arrays in memory."""
        return "; ".join(
            f"{name}: {array_digest(array) if file is None else file.stamp}"
            for (name, array), file in zip(self._arrays.items(), self._files.values(), strict=True)
        )

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Selected rows, views if possible; SourceError if a file has changed."""
        return {
            name: self._read_column(name, rows).astype(self.fields[name].dtype, copy=False)
            for name in names
        }

    def _read_column(self, name: str, rows: slice | np.ndarray) -> np.ndarray:
        file, reader = self._files[name], self._readers[name]
        if file is not None:
            file.require_unchanged()
        if file is None or reader is None:
            return np.asarray(self._arrays[name][rows])
        try:
            read = reader.read(rows)
        except OSError as error:
            raise SourceError(
                f"the file {file.path} cannot be read: {error.strerror}. Use a copy of it."
            ) from error
        except EOFError as error:
            file.require_unchanged()
            raise SourceError(f"{error}. Use a copy of the file.") from error
        # The file may have changed during the read.
        file.require_unchanged()
        return read

    def where(self, row: int) -> str:
        """Row number and its files."""
        paths = dict.fromkeys(file.path for file in self._files.values() if file is not None)
        return f"row {row:,}" + (f" of {', '.join(paths)}" if paths else "")

    def __getstate__(self) -> dict:
        arrays = {name: FileMap.of(array) for name, array in self._arrays.items()}
        return self.__dict__ | {"_arrays": arrays, "_readers": {}}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._arrays = {
            name: array.open_map() if isinstance(array, FileMap) else array
            for name, array in state["_arrays"].items()
        }
        self._readers = {name: FileReader.of(x) for name, x in self._arrays.items()}


@dataclass(frozen=True, eq=False)
class StoredArray:
    """Placeholder of an array in a storage: its type and shape without its numbers."""

    storage: Storage
    name: str

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers."""
        return self.storage.fields[self.name].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, with rows on the first axis."""
        return (self.storage.n_rows, *self.storage.fields[self.name].shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def stamp(self) -> str:
        """Text that identifies the contents."""
        return f"{self.name} of {self.storage.stamp}"

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Selected rows."""
        return self.storage.read([self.name], rows)[self.name]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.storage.n_rows * self.storage.fields[self.name].itemsize


class StoredRows(ArrayRows):
    """Rows of a term whose columns are all :class:`StoredArray` of one storage."""

    in_memory = False

    def __init__(self, columns: tuple[Column, ...], n_others: int = 0) -> None:
        super().__init__((), [columns[0].values.shape[0]], n_others)
        self.columns = columns

    def place(self, row: int) -> str:
        """Location of a row in brackets; empty if it is merely the row number."""
        where = self.stored_by.where(row)
        return "" if where == f"row {row:,}" else f" ({where})"

    @property
    def stamp(self) -> str:
        """Text that identifies the rows."""
        return str(self.stored_by.stamp)

    @property
    def stored_by(self) -> Storage:
        """Storage of all columns."""
        return self.columns[0].values.storage

    def read(self, rows: slice | np.ndarray) -> ArrayRows:
        """Selected rows in memory, numbered from 0, with the same shared values."""
        columns = read_columns(self.columns, rows)
        return ArrayRows(columns, [len(columns[0].values)], others=self.others)

    @property
    def reads_few_quickly(self) -> bool:
        """Whether the storage declares that reading a few rows does not decode many others."""
        return getattr(self.stored_by, "reads_few_quickly", False)

    @property
    def cuts(self) -> Sequence[int]:
        """Rows at which the storage location changes; none if this process reads the rows."""
        workers = workers_of(self.stored_by)
        return () if workers is None else workers.cuts

    def map_blocks(self, work: Any, blocks: Sequence[RowBlock]) -> Generator[Any]:
        """Yield the result of each block's function, in order; each process reads its own rows."""
        names = tuple((column.name, column.values.name) for column in self.columns)
        placed: list[Block] = [
            (consecutive_slice(rows), _CallOnRows(names, self.others, call))
            for rows, call in blocks
        ]
        return map_blocks(self.stored_by, dict.fromkeys(name for _, name in names), work, placed)


@dataclass(frozen=True, eq=False)
class _CallOnRows:
    """Function call deferred until its rows are read; it sees them numbered from 0."""

    names: tuple[tuple[str, str], ...]
    others: np.ndarray
    call: Callable[[Any, ArrayRows, np.ndarray], Any]

    def __call__(self, work: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        columns = [Column(name, arrays[stored], 0) for name, stored in self.names]
        rows = ArrayRows(columns, [len(columns[0].values)], others=self.others)
        return self.call(work, rows, np.arange(rows.n_rows))


def consecutive_slice(rows: slice | np.ndarray) -> slice | np.ndarray:
    """Row numbers as a slice if they are consecutive, otherwise unchanged."""
    if isinstance(rows, slice):
        return rows
    follow = rows.size > 0 and rows[-1] - rows[0] + 1 == rows.size
    if follow and (rows.size == 1 or (np.diff(rows) == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def read_columns(columns: Iterable[Column], rows: slice | np.ndarray) -> tuple[Column, ...]:
    """Selected rows of stored columns as columns in memory."""
    stored = [column.values for column in columns]
    found = stored[0].storage.read(dict.fromkeys(array.name for array in stored), rows)
    return tuple(
        Column(column.name, found[array.name], 0)
        for column, array in zip(columns, stored, strict=True)
    )


class SampledRows(NamedTuple):
    """Sampled rows in order, `c` proportional to their probabilities (float32), and their data."""

    rows: np.ndarray
    c: np.ndarray
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class StoredPool:
    """Stored rows for sampling; every update evaluates the influential rows `heavy`."""

    source: StoredRows
    heavy: np.ndarray

    @property
    def n_rows(self) -> int:
        """Total number of rows."""
        return self.source.n_rows

    def read(self, rows: np.ndarray) -> tuple[Column, ...]:
        """Columns of selected rows, in ascending order."""
        return read_columns(self.source.columns, rows)

    def read_heavy(self) -> tuple[Column, ...]:
        """Columns of the influential rows."""
        return self.read(self.heavy)


@dataclass(frozen=True, eq=False)
class NumberedRows(StoredPool):
    """Stored rows that compiled code requests by number.

    Their bounds `c` in every table are in memory: shape (T, N), float32.
    """

    c: np.ndarray

    @property
    def n_tables(self) -> int:
        """Number T of bounds tables."""
        return len(self.c)


class EvenRows(StoredPool):
    """Uniform sampling of stored rows, for tests without bounds; excludes influential rows."""

    #: Number of sampling distributions.
    n_tables = 1

    def draw(self, table: int, rng: np.random.Generator, count: int) -> SampledRows:
        """Sample rows with replacement, and read them."""
        numbers = rng.integers(0, self.n_rows - self.heavy.size, count)
        # `numbers` skip influential rows: add the number of `heavy` rows before each.
        before = self.heavy - np.arange(self.heavy.size)
        rows = numbers + np.searchsorted(before, numbers, side="right")
        order = np.argsort(rows, kind="stable")
        places = np.empty(count, dtype=np.int64)
        places[order] = np.arange(count)
        columns = tuple(
            Column(column.name, column.values[places], 0) for column in self.read(rows[order])
        )
        return SampledRows(rows, np.ones(count, dtype=np.float32), columns)
