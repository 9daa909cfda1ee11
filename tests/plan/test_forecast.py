"""Forecasts of how many moves read all stored rows."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.bound_tables import RADIUS, TOTAL
from pymc_minibatch_mh.plan.plan import full_passes_by_bounds, require_few, tell_of_uneven
from pymc_minibatch_mh.plan.violations import moves_of_chains, sizes_of_many
from steps import stored


@cache
def with_small_regions():
    """Return what was found, with regions that hold every other move."""
    found = TunaMH(model=stored.logistic()[1]).plan
    headers = found.tables.headers.copy()
    headers[:, RADIUS] = 1.6
    return replace(found, tables=replace(found.tables, headers=headers))


def test_sizes_are_those_of_moves_one_by_one():
    prepared = with_small_regions()
    parts = prepared.target, prepared.reference, prepared.tables
    moves = moves_of_chains(*parts, np.random.default_rng(3))
    totals, expected = prepared.tables.headers[:, TOTAL], []
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


@pytest.mark.parametrize(
    ("larger", "most_at_once", "told"), [(1e3, 0, True), (1e3, 10**6, False), (1.0, 0, False)]
)
def test_who_fetches_most_rows_in_vain_is_told(caplog, larger, most_at_once, told):
    found = TunaMH(model=stored.logistic()[1]).plan
    # As if each block had a row with a far larger bound.
    tables = replace(found.tables, largest=larger * found.tables.largest, most_at_once=most_at_once)
    with caplog.at_level("WARNING", "pymc"):
        tell_of_uneven(replace(found, tables=tables))
    share = max(tables.kept_share(table) for table in range(tables.n_tables))
    said = f"one of {1.0 / share:,.0f} stored rows that chains fetch is used"
    assert [said in record.message for record in caplog.records] == [True] * told
