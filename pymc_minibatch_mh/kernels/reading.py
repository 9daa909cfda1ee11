"""Reading all rows inside an update."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange_block

#: Rows that a full pass inside an update reads at a time.
BLOCK = 2048


class RowSpace(NamedTuple):
    """Where the rows are: first row of each term, and what compiled rows are found by.

    The context holds addresses of the other variables and of the arrays, and for rows that are
    functions of linear forms also their functions and where each form's coefficients lie.
    """

    term_starts: np.ndarray
    context: np.ndarray


@compiled()
def read_all(evaluate, position, new, centre, space, c):
    """Sum the differences of all rows, and their squares over c, in bounded memory.

    Parameters
    ----------
    evaluate
        Compiled differences (``EVALUATE``).
    position, new, centre : ndarray, shape (d,)
    space : RowSpace
    c : ndarray of float32, shape (N,)
        Bounds of the rows; empty where none are asked about.

    Returns
    -------
    tuple
        Σ d_i, and Σ d_i²/c_i over rows that can change.
    """
    total = space.term_starts[-1]
    rows = np.empty(BLOCK, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(BLOCK)
    scales = np.empty(BLOCK)
    change, squares = 0.0, 0.0
    for first in range(0, total, BLOCK):
        last = min(first + BLOCK, total)
        arrange_block(first, last, space.term_starts, rows, ends)
        count = last - first
        evaluate(position, new, centre, rows[:count], ends, space.context, differences, scales)
        for i in range(count):
            change += differences[i]
        for i in range(min(count, c.size - first)):
            if c[first + i] > 0.0:
                squares += differences[i] ** 2 / c[first + i]
    return change, squares
