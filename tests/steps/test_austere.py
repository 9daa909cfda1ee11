"""AustereMH: its looks, and the functions that tests on one batch share."""

import math

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit, ndtr, ndtri, stdtr
from scipy.stats import ttest_1samp

from helpers.in_library import decide_batch, sample_size
from helpers.zoo import sample
from pymc_minibatch_mh import AustereMH, audit, explain
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.published.barker_paper import growing
from pymc_minibatch_mh.steps import austere, barker, penalty

BIG = 10**6
logistic, normal_cdf = function("mh_logistic"), function("mh_normal_cdf")
student_tail = function("mh_student_tail")
DEFAULT = austere.austere_test()


def test_a_look_is_a_t_test_of_the_mean_difference():
    rng = np.random.default_rng(3)
    rows, cheap, uniform, n = rng.normal(1e-7, 1e-5, 40), 0.2, 0.6, 40
    variance = BIG**2 * rows.var(ddof=1) / n * (1 - n / BIG)
    mean_at_threshold = (math.log(uniform) - cheap) / BIG
    _, tail = ttest_1samp(rows, mean_at_threshold)
    decided = decide_batch(cheap + BIG * rows.mean(), variance, 0.0, n, BIG, uniform, DEFAULT)
    assert decided[2] == pytest.approx(tail / 2, rel=1e-4)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_look_decides_once_the_tail_is_below_epsilon(side):
    uniform, deviation = 0.3, 0.7
    for t in (1.0, 1.6, 1.8, 4.0):
        log_ratio = math.log(uniform) + side * t * deviation
        verdict, p, tail = decide_batch(log_ratio, deviation**2, 0.0, 20, BIG, uniform, DEFAULT)
        assert tail == pytest.approx(stdtr(19, -t), abs=1e-11)
        assert p == pytest.approx(min(1.0, math.exp(log_ratio)), rel=1e-14)
        assert verdict == ((side > 0.0) if tail < 0.05 else -1.0)


@pytest.mark.parametrize(
    ("kappa", "third_moment", "decided"),
    [(0.0, 0.0, True), (1e-9, 1.0, False), (0.0, 1.0, False), (math.inf, 0.0, False)],
)
def test_equal_differences_decide_only_if_all_rows_were_equal(kappa, third_moment, decided):
    test = DEFAULT._replace(kappa=kappa, third_moment=third_moment)
    for log_ratio, verdict in ((-50.0, 0.0), (50.0, 1.0)):
        found = decide_batch(log_ratio, 0.0, 0.0, 20, BIG, 0.5, test)
        assert found[0] == (verdict if decided else -1.0)


def test_rows_without_remainders_are_decided_by_one_batch():
    rng = np.random.default_rng(4)
    group = rng.integers(0, 6, 3_000)
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        effects = pm.Normal("effects", 0.0, scale, shape=6)
        # Of a known noise, the log-density is a polynomial of second order, and so its own.
        pm.Normal("y", effects[group], 1.0, observed=rng.normal(0.3 * group, 1.0))
    counts = AustereMH(model=model).chain.advance(50).counts
    assert counts["n_obs"].max() == 500
    assert counts["accepted"].mean() > 0.3


def test_differences_that_only_rounding_tells_apart_are_undecided():
    rows = np.full(7, 0.1)
    rounded = BIG**2 * ((rows - rows.mean() - 2e-17) ** 2).sum() / 6 / 7
    assert rounded > 0.0
    decided = decide_batch(BIG * rows.mean(), rounded, 0.0, 7, BIG, 0.5, DEFAULT)
    assert decided[0] == -1.0


def test_all_rows_read_is_metropolis():
    for log_ratio in (-2.0, -0.1, 0.4):
        for uniform in (0.0, 0.1, 0.5, 0.95):
            verdict, p, error = decide_batch(log_ratio, 0.0, 0.0, BIG, BIG, uniform, DEFAULT)
            assert verdict == (uniform < math.exp(log_ratio))
            assert (p, error) == (min(1.0, math.exp(log_ratio)), 0.0)


def test_every_look_adds_a_batch():
    assert [sample_size(1.0, n, 250, DEFAULT) for n in (0, 100, 200)] == [100, 200, 250]


