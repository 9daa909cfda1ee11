"""Langevin moves: the density that they return, with one batch for both directions."""

import copy

import numpy as np
import pytest
from numba import carray, cfunc, types
from scipy.stats import multivariate_normal

from helpers.altered import with_proposal
from helpers.zoo import drawn
from law.statistical.budget import FAR
from proposals.proposing import proposed_for
from proposals.test_custom_proposal import moments
from pymc_minibatch_mh import Langevin
from pymc_minibatch_mh.native.bound_tables import no_tables
from pymc_minibatch_mh.native.posterior import Posterior, Reference
from pymc_minibatch_mh.proposals.custom_proposal import GaussianRows
from pymc_minibatch_mh.proposals.langevin import LangevinStep
from pymc_minibatch_mh.proposals.walk import SHAPES

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

SIZE, ROWS, BETA, WIDTH = 3, 40, 0.7, 2.0
DATA = np.random.default_rng(6).standard_normal((ROWS, SIZE)) + 0.5
CENTRE = np.array([0.3, 0.1, 0.6])
FACTOR = np.array([[0.2, 0.0, 0.0], [0.06, 0.15, 0.0], [-0.04, 0.03, 0.1]])


#: Rows of normal means: see `mh_derivatives_of_gaussian`.
PRECISION = np.eye(SIZE)
CONTEXT = np.array([DATA.ctypes.data, PRECISION.ctypes.data, SIZE])


@cfunc(types.float64(types.CPointer(types.float64), types.CPointer(types.int64)))
def prior(position, context):
    """Normal of standard deviation WIDTH."""
    return -0.5 * np.sum(carray(position, SIZE) ** 2) / WIDTH**2


def posterior(first=0):
    """Return a posterior of normal means, whose control variates are exact."""
    gradient = (DATA - CENTRE).sum(axis=0)
    hessian = -ROWS * np.eye(SIZE)
    reference = Reference(CENTRE, FACTOR, np.linalg.inv(FACTOR), gradient, hessian, 2, BETA, first)
    return Posterior(
        prior, GaussianRows(SIZE, np.array([0, ROWS]), CONTEXT), reference, no_tables()
    )


def batch(rng, size):
    """Return rows that are drawn evenly and without replacement."""
    rows = []
    while len(rows) < size:
        rows += dict.fromkeys(
            row for row in rng.integers(0, ROWS, size - len(rows)) if row not in rows
        )
    return np.array(rows)


def linked(step, preconditioner, batch_size):
    return LangevinStep(step, SHAPES[preconditioner], batch_size)


def proposed(own, positions, rng, first=0):
    """Return proposals and their density ratios, one for each position."""
    new, log_q, _ = proposed_for(posterior(first), positions, own, rng)
    return new, log_q


def rise(position, rows):
    """Return the gradient of the log-density, with that of some rows for that of all."""
    likelihood = (DATA[rows] - position).sum(axis=0) * ROWS / len(rows)
    return BETA * likelihood - position / WIDTH**2


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("batch_size", [0, 7])
@pytest.mark.parametrize("preconditioner", ["laplace", "identity"])
def test_density_ratio_is_that_of_one_batch_both_ways(preconditioner, batch_size, first):
    own, rng = linked(0.8, preconditioner, batch_size), np.random.default_rng(2)
    factor = FACTOR[first:, first:] if preconditioner == "laplace" else np.eye(SIZE - first)
    covariance = factor @ factor.T

    def log_density(there, here, rows):
        mean = here[first:] + 0.5 * 0.8**2 * covariance @ rise(here, rows)[first:]
        return multivariate_normal(mean, 0.8**2 * covariance).logpdf(there[first:])

    for _ in range(10):
        position = CENTRE + 0.3 * rng.standard_normal(SIZE)
        twin = copy.deepcopy(rng)
        (new,), (log_q,) = proposed(own, position[None], rng, first)
        rows = np.arange(ROWS)
        if batch_size:
            # The batch is what the generator gives first, before a position is looked at.
            rows = batch(twin, batch_size)
        assert len(rows) == (batch_size or ROWS)
        np.testing.assert_array_equal(new[:first], position[:first])
        expected = log_density(position, new, rows) - log_density(new, position, rows)
        assert log_q == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("preconditioner", ["laplace", "identity"])
