from itertools import combinations_with_replacement, product

import mpmath as mp
import numpy as np
import pytest
from pytensor.scalar import math as scalar_math

from bounds.expressions import (
    FUNCTIONS,
    ROWS,
    SMOOTH,
    built,
    exact_derivative,
    exact_value,
    f,
    made,
    u0,
)
from every import every
from pymc_minibatch_mh.bounds import jets
from pymc_minibatch_mh.bounds.jets import Jets, _partitions, _ways
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.functions.rules import NoRuleError

POINTS = 3
# Numerical differentiation of fourth order takes long: one point of one row.
FOURTH = {"lengths": (4,), "rows": (3,), "count": 1}

every_function = every("name", FUNCTIONS)


def boxes_of(m, width, seed):
    rng = np.random.default_rng(seed)
    lo = rng.uniform(-0.8, 0.8, (m, ROWS))
    return [Interval(x, x + width * rng.random(ROWS)) for x in lo]


def misses(name, width, seed=2, *, lengths=range(4), rows=range(ROWS), count=POINTS):
    """Return the derivatives that lie outside of their enclosures at random points of boxes."""
    rng = np.random.default_rng(seed)
    root, data, m = built(name)
    boxes = boxes_of(m, width, seed)
    with np.errstate(all="ignore"):
        jet = Jets(data, boxes, max(lengths)).of(root)
    found = []
    for row, _ in product(rows, range(count)):
        u = [box.lo[row] + rng.random() * (box.hi[row] - box.lo[row]) for box in boxes]
        function = exact_value(root, data, row)
        for length in lengths:
            for index in combinations_with_replacement(range(m), length):
                enclosure = jet.get(index, Interval.point(0.0))
                lo, hi = (
                    float(np.broadcast_to(x, ROWS)[row]) for x in (enclosure.lo, enclosure.hi)
                )
                exact = exact_derivative(function, index, u)
                # What numerical differentiation at 40 digits is off by.
                slack = mp.mpf("1e-25") * (1 + abs(exact))
                if not lo - slack <= exact <= hi + slack:
                    found.append((row, index, lo, float(exact), hi))
    return found


@pytest.mark.parametrize("width", [0.05, 1.0])
@every_function
def test_enclosures_hold_exact_derivatives(name, width):
    assert not misses(name, width)


@pytest.mark.parametrize("width", [0.05, 1.0])
@every_function
def test_enclosures_hold_exact_fourth_derivatives(name, width):
    assert not misses(name, width, **FOURTH)


