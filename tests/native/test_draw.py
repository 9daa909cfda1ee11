from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from law.statistical.budget import LEVEL
from pymc_minibatch_mh.native.library import (
    Arena,
    GeneratorRecord,
    LaidOut,
    ffi,
    function,
    load_library,
)


def drawn(rng, total, *targets):
    """Draw in as many goes as there are targets."""
    library, arena = load_library(), Arena()
    rows, generator = ffi.new("mh_drawn *"), LaidOut("mh_generator", GeneratorRecord(rng))
    n = 0
    for target in targets:
        assert library.mh_reserve(rows, n, target, total, arena.at) == library.MH_OK
        library.mh_draw_more(generator.at, total, rows, n, target)
        n = target
    return np.array(ffi.unpack(rows.rows, n))


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
                some_rows = np.array(skipped, dtype=np.int64)
                function("mh_skip_rows")(numbers, numbers.size, some_rows, some, rows)
                assert rows.tolist() == [k for k in range(total) if k not in skipped]


class Terms:
    """Rows of some terms, as ``mh_rows`` without anything to evaluate them."""

    size = 0
    context = terms = differences = derivatives = groups = None

    def __init__(self, starts):
        self.term_starts = np.array(starts)
        self.n_terms = len(starts) - 1


def arranged(rows, starts):
    """Return numbers within terms and where these end."""
    out, ends = np.empty(len(rows), np.int64), np.empty(len(starts) - 1, np.int64)
    function("mh_arrange")(Terms(starts), rows, rows.size, out, ends)
    return out, ends


@pytest.mark.parametrize("starts", [[0, 100], [0, 30, 100], [0, 1, 2, 99, 100], [0, 40, 40, 100]])
def test_rows_are_sorted_by_term_and_numbered_within_it(starts):
    rows = np.random.default_rng(5).permutation(100)[:37]
    out, ends = arranged(rows, starts)
    pieces = np.split(out, ends[:-1])
    assert ends[-1] == len(rows)
    for piece, first, stop in zip(pieces, starts[:-1], starts[1:], strict=True):
        np.testing.assert_array_equal(piece + first, rows[(rows >= first) & (rows < stop)])
    function("mh_number_through")(Terms(starts), out, ends)
    assert sorted(out) == sorted(rows)


@pytest.mark.parametrize(("first", "last"), [(0, 100), (5, 20), (25, 35), (29, 30), (31, 99)])
def test_consecutive_rows_are_numbered_like_drawn_ones(first, last):
    starts = [0, 30, 31, 100]
    out, ends = np.empty(last - first, np.int64), np.empty(3, np.int64)
    function("mh_arrange_block")(Terms(starts), first, last, out, ends)
    expected, expected_ends = arranged(np.arange(first, last), starts)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(ends, expected_ends)
