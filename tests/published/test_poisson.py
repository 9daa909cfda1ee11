"""PoissonMH as a step: its posterior, its ranges, and what it does where they do not hold."""

from functools import cache

import numpy as np
import pytest

from helpers import models
from helpers.published import keep_by_level
from helpers.zoo import drawn
from pymc_minibatch_mh import PoissonMH, Ranges, TunaMH
from pymc_minibatch_mh.errors import BoundViolationError
from pymc_minibatch_mh.published import poisson as levels
from pymc_minibatch_mh.published.ranges import DerivedRanges

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

DRAWS, TUNE, SEED = 4_000, 1_000, 33


@pytest.fixture
def bounded(model_of):
    return model_of("bounded")


@pytest.fixture
def step(prepared):
    return prepared("bounded", "PoissonMH")


@cache
def data():
    """Return the design and the response of the model."""
    model = models.bounded()
    return model["X"].get_value(), model.rvs_to_values[model["y"]].data


def by_quadrature():
    """Return means and standard deviations of the three coefficients, on a grid."""
    X, y = data()
    grid = (np.arange(14) + 0.5) / 7.0 - 1.0
    places = np.stack(np.meshgrid(grid, grid, grid, indexing="ij"), axis=-1).reshape(-1, 3)
    p = 0.5 + 0.02 * (places @ X.T)
    log_likelihood = np.log(np.where(y, p, 1.0 - p)).sum(axis=1)
    weights = np.exp(log_likelihood - log_likelihood.max())
    weights /= weights.sum()
    means = weights @ places
    return means, np.sqrt(weights @ (places - means) ** 2)


def test_posterior_is_that_of_quadrature(bounded, step):
    trace = drawn(bounded, step, DRAWS, TUNE, random_seed=SEED)
    means, sds = by_quadrature()
    draws = trace.posterior["beta"].to_numpy()
    # Means of twenty parts of each chain tell the noise.
    parts = draws.reshape(2, 20, -1, 3).mean(axis=2).reshape(40, 3)
    errors = parts.std(axis=0, ddof=1) / np.sqrt(40.0)
    assert (errors < 0.1 * sds).all()
    assert (np.abs(draws.mean(axis=(0, 1)) - means) < 5.0 * errors).all()
    np.testing.assert_allclose(draws.std(axis=(0, 1)), sds, rtol=0.1)
    stats = trace.sample_stats
    assert stats["certified"].all()
    assert not stats["full_pass"].any()
    assert 0.3 < float(stats["bound_ratio"].max()) <= 1.0
    # λ + L rows are drawn, and those that are kept are evaluated again, λ + Σ m_i at the centre.
    widths, below = step.tables.headers[:, 2]
    expected = 2.0 * step.chain.state.records.test.lam + widths + below
    assert float(stats["n_obs"].mean()) == pytest.approx(expected, rel=0.05)


def test_another_method_on_the_model_has_bounds_of_its_own(bounded, tmp_path):
    for first, second in ((PoissonMH, TunaMH), (TunaMH, PoissonMH)):
        steps = [cls(model=bounded, taylor_order=0) for cls in (first, second, first)]
        kinds = [DerivedRanges().has_made(step.tables) for step in steps]
        assert kinds == [cls is PoissonMH for cls in (first, second, first)]
    file = tmp_path / "step.npz"
    ranged = PoissonMH(model=bounded)
    ranged.save(file)
    again = PoissonMH(model=bounded, prepared=file)
    np.testing.assert_array_equal(again.tables.c, ranged.tables.c)
    other = TunaMH(model=bounded, taylor_order=0, prepared=file)
    assert not DerivedRanges().has_made(other.tables)


def relative(centre, scale=1.0):
    """Return ranges of the model by hand: p lies between .44 and .56."""
    X, y = data()
    beta = 2.0 / (1.0 + np.exp(-centre["beta_interval__"])) - 1.0
    reach = 0.02 * np.abs(X).sum(axis=1)
    p = 0.5 + 0.02 * (X @ beta)
    p = np.where(y, p, 1.0 - p)
    return Ranges(scale * np.log((0.5 - reach) / p), scale * np.log((0.5 + reach) / p))


def test_ranges_of_ones_own_are_held_against_the_rows(bounded, step, caplog):
    own = PoissonMH(model=bounded, ranges=relative)
    assert "'y': ranges= are unverified" in caplog.text
    np.testing.assert_allclose(own.tables.c, step.tables.c, rtol=1e-4)
    assert not own.chain.certified
    with pytest.raises(
        BoundViolationError, match=r"half-widths of its range .* Enlarge custom ranges"
    ):
        PoissonMH(model=bounded, ranges=lambda centre: relative(centre, 0.05))


def test_a_lam_that_reads_all_rows_is_told_with_what_helps(bounded):
    step = PoissonMH(model=bounded, lam=1e6)
    step.setup_chain(np.random.default_rng(7), 0, 500)
    point, warnings = bounded.initial_point(), []
    for _ in range(500):
        point, (stats,) = step.step(point)
        warnings.append(stats["warning"])
    (warning,) = filter(None, warnings)
    assert warning.level == "error"
    assert "100% of the updates evaluate all observations, because λ + L" in warning.message
    assert all(f"{name}=" in warning.message for name in ("ranges", "temperature", "lam"))
    assert "control variates" not in warning.message


RNG = np.random.default_rng(7)


@pytest.mark.parametrize("lam", [0.3, 5.0, 400.0])
def test_thinning_leaves_the_published_intensity(lam):
    widths = RNG.exponential(size=50)
    total = widths.sum()
    for width, share in zip(widths, RNG.random(50), strict=True):
        # Of R = λ + L rows on average, this one is drawn with probability M_i/L.
        kept = (lam + total) * width / total * keep_by_level(share, lam / total)
        assert kept == pytest.approx(lam * width / total + share * width, rel=1e-13)


@pytest.mark.parametrize(
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
