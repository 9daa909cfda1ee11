"""Where rows are stored: the contract of storages of any kind."""

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
from pymc_minibatch_mh.data.digests import digest
from pymc_minibatch_mh.data.files import FileMap, FileReader, mapped_file
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.threads import in_threads


@dataclass(frozen=True)
class Field:
    """Stored type of an array, and the shape of one row: () for a number."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Its size in one row, in bytes."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=int))


class Storage(Protocol):
    """Arrays of one length that are read by rows, of a class without ``__slots__``."""

    @property
    def n_rows(self) -> int:
        """Length of the arrays."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Name -> shape and type of a row of the array."""

    @property
    def stamp(self) -> str:
        """Identity of the contents, without reading them all."""

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows of some arrays, in the order asked for; SourceError if they are lost."""

    def where(self, row: int) -> str:
        """Return where a row lies, for messages."""


class Workers(Protocol):
    """The processes in which an optional attribute ``workers`` of a storage computes."""

    @property
    def cuts(self) -> Sequence[int]:
        """First rows of blocks that lie in different places: passes are cut there."""

    def map_blocks(
        self, names: Iterable[str], work: Any, blocks: Sequence["Block"]
    ) -> Generator[Any]:
        """Yield ``call(work, arrays)`` of picklable calls on blocks of rows, in their order.

        `work` is pickled to each process once. SourceError where rows cannot be had.
        """


#: Some rows, in ascending order, and a function of shared work and of the arrays of these rows.
Block = tuple[slice | np.ndarray, Callable[[Any, Mapping[str, np.ndarray]], Any]]


def workers_of(storage: Storage) -> Workers | None:
    """Processes that compute on the rows of a storage, None if this process does."""
    return getattr(storage, "workers", None)


def map_blocks(
    storage: Storage, names: Iterable[str], work: Any, blocks: Sequence[Block]
) -> Generator[Any]:
    """Results of calls on blocks of rows, in their order: by a storage's workers, or in threads."""
    names, workers = list(names), workers_of(storage)
    if workers is not None:
        return workers.map_blocks(names, work, blocks)
    return in_threads(lambda block: block[1](work, storage.read(names, block[0])), blocks)


#: Rows that are read at a time in passes over all of them.
BLOCK_ROWS = 262_144


class ArrayStorage:
    """Arrays in memory or mapped to it, rows on the first axis; none is copied.

    A pickle refers to mapped files and holds arrays that are in memory.
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
        """Sizes and times of the mapped files, digests of arrays in memory."""
        return "; ".join(
            f"{name}: {digest(array) if file is None else file.stamp}"
            for (name, array), file in zip(self._arrays.items(), self._files.values(), strict=True)
        )

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows, views where that is possible; SourceError if a file has changed."""
        return {
            name: self._read(name, rows).astype(self.fields[name].dtype, copy=False)
            for name in names
        }

    def _read(self, name: str, rows: slice | np.ndarray) -> np.ndarray:
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
        # It may have been written to in between.
        file.require_unchanged()
        return read

    def where(self, row: int) -> str:
        """Return the row, and the files that it lies in."""
        paths = dict.fromkeys(file.path for file in self._files.values() if file is not None)
        return f"row {row:,}" + (f" of {', '.join(paths)}" if paths else "")

    def __getstate__(self) -> dict:
        arrays = {name: FileMap.of(array) for name, array in self._arrays.items()}
        return self.__dict__ | {"_arrays": arrays, "_readers": {}}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._arrays = {
            name: array.opened() if isinstance(array, FileMap) else array
            for name, array in state["_arrays"].items()
        }
        self._readers = {name: FileReader.of(x) for name, x in self._arrays.items()}


