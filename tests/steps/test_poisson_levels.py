import numpy as np
import pytest

from every import every
from pymc_minibatch_mh.steps import poisson as levels

RNG = np.random.default_rng(7)


@every("lam", [0.3, 5.0, 400.0])
def test_thinning_leaves_the_published_intensity(lam):
    widths = RNG.exponential(size=50)
    total = widths.sum()
    for width, share in zip(widths, RNG.random(50), strict=True):
        # Of R = λ + L rows on average, this one is drawn with probability M_i/L.
        kept = (lam + total) * width / total * levels.keep_probability(share, lam / total)
        assert kept == pytest.approx(lam * width / total + share * width, rel=1e-13)


@every(
    ("total", "n_rows", "lam"),
    [
        (20.0, 100_000, 400.0),
        (300.0, 100_000, 24_700.0),
        (20_000.0, 100_000, 20_000.0),
        (0.5, 100_000, 0.25),
        (0.0, 100_000, 1.0),
    ],
)
def test_an_automatic_lam_is_the_square_of_the_ranges_or_reads_a_quarter(total, n_rows, lam):
    assert levels.automatic_lam(total, n_rows) == lam
