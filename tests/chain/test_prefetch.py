"""Rows that were drawn ahead are used once, in the order in which they were drawn."""

import copy
import gc
import sys
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from chain.prefetched import (  # fmt: skip
    ask_for_all,
    pool_of,
    sequence,
    tables_of,
    take_on,
    take_some,
    taken,
)
from helpers.interrupts import answers, interrupted_after, interrupted_at_each
from pymc_minibatch_mh.chain import prefetch
from pymc_minibatch_mh.chain.prefetch import SUPPLY_ROWS, empty_supplies
from pymc_minibatch_mh.errors import MinibatchError
from pymc_minibatch_mh.native.bound_tables import END, NEXT, NUMBER

C = np.array(
    [[0.3, 0.0, 0.25, 0.2, 0.3, 0.15, 0.5], [0.6, 0.4, 0.3, 0.9, 0.3, 0.7, 0.5]], np.float32
)
#: Batches of many sizes, over almost four supplies; the largest that there are among them.
SIZES = np.r_[np.random.default_rng(1).integers(1, 900, 30), SUPPLY_ROWS, 7, 1]


@pytest.mark.parametrize("table", [0, 1])
def test_rows_are_handed_out_as_they_were_drawn(table):
    tables = tables_of(C)
    rows, numbers, c = taken(pool_of(tables), table, SIZES)
    assert rows.size > 3 * SUPPLY_ROWS
    np.testing.assert_array_equal(rows, sequence(tables, table, 6)[: rows.size])
    np.testing.assert_array_equal(numbers, rows)
    np.testing.assert_array_equal(c, C[table, rows])


def test_a_batch_that_ends_in_the_next_supply_keeps_what_it_began_with():
    tables = tables_of(C)
    own = pool_of(tables)
    rows, numbers, c = taken(own, 1, [SUPPLY_ROWS - 100, SUPPLY_ROWS, SUPPLY_ROWS, 50])
    np.testing.assert_array_equal(numbers, sequence(tables, 1, 4)[: rows.size])
    np.testing.assert_array_equal(c, C[1, numbers])


def test_tables_in_turn_do_not_disturb_each_other():
    tables = tables_of(C)
    own = pool_of(tables)
    found = {0: [], 1: []}
    for k, size in enumerate(SIZES):
        rows, numbers, c = taken(own, k % 2, [size])
        np.testing.assert_array_equal(numbers, rows)
        np.testing.assert_array_equal(c, C[k % 2, rows])
        found[k % 2].append(rows)
    for table, parts in found.items():
        rows = np.concatenate(parts)
        np.testing.assert_array_equal(rows, sequence(tables, table, 6)[: rows.size])


def test_supplies_around_another_centre_are_others():
    before = np.array([[3, 9, 4], [0, 0, 0], [5, 5, 7]])
    prepared = SimpleNamespace(drawn_from=tables_of(C))
    after = empty_supplies(prepared, before)
    np.testing.assert_array_equal(after, [[0, 0, 7], [0, 0, 7]])
    np.testing.assert_array_equal(empty_supplies(prepared), np.zeros((2, 3)))
    prepared.drawn_from = None
    assert not empty_supplies(prepared, before).size


