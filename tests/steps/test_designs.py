"""Designs of a sequential test for a step, and steps that run them."""

import copy

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import (
    AustereMH,
    PerUpdate,
    RandomWalk,
    StiefelWalk,
    audit,
    design_sequential_test,
    explain,
    tried_moves,
)
from pymc_minibatch_mh.chain.probe import Probe
from pymc_minibatch_mh.diagnostics.forecast import recommend as nuts
from zoo import sample

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")
N = 5_000
#: A small grid, so that tables take a moment.
GRID = {"batch_sizes": (50, 200), "epsilons": (0.01, 0.1)}


@pytest.fixture(scope="module")
def rough(prepared):
    """Without control variates many decisions are close."""
    return prepared("logistic", "AustereMH", taylor_order=0, batch_size=100)


@pytest.fixture(scope="module")
def moves(rough):
    return tried_moves(rough, 40, random_seed=1)


@pytest.fixture(scope="module")
def per_update(prepared):
    design = PerUpdate(0.1, **GRID)
    return prepared("logistic", "AustereMH", taylor_order=0, design=design)


@pytest.fixture(scope="module")
def baseline(prepared):
    return prepared("logistic", "AustereMH", epsilon=0)


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


def test_moves_are_those_of_the_seed_and_leave_the_step_alone(rough, moves):
    assert moves.n_rows == N
    assert moves.log_ratio.size == 40
    before = copy.deepcopy(rough.chain.state)
    again = tried_moves(rough, 40, random_seed=1)
    np.testing.assert_array_equal(again.log_ratio, moves.log_ratio)
    np.testing.assert_array_equal(again.sd, moves.sd)
    assert rough.chain.state == before


def test_moves_on_a_manifold_are_tried_from_the_start():
    """Beside it there is nothing: a draw around the start would be off the manifold."""
    x = np.random.default_rng(10).standard_normal((1_200, 2))
    with pm.Model() as model:
        turn = pm.Flat("turn", shape=(2, 2), initval=np.eye(2))
        pm.Laplace("y", (x @ turn)[:, 0], 1.0, observed=x[:, 0])
    walk = StiefelWalk(0.05)
    step = AustereMH(model=model, centre="start", batch_size=100, proposal=walk)
    assert tried_moves(step, 8, random_seed=11).log_ratio.size == 8
    assert explain(step, draws=100, tune=50, random_seed=12).forecast.acceptance > 0.0


def test_better_control_variates_need_fewer_rows(prepared, rough):
    fine = prepared("logistic", "AustereMH")
    designs = [
        design_sequential_test(step, 0.05, "average", random_seed=3) for step in (rough, fine)
    ]
    assert designs[1].use < 0.2 * designs[0].use


def test_the_error_of_a_design_is_that_of_the_step(model_of, rough):
    """The compiled test, on moves of its own chain, errs and reads as the design says."""
    design = design_sequential_test(rough, 0.05, "average", random_seed=4, **GRID)
    step = AustereMH(model=model_of("logistic"), taylor_order=0, design=design)
    trace = sample(model_of("logistic"), step, 400, 300, random_seed=5)
    rows = float(trace.sample_stats["n_obs"].mean())
    assert rows / N == pytest.approx(design.use, abs=0.08)
    found = audit(trace, step, pairs=20, random_seed=6)
    noise = found["acceptance_error_mcse"].to_numpy()
    assert np.abs(found["acceptance_error"].to_numpy()).mean() < design.error + noise.mean()


def test_worst_case_designs_of_a_step_are_of_the_test_that_it_runs(rough):
    found = design_sequential_test(rough, 0.1)
    assert found == design_sequential_test(N, 0.1, all_rows_from=0.5)
    assert found.use < design_sequential_test(N, 0.1).use


@pytest.mark.parametrize("name", ["baseline", "per_update"])
def test_a_step_that_reads_all_rows_is_not_warned_of(request, name):
    step = request.getfixturevalue(name)
    step.setup_chain(np.random.default_rng(7), 0, 600)
    point, warnings = {"beta": np.array([-0.5, 1.0, 0.3])}, []
    for _ in range(600):
        point, (stats,) = step.step(point)
        warnings.append(stats["warning"])
    assert not any(warnings)


def test_the_baseline_is_exact_and_every_page_says_so(model_of, baseline, monkeypatch):
    monkeypatch.setattr(nuts, "seconds_per_call", lambda *_: (30.0, 1e-3))
    assert str(baseline.guarantee) == baseline.exactness == "exact"
    trace = sample(model_of("logistic"), baseline, 100, 100, random_seed=8)
    stats = trace.sample_stats
    assert stats["certified"].all()
    assert (stats["n_obs"] == N).all()
    assert (stats["n_looks"] == 1).all()
    assert not stats["error_estimate"].any()
    found = audit(trace, baseline, pairs=8, random_seed=9)
    assert np.abs(found["acceptance_error"]).max() < 1e-9
    assert set(found["verdict"].sel(check=["bounds", "bias", "trace"]).values) == {"ok"}
    assert "AustereMH is exact without bounds" in str(explain(baseline, draws=100, tune=50))


def test_a_design_per_update_counts_its_scan_and_can_be_audited(model_of, per_update):
    trace = sample(model_of("logistic"), per_update, 100, 100, random_seed=10)
    stats = trace.sample_stats
    assert (stats["n_obs"] >= N + 50).all()
    assert (stats["n_obs"] <= 2 * N).all()
    assert (stats["full_pass"] == 1).all()
    assert not stats["certified"].any()
    found = audit(trace, per_update, pairs=8, random_seed=11)
    assert (found["rows_read"] >= N).all()
    message = str(found["message"].sel(check="normality").values)
    assert "All rows decided every pair" not in message
