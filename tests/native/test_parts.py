"""Ceilings and candidates of rows whose look-ups are set by hand, against their formulas."""

from typing import NamedTuple

import numpy as np
import pytest

from pymc_minibatch_mh.native.elements import Ends, Parts
from pymc_minibatch_mh.native.library import GeneratorRecord, function

#: Elements that each row reads of factors with 3 and 2 elements; -1 for none.
ELEMENTS = np.array([[0, 3], [1, 3], [1, 4], [2, 4], [2, -1], [0, 4]], dtype=np.int32)
N, F, L = len(ELEMENTS), 2, 5
RNG = np.random.default_rng(20_261_126)
#: Candidates that are drawn at a time at most: MH_AHEAD.
AHEAD = 256


def made(signed):
    cubes = RNG.uniform(0.1, 1.0, N).astype(np.float32)
    weights = RNG.normal(size=(N, F)) * (ELEMENTS >= 0)
    rows = [np.flatnonzero((g == ELEMENTS).any(axis=1)) for g in range(L)]
    starts = np.cumsum([0, *map(len, rows)])
    factor = np.repeat(np.arange(F), [3, 2])
    sums = [np.cumsum(np.abs(weights[own, factor[g]]) ** 3) for g, own in enumerate(rows)]
    running, totals = np.concatenate(sums), np.array([own[-1] for own in sums])
    thresholds, aliases = np.empty(N), np.empty(N, np.int32)
    function("mh_build_alias")(N, cubes, thresholds, aliases)
    border = np.cbrt(cubes.astype(float))
    first, total = np.array([0, 3, 5]), float(cubes.sum(dtype=float))
    return Parts(
        border, weights, int(signed), ELEMENTS, first, starts, np.concatenate(rows), running,
        totals, total, thresholds, aliases, 5.0, np.full(L, 2.0),
    )  # fmt: skip


ENDS = Ends(RNG.uniform(-1.5, 1.5, L), RNG.uniform(-1.5, 1.5, L), (0.7, 1.2, 0.9))


def ceilings_of(parts, ends):
    """Return the ceiling of every row."""
    out = np.empty(N)
    function("mh_ceilings_of")(parts, ends, out)
    return out


def own_parts(parts, e):
    """Return the parts of every row that are not the border's, shape (rows, factors)."""
    return parts.weights * np.where(ELEMENTS >= 0, e[ELEMENTS], 0.0)


def size(parts, signed, e):
    own = own_parts(parts, e)
    return np.abs(own.sum(axis=1)) if signed else np.abs(own).sum(axis=1)


@pytest.mark.parametrize("signed", [True, False])
def test_ceilings_are_those_of_the_formula(signed):
    parts = made(signed)
    found = ceilings_of(parts, ENDS)
    x = parts.border * ENDS.border[0] + size(parts, signed, ENDS.here)
    y = parts.border * ENDS.border[1] + size(parts, signed, ENDS.there)
    way = parts.border * ENDS.border[2] + size(parts, signed, ENDS.there - ENDS.here)
    expected = np.minimum((x**3 + y**3) / 6.0, 0.5 * way * np.maximum(x, y) ** 2)
    assert np.allclose(found, expected, rtol=1e-9)
    assert (found > expected).all()


class Rates(NamedTuple):
    """Rates at which rows are candidates of a move (``mh_rates``), and their total.

    Elements beyond their radii come after their number.
    """

    kinds: np.ndarray
    chances: np.ndarray
    units: np.ndarray
    running: np.ndarray
    limit: float
    outside: np.ndarray


def rates_of(parts, ends):
    """Return the rates of a move."""
    own, size = (2, 1 + parts.n_factors), parts.radii.size
    rates = Rates(
        np.empty(2, np.int64), np.empty(own), np.empty(own), np.empty((2, size)), 0.0,
        np.empty(size + 1, np.int64),
    )  # fmt: skip
    limit = np.empty(1)
    assert function("mh_find_rates")(parts, ends, rates, rates.outside, limit) == 0
    return rates._replace(limit=float(limit[0]))


