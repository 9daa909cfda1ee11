import math

import numpy as np
import pytest
from scipy.special import zeta
from scipy.stats import hypergeom

from helpers.in_library import decide_by_width, level, next_rows
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.published.confidence_scan import ScanMethod
from pymc_minibatch_mh.steps import confidence

DEFAULT = confidence.confidence_test()
half_width = function("mh_half_width")


@pytest.mark.parametrize("p", [1.2, 2.0, 5.0])
def test_the_levels_of_all_looks_add_up_to_less_than_delta(p):
    test = confidence.confidence_test(p=p, delta=0.1)
    # The tail of the series in closed form, of which few terms are added up.
    levels = sum(level(k, test) for k in range(2, 2_000))
    share = (p - 1.0) / p
    rest = share * 0.1 * zeta(p, 2_000)
    assert levels + rest == pytest.approx(share * 0.1 * (zeta(p) - 1.0), rel=1e-9)
    assert levels + rest < 0.1 / p


def test_the_first_look_counts_as_the_second():
    assert level(2, DEFAULT) == pytest.approx(0.01 / 8, rel=1e-15)
    assert level(3, DEFAULT) == pytest.approx(0.01 / 18, rel=1e-15)


def test_the_width_is_the_one_of_the_comparison():
    """c = σ sqrt(2 ln(3/δ_k)/n) + 6 max|l| ln(3/δ_k)/n, with R = 2 max|l|."""
    sigma, largest, n, delta_k = 0.3, 1.7, 400, 0.00125
    bits = math.log(3.0 / delta_k)
    expected = sigma * math.sqrt(2.0 * bits / n) + 6.0 * largest * bits / n
    found = half_width(sigma, 2.0 * largest, n, delta_k)
    assert found == pytest.approx(expected, rel=1e-15)


def test_batches_grow_by_gamma_until_all_rows_decide():
    def looks(total, test):
        n, found = 0, []
        while n < total:
            n = next_rows(n, total, 0.5 * total, test)
            found.append(n)
        return found

    assert looks(13_000, DEFAULT) == [100, 200, 400, 800, 1600, 3200, 6400, 13_000]
    assert looks(2_000, confidence.confidence_test(gamma=1.5)) == [
        100,
        150,
        225,
        338,
        507,
        761,
        2_000,
    ]
    # After a scan, until there are no more.
    assert looks(13_000, DEFAULT._replace(scans=1))[-2:] == [12_800, 13_000]
    # A factor that adds less than a row still adds one.
    assert looks(9, confidence.confidence_test(2, gamma=1.01)) == [2, 3, 4, 9]


TOTAL = 1_000


@pytest.mark.parametrize("delta_k", [0.2, 0.01])
@pytest.mark.parametrize("n", [10, 50, 400])
def test_a_look_is_wrong_with_probability_delta_k_at_most(n, delta_k):
    """Of rows that are 0 or 1, for every number of ones, summed over all batches."""
    for ones in (1, 3, 10, 50, 300, 500, 950, 999):
        found = np.arange(n + 1)
        share = found / n
        widths = np.array([half_width(s, 1.0, n, delta_k) for s in np.sqrt(share * (1.0 - share))])
        wrong = np.abs(share - ones / TOTAL) > widths
        assert hypergeom.pmf(found, TOTAL, ones, n)[wrong].sum() <= delta_k


def test_a_look_decides_where_the_threshold_is_out_of_reach():
    uniform = 0.3
    threshold = math.log(uniform)
    for side in (-1.0, 1.0):
        for distance in (0.1, 0.69, 0.71, 5.0):
            log_ratio = threshold + side * distance
            verdict, p = decide_by_width(log_ratio, 0.7, uniform)
            assert verdict == ((side > 0.0) if distance > 0.7 else -1.0)
            assert p == pytest.approx(min(1.0, math.exp(log_ratio)), rel=1e-14)


@pytest.mark.parametrize("width", [0.0, 3.0, math.nan])
def test_infinite_and_undefined_log_ratios(width):
    assert decide_by_width(math.nan, width, 0.0) == (0, 0)
    assert decide_by_width(-math.inf, width, 0.0) == (0, 0)
    assert decide_by_width(math.inf, width, 0.999) == (1, 1)


@pytest.mark.parametrize("kind", [confidence.ConfidenceMethod, ScanMethod])
def test_the_guarantee_says_what_the_range_rests_on(kind):
    method, scans = kind(DEFAULT), kind is ScanMethod
    assert ("given valid bounds" in method.guarantee.controls) == (not scans)
    assert method.requirements.derives_bounds == (not scans)