def test_moves_go_up_by_the_drift_and_as_far_as_the_noise(preconditioner):
    count, h = 4_000, 0.1
    own, rng = linked(h, preconditioner, 0), np.random.default_rng(3)
    position = CENTRE + np.array([0.5, -0.2, 0.3])
    new, _ = proposed(own, np.tile(position, (count, 1)), rng)
    factor = FACTOR if preconditioner == "laplace" else np.eye(SIZE)
    drift = 0.5 * h**2 * factor @ factor.T @ rise(position, np.arange(ROWS))
    noise = np.linalg.solve(h * factor, (new - position - drift).T)
    assert np.abs(noise.mean(axis=1)).max() < FAR / np.sqrt(count)
    assert np.abs((noise**2).mean(axis=1) - 1.0).max() < FAR * np.sqrt(2.0 / count)


def normal_target():
    precision = BETA * ROWS + 1.0 / WIDTH**2
    return BETA * DATA.sum(axis=0) / precision, 1.0 / precision


@pytest.mark.parametrize("correct", [1.0, 0.0])
@pytest.mark.parametrize("batch_size", [0, 5])
def test_moves_leave_the_target_invariant_if_their_density_is_counted(batch_size, correct):
    """Particles start in the target: a move that leaves it invariant keeps them there."""
    mean, variance = normal_target()
    rng, count = np.random.default_rng(4), 8_000
    positions = mean + np.sqrt(variance) * rng.standard_normal((count, SIZE))
    own = linked(1.5, "laplace", batch_size)
    for _ in range(4):
        new, log_q = proposed(own, positions, rng)
        squares = ((positions - mean) ** 2 - (new - mean) ** 2).sum(axis=1)
        accept = np.log(rng.random(count)) < 0.5 * squares / variance + correct * log_q
        positions[accept] = new[accept]
    white = (positions - mean) / np.sqrt(variance)
    means = np.abs(white.mean(axis=0)).max() * np.sqrt(count)
    spread = np.abs((white**2).mean(axis=0) - 1.0).max() * np.sqrt(count / 2.0)
    assert (max(means, spread) < FAR) == (correct == 1.0)


@pytest.fixture(scope="module")
def model(model_of):
    return model_of("logistic")


@pytest.fixture(scope="module")
def usual(model, prepared):
    return moments(drawn(model, prepared("logistic"), 6_000, 500, random_seed=1))


METHODS = [
    ("TunaMH", 1_500, {}),
    ("TunaMH", 0, {}),
    pytest.param("AustereMH", 1_500, {"epsilon": 0.01, "batch_size": 500}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("method", "batch_size", "settings"), METHODS)
def test_the_posterior_is_that_of_the_usual_moves(
    model, prepared, usual, method, batch_size, settings
):
    step = with_proposal(prepared("logistic", method, **settings), Langevin(batch_size=batch_size))
    trace = drawn(model, step, 4_000, 1_000, random_seed=2)
    (mean, sd, ess), (own_mean, own_sd, own_ess) = usual, moments(trace)
    noise = np.sqrt(1.0 / ess + 1.0 / own_ess)
    assert (np.abs(own_mean - mean) < FAR * sd * noise).all()
    assert (np.abs(np.log(own_sd / sd)) < FAR * noise / np.sqrt(2.0)).all()
    assert own_ess.min() > 300
    # The rows of the batch are read at both ends, and those of the test come on top.
    rows = trace.sample_stats["n_obs"]
    assert (rows >= 2 * batch_size).all()
    if method == "TunaMH":
        assert float(rows.mean()) < 2 * batch_size + 100
        assert trace.sample_stats["certified"].all()
        assert float(trace.sample_stats["accept"].mean()) == pytest.approx(0.574, abs=0.15)


def test_half_of_the_rows_stand_for_all():
    assert Langevin(batch_size=400).rows_read(1_000) == 800
    assert Langevin(batch_size=500).rows_read(1_000) == 2_000
    assert Langevin(batch_size=0).rows_read(1_000) == 0
