"""Data files with recorded sizes and times, so that replaced files are detected."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self, cast
from weakref import finalize
from zipfile import is_zipfile

import numpy as np

from pymc_minibatch_mh.errors import SettingError, SourceError

#: Remedy in messages about changed files.
BUILD_AGAIN = "Build Rows(...), the model and the step again once the file is final."


@dataclass(frozen=True)
class SourceFile:
    """Identity of a file or stored object: path, size in bytes, and time in ns or another stamp."""

    path: str
    size: int
    changed: int | str

    @classmethod
    def at(cls, path: str | Path) -> "SourceFile":
        """Current state of a file; SourceError if it does not exist."""
        try:
            found = Path(path).stat()
        except OSError as error:
            raise SourceError(
                f"the file {path} cannot be read: {error.strerror}. Give a path that can."
            ) from None
        return cls(str(path), found.st_size, found.st_mtime_ns)

    @classmethod
    def if_any(cls, path: str | Path) -> "SourceFile | None":
        """Current state of a file; None if it does not exist."""
        with suppress(SourceError):
            return cls.at(path)
        return None

    @property
    def stamp(self) -> str:
        """Text that identifies the file by its name, size and time."""
        return f"{Path(self.path).name}, {self.size} bytes, changed at {self.changed} ns"

    def require_unchanged(self) -> None:
        """Raise a SourceError if the file has changed: reading beyond its end kills the process."""
        self.require_same(SourceFile.if_any(self.path))

    def require_same(self, found: "SourceFile | None") -> None:
        """Raise a SourceError if the current file `found` differs."""
        if found is None:
            raise SourceError(f"the file {self.path} no longer exists. {BUILD_AGAIN}")
        if found.size != self.size:
            raise SourceError(
                f"the file {self.path} has {found.size:,} bytes, but had {self.size:,} when it "
                f"was opened. {BUILD_AGAIN}"
            )
        if found.changed != self.changed:
            raise SourceError(
                f"the file {self.path} was written to after it was opened. {BUILD_AGAIN}"
            )


def open_npy(name: str, path: str | Path) -> np.ndarray:
    """Map a complete file in NumPy's format with a single numeric array."""
    file = SourceFile.at(path)
    if is_zipfile(path):
        raise SettingError(
            f"{name!r}, {file.path}, is an archive of several arrays, which cannot be mapped. "
            "Store each with np.save."
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
            "again with np.save."
        ) from error


def mapped_file(array: np.ndarray) -> SourceFile | None:
    """File that contains a mapped array, or None for arrays in memory."""
    whole = _innermost_map(array)
    return None if whole is None else SourceFile.at(str(whole.filename))


def _innermost_map(array: np.ndarray) -> np.memmap | None:
    """Innermost map behind an array or a view, because only this map knows its offset."""
    found, base = None, cast(object, array)
    while isinstance(base, np.ndarray):
        # Changes to a map of mode "c" stay in memory: treat it as an array in memory.
        if isinstance(base, np.memmap) and base.filename is not None and base.mode != "c":
            found = base
        base = base.base
    return found


@dataclass(frozen=True)
class FileMap:
    """Location of a mapped array in its file; offset and strides are in bytes."""

    path: str
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: np.ndarray) -> Self | np.ndarray:
        """Location of a mapped array, or the array itself if it is in memory."""
        whole = _innermost_map(array)
        if whole is None:
            return array
        ahead = array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
        offset = whole.offset + ahead
        path = str(Path(str(whole.filename)).absolute())
        return cls(path, offset, array.dtype, array.shape, array.strides)

    def open_map(self) -> np.ndarray:
        """Map the array again; SourceError if the file is gone or too short."""
        # Strides may be negative: then numbers lie on both sides of the first one.
        steps = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(step for step in steps if step < 0)
        high = self.offset + sum(step for step in steps if step > 0) + self.dtype.itemsize
        file = SourceFile.at(self.path)
        if file.size < high:
            raise SourceError(
                f"the file {self.path} has {file.size:,} bytes, but at least {high:,} are needed. "
                f"{BUILD_AGAIN}"
            )
        raw: Any = np.memmap(self.path, mode="r", offset=low, shape=(high - low,))
        return np.ndarray(self.shape, self.dtype, raw, self.offset - low, self.strides)


