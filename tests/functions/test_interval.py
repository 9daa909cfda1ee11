import math
from fractions import Fraction
from operator import add, mul, sub

import numpy as np
import pytest

from pymc_minibatch_mh.functions import interval
from pymc_minibatch_mh.functions.interval import Interval

OPERATIONS = pytest.mark.parametrize("operation", [add, sub, mul], ids=lambda f: f.__name__)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-200, -1e-200, 1e308, -1e308, np.inf, -np.inf]


def numbers(rng, n):
    """Return numbers of all sizes, among them the special ones."""
    ordinary = rng.choice([-1.0, 1.0], n) * 10.0 ** rng.uniform(-320, 308, n)
    near_one = rng.normal(size=n)
    kind = rng.random(n)
    return np.where(kind < 0.25, rng.choice(SPECIAL, n), np.where(kind < 0.5, ordinary, near_one))


def random_intervals(seed, n=3000):
    rng = np.random.default_rng(seed)
    a = numbers(rng, n)
    b = np.where(rng.random(n) < 0.2, a, numbers(rng, n))
    lo, hi = np.minimum(a, b), np.maximum(a, b)
    real = (lo < np.inf) & (hi > -np.inf)
    return Interval(lo[real], hi[real])


def two_of(lo, hi):
    """Return the ends of an interval as exact numbers, or numbers far out where it has none."""
    low = Fraction(lo) if math.isfinite(lo) else Fraction(-(10**320))
    high = Fraction(hi) if math.isfinite(hi) else Fraction(10**320)
    return low, high


def at_most(end, number):
    return end == -math.inf or (end < math.inf and Fraction(float(end)) <= number)


def holds_exact_results(operation, a, b):
    """Whether the results of exact arithmetic lie between the ends."""
    result = operation(a, b)
    for i in range(len(result.lo)):
        for x in two_of(a.lo[i], a.hi[i]):
            for y in two_of(b.lo[i], b.hi[i]):
                exact = operation(x, y)
                if not (at_most(result.lo[i], exact) and at_most(-result.hi[i], -exact)):
                    return False
    return True


@OPERATIONS
def test_arithmetic_holds_exact_results(operation):
    a, b = random_intervals(1), random_intervals(2)
    n = min(a.shape[0], b.shape[0])
    assert holds_exact_results(
        operation, Interval(a.lo[:n], a.hi[:n]), Interval(b.lo[:n], b.hi[:n])
    )


@OPERATIONS
def test_without_outward_rounding_exact_results_are_missed(operation, monkeypatch):
    def without_rounding(combine):
        def combined(a, b, _, c, d, *others):
            lo, hi = others[-2:]
            corners = [combine(x, y) for x in (a, b) for y in (c, d)]
            lo[:], hi[:] = np.min(corners, axis=0), np.max(corners, axis=0)

        return combined

    functions = {"mh_add_intervals": add, "mh_multiply_intervals": mul}
    monkeypatch.setattr(interval, "function", lambda name: without_rounding(functions[name]))
    a, b = Interval.point(np.full(9, 0.1)), Interval.point(np.linspace(0.3, 1.0, 9))
    assert not holds_exact_results(operation, a, b)


@OPERATIONS
def test_points_are_like_intervals_of_no_width(operation):
    x, y = 0.1 * np.arange(-4.0, 5.0), Interval(np.linspace(-3, 1, 9), np.linspace(-2, 2, 9))
    expected = operation(Interval(x, x.copy()), y)
    for result in (operation(Interval.point(x), y), operation(x, y)):
        assert np.array_equal(result.lo, expected.lo)
        assert np.array_equal(result.hi, expected.hi)


@OPERATIONS
def test_arithmetic_is_tight(operation):
    rng = np.random.default_rng(3)
    a, b = (Interval(*np.sort(rng.normal(size=(2, 1000)), axis=0)) for _ in range(2))
    corners = [operation(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    result = operation(a, b)
    assert result.lo == pytest.approx(np.min(corners, axis=0), rel=1e-11, abs=1e-299)
    assert result.hi == pytest.approx(np.max(corners, axis=0), rel=1e-11, abs=1e-299)


@OPERATIONS
def test_no_end_is_nan(operation):
    ends = np.array(SPECIAL)
    a, b = (Interval.point(part.ravel()) for part in np.meshgrid(ends, ends))
    everything = Interval.whole_line(a.shape)
    for left, right in ((a, b), (a, everything), (everything, b), (everything, everything)):
        result = operation(left, right)
        assert (result.lo <= result.hi).all()
        assert not np.isnan(result.width).any()


def test_zero_times_anything_is_zero():
    other = Interval(np.array([-np.inf, -1.0, 1e-320, -np.inf]), np.array([np.inf, 2.0, 1.0, 0.0]))
    for product in (0.0 * other, other * Interval(np.zeros(4), np.zeros(4))):
        assert np.array_equal(product.magnitude, np.zeros(4))


def test_products_that_underflow_keep_the_sign_of_their_factors():
    small = Interval(1e-200, 1e-190)
    for a, b in ((small, small), (-small, -small)):
        assert (a * b).lo == 0.0
        assert (a * b).hi > 0.0
    assert (small * -small).hi == 0.0
    assert (small * Interval(-1e-200, 1e-200)).lo < 0.0


def test_an_overflow_is_no_lower_bound():
    assert 1e308 < (Interval.point(1e308) * 1e308).lo < np.inf
    assert -np.inf < (Interval.point(1e308) * -1e308).hi < -1e308


def test_nan_becomes_everything():
    for made in (Interval.point([np.nan, 1.0]), Interval.rounded([np.nan, 1.0], [3.0, 1.0])):
        assert (made.lo[0], made.hi[0]) == (-np.inf, np.inf)
        assert made.hi[1] == pytest.approx(1.0)


def test_sets():
    a, b = Interval(0.0, 2.0), Interval(1.0, 3.0)
    hull = a.hull(b)
    assert (hull.lo, hull.hi) == (0.0, 3.0)
    chosen = Interval.where(np.array([True, False]), a, b)
    assert chosen.lo.tolist() == [0.0, 1.0]
    assert chosen.hi.tolist() == [2.0, 3.0]
    assert (Interval(-3.0, 2.0).magnitude, Interval(-3.0, 2.0).width) == (3.0, 5.0)
