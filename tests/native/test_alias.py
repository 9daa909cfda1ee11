import numpy as np
import pytest
from scipy.stats import chi2

from law.statistical.budget import LEVEL
from pymc_minibatch_mh.native.library import GeneratorRecord, function

WEIGHTS = {
    "one": [3.0],
    "equal": [0.7] * 9,
    "two": [1.0, 3.0],
    "zeros": [0.0, 2.0, 0.0, 1.0, 0.0],
    "one of many": [0.0] * 6 + [5.0] + [0.0] * 6,
    "spread": 10.0 ** np.linspace(-9.0, 3.0, 40),
    "random": np.random.default_rng(1).gamma(0.3, size=1_000),
    "tiny": [1e-38, 2e-38, 3e-38],
}
every_set = pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())


def built(weights):
    weights = np.asarray(weights, dtype=np.float32)
    thresholds, aliases = np.empty(weights.size), np.empty(weights.size, dtype=np.int32)
    function("mh_build_alias")(weights.size, weights, thresholds, aliases)
    return weights, thresholds, aliases


def drawn(thresholds, aliases, count, seed):
    rows = np.empty(count, dtype=np.int64)
    draw(thresholds, aliases, rows, count, seed)
    return rows


def draw(thresholds, aliases, rows, count, seed):
    rng = GeneratorRecord(np.random.default_rng(seed))
    function("mh_draw_alias")(rng, thresholds.size, thresholds, aliases, count, rows)


def probabilities(thresholds, aliases):
    """Return the exact chances of the rows."""
    chances = thresholds.copy()
    np.add.at(chances, aliases, 1.0 - thresholds)
    return chances / thresholds.size


def chi_square(weights, rows):
    """Return the chance of counts that fit as badly, rare rows counted together."""
    counts = np.bincount(rows, minlength=weights.size)
    expected = len(rows) * weights.astype(float) / weights.sum(dtype=float)
    order = np.argsort(-expected)
    often = order[expected[order] >= 10.0]
    rare = order[expected[order] < 10.0]
    counts = np.append(counts[often], counts[rare].sum())
    expected = np.append(expected[often], expected[rare].sum())
    kept = expected > 0.0
    assert counts[~kept].sum() == 0
    statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    return chi2(max(kept.sum() - 1, 1)).sf(statistic)


@every_set
def test_chances_are_the_weights(weights):
    weights, thresholds, aliases = built(weights)
    assert ((thresholds >= 0.0) & (thresholds <= 1.0)).all()
    assert ((aliases >= 0) & (aliases < weights.size)).all()
    expected = weights.astype(float) / weights.sum(dtype=float)
    found = probabilities(thresholds, aliases)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@every_set
def test_rows_are_drawn_in_proportion_to_the_weights(weights):
    weights, thresholds, aliases = built(weights)
    rows = drawn(thresholds, aliases, 200_000, 2)
    assert chi_square(weights, rows) > LEVEL
    assert not np.isin(rows, np.flatnonzero(weights == 0.0)).any()
