"""The correction of Barker's test for the skewness of a batch."""

import numpy as np
from numba import njit
from scipy.special import expit

from benchmarks.skew import AIM, LAWS
from every import every
from pymc_minibatch_mh.steps import barker

HUGE = 10_000_000
SIGMA, ROWS, BATCHES = 1.2, 300, 20_000


@njit
def accepted(log_ratios, variances, skewnesses, n, settings, out):
    for k in range(out.size):
        out[k] = barker.decide_batch(
            log_ratios[k], variances[k], skewnesses[k], n, HUGE, 0.5, settings
        )[1]


def probabilities(log_ratios, variances, skewnesses, n=ROWS, **given):
    settings, out = barker.barker_test(SIGMA, **given), np.empty(len(log_ratios))
    accepted(log_ratios, variances, skewnesses, n, settings, out)
    return out


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
    plain, corrected = errors(), errors(skew_correction=True)
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
    shift = at(ratio, skew_correction=True) - at(ratio)
    np.testing.assert_allclose(shift, factor * bend, atol=2e-5)
    assert np.abs(shift).max() > 1e-3


@every(("variance", "skewness"), [(0.86 * SIGMA**2, 2.0), (2.0, 2.0), (0.5, np.nan), (0.5, 0.0)])
def test_nothing_is_corrected_where_it_cannot_be(variance, skewness):
    arguments = [np.array([value]) for value in (0.3, variance, skewness)]
    assert probabilities(*arguments) == probabilities(*arguments, skew_correction=True)


def test_a_probability_stays_one():
    ones = np.ones(21)
    p = probabilities(np.linspace(-20.0, 20.0, 21), ones, 40.0 * ones, 5, skew_correction=True)
    assert p.min() >= 0.0
    assert p.max() <= 1.0
