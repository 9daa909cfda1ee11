import numpy as np
import pytest
from numba import njit

from kernels.chain import line
from pymc_minibatch_mh.kernels.bound_tables import no_tables
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moves import move_between
from pymc_minibatch_mh.kernels.posterior import BLOCK, Posterior, RowSpace
from pymc_minibatch_mh.kernels.scan import scan_rows
from pymc_minibatch_mh.kernels.signatures import EVALUATE_SIGNATURE

TABLE = np.random.default_rng(8).normal(0.3, 1.0, 2 * BLOCK + 57)
STARTS = np.array([0, 900, TABLE.size])


@njit(EVALUATE_SIGNATURE)
def evaluate(position, new, centre, rows, ends, context, differences, scales):
    for i in range(rows.size):
        row = rows[i] + (STARTS[1] if i >= ends[0] else 0)
        differences[i] = TABLE[row] * (new[0] - position[0])


@pytest.mark.parametrize("step", [0.5, -2.0])
def test_all_rows_are_read_in_blocks(step):
    space = RowSpace(STARTS, np.zeros(0, dtype=np.int64))
    posterior = Posterior(0, address_of(evaluate), space, line(1.0), no_tables())
    move = move_between(posterior.surrogate, np.array([0.1]), np.array([0.1 + step]))
    mean, variance, largest = scan_rows(posterior, move)
    expected = step * TABLE
    assert mean == pytest.approx(expected.mean(), rel=1e-12)
    assert variance == pytest.approx(expected.var(), rel=1e-12)
    assert largest == pytest.approx(np.abs(expected).max(), rel=1e-14)
