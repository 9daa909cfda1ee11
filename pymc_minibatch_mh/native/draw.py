"""Prefetched rows of stored data: draw.c."""

from typing import Any, NamedTuple

import numpy as np

#: Columns of the supplies: next unused slot, end of the filled slots, number of supplies made.
NEXT, END, NUMBER = range(3)
#: Request for the change of all rows in a proposal, in place of a table; ALL - n requests n rows.
ALL = -1


class Supply(NamedTuple):
    """Prefetched rows of one chain: ``mh_supply``."""

    #: NEXT, END and NUMBER of each table of bounds, shape (T, 3).
    places: np.ndarray
    #: Address of a function that draws further rows (``mh_refill``).
    refill: Any
    #: Change of all rows in a proposal, after its request, shape (1,).
    change: np.ndarray
    #: Rows of one supply; 0 if all rows are in memory.
    room: int
    #: Number of all rows, and the row number of each slot.
    n_rows: int
    rows: np.ndarray


_NO_ROWS, _NO_PLACES = np.empty(0, np.int64), np.empty((0, 3), np.int64)
NO_SUPPLY = Supply(_NO_PLACES, None, np.empty(1), 0, 0, _NO_ROWS)