@pytest.mark.slow
@pytest.mark.parametrize("width", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_enclosures_hold_exact_fourth_derivatives_of_many_boxes(name, width):
    for seed in range(5):
        assert not misses(name, width, seed, lengths=(4,))


@every("name", SMOOTH)
def test_enclosures_at_points_are_exact_values(name):
    root, data, m = built(name)
    boxes = [Interval.point(box.lo) for box in boxes_of(m, 1.0, 3)]
    jet = Jets(data, boxes, 4).of(root)
    size = sum(value.magnitude for value in jet.values())
    for index, value in jet.items():
        # Fourth derivatives are sums of more and larger terms, each rounded outward.
        most = 1e-10 if len(index) < 4 else 1e-9
        assert (value.width <= most * size).all()
        exact = exact_derivative(exact_value(root, data, 2), index, [box.lo[2] for box in boxes])
        middle = 0.5 * (value.lo + value.hi)
        assert float(np.broadcast_to(middle, ROWS)[2]) == pytest.approx(
            float(exact), rel=1e-9, abs=1e-11
        )


@every("order", [1, 2, 3])
def test_lower_orders_leave_out_higher_derivatives(order):
    root, data, m = built("four arguments")
    boxes = boxes_of(m, 0.5, 4)
    low, high = Jets(data, boxes, order).of(root), Jets(data, boxes, 4).of(root)
    assert set(low) == {index for index in high if len(index) <= order}
    for index, value in low.items():
        np.testing.assert_array_equal(value.lo, high[index].lo)
        np.testing.assert_array_equal(value.hi, high[index].hi)


def enclosed(name, *ends, order=4):
    root, data, _ = built(name)
    boxes = [Interval(np.full(ROWS, lo), np.full(ROWS, hi)) for lo, hi in ends]
    return Jets(data, boxes, order).of(root)


@every(
    ("name", "ends"),
    [
        ("branches that combine", [(0.1, 0.3), (0.5, 0.6)]),
        ("product of conditions", [(0.0, 0.2), (0.1, 0.2)]),
        ("condition times number", [(-2.0, 2.0)]),
        ("sum of conditions", [(-2.0, 2.0), (0.4, 0.5)]),
    ],
)
def test_a_condition_that_may_change_leaves_no_slope_bounded(name, ends):
    jet = enclosed(name, *ends)
    for index in ((0,), (0, 0), (0, 0, 0), (0, 0, 0, 0)):
        assert (jet[index].lo == -np.inf).all()
        assert (jet[index].hi == np.inf).all()
    assert np.isfinite(jet[()].magnitude).all()


@every(
    ("name", "ends"),
    [
        ("branches that combine", [(-0.3, 0.1), (0.5, 0.6)]),
        ("product of conditions", [(0.0, 0.2), (0.4, 0.6)]),
        ("condition times number", [(1.0, 2.0)]),
        ("dead branch", [(-1.0, 1.0)]),
        ("dead infinity", [(-1.0, 1.0)]),
        ("null set", [(0.0, 1.0)]),
        ("complement of a null set", [(0.0, 1.0), (0.0, 1.0)]),
        ("larger", [(-3.0, -2.0), (1.0, 2.0)]),
        ("clipped", [(0.7, 0.9)]),
        ("clipped", [(-0.3, 0.5)]),
        ("smaller", [(1.0, 2.0)]),
    ],
)
def test_a_condition_that_is_decided_leaves_every_derivative_bounded(name, ends):
    for value in enclosed(name, *ends).values():
        assert np.isfinite(value.magnitude).all()


def test_a_kink_leaves_slopes_bounded_and_nothing_above():
    for name, ends in (("larger", [(-1.0, 1.0), (-1.0, 1.0)]), ("clipped", [(0.0, 1.0)])):
        jet = enclosed(name, *ends)
        assert np.isfinite(jet[0,].magnitude).all()
        assert (jet[0, 0].magnitude == np.inf).all()
        assert (jet[0, 0, 0, 0].magnitude == np.inf).all()


def test_an_operation_without_a_rule_is_named():
    for op, formula in ((scalar_math.i0, f.i0(u0)), (scalar_math.gammainc, f.gammainc(2.0, u0))):
        _, (root,) = made(formula)
        with pytest.raises(NoRuleError, match=str(op)):
            Jets(None, [Interval.point(0.5)], 4).of(root)


INDICES = [
    *[(0, 0), (0, 1), (0, 0, 0), (0, 0, 1), (0, 1, 1), (0, 1, 2)],
    *[(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 1, 2), (0, 1, 2, 3)],
]


def brute_force_partitions(places):
    """Return all ways to put places into blocks, by the block of each."""
    found = set()
    for labels in product(range(len(places)), repeat=len(places)):
        blocks = {}
        for place, label in zip(places, labels, strict=True):
            blocks.setdefault(label, []).append(place)
        found.add(frozenset(frozenset(block) for block in blocks.values()))
    return found


@every("index", [(0,), *INDICES])
def test_partitions_are_counted_as_often_as_they_occur(index):
    counts = {}
    for partition in brute_force_partitions(range(len(index))):
        key = tuple(sorted(tuple(sorted(index[k] for k in block)) for block in partition))
        counts[key] = counts.get(key, 0) + 1
    assert dict(_partitions(index)) == counts


@every("index", INDICES)
def test_ways_to_split_an_index_are_those_of_leibniz(index):
    for length in range(len(index) + 1):
        for part in set(combinations_with_replacement(sorted(set(index)), length)):
            places = [
                chosen
                for chosen in product([True, False], repeat=len(index))
                if tuple(k for k, c in zip(index, chosen, strict=True) if c) == part
            ]
            assert _ways(part, index) == len(places)


def drop_a_term(index):
    return _partitions(index)[:-1] if len(index) > 1 else _partitions(index)


def forget_how_often(index):
    return tuple((blocks, 1) for blocks, _ in _partitions(index))


def power_without_zero(x, exponent):
    low, high = x.lo**exponent, x.hi**exponent
    return Interval.rounded(np.minimum(low, high), np.maximum(low, high))


def undecided_is_the_first(self, condition, yes, no):
    truth = self._truth(condition)
    left, right = self.of(yes), self.of(no)
    return {
        k: Interval.where(truth.may, jets._at(left, k), jets._at(right, k)) for k in {*left, *right}
    }


MUTANTS = [
    (jets, "_partitions", drop_a_term, SMOOTH),
    (jets, "_partitions", forget_how_often, SMOOTH),
    (jets, "_ways", lambda part, index: 1, SMOOTH),
    (jets, "_power", power_without_zero, ["tails", "cubes of cubes", "powers"]),
    (jets, "_powers", lambda blocks, jet: jet[blocks[0]], SMOOTH),
    (jets.Jets, "_switch", undecided_is_the_first, [
        "branch of arguments", "branches that combine"
    ]),
    (jets.Jets, "_with_unknown_derivatives", lambda self, jet, *args, **kw: jet, [
        "condition times number", "larger", "clipped", "branch of arguments"
    ]),
]  # fmt: skip


@every(("where", "name", "wrong", "cases"), MUTANTS)
def test_wrong_chain_rules_are_found(where, name, wrong, cases, monkeypatch):
    monkeypatch.setattr(where, name, wrong)
    assert any(misses(case, width) for case in cases for width in (0.05, 2.0))


def sizes(blocks):
    return sorted(len(block) for block in blocks)


def without_two_pairs(index):
    return tuple((b, count) for b, count in _partitions(index) if sizes(b) != [2, 2])


def one_way_into_two_pairs(index):
    return tuple((b, 1 if sizes(b) == [2, 2] else count) for b, count in _partitions(index))


def three_and_one_as_for_order_three(index):
    return tuple((b, 3 if count == 4 else count) for b, count in _partitions(index))


def six_pairs_as_four(index):
    return tuple((b, 4 if count == 6 else count) for b, count in _partitions(index))


def four_as_three(part, index):
    return min(_ways(part, index), 3)


def fourth_power_as_square(x, exponent):
    return jets_power(x, 2 if exponent == 4 else exponent)


jets_power = jets._power
OF_FOUR = [
    ("_partitions", without_two_pairs),
    ("_partitions", one_way_into_two_pairs),
    ("_partitions", three_and_one_as_for_order_three),
    ("_partitions", six_pairs_as_four),
    ("_ways", four_as_three),
    ("_power", fourth_power_as_square),
]


@every(("name", "wrong"), OF_FOUR, ids=lambda x: getattr(x, "__name__", x))
def test_wrong_chain_rules_of_fourth_derivatives_are_found(name, wrong, monkeypatch):
    monkeypatch.setattr(jets, name, wrong)
    cases = ["factors of one argument", "tails", "powers", "cubes of cubes"]
    assert not any(misses(case, 1e-3, rows=(1,), count=1) for case in cases)
    assert any(misses(case, 1e-3, **FOURTH) for case in cases)
