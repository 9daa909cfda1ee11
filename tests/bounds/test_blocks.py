"""Rows that are stored are drawn in proportion to the bounds that rows in memory have."""

from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from bounds.certified import fit
from data.elsewhere import Recording
from helpers.tiers import fast
from pymc_minibatch_mh.bounds import block_tables as blocks
from pymc_minibatch_mh.bounds.block_tables import BlockBounds, BlockTables
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.source import ArrayStorage, StoredArray
from pymc_minibatch_mh.errors import SourceError
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

#: c_i of a few rows in blocks of four: a tie, rows without a bound's worth, a block without any,
#: and a last block that is shorter.
C = np.array([3, 0, 1, 3, 0, 0, 0, 0, 2, 2, 1, 0, 5, 1, 2], dtype=np.float32)
LENGTH = 4
#: What draws find as the largest c_i: exact for one block, and far above it for another.
LARGEST = np.array([3.0, 0.0, 6.0, 5.0])


class Own:
    """Bounds that are data of the rows."""

    def __init__(self, c):
        self.c = c
        number = np.arange(len(c))
        pairs = np.column_stack([number, -number]).astype(np.int16)
        self.storage = Recording({"c": c, "pairs": pairs})
        columns = tuple(Column(name, StoredArray(self.storage, name), 0) for name in ("c", "pairs"))
        self.function = RowFunction("y", len(c), columns, None, (), None)

    def of(self, table, data):
        return data.function.columns[0].values[data.rows]

    def found(self, asked, rows):
        return asked(self, RowData(self.function, rows))


def toy(c=C, largest=LARGEST, length=LENGTH, most_at_once=0):
    headers = np.array([[np.inf, 0.0, c.sum(dtype=np.float64)]])
    more = {"most_at_once": most_at_once}
    return BlockTables(headers, largest[None], Own(c), len(c), length, **more)


class EveryCase:
    """A generator whose numbers run through all cases of one candidate, each as often as others.

    A candidate takes a block, a place in it and whether it is kept: from one uniform each, of
    which all cells are taken in turn whose ends are no more than multiples of 1/`exprs`.
    """

    def __init__(self, exprs):
        self.size = int(np.prod(exprs))
        numbers = np.unravel_index(np.arange(self.size), exprs)
        self._uniforms = [(k + 0.5) / n for k, n in zip(numbers, exprs, strict=True)]
        self._used = [0, 0, 0]
        self._turn = 0

    def _next(self, which, count):
        first = self._used[which]
        self._used[which] += count
        return self._uniforms[which].take(np.arange(first, first + count), mode="wrap")

    def random(self, count):
        which, self._turn = (0, 2)[self._turn], 1 - self._turn
        return self._next(which, count)

    def integers(self, low, high):
        return low + np.floor(self._next(1, len(high)) * (high - low)).astype(np.int64)


def every_case(tables):
    lengths = np.minimum(tables.length, tables.n_rows - tables.length * np.arange(4))
    weights = (lengths * tables.largest[0]).astype(int)
    return EveryCase((weights.sum(), np.lcm.reduce(lengths), 30))


def counts_of(tables):
    """Return how often each row is drawn in all cases together, which is its chance exactly."""
    rng = every_case(tables)
    places = np.lcm.reduce([4, 3])
    kept = round(tables.headers[0, TOTAL] * 30 * places)
    drawn = tables.draw(0, rng, kept)
    assert drawn.rows.size == kept
    return np.bincount(drawn.rows, minlength=tables.n_rows)