def require_rows(rows: np.ndarray, n_rows: int) -> None:
    """Raise an IndexError for row numbers outside of 0 to `n_rows` - 1."""
    if rows.size and not (rows.min() >= 0 and rows.max() < n_rows):
        raise IndexError(f"rows {rows.min()} to {rows.max()} are not all among the {n_rows} rows")


#: Maximum gap in bytes between rows that are read together, and maximum bytes of one read.
MAX_GAP_BYTES, MAX_READ_BYTES = 4_096, 2**22
#: Number of single reads that cost as much as the overhead of one joint read.
SINGLE_READS = 6


class FileReader:
    """Reader of consecutive rows in a file; the file stays open during the life of the reader."""

    def __init__(self, where: FileMap) -> None:
        self._where = where
        self._row_bytes = where.strides[0]
        self._file = os.open(where.path, os.O_RDONLY)
        finalize(self, os.close, self._file)

    @classmethod
    def of(cls, array: np.ndarray) -> Self | None:
        """Reader of an array; None for arrays in memory, or if rows are not contiguous."""
        where = FileMap.of(array)
        # Windows lacks preadv, but maps are safe there: mapped files cannot be truncated.
        if isinstance(where, np.ndarray) or not hasattr(os, "preadv"):
            return None
        in_line = array.flags.c_contiguous and where.strides[0] > 0
        return cls(where) if in_line and array.size else None

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Selected rows; EOFError if the file is too short, IndexError for rows out of range."""
        length, *inner = self._where.shape
        if isinstance(rows, slice):
            first, stop, step = rows.indices(length)
            if step == 1:
                out = np.empty((max(stop - first, 0), *inner), dtype=self._where.dtype)
                self._fill_buffer(out.reshape(-1).view(np.uint8), first)
                return out
            rows = np.arange(first, stop, step)
        require_rows(rows, length)
        places = None
        if not (rows[1:] >= rows[:-1]).all():
            rows, places = np.unique(rows, return_inverse=True)
        at = self._row_bytes * rows
        ends = (
            np.flatnonzero((np.diff(at) > MAX_GAP_BYTES) | (np.diff(at // MAX_READ_BYTES) > 0)) + 1
        )
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
        """Read sorted rows in joint reads that include the gaps between them."""
        out = np.empty((rows.size, self._row_bytes), dtype=np.uint8)
        for first, last in pairwise(ends):
            run = rows[first:last]
            read = np.empty((run[-1] - run[0] + 1, self._row_bytes), dtype=np.uint8)
            self._fill_buffer(read.reshape(-1), int(run[0]))
            np.take(read, run - run[0], axis=0, out=out[first:last])
        return out.view(self._where.dtype).reshape(rows.size, *self._where.shape[1:])

    def _fill_buffer(self, out: np.ndarray, row: int) -> None:
        """Fill the buffer `out` with bytes from the start of a row."""
        at, left = self._where.offset + row * self._row_bytes, memoryview(out)
        while left:
            count = os.preadv(self._file, [left], at)
            if not count:
                raise EOFError(f"{self._where.path} ends before {at + len(left)} bytes")
            at, left = at + count, left[count:]


def _remove_folder(folder: Path, creator: int) -> None:
    # A forked process has a copy of the object, but must not remove the files.
    if os.getpid() == creator:
        shutil.rmtree(folder, ignore_errors=True)


class MappedArrays:
    """Arrays in a folder of files that exist as long as this object; OSError on a full disk.

    A pickle contains the folder's name: all processes share the memory pages of a mapped file.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pymc_minibatch_mh_"))
        finalize(self, _remove_folder, self._folder, os.getpid())
        for name, array in arrays.items():
            np.save(self._folder / f"{name}.npy", array, allow_pickle=False)

    def __getstate__(self) -> Path:
        return self._folder

    def __setstate__(self, folder: Path) -> None:
        # Only the process that wrote the files removes them.
        self._folder = folder

    def read(self) -> dict[str, np.ndarray]:
        """Mapped arrays, copied on write; FileNotFoundError without the files."""
        found = {
            path.stem: np.load(path, mmap_mode="c", allow_pickle=False)
            for path in sorted(self._folder.glob("*.npy"))
        }
        if not found:
            raise FileNotFoundError(f"no arrays are left in {self._folder}")
        return {name: array.view(np.ndarray) for name, array in found.items()}
