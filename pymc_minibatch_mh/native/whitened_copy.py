"""An 8-bit copy of whitened rows, by which candidates are dropped unread: whitened_copy.c."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import function

#: Bytes of a scale and a residual, float32, and of a cache line.
HEAD, CACHE_LINE = 8, 64


class WhitenedCopy(NamedTuple):
    """Whitened directions of N rows in 8 bits, of no rows where there is no copy: ``mh_copy``."""

    #: A scale and a residual for each direction of a row, then the directions, in bytes: (N, B).
    lines: np.ndarray
    #: Orthonormal directions that every row may read, shape (s, d).
    shared: np.ndarray
    #: Directions of a row beside these.
    own: int = 1

    @property
    def width(self) -> int:
        """Bytes of a line."""
        return self.lines.shape[1]

    def aligned(self) -> "WhitenedCopy":
        """Return the same with lines that begin where cache lines do."""
        lines = empty_lines(*self.lines.shape)
        lines[:] = self.lines
        return self._replace(lines=lines)


NO_COPY = WhitenedCopy(np.empty((0, 0), np.int8), np.empty((0, 0)))


def width_of(size: int, own: int) -> int:
    """Return the bytes of a line of `own` directions of `size` numbers: whole cache lines."""
    return -(-own * (size + HEAD) // CACHE_LINE) * CACHE_LINE


def empty_lines(n_rows: int, width: int) -> np.ndarray:
    """Return room for lines, which begin where cache lines do."""
    room = np.empty(n_rows * width + CACHE_LINE, np.int8)
    first = -room.ctypes.data % CACHE_LINE
    return room[first : first + n_rows * width].reshape(n_rows, width)


def orthogonalize(directions: np.ndarray, others: np.ndarray, k: int) -> float:
    """Make a direction a unit vector orthogonal to the `others` and to those before it.

    Returns 0 where it is zero, 1, or infinity where it is not told from the others: it is then set
    to zero, and may point anywhere.
    """
    return function("mh_orthogonalize")(directions, others, len(others), k, directions.shape[1])


def pack_rows(whitened: np.ndarray, shared: np.ndarray, lines: np.ndarray) -> None:
    """Write lines of some rows.

    `whitened` are the whitened gradients of their forms, shape (rows, own, d), and are overwritten;
    `lines` has shape (rows, B).
    """
    sizes = whitened.shape
    function("mh_pack_rows")(whitened, *sizes, shared, len(shared), lines, lines.shape[1])
