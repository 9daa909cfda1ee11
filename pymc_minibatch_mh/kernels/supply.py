"""Rows that were drawn ahead, in the order in which updates use them.

Which rows a test draws, by their bounds or evenly, does not depend on the position, so that they
can be drawn and fetched before they are needed. Of each table of bounds some lie in memory; when
the last of them is used, Python is asked for more. Each is used once, in order.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.first_class import function_at

#: Columns of the places: next unused row, end of the rows that are there, supplies that were made.
NEXT, END, NUMBER = range(3)
#: (table, or ALL for a pass). Called from compiled code, run by Python.
REFILL_SIGNATURE = types.void(types.int64)
REFILL = types.FunctionType(REFILL_SIGNATURE)
#: What is asked for in the place of a table: the change of all rows in the move.
ALL = -1


class Supply(NamedTuple):
    """Rows that were drawn ahead for one chain.

    Parameters
    ----------
    places : ndarray of int64, shape (T, 3)
        Of each table of bounds: see above.
    refill
        Address of a function that draws more (``REFILL``).
    change : ndarray, shape (1,)
        What all rows change by in a move, after it was asked for.
    unanswered : ndarray of int64, shape (1,)
        1 from when Python is asked until it has answered. It stays so where that failed, or where
        an interrupt kept Python from beginning: nothing more is asked then.
    room
        Rows of one supply; 0 where all rows are in memory and none is drawn ahead.
    n_rows
        Number of all rows.
    rows : ndarray of int64
        Number of the row that lies in each place.
    """

    places: np.ndarray
    refill: int
    change: np.ndarray
    unanswered: np.ndarray
    room: int
    n_rows: int
    rows: np.ndarray


_NO_ROWS, _NO_PLACES = np.empty(0, np.int64), np.empty((0, 3), np.int64)
NO_SUPPLY = Supply(_NO_PLACES, 0, np.empty(1), np.zeros(1, np.int64), 0, 0, _NO_ROWS)


@compiled(inlined=True)
def has_failed(supply):
    """Return whether Python was asked and has not answered: what it was asked for is not there."""
    return supply.unanswered[0] != 0


@compiled(inlined=True)
def ask(supply, what):
    """Ask Python for more rows of a table, or for a pass; return whether it has answered."""
    if not has_failed(supply):
        supply.unanswered[0] = 1
        function_at(supply.refill, REFILL)(what)
    return not has_failed(supply)


@compiled(inlined=True)
def take(supply, table, rows):
    """Write the next unused rows of a table to `rows`; return whether they could be had."""
    places = supply.places
    for k in range(rows.size):
        if places[table, NEXT] == places[table, END] and not ask(supply, table):
            return False
        rows[k] = places[table, NEXT]
        places[table, NEXT] += 1
    return True


@compiled(inlined=True)
def change_of_all(supply):
    """Have all rows read outside of compiled code; return their change in the move, or NaN."""
    if not ask(supply, ALL):
        return np.nan
    return supply.change[0]
