"""Rows that stay where they lie: arrays of one length, of which some rows are read at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from pymc_minibatch_mh.data.arrays import ArrayRows, Column
from pymc_minibatch_mh.data.contents import digest
from pymc_minibatch_mh.errors import SourceError

#: Rows that are read at a time in passes over all of them.
BLOCK_ROWS = 262_144
_AGAIN = "Build Rows(...), the model and the step again on the file as it shall be."


@dataclass(frozen=True)
class Field:
    """What one number, or one line of numbers, of each row is.

    Parameters
    ----------
    dtype
        Type that it is stored in.
    shape
        Its shape in one row: () for a number.
    """

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        """Its size in one row, in bytes."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=int))


class Storage(Protocol):
    """Arrays of one length that are read by rows, in memory or not."""

    @property
    def n_rows(self) -> int:
        """Length of the arrays."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Name -> what a row of the array is."""

    @property
    def stamp(self) -> str:
        """What tells the contents from others without reading them all."""

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows of some arrays, in the order asked for.

        Raises
        ------
        SourceError
            If they are not there any more; names the source.
        """

    def where(self, row: int) -> str:
        """Return where a row lies, for messages."""


class ArrayStorage:
    """Arrays in memory or mapped to it.

    Parameters
    ----------
    arrays
        Name -> array, rows on the first axis. None is copied.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = dict(arrays)
        self.n_rows = len(next(iter(arrays.values())))
        self.fields = {name: Field(x.dtype, x.shape[1:]) for name, x in arrays.items()}
        self._files = {name: _File.of(x) for name, x in arrays.items()}

    @property
    def stamp(self) -> str:
        """Sizes and times of the mapped files, digests of what is in memory."""
        return "; ".join(
            f"{name}: {digest(array) if file is None else file.stamp()}"
            for (name, array), file in zip(self._arrays.items(), self._files.values(), strict=True)
        )

    def read(self, names: Iterable[str], rows: slice | np.ndarray) -> dict[str, np.ndarray]:
        """Return some rows: views of consecutive ones, copies of others."""
        found = {}
        for name in names:
            file = self._files[name]
            if file is not None:
                file.require_unchanged()
            found[name] = np.asarray(self._arrays[name][rows])
        return found

    def where(self, row: int) -> str:
        """Return the row, and the files that it lies in."""
        paths = dict.fromkeys(str(file.path) for file in self._files.values() if file is not None)
        return f"row {row:,}" + (f" of {', '.join(paths)}" if paths else "")


@dataclass(frozen=True)
class _File:
    """A mapped file as it was: reading beyond its end would end the process."""

    path: Path
    size: int
    changed: int

    @classmethod
    def of(cls, array: np.ndarray) -> "_File | None":
        base: object = array
        while isinstance(base, np.ndarray):
            if isinstance(base, np.memmap) and base.filename is not None:
                path = Path(base.filename)
                return cls(path, path.stat().st_size, path.stat().st_mtime_ns)
            base = base.base
        return None

    def stamp(self) -> str:
        return f"{self.path.name}, {self.size} bytes, changed at {self.changed} ns"

    def require_unchanged(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            raise SourceError(f"the file {self.path} is no more. {_AGAIN}") from None
        if found.st_size != self.size:
            raise SourceError(
                f"the file {self.path} has {found.st_size:,} bytes and had {self.size:,} when it "
                f"was opened. {_AGAIN}"
            )
        if found.st_mtime_ns != self.changed:
            raise SourceError(f"the file {self.path} was written to after it was opened. {_AGAIN}")


@dataclass(frozen=True, eq=False)
class StoredArray:
    """One array of a storage, in the place of the array itself: what it is, and not what it holds.

    Parameters
    ----------
    storage
        Where it lies.
    name
        Its name there.
    """

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
        """What tells its contents from others."""
        return f"{self.name} of {self.storage.stamp}"

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some of its rows."""
        return self.storage.read([self.name], rows)[self.name]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.storage.n_rows * self.storage.fields[self.name].itemsize


class StoredRows(ArrayRows):
    """The rows of a term whose data are stored: they have no address before they are read.

    Parameters
    ----------
    columns
        The data arrays, all of them :class:`StoredArray` of one storage.
    n_others
        As in :class:`ArrayRows`.
    """

    in_memory = False

    def __init__(self, columns: tuple[Column, ...], n_others: int = 0) -> None:
        super().__init__((), [columns[0].values.shape[0]], n_others)
        self.columns = columns

    def read(self, rows: slice | np.ndarray) -> ArrayRows:
        """Return some rows, in memory and numbered from 0 on, with the same other values."""
        columns = read_columns(self.columns, rows)
        return ArrayRows(columns, [len(columns[0].values)], others=self.others)


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
