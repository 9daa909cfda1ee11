import numpy as np
import pytest

from exactness.compiled import posterior_of
from exactness.toys import rows_of
from pymc_minibatch_mh.kernels.looks import scan_rows
from pymc_minibatch_mh.kernels.moves import move_between
from pymc_minibatch_mh.kernels.posterior import BLOCK

CHANGES = np.random.default_rng(8).normal(0.3, 1.0, 2 * BLOCK + 57)


def test_all_rows_are_read_in_blocks():
    posterior = posterior_of(rows_of(CHANGES, second=900), 1.0)
    move = move_between(posterior.reference, np.array([0.1]), np.array([0.6]))
    mean, variance, largest = scan_rows(posterior, move)
    assert mean == pytest.approx(CHANGES.mean(), rel=1e-12)
    assert variance == pytest.approx(CHANGES.var(), rel=1e-12)
    assert largest == pytest.approx(np.abs(CHANGES).max(), rel=1e-14)
