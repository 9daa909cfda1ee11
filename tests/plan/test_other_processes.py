"""Bounds reach other processes, or are derived there; how many moves read all rows."""

import gc
import os
import pickle
from dataclasses import replace
from functools import cache
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

from helpers.altered import with_prepared
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.bounds import bound_check
from pymc_minibatch_mh.bounds import tables as shipping
from pymc_minibatch_mh.bounds.bound_check import BoundedPosterior
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.data.files import MappedArrays
from pymc_minibatch_mh.native.bound_tables import RADIUS, TOTAL
from pymc_minibatch_mh.plan.dense import warn_of_uneven_bounds
from steps import stored


@pytest.fixture
def large(monkeypatch):
    """Take all bounds for large ones."""
    monkeypatch.setattr(shipping, "SMALL", 0)


@pytest.fixture
def never_derived(monkeypatch, prepared):
    prepared("logistic", "TunaMH")

    def derived(self):
        raise AssertionError("bounds are derived again")

    monkeypatch.setattr(BoundsPass, "tables", derived)


def arrived(step):
    return pickle.loads(cloudpickle.dumps(step))


def is_mapped(array):
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    return isinstance(array, np.memmap)


@pytest.mark.usefixtures("large", "never_derived")
def test_large_bounds_are_mapped(prepared):
    step = prepared("logistic", "TunaMH")
    other = arrived(step)
    np.testing.assert_array_equal(other.tables.c, step.tables.c)
    for own, theirs in zip(other.tables.alias, step.tables.alias, strict=True):
        np.testing.assert_array_equal(own, theirs)
    assert is_mapped(other.tables.c)
    # From worker to worker as well.
    assert is_mapped(arrived(other).tables.c)


@pytest.mark.usefixtures("large")
def test_what_a_process_writes_to_mapped_bounds_is_its_own(prepared):
    step = prepared("logistic", "TunaMH")
    before = step.tables.c.copy()
    arrived(step).tables.c[:] = -1.0
    np.testing.assert_array_equal(arrived(step).tables.c, before)
    np.testing.assert_array_equal(step.tables.c, before)


@pytest.mark.usefixtures("large")
def test_bounds_whose_file_is_gone_are_derived_again(prepared):
    own = prepared("logistic", "TunaMH")
    tables = replace(own.tables, c=own.tables.c.copy())
    step = with_prepared(own, replace(own.plan, tables=tables))
    stored, folder = cloudpickle.dumps(step), tables._as_mapped._folder
    assert folder.exists()
    del step, tables
    gc.collect()
    assert not folder.exists()
    np.testing.assert_array_equal(pickle.loads(stored).tables.c, own.tables.c)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_leaves_the_files_alone():
    mapped = MappedArrays({"a": np.arange(5.0)})
    child = os.fork()
    if child == 0:
        del mapped
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert mapped.read()["a"].size == 5


def test_files_go_with_the_arrays_that_they_hold():
    mapped = MappedArrays({"a": np.arange(5.0)})
    folder = Path(mapped._folder)
    found = pickle.loads(pickle.dumps(mapped)).read()
    np.testing.assert_array_equal(found["a"], np.arange(5.0))
    assert folder.stat().st_mode & 0o077 == 0
    del mapped
    gc.collect()
    assert not folder.exists()


@cache
def with_small_regions():
    """Return what was found, with regions that hold every other move."""
    found = TunaMH(model=stored.logistic()[1]).plan
    headers = found.tables.headers.copy()
    headers[:, RADIUS] = 1.6
    return replace(found, tables=replace(found.tables, headers=headers))


def test_sizes_are_those_of_moves_one_by_one(monkeypatch):
    monkeypatch.setattr(bound_check, "MAX_MOVES", 200)
    prepared = with_small_regions()
    bounded = BoundedPosterior(prepared.target, prepared.reference, prepared.tables)
    totals = prepared.tables.headers[:, TOTAL]
    moves = bounded.typical_moves(np.random.default_rng(3))
    expected = [totals[move.table] * move.m for move in moves]
    assert 20 < len(expected) < 180
    found = bounded.sizes_of_many(np.random.default_rng(3), 200)
    np.testing.assert_allclose(found[np.isfinite(found)], expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("larger", "most_at_once", "told"), [(1e3, 0, True), (1e3, 10**6, False), (1.0, 0, False)]
)
def test_who_fetches_most_rows_in_vain_is_told(caplog, larger, most_at_once, told):
    found = TunaMH(model=stored.logistic()[1]).plan
    # As if each block had a row with a far larger bound.
    tables = replace(found.tables, largest=larger * found.tables.largest, most_at_once=most_at_once)
    with caplog.at_level("WARNING", "pymc"):
        warn_of_uneven_bounds(replace(found, tables=tables))
    share = max(tables.kept_share(table) for table in range(tables.n_tables))
    said = f"one in {1.0 / share:,.0f} stored rows that they fetch"
    assert [said in record.message for record in caplog.records] == [True] * told