def shares_of_rows(parts, ends, rates):
    """Return the shares of candidates that are kept of every row."""
    share = function("mh_share_of_candidates")
    return np.array([share(parts, ends, rates, rates.limit, k) for k in range(parts.n_rows)])


def candidates(parts, rates, rng, count):
    """Return candidates, drawn as many at a time as updates do."""
    drawn, chances = np.empty(count, np.int64), np.empty(AHEAD)
    for k in range(0, count, AHEAD):
        some = drawn[k : k + AHEAD]
        function("mh_draw_candidates")(parts, rates, GeneratorRecord(rng), len(some), some, chances)
    return drawn


#: Moves that are long, of both ends, and short, of the way and the farther end.
MOVES = {"long": ENDS, "short": Ends(ENDS.here, ENDS.here + 0.01, (0.7, 0.71, 0.02))}
every_move = pytest.mark.parametrize("move", MOVES)


def sums_of(parts, ends, cube):
    """Return the sums of the cubes of each part, of lengths at the two ends and between them."""
    here, there = (np.abs(own_parts(parts, e)) for e in (ends.here, ends.there))
    own = cube(here, there, np.abs(own_parts(parts, ends.there - ends.here)))
    return np.append((parts.border**3).sum() * cube(*ends.border), own.sum(axis=0))


def root_sum(sums):
    return np.cbrt(sums).sum()


@every_move
def test_total_is_that_of_both_ends_or_of_the_way(move):
    parts, ends = made(signed=False), MOVES[move]
    both, way, farther = (
        sums_of(parts, ends, cube)
        for cube in (
            lambda x, y, _: x**3 + y**3, lambda x, y, d: d**3, lambda x, y, _: np.maximum(x, y) ** 3
        )
    )  # fmt: skip
    by_ends, by_way = root_sum(both) ** 3 / 6.0, 0.5 * root_sum(way) * root_sum(farther) ** 2
    assert rates_of(parts, ends).limit == pytest.approx(min(by_ends, by_way), rel=1e-6)
    assert (by_ends < by_way) == (move == "long")


@every_move
def test_rates_add_up_and_lie_above_all_ceilings(move):
    parts, ends = made(signed=False), MOVES[move]
    rates = rates_of(parts, ends)
    shares = shares_of_rows(parts, ends, rates)
    assert (shares <= 1.0).all()
    assert (ceilings_of(parts, ends) / shares).sum() == pytest.approx(rates.limit, rel=1e-6)
    assert rates.chances.sum() == pytest.approx(1.0)


@every_move
def test_rows_come_as_often_as_their_rates_say(move):
    parts, ends = made(signed=False), MOVES[move]
    rates = rates_of(parts, ends)
    drawn = candidates(parts, rates, np.random.default_rng(1), 200_000)
    own = ceilings_of(parts, ends) / shares_of_rows(parts, ends, rates)
    expected = drawn.size * own / rates.limit
    counts = np.bincount(drawn, minlength=N)
    assert (np.abs(counts - expected) < 5.0 * np.sqrt(expected)).all()


@pytest.mark.parametrize("end", ["here", "there"])
def test_an_element_beyond_its_radius_has_no_share(end):
    parts = made(signed=False)
    ends = Ends(ENDS.here.copy(), ENDS.there.copy(), ENDS.border)
    getattr(ends, end)[1] = -2.1
    rates = rates_of(parts, ends)
    assert rates.outside[:2].tolist() == [1, 1]
    assert rates.running[0, 1] == rates.running[0, 0]
    left = Ends(*(np.where(np.arange(L) == 1, 0.0, e) for e in ends[:2]), ends.border)
    assert rates.limit == pytest.approx(rates_of(parts, left).limit, rel=1e-12)
    outside = [function("mh_first_outside")(parts, ends, k) for k in range(N)]
    assert outside == [-1, 1, 1, -1, -1, -1]


def test_sums_run_within_each_element():
    starts, values, totals = (
        np.array([0, 2, 2, 5]),
        np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        np.empty(3),
    )
    function("mh_fill_running")(3, starts, values, totals)
    assert values.tolist() == [1.0, 3.0, 3.0, 7.0, 12.0]
    assert totals.tolist() == [3.0, 0.0, 12.0]
