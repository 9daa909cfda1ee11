import mpmath as mp
import numpy as np
import pytest

from pymc_minibatch_mh.kernels.rises import gamma_rise, gamma_rise_slope

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


@pytest.mark.parametrize("shifts", SHIFTS, ids=str)
@pytest.mark.parametrize("x", SIZES)
def test_values_are_precise(x, shifts):
    with mp.workdps(60):
        assert gamma_rise(x, *shifts) == pytest.approx(
            float(exact(x, *shifts)), rel=1e-11, abs=3e-14 * size(x, *shifts, 0)
        )


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("shifts", SHIFTS, ids=str)
@pytest.mark.parametrize("x", SIZES)
def test_slopes_are_precise(x, shifts, order):
    assert gamma_rise_slope(order, x, *shifts) == pytest.approx(
        float(slope(order, x, *shifts)), rel=1e-10, abs=1e-12 * size(x, *shifts, order)
    )


@pytest.mark.parametrize("y", [0, 1, 2, 5, 60])
def test_at_zero_a_rise_is_a_sum_of_powers(y):
    j = np.arange(y, dtype=float)
    assert gamma_rise(0.0, float(y), 0.0) == 0.0
    expected = [j.sum(), -(j**2).sum(), 2.0 * (j**3).sum()]
    found = [gamma_rise_slope(order, 0.0, float(y), 0.0) for order in (1, 2, 3)]
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_half_a_step_has_its_asymptotic_series():
    found = [gamma_rise_slope(order, 0.0, 0.5, 0.0) for order in (1, 2, 3)]
    assert found == pytest.approx([-1 / 8, 0.0, 1 / 32], abs=1e-15)


def test_there_is_no_rise_below_zero():
    assert np.isnan(gamma_rise(-1e-9, 3.0, 0.0))
    assert np.isnan(gamma_rise_slope(2, -1e-9, 3.0, 0.0))
