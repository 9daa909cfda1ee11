import mpmath as mp
import numpy as np
import pytest
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from functions.cases import CASES, ORDER, REALS
from pymc_minibatch_mh.functions import enclosures
from pymc_minibatch_mh.functions.enclosures import NoRuleError, Shape, enclose_derivatives
from pymc_minibatch_mh.functions.gamma_ratio import gamma_ratio
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.functions.log_erfc import log_erfc

INTERVALS, EXACT_POINTS = 2_000, 60

every_case = pytest.mark.parametrize("case", CASES, ids=str)
rounding_cases = pytest.mark.parametrize("case", [c for c in CASES if c.rounds], ids=str)


def intervals(case, seed=1):
    """Return random intervals of many scales, with points, zeros and infinite ends among them."""
    rng = np.random.default_rng(seed)
    n = 3 * INTERVALS

    def numbers():
        most = np.log10(case.reach)
        size = np.where(rng.random(n) < 0.8, rng.uniform(-3, 2.5, n), rng.uniform(-290, most, n))
        return rng.choice([-1.0, 1.0], n) * 10.0**size

    lo = numbers()
    near, far = lo + 10.0 ** rng.uniform(-12, 1, n) * np.abs(lo), numbers()
    hi = np.where(rng.random(n) < 0.5, near, np.where(rng.random(n) < 0.7, far, lo))
    kind = rng.integers(20, size=n)
    lo = np.where(kind == 0, 0.0, np.where(kind == 1, -np.inf, lo))
    hi = np.where(kind == 2, 0.0, np.where(kind == 3, np.inf, hi))
    ends = np.clip(np.sort([lo, hi], axis=0), *case.domain)
    inside = (ends[0] < ends[1]) | ((ends[0] != case.domain[0]) & (ends[0] != case.domain[1]))
    return Interval(*ends[:, inside][:, :INTERVALS])


def points(case, u, per_interval):
    """Yield points of all intervals: the ends, where the derivatives turn, and some in between."""
    yield u.lo
    yield u.hi
    yield from (np.clip(turn, u.lo, u.hi) for turn in case.turns)
    if case.name in ("sin", "cos"):
        first = np.ceil(np.clip(u.lo, -case.reach, case.reach) / (0.5 * np.pi))
        yield from (np.clip((first + k) * 0.5 * np.pi, u.lo, u.hi) for k in range(4))
    lo, hi = np.clip(u.lo, -case.reach, case.reach), np.clip(u.hi, -case.reach, case.reach)
    for t in np.linspace(0.0, 1.0, per_interval):
        yield np.clip(lo + t * (hi - lo), u.lo, u.hi)
        yield np.clip(np.sinh((1.0 - t) * np.arcsinh(lo) + t * np.arcsinh(hi)), u.lo, u.hi)


def between_turns(u, values, valleys, peaks):
    """Return the range of a function by its values at ends and turns, by NumPy, not rounded."""
    lo, hi = np.minimum(*values), np.maximum(*values)
    for at, value in np.reshape(valleys, (-1, 2)):
        lo = np.where((u.lo <= at) & (at <= u.hi), np.minimum(lo, value), lo)
    for at, value in np.reshape(peaks, (-1, 2)):
        hi = np.where((u.lo <= at) & (at <= u.hi), np.maximum(hi, value), hi)
    return lo, hi


def encloses(case, enclose, u, per_interval=5):
    """Whether enclosures over intervals meet those at single points, whose width is rounding."""
    enclosures = enclose(u, ORDER)
    for x in points(case, u, per_interval):
        of_points = case.enclose(Interval.point(x), ORDER)
        for inner, outer in zip(of_points, enclosures, strict=True):
            if not ((inner.hi >= outer.lo) & (inner.lo <= outer.hi)).all():
                return False
    return True


def exact_value_missed(case, seed=2):
    """Return where an enclosure of a point misses a value of high precision; else nothing.

    Values lie away from its ends, but one that is a floating-point number itself may be an end.
    """
    u = intervals(case, seed)
    x = np.concatenate([u.lo, u.hi])
    x = x[np.isfinite(x) & (x != case.domain[0]) & (x != case.domain[1]) & (abs(x) > 1e-60)]
    x = x[abs(x) < 1e60] if case.reach > 1e60 else x
    x = np.random.default_rng(seed).choice(x, EXACT_POINTS)
    x = np.concatenate([x, [turn for turn in case.turns if turn != 0.0]])
    enclosures = case.enclose(Interval.point(x), ORDER)
    with mp.workdps(60):
        for i, values in enumerate(case.exact(mp.mpf(float(number))) for number in x):
            for n, (value, enclosure) in enumerate(zip(values, enclosures, strict=True)):
                lo, hi = float(enclosure.lo[i]), float(enclosure.hi[i])
                is_end = value in (lo, hi)
                if not (is_end or lo < value < hi):
                    return f"derivative {n} at {x[i]}: {mp.nstr(value, 17)} not in ({lo}, {hi})"
    return ""


@every_case
def test_enclosures_hold_the_values_at_all_points(case):
    assert encloses(case, case.enclose, intervals(case))


@every_case
def test_enclosures_of_points_hold_the_exact_values(case):
    assert exact_value_missed(case) == ""


@every_case
def test_enclosures_are_no_wider_than_the_range(case):
    u = intervals(case, seed=3)
    enclosures = case.enclose(u, ORDER)
    sampled = None
    for x in points(case, u, 16):
        inner = case.enclose(Interval.point(x), ORDER)
        pairs = zip(sampled or inner, inner, strict=True)
        sampled = [known.hull(new) for known, new in pairs]
    for outer, inner in zip(enclosures, sampled, strict=True):
        finite = np.isfinite(outer.width)
        assert np.array_equal(finite, np.isfinite(inner.width))
        room = 0.01 * inner.width + 1e-11 * outer.magnitude + 1e-290
        assert (outer.width <= inner.width + room)[finite].all()


