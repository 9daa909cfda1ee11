"""Designs of a sequential test: the published ones, and those for the moves of a step."""

import copy

import numpy as np
import pytest

from helpers.tiers import fast
from helpers.zoo import sample
from papers.designs import TriedMoves, design_sequential_test, tried_moves
from papers.sequential import sequential_error, sequential_use
from pymc_minibatch_mh import AustereMH, RandomWalk, audit
from pymc_minibatch_mh.chain.kernel_probe import Probe

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")
N_ROWS, N = 4_000, 5_000
#: A small grid, so that tables take a moment.
GRID = {"batch_sizes": (50, 200), "epsilons": (0.01, 0.1)}


def moves(seed, count=60):
    """Moves of a chain whose acceptance is about a half, from good and bad control variates."""
    rng = np.random.default_rng(seed)
    return TriedMoves(N_ROWS, rng.normal(-0.7, 1.2, count), rng.uniform(0.3, 6.0, count))


@pytest.mark.parametrize(
    ("tolerance", "n_rows", "batch_size"),
    fast([(0.1, 13_000, 450), (0.2, 100_000, 300)], [(0.1, 13_000, 450)]),
)
def test_published_designs_are_found(tolerance, n_rows, batch_size):
    found = design_sequential_test(n_rows, tolerance)
    assert (found.batch_size, found.epsilon) == (batch_size, 0.01)
    assert found.error == sequential_error(0.0, batch_size, 0.01, n_rows) <= tolerance
    assert found.use == sequential_use(0.0, batch_size, 0.01, n_rows)


@pytest.mark.parametrize("log_ratio", [-3.0, -0.4, 0.0, 0.7, -900.0, 900.0])
@pytest.mark.parametrize("sd", [0.05, 2.0, 40.0])
def test_error_and_use_of_a_move_are_means_over_the_uniform_number(log_ratio, sd):
    found = TriedMoves(N_ROWS, [log_ratio], [sd]).error_and_use_of(200, 0.05)
    # Midpoints of -log u, finer where the decision turns.
    turn = max(0.0, -log_ratio)
    near = turn + sd * np.linspace(-3.0, 3.0, 4_001)
    ends = np.unique(np.clip(np.append(near, np.linspace(0.0, 40.0, 4_001)), 0.0, 40.0))
    weights = np.exp(-ends[:-1]) - np.exp(-ends[1:])
    gaps = log_ratio + 0.5 * (ends[1:] + ends[:-1])
    error = sequential_error(gaps / sd, 200, 0.05, N_ROWS)
    assert found.error[0] == pytest.approx(-(weights * np.sign(gaps)) @ error, abs=2e-4)
    expected = weights @ sequential_use(gaps / sd, 200, 0.05, N_ROWS)
    assert found.use[0] == pytest.approx(expected, abs=2e-4)


def test_errors_in_both_directions_cancel():
    even = TriedMoves(N_ROWS, [np.log(0.5)], [0.5]).error_and_use_of(200, 0.05).error[0]
    sure = TriedMoves(N_ROWS, [0.0], [0.5]).error_and_use_of(200, 0.05).error[0]
    # At P_a = 1 every error rejects.
    assert sure < -0.03
    assert abs(even) < 0.3 * abs(sure)


def test_an_average_design_keeps_its_error_on_other_moves_and_reads_less():
    tolerance = 0.02
    average = design_sequential_test(moves(1), tolerance, "average")
    worst = design_sequential_test(moves(1), tolerance)
    assert average.error <= tolerance
    fresh = moves(2, 400)
    of_average, of_worst = (
        fresh.error_and_use_of(design.batch_size, design.epsilon) for design in (average, worst)
    )
    assert 0.5 * tolerance < np.abs(of_average.error).mean() < 1.5 * tolerance
    # The worst case is that of no move.
    assert np.abs(of_worst.error).mean() < 0.3 * tolerance
    assert of_average.use.mean() < 0.95 * of_worst.use.mean()


@pytest.fixture(scope="module")
def rough(prepared):
    """Without control variates many decisions are close."""
    return prepared("logistic", "AustereMH", taylor_order=0, batch_size=100)


@pytest.fixture(scope="module")
def tried(rough):
    return tried_moves(rough, 40, random_seed=1)


def test_moves_are_measured_with_all_rows(model_of, monkeypatch):
    model, seen = model_of("logistic"), []
    measure = Probe.rows

    def watched(probe, move):
        seen.append(move)
        return measure(probe, move)

    monkeypatch.setattr(Probe, "rows", watched)
    step = AustereMH(model=model, taylor_order=0, proposal=RandomWalk(), temperature=4.0)
    found = tried_moves(step, 6, random_seed=2)
    X = model["X"].get_value()
    y = model.rvs_to_values[model["y"]].data
    signs = np.where(y > 0, 1.0, -1.0)
    for move, log_ratio, sd in zip(seen, found.log_ratio, found.sd, strict=True):
        new, old = (-np.logaddexp(0.0, -signs * (X @ b)) for b in (move.new, move.position))
        rows = 0.25 * (new - old)
        prior = -0.5 * (move.new @ move.new - move.position @ move.position) / 100.0
        assert log_ratio == pytest.approx(prior + rows.sum(), abs=1e-8)
        assert sd == pytest.approx(np.sqrt(N) * rows.std(ddof=1), rel=1e-8)


def test_moves_are_those_of_the_seed_and_leave_the_step_alone(rough, tried):
    assert tried.n_rows == N
    assert tried.log_ratio.size == 40
    before = copy.deepcopy(rough.chain.state)
    again = tried_moves(rough, 40, random_seed=1)
    np.testing.assert_array_equal(again.log_ratio, tried.log_ratio)
    np.testing.assert_array_equal(again.sd, tried.sd)
    assert rough.chain.state == before


@pytest.mark.slow
def test_the_error_of_a_design_is_that_of_the_step(model_of, rough):
    """The compiled test, on moves of its own chain, errs and reads as the design says."""
    design = design_sequential_test(
        tried_moves(rough, random_seed=4), 0.05, "average", all_rows_from=0.5, **GRID
    )
    test = {"batch_size": design.batch_size, "epsilon": design.epsilon}
    step = AustereMH(model=model_of("logistic"), taylor_order=0, **test)
    trace = sample(model_of("logistic"), step, 400, 300, random_seed=5)
    rows = float(trace.sample_stats["n_obs"].mean())
    assert rows / N == pytest.approx(design.use, abs=0.08)
    found = audit(trace, step, pairs=20, random_seed=6)
    noise = found["pairs"]["acceptance_error_mcse"].to_numpy()
    assert (
        np.abs(found["pairs"]["acceptance_error"].to_numpy()).mean() < design.error + noise.mean()
    )
