"""Reading all rows inside an update."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange_block

#: Rows that a full pass inside an update reads at a time.
BLOCK = 2048


class RowSpace(NamedTuple):
    """Where the rows are: first row of each term and the context of the batch graph."""

    term_starts: np.ndarray
    context: np.ndarray


@compiled()
def read_all(evaluate, position, new, centre, space):
    """Sum the differences of all rows, in bounded memory."""
    total = space.term_starts[-1]
    rows = np.empty(BLOCK, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(BLOCK)
    scales = np.empty(BLOCK)
    change = 0.0
    for first in range(0, total, BLOCK):
        last = min(first + BLOCK, total)
        arrange_block(first, last, space.term_starts, rows, ends)
        count = last - first
        evaluate(position, new, centre, rows[:count], ends, space.context, differences, scales)
        for i in range(count):
            change += differences[i]
    return change
