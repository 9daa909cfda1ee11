"""Rates of candidates by groups: they add up, exceed all bounds and are those of drawn rows."""

from functools import cache
from math import factorial

import numpy as np
import pytest

from native.chain import line
from pymc_minibatch_mh.bounds.geometry import Groups
from pymc_minibatch_mh.bounds.tables import Tables
from pymc_minibatch_mh.native.library import Arena, GeneratorRecord, LaidOut, ffi, load_library
from pymc_minibatch_mh.native.moves import SHARP, Move

SIZE, N_SHARED, EACH, GROUPS, ROWS = 11, 3, 2, 4, 160
RADII = 2.5, 4.0, np.inf
HEAVY = 7


@cache
def rows_of(order):
    """Return tables of rows in groups, and unit directions of the rows."""
    rng = np.random.default_rng(17)
    basis = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))[0]
    labels = rng.integers(0, GROUPS - 1, ROWS).astype(np.int32)
    own = basis[N_SHARED:].reshape(GROUPS, EACH, SIZE)
    weights = rng.normal(size=(ROWS, N_SHARED + EACH)) * rng.choice([0.05, 1.0], (ROWS, 1))
    directions = weights[:, :N_SHARED] @ basis[:N_SHARED]
    directions += np.einsum("re,res->rs", rng.normal(size=(ROWS, EACH)), own[labels])
    groups = Groups(basis[:N_SHARED], own.reshape(-1, SIZE), EACH).with_rows(ROWS, order + 1)
    groups.label_rows(slice(0, ROWS), directions, np.empty((0, SIZE)))
    np.testing.assert_array_equal(groups.labels, labels)
    c = rng.uniform(0.1, 1.0, ROWS) * np.array([[1.0], [1.7], [3.0]])
    c = c.astype(np.float32)
    headers = np.array([[r, SHARP, t.sum(dtype=np.float64)] for r, t in zip(RADII, c, strict=True)])
    tables = Tables(headers, c, groups=groups).reading_always(np.array([HEAVY]))
    return tables, directions / np.linalg.norm(directions, axis=1, keepdims=True)


class Rates:
    """Rates of candidates in a move between whitened positions."""

    def __init__(self, order, here, there, factor=1.0):
        self.tables, self._library = rows_of(order)[0], load_library()
        step = there - here
        reference = line(1.0)._replace(centre=np.zeros(SIZE), order=order)
        self._kept = [
            LaidOut("mh_bounds", self.tables.arrays),
            LaidOut("mh_reference", reference),
            LaidOut("mh_move", Move(here, there, here, there, step)),
            Arena(),
        ]
        self.at = ffi.new("mh_group_rates *")
        *records, arena = (x.at for x in self._kept)
        found = self._library.mh_find_group_rates(*records, factor, self.at, arena)
        assert found == self._library.MH_OK
        rates = self.at
        self.total, self.in_table = rates.total, [rates.tables[g] for g in range(GROUPS)]
        labels = self.tables.groups.labels
        self.c = np.array([self.tables.c[self.in_table[g], i] for i, g in enumerate(labels)])
        sizes = [self._library.mh_size_in_group(rates, i) for i in range(ROWS)]
        self.of_rows = self.c * np.array(sizes)

    def drawn(self, n, seed):
        """Return how often each row is a candidate, and the sums of their uniform numbers."""
        generator = LaidOut("mh_generator", GeneratorRecord(np.random.default_rng(seed)))
        rows, (sizes, chances) = np.empty(256, np.int64), np.empty((2, 256))
        counts, numbers = np.zeros((2, ROWS))
        out = (
            ffi.from_buffer("int64_t[]", rows),
            *map(ffi.from_buffer, ("double[]",) * 2, (sizes, chances)),
        )
        for _ in range(n):
            self._library.mh_draw_of_groups(self.at, generator.at, 256, *out)
            counts += np.bincount(rows, minlength=ROWS)
            numbers += np.bincount(rows, chances, minlength=ROWS)
            np.testing.assert_array_equal(sizes * self.c[rows], self.of_rows[rows])
        return counts, numbers


