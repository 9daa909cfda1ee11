import mpmath as mp
import numpy as np
import pytest

from pymc_minibatch_mh.kernels.special import gamma_rise, gamma_rise_slope

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
    found = [gamma_rise(*point) for point in POINTS]
    allowed = [
        max(1e-11 * abs(float(e)), 3e-14 * size(*point, 0))
        for e, point in zip(expected, POINTS, strict=True)
    ]
    assert far(found, expected, allowed) == []


@pytest.mark.parametrize("order", [1, 2, 3])
def test_slopes_are_precise(order):
    expected = [float(slope(order, *point)) for point in POINTS]
    found = [gamma_rise_slope(order, *point) for point in POINTS]
    allowed = [
        max(1e-10 * abs(e), 1e-12 * size(*point, order))
        for e, point in zip(expected, POINTS, strict=True)
    ]
    assert far(found, expected, allowed) == []


def test_at_zero_a_rise_is_a_sum_of_powers():
    for y in (0, 1, 2, 5, 60):
        j = np.arange(y, dtype=float)
        assert gamma_rise(0.0, float(y), 0.0) == 0.0
        expected = [j.sum(), -(j**2).sum(), 2.0 * (j**3).sum()]
        found = [gamma_rise_slope(order, 0.0, float(y), 0.0) for order in (1, 2, 3)]
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12), y


def test_half_a_step_has_its_asymptotic_series():
    found = [gamma_rise_slope(order, 0.0, 0.5, 0.0) for order in (1, 2, 3)]
    assert found == pytest.approx([-1 / 8, 0.0, 1 / 32], abs=1e-15)


def test_there_is_no_rise_below_zero():
    assert np.isnan(gamma_rise(-1e-9, 3.0, 0.0))
    assert np.isnan(gamma_rise_slope(2, -1e-9, 3.0, 0.0))
