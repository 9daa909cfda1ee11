"""What all rows say of a move at once: for tests that are told it before they look at a batch."""

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange_block
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.moments import add_moments
from pymc_minibatch_mh.kernels.posterior import BLOCK
from pymc_minibatch_mh.kernels.signatures import EVALUATE


@compiled()
def scan_rows(posterior, move):
    """Read the differences of all rows, in bounded memory.

    Parameters
    ----------
    posterior : Posterior
    move : Move

    Returns
    -------
    tuple of float
        Mean of the d_i, their variance with divisor N, and the largest |d_i|.
    """
    space, centre = posterior.space, posterior.surrogate.centre
    evaluate = function_at(posterior.evaluate, EVALUATE)
    total = space.term_starts[-1]
    rows = np.empty(BLOCK, np.int64)
    ends = np.empty(space.term_starts.size - 1, np.int64)
    differences = np.empty(BLOCK)
    scales = np.empty(BLOCK)
    n, mean, second, third, largest = 0, 0.0, 0.0, 0.0, 0.0
    for first in range(0, total, BLOCK):
        last = min(first + BLOCK, total)
        arrange_block(first, last, space.term_starts, rows, ends)
        some, count = rows[: last - first], last - first
        evaluate(move.position, move.new, centre, some, ends, space.context, differences, scales)
        n, mean, second, third = add_moments(n, mean, second, third, differences, count)
        for i in range(count):
            largest = max(largest, abs(differences[i]))
    return mean, second / total, largest
