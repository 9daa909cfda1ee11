"""Forecasts of how many moves read all stored rows."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pymc_minibatch_mh import SettingError, TunaMH
from pymc_minibatch_mh.kernels.bound_tables import RADIUS, TOTAL
from pymc_minibatch_mh.preparation.stored import full_passes_by_bounds, require_few
from pymc_minibatch_mh.preparation.violations import moves_of_chains, sizes_of_many
from step import stored


@cache
def with_small_regions():
    """Return what was found, with regions that hold every other move."""
    found = TunaMH(model=stored.logistic()[1]).prepared
    heads = found.tables.heads.copy()
    heads[:, RADIUS] = 1.6
    return replace(found, tables=replace(found.tables, heads=heads))


def test_sizes_are_those_of_moves_one_by_one():
    prepared = with_small_regions()
    parts = prepared.target, prepared.surrogate, prepared.tables
    moves = moves_of_chains(*parts, np.random.default_rng(3))
    totals, expected = prepared.tables.heads[:, TOTAL], []
    for move, _ in zip(moves, range(200), strict=False):
        expected.append(np.inf if move is None else totals[move.table] * move.m)
    assert 20 < np.isinf(expected).sum() < 180
    found = sizes_of_many(*parts, np.random.default_rng(3), 200)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_moves_without_a_bound_and_large_ones_are_counted():
    prepared = with_small_regions()
    # Both ends lie within the region with probability (1 - exp(-1.6**2 / 2))**2 = 0.52.
    for most_drawn, expected in ((np.inf, "4,737"), (0.0, "10,000")):
        passes = full_passes_by_bounds(prepared, most_drawn, np.random.default_rng(1))
        message = f"{expected} of 10,000 moves would read all 20,003 stored rows"
        with pytest.raises(SettingError, match=message):
            require_few(passes, prepared)