@pytest.mark.parametrize("n", [0, 100, 249])
def test_at_epsilon_zero_all_rows_are_read_at_once(n):
    assert sample_size(1.0, n, 250, austere.austere_test(0.0)) == 250


@pytest.mark.parametrize("boundary", [0.5, 0.75, 1.0])
def test_the_level_of_a_look_is_that_of_its_limit(boundary):
    test = austere.austere_test(0.05, boundary=boundary)
    limits = ndtri(0.95) * np.array([0.05, 0.2, 0.999]) ** (0.5 - boundary)
    levels = ndtr(-limits)
    for n, expected in zip((50, 200, 999), levels, strict=True):
        for t in (1.0, 1.5, 2.0, 3.0, 5.0, 9.0):
            verdict = decide_batch(t, 1.0, 0.0, n, 1_000, 1.0 - 1e-16, test)[0]
            assert verdict == (1.0 if stdtr(n - 1, -t) < expected else -1.0)


@pytest.fixture(scope="module")
def baseline(prepared):
    return prepared("logistic", "AustereMH", epsilon=0)


def test_a_step_that_reads_all_rows_is_not_warned_of(baseline):
    baseline.setup_chain(np.random.default_rng(7), 0, 600)
    point, warnings = {"beta": np.array([-0.5, 1.0, 0.3])}, []
    for _ in range(600):
        point, (stats,) = baseline.step(point)
        warnings.append(stats["warning"])
    assert not any(warnings)


@pytest.mark.filterwarnings("ignore:The number of samples is too small")
def test_the_baseline_is_exact_and_every_page_says_so(model_of, baseline):
    assert str(baseline.guarantee) == baseline.exactness == "exact"
    trace = sample(model_of("logistic"), baseline, 100, 100, random_seed=8)
    stats = trace.sample_stats
    assert stats["certified"].all()
    assert (stats["n_obs"] == 5_000).all()
    assert not {"n_looks", "error_estimate"} & set(stats.data_vars)
    found = audit(trace, baseline, pairs=8, random_seed=9)
    assert np.abs(found["pairs"]["acceptance_error"]).max() < 1e-9
    assert set(found["verdict"].sel(check=["bounds", "bias", "trace"]).values) == {"ok"}
    explained = str(explain(baseline, draws=100, tune=50, nuts=False))
    assert "AustereMH is exact without bounds" in explained


@pytest.mark.parametrize("degrees", [*range(1, 41), 100, 1000, 10**5, 10**8])
def test_student_tail_is_scipys(degrees):
    # SciPy's own error reaches 1e-9 at one degree of freedom and t = 1e-8.
    t = np.concatenate([[0.0], np.linspace(1e-3, 12, 300), np.logspace(1.1, 100, 30)])
    ours = [student_tail(x, float(degrees)) for x in t]
    np.testing.assert_allclose(ours, stdtr(degrees, -t), rtol=0, atol=1e-11)


def test_normal_cdf_keeps_its_relative_accuracy_in_the_tail():
    x = np.linspace(-37, 9, 400)
    np.testing.assert_allclose([normal_cdf(v) for v in x], ndtr(x), rtol=1e-12)


def test_logistic_at_the_infinities():
    assert [logistic(x) for x in (-math.inf, -1e4, 0.0, math.inf)] == [0.0, 0.0, 0.5, 1.0]
    assert logistic(1.3) == pytest.approx(expit(1.3), rel=1e-15)


#: Tests on batches, whose decisions have the same ends.
BARKER = barker.barker_test()
TESTS = [austere.austere_test(), BARKER, growing(BARKER), penalty.penalty_test()]


@pytest.mark.parametrize("n", [500, BIG])
@pytest.mark.parametrize("test", TESTS)
def test_infinite_and_undefined_log_ratios(test, n):
    assert decide_batch(math.nan, math.nan, math.nan, n, BIG, 0.0, test) == (0, 0, 0)
    assert decide_batch(-math.inf, math.nan, 0.0, n, BIG, 0.0, test) == (0, 0, 0)
    assert decide_batch(math.inf, math.nan, 0.0, n, BIG, 0.999, test) == (1, 1, 0)
