"""Bounds follow the weights of rows. Nothing is compiled: the centre is anywhere."""

import numpy as np
import pytest

from likelihood.evaluation import split_of
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.kernels.posterior import Reference
from pymc_minibatch_mh.likelihood.function import row_functions
from weights.test_weights import ROWS, counts, weighted


def bounds_of(order, weights):
    parts = split_of(weighted(), weights=weights)
    one, zero = np.eye(parts.size), np.zeros(parts.size)
    reference = Reference(zero, 0.1 * one, 10.0 * one, zero, one, order, 1.0)
    return BoundsPass(row_functions(parts), reference, (parts.lower, parts.upper)).tables().c


@pytest.mark.parametrize("order", [0, 1, 2])
def test_bounds_of_weighted_rows_are_bounds_times_weights(order):
    plain, heavy = (bounds_of(order, w) for w in (np.ones(ROWS), counts()))
    np.testing.assert_allclose(heavy[0], counts() * plain[0], rtol=1e-6)