@rounding_cases
def test_without_outward_rounding_exact_values_are_missed(case, monkeypatch):
    def without_rounding(low, high, at_low, at_high, *others):
        *_, shape, lo, hi = others
        u = Interval(low, high)
        lo[:], hi[:] = between_turns(u, (at_low, at_high), shape.valleys, shape.peaks)

    monkeypatch.setattr(Interval, "rounded", lambda lo, hi, slack=0.0: Interval(lo, hi))
    monkeypatch.setattr(enclosures, "function", lambda _: without_rounding)
    assert exact_value_missed(case) != ""


@every_case
def test_higher_orders_leave_lower_ones_as_they_are(case):
    u = intervals(case).take(np.arange(300))
    highest = case.enclose(u, ORDER)
    for order in range(ORDER):
        for low, high in zip(case.enclose(u, order), highest[: order + 1], strict=True):
            np.testing.assert_array_equal(low.lo, high.lo)
            np.testing.assert_array_equal(low.hi, high.hi)


def test_the_fourth_derivative_of_gamma_ratios_is_precise_far_out():
    """It is taken times x⁴, where x is the exponential of an argument."""
    for x in (1e-3, 0.7, 30.0, 1e4, 1e6):
        fourth = enclose_derivatives(gamma_ratio, Interval.point(x), 4, 3.0, 0.0)[4]
        with mp.workdps(60):
            exact = mp.psi(3, mp.mpf(x) + 3) - mp.psi(3, mp.mpf(x))
            assert float(fourth.lo) < exact < float(fourth.hi)
            assert float(fourth.width) < 1e-5 * abs(exact)


@every_case
def test_no_interval_leads_to_nan_or_to_a_warning(case):
    ends = np.array([-np.inf, -1e308, -800.0, -1.0, -0.0, 0.0, 1e-310, 0.5, 2.0, 800.0, np.inf])
    lo, hi = np.triu(np.ones((11, 11))).nonzero()
    for u in (Interval(ends[lo], ends[hi]), Interval(ends[0], ends[3]), Interval.point(-0.0)):
        for order in range(ORDER + 1):
            enclosures = case.enclose(u, order)
            assert len(enclosures) == order + 1
            for enclosure in enclosures:
                assert enclosure.shape == u.shape
                assert (enclosure.lo <= enclosure.hi).all()


@pytest.mark.parametrize("case", [c for c in CASES if c.domain != REALS], ids=str)
def test_outside_of_the_domain_there_are_no_bounds(case):
    lower, upper = case.domain
    u = Interval(np.array([lower - 1.0, -np.inf]), np.array([-0.5, 3.0]) if upper else [2.0, 1.0])
    for enclosure in case.enclose(u, ORDER):
        assert (enclosure.lo == -np.inf).all()
        assert (enclosure.hi == np.inf).all()


def test_tails_beyond_the_reach_of_cancelling_formulas():
    x = 1e8
    erfcx = enclose_derivatives(scalar_math.erfcx, Interval.point(x), 4)
    leading = [1 / x, -1 / x**2, 2 / x**3, -6 / x**4, 24 / x**5]
    assert [float(e.lo) for e in erfcx] == pytest.approx(np.array(leading) / np.sqrt(np.pi))
    found = enclose_derivatives(log_erfc, Interval.point(x), 4)
    leading = [-2 * x, -2.0, -2 / x**3, 6 / x**4]
    for enclosure, value in zip(found[1:], leading, strict=True):
        assert float(enclosure.lo) == pytest.approx(value, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("op", [scalar_math.j0, scalar.convert_to_int64], ids=str)
def test_an_op_without_rule_is_named(op):
    with pytest.raises(NoRuleError, match="no enclosure") as raised:
        enclose_derivatives(op, Interval(0.0, 1.0), 3)
    assert raised.value.op is op


def widened(x):
    """Slack that depends on the argument, and that is not finite where it is infinite."""
    return 1e-9 * np.abs(x)


@pytest.mark.parametrize("slack", [1e-200, widened])
def test_ranges_are_the_values_at_ends_and_turns(slack):
    rng = np.random.default_rng(5)
    special = np.array([-np.inf, np.inf, -1.0, 0.0, -0.0, 2.0, 1e308, -1e308, 5e-324])
    u = Interval(*np.sort(rng.choice(special, (2, 4_000)), axis=0))
    values = rng.choice([*special, np.nan], (2, 4_000))
    shape = Shape(
        valleys=((-1.0, -3.0),), peaks=((0.5, 4.0), (2.0, 7.0)), floor=-5.0, ceiling=1e300,
        slack=slack,
    )  # fmt: skip
    lo, hi = between_turns(u, values, shape.valleys, shape.peaks)
    around = slack if slack == 1e-200 else np.maximum(slack(u.lo), slack(u.hi)) + 1e-300
    expected = Interval.rounded(lo, hi, around).clipped_to(-5.0, 1e300)
    found = shape.range_over(u, *values)
    np.testing.assert_array_equal(found.lo, expected.lo)
    np.testing.assert_array_equal(found.hi, expected.hi)
    single = shape.range_over(Interval(u.lo[3], u.hi[3]), *values[:, 3])
    assert single.shape == ()
    assert float(single.hi) == expected.hi[3]
