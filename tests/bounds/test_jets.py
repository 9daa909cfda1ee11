from itertools import combinations_with_replacement, product

import mpmath as mp
import numpy as np
import pytest

from bounds.expressions import FUNCTIONS, ROWS, SMOOTH, built, exact_derivative, exact_value
from pymc_minibatch_mh.bounds.jets import Jets
from pymc_minibatch_mh.functions.interval import Interval

POINTS = 2
# Numerical differentiation of fourth order takes long: one point of one row.
FOURTH = {"lengths": (4,), "rows": (3,), "count": 1}

every_function = pytest.mark.parametrize("name", FUNCTIONS)


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


@pytest.mark.parametrize("name", SMOOTH)
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


def enclosed(name, *ends, order=4):
    root, data, _ = built(name)
    boxes = [Interval(np.full(ROWS, lo), np.full(ROWS, hi)) for lo, hi in ends]
    return Jets(data, boxes, order).of(root)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
