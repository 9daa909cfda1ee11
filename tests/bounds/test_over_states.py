"""Bounds of rows that sum over states, against searches for what exceeds them."""

import numpy as np
import pytest

from bounds.certified import fit, hunt
from bounds.state_sums import STATE_SUMS
from bounds.test_log_sums import largest_thirds
from helpers.tiers import fast
from pymc_minibatch_mh.bounds.over_states import state_bounds

ROWS = 1_000


@pytest.mark.parametrize("name", STATE_SUMS)
@pytest.mark.parametrize("order", fast([0, 1, 2], [0, 2]))
def test_no_row_exceeds_its_bound(name, order):
    fitted = fit(name, ROWS)
    reference = fitted.reference(order)
    tables = fitted.bounds(reference).tables()
    largest = hunt(fitted, reference, tables, moves=10_000, climbs=60)
    assert 0.1 < largest.max() <= 1.0


@pytest.mark.parametrize("name", STATE_SUMS)
def test_third_derivatives_at_the_centre_are_bounded_and_closely(name):
    largest, data, place = largest_thirds(name, ROWS)
    bound = state_bounds(data.function.states, data, place, 1e-9, 3)
    ratios = largest / bound
    assert ratios.max() <= 1.0 + 1e-6
    assert np.median(ratios) > 0.9
