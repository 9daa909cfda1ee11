"""Files as they were when they were opened, so that others in their place are noticed."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, cast
from weakref import finalize
from zipfile import is_zipfile

import numpy as np

from pymc_minibatch_mh.errors import SettingError, SourceError

#: The way out where a file is not the one that it was.
AGAIN = "Build Rows(...), the model and the step again on the file as it shall be."


@dataclass(frozen=True)
class SourceFile:
    """A file, or an object of a store, as it was when it was opened.

    Its size is in bytes; `changed` is when it was last written to, in ns, or another stamp of its
    store.
    """

    path: str
    size: int
    changed: int | str

    @classmethod
    def at(cls, path: str | Path) -> "SourceFile":
        """Look at a file; a :class:`SourceError` tells that there is none."""
        try:
            found = Path(path).stat()
        except OSError as error:
            raise SourceError(
                f"the file {path} cannot be read: {error.strerror}. Give a path that can."
            ) from None
        return cls(str(path), found.st_size, found.st_mtime_ns)

    @classmethod
    def if_any(cls, path: str | Path) -> "SourceFile | None":
        """Look at a file, None where there is none."""
        try:
            return cls.at(path)
        except SourceError:
            return None

    @property
    def stamp(self) -> str:
        """Identity of the file."""
        return f"{Path(self.path).name}, {self.size} bytes, changed at {self.changed} ns"

    def require_unchanged(self) -> None:
        """Look at the file again: reading beyond the end of a mapped one would end the process."""
        self.require_same(SourceFile.if_any(self.path))

    def require_same(self, found: "SourceFile | None") -> None:
        """Compare with the file in the place now: a :class:`SourceError` says how it differs."""
        if found is None:
            raise SourceError(f"the file {self.path} is no more. {AGAIN}")
        if found.size != self.size:
            raise SourceError(
                f"the file {self.path} has {found.size:,} bytes and had {self.size:,} when it was "
                f"opened. {AGAIN}"
            )
        if found.changed != self.changed:
            raise SourceError(f"the file {self.path} was written to after it was opened. {AGAIN}")


def open_npy(name: str, path: str | Path) -> np.ndarray:
    """Map a file of NumPy's own format.

    Raises
    ------
    SettingError
        If it holds something else than one array of numbers.
    SourceError
        If it is missing, or shorter than it says.
    """
    file = SourceFile.at(path)
    if is_zipfile(path):
        raise SettingError(
            f"{name!r}, {file.path}, is an archive of several arrays, which cannot be mapped. "
            "Store each by np.save."
        )
    try:
        return np.lib.format.open_memmap(path, mode="r")
    except (EOFError, OSError, ValueError) as error:
        if "Python objects" in str(error):
            raise SettingError(
                f"{name!r}, {file.path}, holds Python objects. Store numbers."
            ) from error
        raise SourceError(
            f"{name!r}, {file.path} with {file.size:,} bytes, cannot be mapped: {error}. Write it "
            "again by np.save."
        ) from error


def mapped_file(array: np.ndarray) -> SourceFile | None:
    """Return the file that an array lies in, None where it lies in memory."""
    whole = _map_of(array)
    return None if whole is None else SourceFile.at(str(whole.filename))


def _map_of(array: np.ndarray) -> np.memmap | None:
    """Return the map that an array is, or is a view of: the innermost one knows its offset."""
    found, base = None, cast(object, array)
    while isinstance(base, np.ndarray):
        # Numbers written to a map of mode "c" lie in memory alone.
        if isinstance(base, np.memmap) and base.filename is not None and base.mode != "c":
            found = base
        base = base.base
    return found


@dataclass(frozen=True)
class FileMap:
    """Where a mapped array lies: the offset of its first number and its strides are in bytes."""

    path: str
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> Self | np.ndarray:
        """Return where an array lies, or the array itself if that is in memory."""
        whole = _map_of(array)
        if whole is None:
            return array
        ahead = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        offset = whole.offset + ahead
        path = str(Path(str(whole.filename)).absolute())
        return cls(path, offset, array.dtype, array.shape, array.strides)

    def opened(self) -> np.ndarray:
        """Map the array again: a :class:`SourceError` tells of a file that is gone or too short."""
        # Strides may be negative: the numbers lie on both sides of the first one.
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0) + self.dtype.itemsize
        file = SourceFile.at(self.path)
        if file.size < high:
            raise SourceError(
                f"the file {self.path} has {file.size:,} bytes, and {high:,} are needed of it. "
                "Build Rows(...), the model and the step again on the file as it shall be."
            )
        raw: Any = np.memmap(self.path, mode="r", offset=low, shape=(high - low,))
        return np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)


def require_rows(rows: np.ndarray, n_rows: int) -> None:
    """Raise IndexError where some row numbers are none of so many rows."""
    if rows.size and not (rows.min() >= 0 and rows.max() < n_rows):
        raise IndexError(f"rows {rows.min()} to {rows.max()} are asked for among {n_rows}")


#: Bytes between two rows that are read with them, and bytes that are read at once, at most.
NEAR, SPAN = 4_096, 2**22
#: Single rows that are read in the time that a run of rows takes besides its bytes.
SINGLE_READS = 6


class FileReader:
    """Rows that follow each other in a file, each in one piece right behind the one before.

    The file is open as long as this object is there, in each process by itself.
    """

    def __init__(self, where: FileMap) -> None:
        self._where = where
        self._row_bytes = where.strides[0]
        self._file = os.open(where.path, os.O_RDONLY)
        finalize(self, os.close, self._file)

    @classmethod
    def of(cls, array: np.ndarray) -> Self | None:
        """Return the reader of an array; None where it is in memory, or its rows lie in pieces."""
        where = FileMap.of(array)
        # Without this call, a file that is mapped cannot be cut either.
        if isinstance(where, np.ndarray) or not hasattr(os, "preadv"):
            return None
        in_line = array.flags.c_contiguous and where.strides[0] > 0
        return cls(where) if in_line and array.size else None

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows.

        Raises EOFError where the file ends before them, and IndexError where there is no such row.
        """
        length, *inner = self._where.shape
        if isinstance(rows, slice):
            first, stop, step = rows.indices(length)
            if step == 1:
                out = np.empty((max(stop - first, 0), *inner), dtype=self._where.dtype)
                self._fill(out.reshape(-1).view(np.uint8), first)
                return out
            rows = np.arange(first, stop, step)
        require_rows(rows, length)
        places = None
        if not (rows[1:] >= rows[:-1]).all():
            rows, places = np.unique(rows, return_inverse=True)
        at = self._row_bytes * rows
        ends = np.flatnonzero((np.diff(at) > NEAR) | (np.diff(at // SPAN) > 0)) + 1
        if SINGLE_READS * (ends.size + 1) < rows.size:
            found = self._in_runs(rows, [0, *ends.tolist(), rows.size])
        else:
            found = self._one_by_one(rows)
        return found if places is None else found[places]

    def _one_by_one(self, rows: np.ndarray) -> np.ndarray:
        size, file, start = self._row_bytes, self._file, self._where.offset
        found = b"".join([os.pread(file, size, at) for at in (start + size * rows).tolist()])
        if len(found) < size * rows.size:
            raise EOFError(f"{self._where.path} ends before row {rows.max()}")
        inner = self._where.shape[1:]
        return np.frombuffer(found, dtype=self._where.dtype).reshape(rows.size, *inner)

    def _in_runs(self, rows: np.ndarray, ends: list[int]) -> np.ndarray:
        """Read rows in order, those between two ends with all that lies between them."""
        out = np.empty((rows.size, self._row_bytes), dtype=np.uint8)
        for first, last in pairwise(ends):
            run = rows[first:last]
            read = np.empty((run[-1] - run[0] + 1, self._row_bytes), dtype=np.uint8)
            self._fill(read.reshape(-1), int(run[0]))
            np.take(read, run - run[0], axis=0, out=out[first:last])
        return out.view(self._where.dtype).reshape(rows.size, *self._where.shape[1:])

    def _fill(self, out: np.ndarray, row: int) -> None:
        """Read from the beginning of a row on until `out`, bytes, is full."""
        at, left = self._where.offset + row * self._row_bytes, memoryview(out)
        while left:
            count = os.preadv(self._file, [left], at)
            if not count:
                raise EOFError(f"{self._where.path} ends before {at + len(left)} bytes")
            at, left = at + count, left[count:]


def _remove(folder: Path, creator: int) -> None:
    # A forked process has a copy of the object, whose end is not that of the files.
    if os.getpid() == creator:
        shutil.rmtree(folder, ignore_errors=True)


class MappedArrays:
    """Arrays in a folder of files, which are there as long as this object is.

    A pickle of it holds the folder's name alone. Where it is read, nothing is copied: pages of a
    file that is mapped are in memory once, whatever the number of processes. Where they cannot be
    written an OSError is raised.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pymc_minibatch_mh_"))
        finalize(self, _remove, self._folder, os.getpid())
        for name, array in arrays.items():
            np.save(self._folder / f"{name}.npy", array, allow_pickle=False)

    def __getstate__(self) -> Path:
        return self._folder

    def __setstate__(self, folder: Path) -> None:
        # The process that has written the files removes them.
        self._folder = folder

    def read(self) -> dict[str, np.ndarray]:
        """Return the arrays; numbers written to them stay in this process.

        Raises FileNotFoundError where the object that has written them is no more.
        """
        found = {
            path.stem: np.load(path, mmap_mode="c", allow_pickle=False)
            for path in sorted(self._folder.glob("*.npy"))
        }
        if not found:
            raise FileNotFoundError(f"no arrays are left in {self._folder}")
        return {name: array.view(np.ndarray) for name, array in found.items()}
