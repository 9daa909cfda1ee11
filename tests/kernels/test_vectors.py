"""Sums over vectors, against NumPy."""

import numpy as np
import pytest

from pymc_minibatch_mh.kernels.vectors import sum_of_logs


@pytest.mark.parametrize("size", [1.0, 60.0, 300.0])
def test_sum_of_logs_is_that_of_single_ones(size):
    values = 10.0 ** np.random.default_rng(1).uniform(-size, size, 101)
    for start, stop in ((0, 101), (3, 12), (5, 5)):
        exact = np.log(values[start:stop]).sum()
        np.testing.assert_allclose(sum_of_logs(values, start, stop), exact, rtol=1e-13, atol=1e-12)