def test_rows_of_different_tables_are_drawn_apart():
    tables = tables_of(np.stack([C[0], C[0]]))
    one, other = (next(taken(pool_of(tables), table, [400])) for table in (0, 1))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    "used",
    [1, 1_000, SUPPLY_ROWS - 1, SUPPLY_ROWS, SUPPLY_ROWS + 1, 2 * SUPPLY_ROWS, 3 * SUPPLY_ROWS - 7],
)
def test_a_chain_that_is_taken_up_goes_on_with_the_same_rows(used):
    tables = tables_of(C)
    own = pool_of(tables)
    for table in (0, 1):
        for size in (used // 2, used - used // 2):
            assert take_some(own.supply, table, np.empty(size, np.int64))
    places = own.supply.places.copy()
    assert (places[:, NUMBER] == -(-used // SUPPLY_ROWS)).all()
    assert ((places[:, END] - places[:, NEXT]) == -used % SUPPLY_ROWS).all()
    other = pool_of(tables, copy.deepcopy(own._state))
    np.testing.assert_array_equal(other.supply.places, places)
    for table in (0, 1):
        for one, again in zip(taken(own, table, SIZES), taken(other, table, SIZES), strict=True):
            np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(own.supply.places, other.supply.places)


def test_a_pool_ends_with_its_chain():
    gc.disable()
    try:
        own = pool_of(tables_of(C))
        assert next(taken(own, 0, [5])).size == 5
        gone, thread = weakref.ref(own), next(iter(own._fetcher._threads))
        assert thread.is_alive()
        del own
        assert gone() is None
        thread.join(10.0)
        assert not thread.is_alive()
    finally:
        gc.enable()


class Slow:
    """Tables whose rows come late, at times that differ."""

    def __init__(self, tables):
        self._tables, self._rng = tables, np.random.default_rng(2)

    def __getattr__(self, name):
        return getattr(self._tables, name)

    def draw(self, *arguments):
        time.sleep(0.02 * self._rng.random())
        return self._tables.draw(*arguments)


class Failing(Slow):
    """Tables of which one supply cannot be fetched for a while."""

    error = OSError("the disk is gone")

    def __init__(self, tables, fails):
        super().__init__(tables)
        self.fails, self.asked = fails, 0

    def draw(self, *arguments):
        self.asked += 1
        if self.asked == self.fails:
            raise self.error
        return super().draw(*arguments)


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_what_the_storage_raises_is_raised_once_and_rows_go_on_from_there(fails):
    tables = Failing(tables_of(C), fails)
    own, found = pool_of(tables), []
    slots = np.empty(512, np.int64)
    while take_some(own.supply, 0, slots):
        found.append(own.rows[slots])
    assert own.error() is Failing.error
    assert isinstance(own.error(), MinibatchError)
    assert len(found) == 8 * (fails - 1)
    found += [next(taken(own, 0, [512])) for _ in range(4)]
    rows = np.concatenate(found)
    np.testing.assert_array_equal(rows, sequence(tables, 0, 4)[: rows.size])


def test_a_full_pass_gives_its_change_or_what_it_raises():
    tables = tables_of(C)
    fails = OSError("no pass")
    answers = [0.25, fails, -1.5]

    def change(here, there):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer * (there - here)

    own = pool_of(tables, change=change)
    own.set_current_move(1.0, 3.0)
    assert ask_for_all(own.supply) == 0.5
    assert ask_for_all(own.supply) is None
    assert own.error() is fails
    assert ask_for_all(own.supply) == -3.0


@pytest.mark.parametrize("slow", [False, True])
def test_an_interrupt_stops_the_chain_and_is_raised(monkeypatch, slow):
    """Mostly it comes while compiled code runs, and is raised where Python is asked for rows."""
    tables = tables_of(C)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    own = pool_of(Slow(tables) if slow else tables)
    take_on(own.supply, 1)
    with interrupted_after(0.2):
        largest, count = take_on(own.supply, 10**11)
    assert largest < 2 * SUPPLY_ROWS
    assert isinstance(own.error(), KeyboardInterrupt)
    rows = next(taken(own, 0, [SUPPLY_ROWS]))
    upto = count + 1 + SUPPLY_ROWS
    expected = sequence(tables, 0, -(-upto // SUPPLY_ROWS))[count + 1 : upto]
    np.testing.assert_array_equal(rows, expected)


def use_one_supply(own):
    own.used = take_on(own.supply, prefetch.SUPPLY_ROWS)[1]
    if own.used < prefetch.SUPPLY_ROWS:
        raise own.error()


@pytest.mark.parametrize("place", ["locks", "ours"])
def test_after_an_interrupt_at_any_instruction_rows_go_on(monkeypatch, place):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    monkeypatch.setattr(prefetch, "SUPPLY_ROWS", 8)
    tables = tables_of(C)
    expected = sequence(tables, 0, 3)
    first = pool_of(tables)
    next(taken(first, 0, [1]))
    for own in interrupted_at_each(
        place, "_answer_request", lambda: pool_of(tables), use_one_supply
    ):
        assert answers(own._fetcher)
        rows = next(taken(own, 0, [prefetch.SUPPLY_ROWS]))
        np.testing.assert_array_equal(rows, expected[own.used : own.used + prefetch.SUPPLY_ROWS])