def test_the_chance_of_every_row_is_its_share_of_the_bounds():
    found = counts_of(toy())
    np.testing.assert_array_equal(found, C.astype(int) * found.sum() // int(C.sum()))
    np.testing.assert_array_equal(found[C == 0], 0)


def test_candidates_are_kept_from_the_number_on_that_their_bound_is_of_the_largest():
    """The chance to be kept, to the last bit that a uniform has."""
    tables = toy(C / np.float32(3.0), LARGEST)
    rows = np.flatnonzero(C)
    exact = tables.bounds.c[rows] / LARGEST[rows // LENGTH]
    for uniforms, kept in ((np.nextafter(exact, 0.0), True), (exact, False)):
        rng = SimpleNamespace(random=lambda count, u=uniforms: u)
        # A product of the largest and a uniform just below may round up to the bound.
        found = np.isin(rows, tables._accept_rows(0, rows, rng).rows)
        assert (found == kept).mean() >= (0.5 if kept else 1.0)
    wide = SimpleNamespace(random=lambda count: exact * (1.0 - 1e-15))
    np.testing.assert_array_equal(tables._accept_rows(0, rows, wide).rows, rows)


def test_what_is_drawn_comes_with_its_own_data_and_bound():
    tables = toy()
    drawn = tables.draw(0, np.random.default_rng(3), 500)
    assert drawn.c.dtype == np.float32
    np.testing.assert_array_equal(drawn.c, C[drawn.rows])
    c, pairs = drawn.columns
    np.testing.assert_array_equal(c.values, C[drawn.rows])
    np.testing.assert_array_equal(pairs.values, np.column_stack([drawn.rows, -drawn.rows]))
    assert pairs.values.dtype == np.int16
    for _, rows in tables.bounds.storage.asked:
        assert (np.diff(rows) >= 0).all()


def test_rows_that_uneven_bounds_would_try_again_and_again_are_bounded_once():
    """Every share of the sum, once: as often as its c_i, with its own data, in the order drawn."""
    tables = toy(most_at_once=len(C))
    shares = np.random.default_rng(1).permutation((np.arange(4 * C.sum()) + 0.5) / (4 * C.sum()))
    drawn = tables.draw(0, SimpleNamespace(random=lambda count: shares[:count]), len(shares))
    np.testing.assert_array_equal(
        drawn.rows, np.repeat(np.arange(15), C.astype(int))[np.floor(shares * C.sum()).astype(int)]
    )
    np.testing.assert_array_equal(drawn.c, C[drawn.rows])
    np.testing.assert_array_equal(drawn.columns[1].values[:, 1], -drawn.rows)
    assert [str(rows) for _, rows in tables.bounds.storage.asked] == ["slice(0, 15, None)"]


def test_rows_without_a_bounds_worth_are_not_drawn_by_a_share_that_rounds_up():
    c = np.array([0, 1, 2, 0], dtype=np.float32)
    tables = toy(c, np.array([2.0]), most_at_once=4)
    drawn = tables.draw(0, SimpleNamespace(random=lambda count: np.ones(count)), 9)
    np.testing.assert_array_equal(drawn.rows, np.full(9, 2))


@pytest.mark.parametrize(("count", "all_bounded"), [(2, False), (200, True)])
def test_all_rows_are_bounded_where_more_would_be_tried(count, all_bounded):
    tables = toy(most_at_once=len(C))
    tables.draw(0, np.random.default_rng(2), count)
    assert [isinstance(rows, slice) for _, rows in tables.bounds.storage.asked] == [all_bounded]


@pytest.mark.parametrize("most_at_once", [0, 15])
@pytest.mark.parametrize("value", [3.5, np.inf, np.nan])
def test_a_row_above_the_largest_is_not_the_one_that_was_bounded(value, most_at_once):
    tables = toy(most_at_once=most_at_once)
    tables.bounds.storage._arrays["c"] = tables.bounds.c.copy()
    tables.bounds.storage._arrays["c"][2] = value
    with pytest.raises(SourceError, match=r"^row 2 of 'y' has changed since it was bounded"):
        tables.draw(0, np.random.default_rng(8), 200)


def stored(fitted):
    """Return the functions of a model with one likelihood, their data in a storage."""
    (function,) = fitted.functions
    arrays = {f"column {k}": c.rows_first for k, c in enumerate(function.columns)}
    storage = ArrayStorage(arrays)
    columns = tuple(Column(name, StoredArray(storage, name), 0) for name in arrays)
    return [replace(function, columns=columns)]


CASES = fast(
    [*product(("bernoulli_logit", "student_fixed", "grouped", "negative_binomial"), (0, 1, 2))],
    [("bernoulli_logit", 2), ("student_fixed", 2), ("grouped", 1), ("negative_binomial", 0)],
)


@cache
def pair(name, order, rows=1_003):
    """Return the tables of a model in memory, and those in blocks of 16 rows."""
    fitted = fit(name, rows)
    reference = fitted.reference(order)
    support = (fitted.factorization.lower, fitted.factorization.upper)
    with pytest.MonkeyPatch.context() as patch:
        for number, size in (("BLOCK", 16), ("CHUNK", 64), ("BLOCK_ROWS", 256)):
            patch.setattr(blocks, number, size)
        found = BlockBounds(stored(fitted), reference, support).tables()
        # Which groups of rows there are is not asked of stored rows.
        patch.setattr(BoundsPass, "_worthwhile_groups", lambda *_: None)
        return fitted.bounds(reference).tables(), found


@pytest.mark.parametrize(("name", "order"), CASES)
def test_bounds_are_those_of_rows_in_memory(name, order):
    tables, found = pair(name, order)
    np.testing.assert_array_equal(found.headers[:, :TOTAL], tables.headers[:, :TOTAL])
    np.testing.assert_allclose(found.headers[:, TOTAL], tables.headers[:, TOTAL], rtol=1e-13)
    rng = np.random.default_rng(9)
    for rows in (np.arange(1_003), np.sort(rng.integers(0, 1_003, 500)), np.array([1_002])):
        for table, c in enumerate(tables.c):
            np.testing.assert_array_max_ulp(found.of(table, rows), c[rows], maxulp=1)


@pytest.mark.parametrize(("name", "order"), CASES)
def test_the_largest_of_every_block_are_no_less_and_hardly_more(name, order):
    tables, found = pair(name, order)
    exact = np.maximum.reduceat(tables.c.astype(float), np.arange(0, 1_003, 16), axis=1)
    assert found.largest.shape == exact.shape == (len(tables.headers), 63)
    assert (found.largest > exact).all()
    assert (found.largest <= exact * (1.0 + 2.0 * blocks.ROUNDING)).all()
