"""Batches of stored rows are drawn evenly, without replacement, and each apart from the others.

The law is counted over all sequences of rows that can come next in a supply, on the shipped code:
all are equally probable, so that whole numbers have to agree. That the compiled loop hands such
batches to the tests is shown in test_supplies.py.
"""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest

from chain.prefetched import Own
from pymc_minibatch_mh.data.source import EvenRows, StoredRows
from pymc_minibatch_mh.native.bound_tables import NEXT, NO_SUPPLY
from pymc_minibatch_mh.native.library import Arena, LaidOut, ffi, load_library

NOTHING = np.empty(0, np.int64)
#: Answers no request.
NOTHING_MORE = ffi.callback("int64_t(int64_t)", lambda _: 0)


def supply_of(rows):
    """Return a supply whose next rows are these, and which has no others."""
    places = np.array([[0, len(rows), 1]])
    parts = {"refill": NOTHING_MORE, "room": len(rows), "rows": np.array(rows)}
    return NO_SUPPLY._replace(places=places, **parts)


def batch_of(supply, looks, at_a_time=64):
    """Return a batch that grows look by look, as the loop takes it; None if rows run out."""
    laid_out, arena = LaidOut("mh_supply", supply), Arena()
    batch, count, used = ffi.new("mh_drawn *"), ffi.new("int64_t *"), []
    for target in looks:
        load_library().mh_reserve(batch, count[0], target, 2 * target, arena.at)
        while count[0] < target:
            n, room = count[0], min(at_a_time, target - count[0])
            places = ffi.new("int64_t[]", room)
            if load_library().mh_take_new(laid_out.at, batch, count, target, room, places):
                return None
            used += ffi.unpack(places, count[0] - n)
    rows = tuple(ffi.unpack(batch.rows, count[0]))
    # Where rows are read is where they lie.
    assert tuple(supply.rows[used]) == rows
    return rows


def batches(length, rows, *looks):
    """Count what successive batches are over all sequences of some rows, complete ones alone."""
    found = Counter()
    for sequence in product(range(rows), repeat=length):
        supply = supply_of(sequence)
        drawn = tuple(batch_of(supply, each) for each in looks)
        if None not in drawn:
            found[drawn] += 1
    return found


@pytest.mark.parametrize("looks", [(3,), (1, 3), (2, 3), (1, 2, 3)])
def test_a_batch_is_every_ordered_choice_equally_often(looks):
    found = batches(6, 4, looks)
    assert set(found) == {(order,) for order in permutations(range(4), 3)}
    assert len(set(found.values())) == 1


def test_batches_of_two_updates_are_drawn_apart():
    found = batches(7, 3, (2,), (1, 2))
    assert set(found) == set(product(permutations(range(3), 2), repeat=2))
    assert len(set(found.values())) == 1


def test_rows_of_all_sequences_are_used_in_order():
    for sequence in product(range(3), repeat=6):
        supply = supply_of(sequence)
        one, other = batch_of(supply, (2,)), batch_of(supply, (2,))
        if other is None:
            continue
        rest = list(sequence)
        for batch in (one, other):
            expected = []
            while len(expected) < 2:
                row = rest.pop(0)
                expected += [row] if row not in expected else []
            assert batch == tuple(expected)
        assert supply.places[0, NEXT] == len(sequence) - len(rest)


@pytest.mark.parametrize("at_a_time", [1, 2, 5])
def test_how_many_rows_are_read_at_a_time_changes_no_batch(at_a_time):
    rows = np.random.default_rng(1).integers(0, 40, 200)
    whole, parts = supply_of(rows), supply_of(rows)
    for looks in ((10, 20, 35), (30,), (7, 8)):
        assert batch_of(whole, looks) == batch_of(parts, looks, at_a_time)
    np.testing.assert_array_equal(whole.places, parts.places)


ROWS = 13


def even_rows(rows, heavy):
    """Return where batches of some rows come from."""
    return EvenRows(StoredRows(Own(np.zeros((1, rows))).function.columns), heavy)


class InOrder:
    """A generator that draws every number once."""

    def integers(self, low, high, count):
        return np.arange(low, high)[:count]


HEAVY = np.array([0, 3, 4, 10])


@pytest.mark.parametrize("heavy", [NOTHING, HEAVY], ids=["none", "some"])
def test_every_other_row_is_drawn_as_often(heavy):
    source = even_rows(ROWS, heavy)
    drawn = source.draw(0, InOrder(), ROWS - heavy.size)
    np.testing.assert_array_equal(drawn.rows, np.delete(np.arange(ROWS), heavy))
    drawn = source.draw(0, np.random.default_rng(2), 500)
    assert not np.isin(drawn.rows, heavy).any()
    assert (np.diff(drawn.rows) < 0).any()
    np.testing.assert_array_equal(drawn.columns[1].values, drawn.rows)
    np.testing.assert_array_equal(source.read_heavy()[1].values, heavy)
