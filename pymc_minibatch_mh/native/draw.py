"""Rows drawn with replacement, and rows that were drawn ahead where they are stored: draw.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import function


def build_alias(weights: np.ndarray, thresholds: np.ndarray, aliases: np.ndarray) -> None:
    """Fill an alias table: keep place i with probability thresholds[i], else go to aliases[i].

    All have shape (N,); `weights`, float32, are non-negative with a positive sum.
    """
    function("mh_build_alias")(weights.size, weights, thresholds, aliases)


#: Columns of the places: next unused row, end of the rows that are there, supplies that were made.
NEXT, END, NUMBER = range(3)
#: The request for the change of all rows in the move, in the place of a table; ALL - n asks for n
#: rows.
ALL = -1


class Supply(NamedTuple):
    """Rows that were drawn ahead for one chain: ``mh_supply``."""

    #: NEXT, END and NUMBER of each table of bounds, shape (T, 3).
    places: np.ndarray
    #: Address of a function that draws more (``mh_refill``).
    refill: Any
    #: Change of all rows in a move, after it was asked for, shape (1,).
    change: np.ndarray
    #: Rows of one supply; 0 where all rows are in memory and none is drawn ahead.
    room: int
    #: Number of all rows, and the number of the row that lies in each place.
    n_rows: int
    rows: np.ndarray


_NO_ROWS, _NO_PLACES = np.empty(0, np.int64), np.empty((0, 3), np.int64)
NO_SUPPLY = Supply(_NO_PLACES, None, np.empty(1), 0, 0, _NO_ROWS)
