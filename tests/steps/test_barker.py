"""Barker's test: its correction, what it accepts, how many rows it reads, and skewed batches."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, ndtr

from benchmarks.skew import AIM, LAWS
from helpers.in_library import barker_error, barker_probability, decide_batch, sample_size
from pymc_minibatch_mh.published.barker_paper import growing
from pymc_minibatch_mh.steps import barker
from pymc_minibatch_mh.steps.barker import SHIPPED_SIGMAS, correction_table, minimax_correction

BIG = 10**6
DEFAULT = barker.barker_test()


def probability(log_ratio, variance, settings=DEFAULT):
    return decide_batch(log_ratio, variance, 0.0, 500, BIG, 0.5, settings)[1]


@pytest.mark.parametrize("sigma", [1.0, 1.2])
@pytest.mark.parametrize("variance", [0.0, 0.3, 0.9, 0.999])
def test_probability_is_the_sum_over_atoms(sigma, variance):
    table, settings = correction_table(sigma), barker.barker_test(sigma)
    for log_ratio in np.linspace(-40.0, 40.0, 161):
        room = math.sqrt(sigma**2 - variance)
        direct = table.masses @ ndtr((log_ratio + table.atoms) / room)
        assert probability(log_ratio, variance, settings) == pytest.approx(direct, abs=1e-14)


@pytest.mark.parametrize("sigma", [1.0, 1.2])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_normal_noise_of_known_variance_gives_barkers_acceptance(sigma, share):
    settings, table = barker.barker_test(sigma), correction_table(sigma)
    deviation = math.sqrt(share) * sigma
    for exact in (-3.0, -0.4, 1.7):
        averaged, _ = quad(
            lambda z, exact=exact: (
                probability(exact + deviation * z, deviation**2, settings) * math.exp(-z * z / 2.0)
            ),
            -9.0,
            9.0,
            limit=400,
            epsabs=1e-10,
        )
        averaged /= math.sqrt(2.0 * math.pi)
        assert abs(averaged - expit(exact)) <= table.error + 1e-9


def test_variance_above_sigma_squared_leaves_the_correction_alone():
    table = correction_table(1.2)
    for log_ratio in (-2.03, 0.0, 0.31):
        above = table.masses[table.atoms > -log_ratio].sum()
        tied = table.masses[table.atoms == -log_ratio].sum()
        expected = pytest.approx(above + tied / 2.0, abs=1e-14)
        assert probability(log_ratio, 1.2**2) == expected
        assert probability(log_ratio, math.inf) == expected


@pytest.mark.parametrize(
    ("max_error", "bound", "skewness"), [(0.002, "edgeworth", 3.0), (0.02, "novak", 0.0)]
)
def test_max_error_takes_the_smallest_batch(max_error, bound, skewness):
    settings = barker.barker_test(max_error=max_error)._replace(novak=int(bound == "novak"))
    settings = settings._replace(skewness=skewness)
    spread = 200.0
    rows = sample_size(spread, 0, BIG, settings)

    def error(n):
        return barker_error(spread * (1 / n - 1 / BIG), 0.0, n, BIG, settings)

    assert rows > sample_size(spread, 0, BIG, barker.barker_test())
    assert error(rows) <= max_error < error(rows - 1)


def test_growth_reads_on_until_the_variance_and_the_error_fit():
    settings = growing(barker.barker_test(max_error=0.05))
    assert [sample_size(9.0, n, 250, settings) for n in (0, 100, 200)] == [100, 200, 250]
    assert decide_batch(0.1, 1.44, 0.0, 100, BIG, 0.5, settings)[0] == -1.0
    assert decide_batch(0.1, 1.43, 0.0, 100, BIG, 0.5, settings)[0] in (0.0, 1.0)
    assert decide_batch(0.1, 1.43, 9.0, 100, BIG, 0.5, settings)[0] == -1.0


def test_edgeworth_error_is_the_documented_sum():
    settings = DEFAULT._replace(skewness=0.5)
    f, s2, table = 0.2, 0.9, correction_table(1.2)
    for skewness, used in ((-2.0, 2.0), (0.1, 0.5), (math.nan, 0.5)):
        expected = (2 - f) * used * s2**1.5 / (48 * math.sqrt(200 * (1 - f)))
        expected += 0.0319 * s2**2 / 199 + table.error
        found = decide_batch(0.0, s2, skewness, 200, 1000, 0.5, settings)[2]
        assert found == pytest.approx(expected, rel=1e-12)
        grown = growing(DEFAULT)._replace(skewness=0.5)
        more = decide_batch(0.0, s2, skewness, 200, 1000, 0.5, grown)[2] - found
        assert more == pytest.approx(used * 1.2 / (4 * math.sqrt(200)), rel=1e-9)


def test_uncompensated_noise_is_part_of_the_error():
    fits = barker_error(1.44, 0.0, 10**5, BIG, DEFAULT)
    exceeds = barker_error(1.64, 0.0, 10**5, BIG, DEFAULT)
    assert exceeds - fits == pytest.approx(0.2 / (12 * math.sqrt(3.0)), rel=1e-3)
    assert barker_error(1e9, 0.0, 500, BIG, DEFAULT) == 1.0


def test_edgeworth_error_covers_skewed_batches():
    # Batches of gamma(4) rows, skewness 1: their mean and variance, exactly drawn.
    rng = np.random.default_rng(11)
    rows = rng.standard_gamma(4.0, (200_000, 50)) - 4.0
    scale = 1.0 / math.sqrt(4.0 / 50)
    log_ratio, variance = scale * rows.mean(axis=1), scale**2 * rows.var(axis=1, ddof=1) / 50
    accepted = [barker_probability(d, v, DEFAULT) for d, v in zip(log_ratio, variance, strict=True)]
    error = barker_error(1.0, 1.0, 50, 10**9, DEFAULT)
    assert abs(np.mean(accepted) - 0.5) < error < 0.02


def distance(table, points):
    cdf = ndtr((points[:, None] - table.atoms) / table.sigma) @ table.masses
    return np.abs(cdf - expit(points)).max()


@pytest.mark.parametrize("sigma", [*SHIPPED_SIGMAS, 0.6, 1.5])
def test_certified_error_bounds_the_distance_and_is_tight(sigma):
    table = correction_table(sigma)
    rng = np.random.default_rng(7)
    seen = distance(table, np.concatenate([rng.uniform(-60, 60, 9000), np.linspace(-9, 9, 9001)]))
    assert seen <= table.error
    assert table.error < 1.05 * seen + 1e-12


@pytest.mark.parametrize("sigma", SHIPPED_SIGMAS)
def test_shipped_table_is_what_the_linear_programme_gives(sigma):
    rebuilt = minimax_correction(sigma)
    assert rebuilt.error == pytest.approx(correction_table(sigma).error, rel=1e-2, abs=1e-10)


HUGE = 10_000_000
SIGMA, ROWS, BATCHES = 1.2, 300, 20_000


def probabilities(log_ratios, variances, skewnesses, n=ROWS, **given):
    settings = barker.barker_test(SIGMA)._replace(**given)
    batches = log_ratios, variances, skewnesses
    decided = [decide_batch(*each, n, HUGE, 0.5, settings) for each in zip(*batches, strict=True)]
    return np.array([probability for _, probability, _ in decided])


def batches():
    """Return noises of log ratios, their estimated variances, and skewnesses."""
    x = LAWS["exponential"](np.random.default_rng(1), (BATCHES, ROWS))
    scale = np.sqrt(AIM * SIGMA**2 * ROWS)
    mean, spread = x.mean(axis=1), x.std(axis=1)
    skewness = ((x - mean[:, None]) ** 3).mean(axis=1) / spread**3
    return scale * mean, scale**2 * x.var(axis=1, ddof=1) / ROWS, skewness


def errors(**given):
    """Return the largest error of the mean probability of accepting over log ratios."""
    noise, variance, skewness = batches()
    target = AIM * SIGMA**2
    # Control variates of known mean 0 leave little Monte Carlo error.
    design = np.vstack([np.ones(BATCHES), noise, noise**2 - target, variance - target]).T
    off = []
    for ratio in (-2.0, -1.0, 0.0, 1.0, 2.0):
        p = probabilities(ratio + noise, variance, skewness, **given)
        (mean, *_), *_ = np.linalg.lstsq(design, p, rcond=None)
        off.append(mean - expit(ratio))
    return np.abs(off).max()


def test_the_correction_lowers_the_error_of_skewed_batches():
    plain, corrected = errors(), errors(skewed=1)
    assert plain > 0.003
    assert corrected < 0.5 * plain


def test_the_correction_is_the_third_derivative_times_the_skewness():
    ratio, variance, skewness, step = np.linspace(-3.0, 3.0, 25), 0.6, 1.7, 0.02
    n = 500

    def at(places, **given):
        ones = np.ones(places.size)
        return probabilities(places, variance * ones, skewness * ones, n, **given)

    bend = at(ratio + 2 * step) - 2 * at(ratio + step) + 2 * at(ratio - step) - at(ratio - 2 * step)
    bend /= 2.0 * step**3
    f = n / HUGE
    factor = (2.0 - f) * skewness * variance**1.5 / (6.0 * np.sqrt(n * (1.0 - f)))
    shift = at(ratio, skewed=1) - at(ratio)
    np.testing.assert_allclose(shift, factor * bend, atol=2e-5)
    assert np.abs(shift).max() > 1e-3


@pytest.mark.parametrize(
    ("variance", "skewness"), [(0.86 * SIGMA**2, 2.0), (2.0, 2.0), (0.5, np.nan), (0.5, 0.0)]
)
def test_nothing_is_corrected_where_it_cannot_be(variance, skewness):
    arguments = [np.array([value]) for value in (0.3, variance, skewness)]
    assert probabilities(*arguments) == probabilities(*arguments, skewed=1)
