"""Rows of a mapped array, read from its file: a map of a file that is cut ends the process."""

import os
from itertools import pairwise
from typing import Self
from weakref import finalize

import numpy as np

from pymc_minibatch_mh.data.file_maps import FileMap

#: Bytes between two rows that are read with them, and bytes that are read at once, at most.
NEAR, SPAN = 4_096, 2**22
#: Single rows that are read in the time that a run of rows takes besides its bytes.
SINGLE_READS = 6


class FileReader:
    """Rows that follow each other in a file.

    The file is open as long as this object is there, in each process by itself.

    Parameters
    ----------
    where
        Where the array lies, each row in one piece right behind the one before.
    """

    def __init__(self, where: FileMap) -> None:
        self._where = where
        self._row_bytes = where.strides[0]
        self._file = os.open(where.path, os.O_RDONLY)
        finalize(self, os.close, self._file)

    @classmethod
    def of(cls, array: np.ndarray) -> Self | None:
        """Return what reads an array; None where it is in memory, or its rows lie in pieces."""
        where = FileMap.of(array)
        # Without this call, a file that is mapped cannot be cut either.
        if isinstance(where, np.ndarray) or not hasattr(os, "preadv"):
            return None
        in_line = array.flags.c_contiguous and where.strides[0] > 0
        return cls(where) if in_line and array.size else None

    def read(self, rows: slice | np.ndarray) -> np.ndarray:
        """Return some rows.

        Raises
        ------
        EOFError
            If the file ends before.
        IndexError
            If there is no such row.
        """
        length, *inner = self._where.shape
        if isinstance(rows, slice):
            first, stop, step = rows.indices(length)
            if step == 1:
                out = np.empty((max(stop - first, 0), *inner), dtype=self._where.dtype)
                self._fill(out.reshape(-1).view(np.uint8), first)
                return out
            rows = np.arange(first, stop, step)
        if rows.size and not (rows.min() >= 0 and rows.max() < length):
            raise IndexError(f"rows {rows.min()} to {rows.max()} are asked for among {length}")
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
