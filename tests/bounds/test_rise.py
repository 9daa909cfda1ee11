import numpy as np
import pytest

from every import every
from pymc_minibatch_mh.bounds.interval import Interval
from pymc_minibatch_mh.bounds.rules import gamma as rise
from pymc_minibatch_mh.bounds.rules import gamma_rise_derivatives
from pymc_minibatch_mh.kernels.special import gamma_rise, gamma_rise_slope

COUNTS = np.array([0.0, 1.0, 2.0, 9.0, 24.0])
ORDER = 4


def fourth(x, y, z):
    """Return the fourth derivative of sums of logarithms."""
    low, high = int(min(y, z)), int(max(y, z))
    j = np.arange(low, high) / (1.0 + np.arange(low, high) * x)
    return np.copysign(1.0, y - z) * -6.0 * (j**4).sum()


def at(x, y, z, n):
    if n == 0:
        return gamma_rise(x, y, z)
    return fourth(x, y, z) if n == 4 else gamma_rise_slope(n, x, y, z)


def intervals(seed=0, count=40):
    """Yield intervals down to zero, wide ones and points."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        lo, hi = np.sort(10.0 ** rng.uniform(-6, 1, 2))
        yield Interval(*np.array([(0.0, hi), (lo, hi), (lo, lo), (lo, lo * 1.01)][k % 4]))


@every("swapped", [False, True])
def test_sums_of_logarithms_are_enclosed_tightly(swapped):
    low = np.zeros(COUNTS.size)
    shifts = (low, COUNTS) if swapped else (COUNTS, low)
    for u in intervals():
        found = gamma_rise_derivatives(u, *shifts, ORDER)
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


@every(("y", "z"), [(0.5, 0.0), (0.0, 0.5)])
def test_half_a_step_is_enclosed(y, z):
    for u in intervals():
        found = gamma_rise_derivatives(u, np.asarray(y), np.asarray(z), ORDER)
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


def test_rows_of_both_kinds_and_of_none():
    u = Interval(np.array(0.0), np.array(0.1))
    y, z = np.array([3.0, 0.5, 0.25]), np.zeros(3)
    found = gamma_rise_derivatives(u, y, z, 3)
    assert all(np.isfinite(x.lo[:2]).all() and np.isfinite(x.hi[:2]).all() for x in found)
    assert all(x.lo[2] == -np.inf and x.hi[2] == np.inf for x in found)


def test_negative_and_infinite_ends_have_no_bounds():
    counts, zero = np.array([3.0]), np.zeros(1)
    for u in (Interval(np.array(-1e-9), np.array(0.1)), Interval(np.array(0.0), np.array(np.inf))):
        assert all(np.isinf(x.magnitude).all() for x in gamma_rise_derivatives(u, counts, zero, 3))


def test_a_table_of_sums_does_not_outgrow_memory(monkeypatch):
    monkeypatch.setattr(rise, "LARGEST_TABLE", 10)
    u = Interval(np.array(0.0), np.array(0.1))
    found = gamma_rise_derivatives(u, np.array([30.0]), np.zeros(1), 2)
    assert all(np.isinf(x.magnitude).all() for x in found)


def test_intervals_of_rows_may_differ():
    u = Interval(np.array([0.0, 0.1, 0.0]), np.array([0.2, 0.1, 3.0]))
    y, z = np.array([4.0, 9.0, 2.0]), np.zeros(3)
    whole = gamma_rise_derivatives(u, y, z, 3)
    for row in range(3):
        alone = Interval(u.lo[row], u.hi[row])
        single = gamma_rise_derivatives(alone, y[row : row + 1], z[row : row + 1], 3)
        for one, other in zip(whole, single, strict=True):
            assert [one.lo[row], one.hi[row]] == [other.lo[0], other.hi[0]]
