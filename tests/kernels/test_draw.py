from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from pymc_minibatch_mh.kernels.draw import (
    arrange,
    arrange_block,
    draw_more,
    integer_below,
    reserve,
    skip_rows,
)
from statistical.budget import LEVEL


def drawn(rng, total, *targets):
    """Draw in as many goes as there are targets."""
    rows = table = np.empty(0, dtype=np.int64)
    n = 0
    for target in targets:
        rows, table = reserve(rows, table, n, target, total)
        draw_more(rng, total, rows, table, n, target)
        n = target
    return rows[:n]


@pytest.mark.parametrize("size", [1, 2, 5, 3 * 2**30, 2**32 - 1, 2**32, 2**40])
def test_integers_are_those_of_numpy(size):
    ours, theirs = np.random.default_rng(1), np.random.default_rng(1)
    assert [integer_below(ours, size) for _ in range(50)] == theirs.integers(0, size, 50).tolist()
    assert ours.random() == theirs.random()


@pytest.mark.parametrize("targets", [(3,), (1, 3), (1, 2, 3)])
def test_every_pair_is_drawn_equally_often(targets):
    rng = np.random.default_rng(1)
    pairs = dict.fromkeys(combinations(range(7), 2), 0)
    draws = 7_000
    for _ in range(draws):
        for pair in combinations(sorted(drawn(rng, 7, *targets).tolist()), 2):
            pairs[pair] += 1
    expected = 3 * draws / len(pairs)
    statistic = sum((count - expected) ** 2 / expected for count in pairs.values())
    assert chi2(len(pairs) - 1).sf(statistic) > LEVEL
    assert chi2(len(pairs) - 1).cdf(statistic) > LEVEL


@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_place_of_a_row_in_the_batch_says_nothing(order):
    rng = np.random.default_rng(2)
    counts = np.bincount([drawn(rng, 8, 1, 3)[order] for _ in range(4_000)], minlength=8)
    assert chi2(7).sf(((counts - 500.0) ** 2 / 500.0).sum()) > LEVEL


@pytest.mark.parametrize("places", [(0, 1), (1, 16), (15, 16)])
@pytest.mark.parametrize("targets", [(17,), (3, 17), (3, 17, 18)])
def test_pairs_of_places_hold_every_pair_of_rows_where_most_are_drawn(targets, places):
    rng = np.random.default_rng(3)
    counts = np.zeros((20, 20))
    for _ in range(7_600):
        rows = drawn(rng, 20, *targets)
        counts[rows[places[0]], rows[places[1]]] += 1
    off = counts[~np.eye(20, dtype=bool)]
    assert off.sum() == 7_600
    assert chi2(379).sf(((off - 20.0) ** 2 / 20.0).sum()) > LEVEL


@pytest.mark.parametrize("total", [10, 1_000, 2**33])
def test_rows_are_distinct_and_inside(total):
    rows = drawn(np.random.default_rng(3), total, 2, 5)
    assert len(set(rows.tolist())) == 5
    assert ((rows >= 0) & (rows < total)).all()


def test_all_rows_are_drawn_once():
    rows = drawn(np.random.default_rng(5), 1_000, 100, 700, 1_000)
    np.testing.assert_array_equal(np.sort(rows), np.arange(1_000))


def test_drawing_on_is_drawing_more_at_once():
    at_once = drawn(np.random.default_rng(4), 1_000, 400)
    in_goes = drawn(np.random.default_rng(4), 1_000, 50, 51, 200, 400)
    np.testing.assert_array_equal(at_once, in_goes)


def test_numbers_of_all_rows_but_some_stand_for_each_of_them_once():
    for total in range(1, 8):
        for some in range(total):
            for skipped in combinations(range(total), some):
                numbers = np.arange(total - some)
                rows = np.empty_like(numbers)
                skip_rows(numbers, np.array(skipped, dtype=np.int64), rows)
                assert rows.tolist() == [k for k in range(total) if k not in skipped]


def arranged(rows, starts):
    out, ends = np.empty(len(rows), np.int64), np.empty(len(starts) - 1, np.int64)
    arrange(rows, 0, len(rows), starts, out, ends)
    return out, ends


@pytest.mark.parametrize("starts", [[0, 100], [0, 30, 100], [0, 1, 2, 99, 100], [0, 40, 40, 100]])
def test_rows_are_sorted_by_term_and_numbered_within_it(starts):
    starts = np.array(starts)
    rows = np.random.default_rng(5).permutation(100)[:37]
    out, ends = arranged(rows, starts)
    pieces = np.split(out, ends[:-1])
    assert ends[-1] == len(rows)
    for piece, first, stop in zip(pieces, starts[:-1], starts[1:], strict=True):
        np.testing.assert_array_equal(piece + first, rows[(rows >= first) & (rows < stop)])


def test_a_part_of_the_drawn_rows_can_be_arranged():
    starts, rows = np.array([0, 30, 100]), np.arange(0, 100, 3)
    out, ends = np.empty(10, np.int64), np.empty(2, np.int64)
    arrange(rows, 5, 15, starts, out, ends)
    np.testing.assert_array_equal(out, [*rows[5:10], *(rows[10:15] - 30)])
    np.testing.assert_array_equal(ends, [5, 10])


@pytest.mark.parametrize(("first", "last"), [(0, 100), (5, 20), (25, 35), (29, 30), (31, 99)])
def test_consecutive_rows_are_numbered_like_drawn_ones(first, last):
    starts = np.array([0, 30, 31, 100])
    out, ends = np.empty(last - first, np.int64), np.empty(3, np.int64)
    arrange_block(first, last, starts, out, ends)
    expected, expected_ends = arranged(np.arange(first, last), starts)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(ends, expected_ends)
