import mpmath as mp
import numpy as np
import pytest

from pymc_minibatch_mh.functions.enclosures import enclose_derivatives
from pymc_minibatch_mh.functions.gamma_rise import gamma_rise, gamma_rise_at, gamma_rise_slope_at
from pymc_minibatch_mh.functions.interval import Interval

COUNTS = np.array([0.0, 1.0, 2.0, 9.0, 24.0])
ORDER = 4


def fourth(x, y, z):
    """Return the fourth derivative of sums of logarithms."""
    low, high = int(min(y, z)), int(max(y, z))
    j = np.arange(low, high) / (1.0 + np.arange(low, high) * x)
    return np.copysign(1.0, y - z) * -6.0 * (j**4).sum()


def at(x, y, z, n):
    if n == 0:
        return gamma_rise_at(x, y, z)
    return fourth(x, y, z) if n == 4 else gamma_rise_slope_at(n, x, y, z)


def intervals(seed=0, count=40):
    """Yield intervals down to zero, wide ones and points."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        lo, hi = np.sort(10.0 ** rng.uniform(-6, 1, 2))
        yield Interval(*np.array([(0.0, hi), (lo, hi), (lo, lo), (lo, lo * 1.01)][k % 4]))


@pytest.mark.parametrize("swapped", [False, True])
def test_sums_of_logarithms_are_enclosed_tightly(swapped):
    low = np.zeros(COUNTS.size)
    shifts = (low, COUNTS) if swapped else (COUNTS, low)
    for u in intervals():
        found = enclose_derivatives(gamma_rise, u, ORDER, *shifts)
        assert len(found) == ORDER + 1
        for n, enclosure in enumerate(found):
            for row, (y, z) in enumerate(zip(*shifts, strict=True)):
                values = [at(x, y, z, n) for x in np.linspace(u.lo, u.hi, 9)]
                lo, hi = enclosure.lo[row], enclosure.hi[row]
                slack = 1e-12 * np.abs(values).max()
                assert lo - slack <= min(values)
                assert max(values) <= hi + slack
                # Every derivative is monotone: the ends of the interval give the range.
                assert [lo, hi] == pytest.approx([min(values), max(values)], rel=1e-10, abs=1e-15)


@pytest.mark.parametrize(("y", "z"), [(0.5, 0.0), (0.0, 0.5)])
def test_half_a_step_is_enclosed(y, z):
    for u in intervals():
        found = enclose_derivatives(gamma_rise, u, ORDER, np.asarray(y), np.asarray(z))
        for n, enclosure in enumerate(found[:4]):
            values = [at(x, y, z, n) for x in np.linspace(u.lo, u.hi, 33)]
            assert enclosure.lo - 1e-13 <= min(values)
            assert max(values) <= enclosure.hi + 1e-13
            assert enclosure.width <= 0.05 or n < 2
        # The fourth derivative by differences of the third.
        x = np.linspace(u.lo, u.hi, 9)
        steps = np.diff([at(k, y, z, 3) for k in x]) / np.maximum(np.diff(x), 1e-300)
        if u.hi > u.lo:
            assert found[4].lo - 1e-9 <= steps.min()
            assert steps.max() <= found[4].hi + 1e-9


SHIFTS = [(0.0, 0.0), (1.0, 0.0), (7.0, 0.0), (300.0, 0.0), (0.0, 40.0), (0.5, 0.0), (9.0, 2.5)]
SIZES = [1e-12, 1e-6, 1e-3, 0.049, 0.051, 0.3, 2.0, 50.0]


def exact(x, y, z):
    """Return log Γ(1/x + y) - log Γ(1/x + z) + (y - z) log x."""
    a = 1 / mp.mpf(x)
    return mp.loggamma(a + y) - mp.loggamma(a + z) + (y - z) * mp.log(x)


def slope(order, x, y, z):
    """Return a derivative of that, by differentiating polygamma functions of 1/x."""
    with mp.workdps(80):
        return mp.diff(
            lambda t: exact(t, y, z), mp.mpf(x), order, relative=True, h=mp.mpf(10) ** -20
        )


def size(x, y, z, order):
    """Return what rounding errors are relative to: the largest terms of a sum."""
    s = max(y, z, 1.0)
    return s ** (order + 1) if order else s * max(s * x, np.log1p(s * x))


#: x, y, z.
POINTS = [(x, *shifts) for x in SIZES for shifts in SHIFTS]


def far(found, expected, allowed):
    """Return the points where a number is off by more than is allowed."""
    off = [abs(f - float(e)) > a for f, e, a in zip(found, expected, allowed, strict=True)]
    return [point for point, wrong in zip(POINTS, off, strict=True) if wrong]


def test_values_are_precise():
    with mp.workdps(60):
        expected = [exact(*point) for point in POINTS]
    found = [gamma_rise_at(*point) for point in POINTS]
    allowed = [
        max(1e-11 * abs(float(e)), 3e-14 * size(*point, 0))
        for e, point in zip(expected, POINTS, strict=True)
    ]
    assert far(found, expected, allowed) == []


@pytest.mark.parametrize("order", [1, 2, 3])
def test_slopes_are_precise(order):
    expected = [float(slope(order, *point)) for point in POINTS]
    found = [gamma_rise_slope_at(order, *point) for point in POINTS]
    allowed = [
        max(1e-10 * abs(e), 1e-12 * size(*point, order))
        for e, point in zip(expected, POINTS, strict=True)
    ]
    assert far(found, expected, allowed) == []
