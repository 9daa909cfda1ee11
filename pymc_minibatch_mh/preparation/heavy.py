"""Rows that every update reads: those that bounds would have drawn at nearly every update anyway.

A few rows can hold nearly all of C = Σ c_i, as the members of a rare group do: the posterior knows
little of their coefficient, so that moves along it are long. Their change is known exactly where
they are read at every update, and all others are drawn by bounds that are then small. Which rows
are read is fixed before sampling, so that the test stays exact whichever they are. For tests that
draw all rows alike, without bounds, they are measured: see :mod:`expansion.heavy`.
"""

from collections.abc import Iterable

import numpy as np

from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.expansion.heavy import COST_IN_ORDER, WORTHWHILE
from pymc_minibatch_mh.expansion.row_sums import BoundedMove


def heavy_rows(tables: Tables, typical: Iterable[BoundedMove]) -> np.ndarray:
    """Return the rows that are better read at every update than drawn, in order.

    A row of bound c_i is drawn c_i M times on average in a move of size M, so that it is better
    read always where c_i M, for the M of a typical move, exceeds the ratio of the two costs.

    Parameters
    ----------
    tables
        The bounds.
    typical
        Moves between points of the posterior, as far as they are bounded.

    Returns
    -------
    ndarray of int64
        Empty where no move is bounded, or where few rows would be saved.
    """
    moves = list(typical)
    if not moves:
        return np.empty(0, np.int64)
    served = [move.table for move in moves]
    table = max(set(served), key=served.count)
    drawn = tables.c[table] * np.median([move.m for move in moves if move.table == table])
    heavy = np.flatnonzero(drawn > COST_IN_ORDER)
    all_drawn = float(drawn.sum(dtype=np.float64))
    light = all_drawn - float(drawn[heavy].sum(dtype=np.float64))
    # What would read more than all rows reads all of them.
    worthwhile = heavy.size + light <= WORTHWHILE * min(all_drawn, drawn.size)
    return heavy.astype(np.int64) if worthwhile else np.empty(0, np.int64)