def ends(k):
    """Return two positions: at random, and next to each other."""
    rng = np.random.default_rng(k)
    here, there = rng.normal(size=(2, SIZE)) * rng.choice([0.2, 1.0])
    if k % 5 == 4:
        here[:] = 0.0
    return here, (there if k % 2 else here + 0.05 * there)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_rates_add_up_and_are_above_the_changes_of_all_rows(order):
    directions, smallest, chosen = rows_of(order)[1], np.inf, set()
    for k in range(60):
        here, there = ends(k)
        rates = Rates(order, here, there)
        chosen.update(rates.in_table)
        drawn = np.delete(rates.of_rows, HEAVY)
        # The heavy row has a rate, and is never drawn.
        assert abs(drawn.sum() - rates.total) <= 1e-9 * rates.total
        x, y = np.abs(directions @ here), np.abs(directions @ there)
        by_ends = (x ** (order + 1) + y ** (order + 1)) / factorial(order + 1)
        by_way = np.abs(directions @ (there - here)) * np.maximum(x, y) ** order / factorial(order)
        least = rates.c * np.minimum(by_ends, by_way)
        assert (least <= rates.of_rows).all()
        smallest = min(smallest, (rates.of_rows / np.maximum(least, 1e-9)).min())
    assert smallest < 1.3
    assert chosen == {0, 1, 2}


def test_each_group_has_the_smallest_region_with_both_ends():
    groups = rows_of(2)[0].groups
    own = groups.own.reshape(GROUPS, EACH, SIZE)
    for k in range(40):
        positions = ends(k)
        rates = Rates(2, *positions)
        for g in range(GROUPS):
            basis = np.concatenate([groups.shared, own[g]])
            outer = max(np.linalg.norm(basis @ z) for z in positions)
            assert rates.in_table[g] == np.flatnonzero(outer <= np.array(RADII))[0]


def test_rates_of_all_rows_are_raised_alike():
    one, other = (Rates(2, *ends(3), factor) for factor in (1.0, 2.5))
    assert other.total == pytest.approx(2.5 * one.total, rel=1e-12)
    np.testing.assert_allclose(other.of_rows, 2.5 * one.of_rows, rtol=1e-12)


def test_rates_are_symmetric_to_the_last_bit():
    for k in range(40):
        here, there = ends(k)
        one, other = Rates(2, here, there), Rates(2, there, here)
        assert one.total == other.total
        np.testing.assert_array_equal(one.of_rows, other.of_rows)


@pytest.mark.parametrize("k", [1, 2])
def test_rows_are_drawn_as_often_as_their_rates_say(k):
    rates = Rates(2, *ends(k))
    counts, numbers = rates.drawn(800, seed=k)
    expected = rates.of_rows / rates.total * counts.sum()
    expected[HEAVY] = 0.0
    assert counts[HEAVY] == 0.0
    assert (np.abs(counts - expected) < 5.0 * np.sqrt(expected + 1.0)).all()
    # Numbers of each row are uniform, whether or not it came as an alias.
    assert (np.abs(numbers - 0.5 * counts) < 5.0 * np.sqrt(counts / 12.0 + 1.0)).all()


def test_a_move_beyond_all_regions_of_a_group_has_no_total():
    tables = rows_of(2)[0]
    here, there = 50.0 * np.ones(SIZE), np.zeros(SIZE)
    assert Rates(2, here, there).total < np.inf
    arrays = tables.arrays._replace(headers=tables.headers[:2])
    bounds, reference = LaidOut("mh_bounds", arrays), line(1.0)._replace(centre=here, order=2)
    move = LaidOut("mh_move", Move(here, there, here, there, there - here))
    found, arena = ffi.new("mh_group_rates *"), Arena()
    record = LaidOut("mh_reference", reference)
    load_library().mh_find_group_rates(bounds.at, record.at, move.at, 1.0, found, arena.at)
    assert found.total == np.inf
