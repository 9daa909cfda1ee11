"""Batches of stored rows are drawn evenly, without replacement, and each apart from the others.

The law is counted over all sequences of rows that can come next in a supply, on the shipped code:
all are equally probable, so that whole numbers have to agree. That the compiled loop hands such
batches to the tests is shown in test_supplies.py.
"""

from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest

from chain.supplied import Own
from pymc_minibatch_mh.data.storage import EvenRows, StoredRows
from pymc_minibatch_mh.kernels.draw import NEXT, NO_SUPPLY, reserve
from pymc_minibatch_mh.kernels.looks import take_new

NOTHING = np.empty(0, np.int64)


def supply_of(rows):
    """Return a supply whose next rows are these, and which has no others."""
    places = np.array([[0, len(rows), 1]])
    answers = {"open_requests": np.ones(1, np.int64), "room": len(rows)}
    return NO_SUPPLY._replace(places=places, rows=np.array(rows), **answers)


def batch_of(supply, looks, at_a_time=64):
    """Return a batch that grows look by look, as the loop takes it; None if rows run out."""
    batch, seen, n, used = NOTHING, NOTHING, 0, []
    for target in looks:
        batch, seen = reserve(batch, seen, n, target, 2 * target)
        while n < target:
            places = np.empty(min(at_a_time, target - n), np.int64)
            upto = take_new(supply, batch, seen, n, target, places)
            if upto < 0:
                return None
            used += places[: upto - n].tolist()
            n = upto
    # Where rows are read is where they lie.
    np.testing.assert_array_equal(supply.rows[used], batch[:n])
    return tuple(batch[:n].tolist())


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
