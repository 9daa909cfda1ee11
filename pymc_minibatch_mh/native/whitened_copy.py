"""An 8-bit copy of whitened rows, which rejects candidates before evaluation: whitened_copy.c."""

from typing import NamedTuple

import numpy as np

#: Bytes of a direction's scale and residual, float32; and bytes of a cache line.
HEAD, CACHE_LINE = 8, 64


class WhitenedCopy(NamedTuple):
    """Whitened directions of N rows in 8 bits, empty without a copy: ``mh_copy``."""

    #: Scale and residual of each direction of a row, then the directions, in bytes: (N, B).
    lines: np.ndarray
    shared: np.ndarray
    own: int = 1
    #: 1: the direction of each row leads to its kink, and its distance and slopes follow.
    kinked: int = 0

    @property
    def width(self) -> int:
        """Bytes of a row of the copy."""
        return self.lines.shape[1]

    def aligned_lines(self) -> "WhitenedCopy":
        """Copy of the record, with rows aligned to cache lines."""
        lines = empty_lines(*self.lines.shape)
        lines[:] = self.lines
        return self._replace(lines=lines)


NO_COPY = WhitenedCopy(np.empty((0, 0), np.int8), np.empty((0, 0)))


def width_of(size: int, own: int, more: int = 0) -> int:
    """Bytes of a row with `own` directions of `size` numbers, rounded up to cache lines."""
    return -(-(own * (size + HEAD) + more) // CACHE_LINE) * CACHE_LINE


def empty_lines(n_rows: int, width: int) -> np.ndarray:
    """Uninitialised packed rows, aligned to cache lines, shape (n_rows, width)."""
    room = np.empty(n_rows * width + CACHE_LINE, np.int8)
    first = -room.ctypes.data % CACHE_LINE
    return room[first : first + n_rows * width].reshape(n_rows, width)