@dataclass(frozen=True, eq=False)
class StoredArray:
    """Stands for an array of a storage: its type and shape without its numbers."""

    storage: Storage
    name: str

    @property
    def dtype(self) -> np.dtype:
        """Type of its numbers."""
        return self.storage.fields[self.name].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, rows first."""
        return (self.storage.n_rows, *self.storage.fields[self.name].shape)

    @property
    def ndim(self) -> int:
        """Number of its axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of its entries."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def stamp(self) -> str:
        """Identity of its contents."""
        return f"{self.name} of {self.storage.stamp}"

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some of its rows."""
        return self.storage.read([self.name], rows)[self.name]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.storage.n_rows * self.storage.fields[self.name].itemsize


class StoredRows(ArrayRows):
    """The rows of a term whose columns are all :class:`StoredArray` of one storage."""

    in_memory = False

    def __init__(self, columns: tuple[Column, ...], n_others: int = 0) -> None:
        super().__init__((), [columns[0].values.shape[0]], n_others)
        self.columns = columns

    def place(self, row: int) -> str:
        """Return the location of a row in brackets; empty where that is its number alone."""
        where = self.stored_by.where(row)
        return "" if where == f"row {row:,}" else f" ({where})"

    @property
    def stamp(self) -> str:
        """Identity of the rows."""
        return str(self.stored_by.stamp)

    @property
    def stored_by(self) -> Storage:
        """The storage of all columns."""
        return self.columns[0].values.storage

    def read(self, rows: slice | np.ndarray) -> ArrayRows:
        """Return some rows, in memory and numbered from 0 on, with the same other values."""
        columns = read_columns(self.columns, rows)
        return ArrayRows(columns, [len(columns[0].values)], others=self.others)

    @property
    def reads_few_quickly(self) -> bool:
        """Whether a few rows can be read without many others, which a storage has to declare."""
        return getattr(self.stored_by, "reads_few_quickly", False)

    @property
    def cuts(self) -> Sequence[int]:
        """First rows of the blocks that workers hold; none where this process reads."""
        workers = workers_of(self.stored_by)
        return () if workers is None else workers.cuts

    def map_blocks(self, work: Any, blocks: Sequence[RowBlock]) -> Generator[Any]:
        """Results of calls on blocks of rows, which are read where the calls are made."""
        names = tuple((column.name, column.values.name) for column in self.columns)
        placed: list[Block] = [
            (_as_slice(rows), _CallOnRows(names, self.others, call)) for rows, call in blocks
        ]
        return map_blocks(self.stored_by, dict.fromkeys(name for _, name in names), work, placed)


@dataclass(frozen=True, eq=False)
class _CallOnRows:
    """A call on rows that were read, which are numbered from 0 on."""

    names: tuple[tuple[str, str], ...]
    others: np.ndarray
    call: Callable[[Any, ArrayRows, np.ndarray], Any]

    def __call__(self, work: Any, arrays: Mapping[str, np.ndarray]) -> Any:
        columns = [Column(name, arrays[stored], 0) for name, stored in self.names]
        rows = ArrayRows(columns, [len(columns[0].values)], others=self.others)
        return self.call(work, rows, np.arange(rows.n_rows))


def _as_slice(rows: slice | np.ndarray) -> slice | np.ndarray:
    return rows if isinstance(rows, slice) else consecutive(rows)


def consecutive(rows: np.ndarray) -> slice | np.ndarray:
    """Return row numbers as a slice, if they follow each other."""
    follow = rows.size > 0 and rows[-1] - rows[0] + 1 == rows.size
    if follow and (rows.size == 1 or (np.diff(rows) == 1).all()):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def read_columns(columns: Iterable[Column], rows: slice | np.ndarray) -> tuple[Column, ...]:
    """Return some rows of stored columns as columns in memory."""
    stored = [column.values for column in columns]
    found = stored[0].storage.read(dict.fromkeys(array.name for array in stored), rows)
    return tuple(
        Column(column.name, found[array.name], 0)
        for column, array in zip(columns, stored, strict=True)
    )


class Drawn(NamedTuple):
    """Rows in the order in which they were drawn, in proportion to c, float32, and their data."""

    rows: np.ndarray
    c: np.ndarray
    columns: tuple[Column, ...]


@dataclass(frozen=True, eq=False)
class StoredPool:
    """Stored rows that updates take from; those that are `heavy` every update evaluates."""

    source: StoredRows
    heavy: np.ndarray

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.source.n_rows

    def read(self, rows: np.ndarray) -> tuple[Column, ...]:
        """Columns of some rows, which are in ascending order."""
        return read_columns(self.source.columns, rows)

    def read_heavy(self) -> tuple[Column, ...]:
        """Columns of the rows that every update evaluates."""
        return self.read(self.heavy)


@dataclass(frozen=True, eq=False)
class NumberedRows(StoredPool):
    """Stored rows that compiled code asks for by their numbers.

    Their bounds in every table, `c`, are in memory: shape (T, N), float32.
    """

    c: np.ndarray

    @property
    def n_tables(self) -> int:
        """Tables of bounds; rows are drawn ahead by none of them."""
        return len(self.c)


class EvenRows(StoredPool):
    """Uniform draws of stored rows, for tests without bounds; none is drawn of the heavy ones."""

    #: Ways in which rows are drawn.
    n_tables = 1

    def draw(self, table: int, rng: np.random.Generator, count: int) -> Drawn:
        """Draw rows with replacement, and read them."""
        numbers = rng.integers(0, self.n_rows - self.heavy.size, count)
        # How many heavy rows lie before the row that a number stands for.
        before = self.heavy - np.arange(self.heavy.size)
        rows = numbers + np.searchsorted(before, numbers, side="right")
        order = np.argsort(rows, kind="stable")
        places = np.empty(count, dtype=np.int64)
        places[order] = np.arange(count)
        columns = tuple(
            Column(column.name, column.values[places], 0) for column in self.read(rows[order])
        )
        return Drawn(rows, np.ones(count, dtype=np.float32), columns)
