"""Moves without rows in chains, and starts from which a scale would run to zero."""

import logging
from functools import cache

import numpy as np
import pymc as pm
import pytest

from helpers.zoo import METHODS, SOME_METHODS, drawn, sample
from models.gallery.models_hierarchies import rugby
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.chain.kernel_probe import Probe, ProposedMove
from pymc_minibatch_mh.chain.starts import perturbed_start, scale_collapses
from pymc_minibatch_mh.native.bound_tables import table_of_move
from pymc_minibatch_mh.native.run import NO_SLICES

TUNE, DRAWS = 100, 200


def chain_of(program, seed, *, adapting=True):
    chain = Chain(program, np.random.default_rng(seed), adapting)
    chain.state.started = True
    return chain


def run(program, seed=1):
    chain = chain_of(program, seed)
    warm_up = chain.advance(TUNE)
    chain.stop_adapting()
    after = chain.advance(DRAWS)
    pairs = zip(warm_up, after, strict=True)
    return [np.concatenate(pair) for pair in pairs]


@pytest.fixture(scope="module")
def teams():
    """A step with two scales that no row reads, and effects that are read less their mean."""
    return TunaMH(model=rugby(4_000))


@pytest.mark.parametrize("method", METHODS)
def test_models_without_such_directions_run_as_if_nothing_were_there(prepared, method):
    by_default = prepared("two_likelihoods", method)
    without = prepared("two_likelihoods", method, moves_without_rows=0)
    assert by_default.program.slices is NO_SLICES
    assert not chain_of(by_default.program, 0).kernel_state().record.posterior.bounds.unread.size
    positions, counts = run(by_default.program)
    same, of_same = run(without.program)
    np.testing.assert_array_equal(positions, same)
    np.testing.assert_array_equal(counts, of_same)
    assert not counts["n_prior"].any()


@pytest.mark.parametrize("method", SOME_METHODS)
def test_scales_of_a_hierarchy_move_without_rows(prepared, method):
    step = prepared("student", method)
    tau = step.target.factorization.coordinate_names.index("tau_log__")
    if method == "FireflyMH":
        assert step.program.slices is NO_SLICES
        return
    assert np.flatnonzero(step.program.slices.steps).tolist() == [tau]
    positions, counts = run(step.program)
    assert (counts["n_prior"] >= 1.0).all()
    assert np.unique(positions[:, tau]).size == len(positions)


# How bounds measure moves.


def shifted(step, position, times):
    """Return a position far along all directions that change no row."""
    directions = step.target.compiled.null_space
    return position + times * np.array([1.0, -0.7, 2.0, -1.5])[: len(directions)] @ directions


def test_bounds_do_not_see_what_changes_no_row(teams):
    reference = teams.reference
    tables = chain_of(teams.program, 0).kernel_state().record.posterior.bounds
    joint = teams.tables.arrays
    rng = np.random.default_rng(8)
    for _ in range(20):
        noise = 0.5 * rng.standard_normal((2, reference.centre.size))
        here, there = reference.centre + noise @ reference.factor.T
        table, m = table_of_move(tables, reference, here, there)
        assert table >= 0
        assert m < table_of_move(joint, reference, here, there)[1]
        assert table_of_move(tables, reference, there, here) == (table, m)
        far = shifted(teams, here, 3.0), shifted(teams, there, -5.0)
        assert table_of_move(joint, reference, *far)[0] == -1
        same, m_of_far = table_of_move(tables, reference, *far)
        assert same == table
        assert m_of_far == pytest.approx(m, rel=1e-9)
    along = shifted(teams, here, 0.4)
    assert table_of_move(tables, reference, here, along)[1] < 1e-12
    assert table_of_move(joint, reference, here, along)[1] > 0.1


def test_no_row_exceeds_its_bound_where_scales_are_far_out(teams):
    """All rows of moves between positions that the joint norm has no bounds for."""
    rng, reference = np.random.default_rng(6), teams.reference
    probe = Probe(chain_of(teams.program, 1), rng)
    largest = []
    for times in (1.0, 10.0, 100.0):
        for _ in range(10):
            noise = rng.standard_normal((2, reference.centre.size))
            here, there = reference.centre + noise @ reference.factor.T
            move = ProposedMove(shifted(teams, here, times), shifted(teams, there, -times), 0.0)
            rows = probe.rows(move)
            assert rows.bound_row >= 0
            largest.append(rows.bound_ratio)
    assert 0.01 < max(largest) <= 1.0


# What is said of them.


ROWS, GROUPS = 3_000, 8
#: Far below any scale that the data allow.
COLLAPSED = 1e-8


def hierarchy(spelling):
    """Return a model of effects that hardly differ, near PyMC's own start."""
    rng = np.random.default_rng(3)
    y, group = (rng.random(ROWS) < 0.5).astype(int), rng.integers(0, GROUPS, ROWS)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau", 1.0)
        if spelling == "centred":
            effect = pm.Normal("effect", mu, tau, shape=GROUPS)
        else:
            effect = mu + tau * pm.Normal("z", shape=GROUPS)
        pm.Bernoulli("y", logit_p=effect[group], observed=y)
    return model


@pytest.fixture(scope="module", params=["centred", "non-centred"])
def step(request):
    return TunaMH(model=hierarchy(request.param), rng=1)


def test_a_scale_collapses_where_all_effects_are_at_their_location():
    step = TunaMH(model=hierarchy("centred"), rng=1)
    assert scale_collapses(step.plan, step._default_start)


def test_a_start_at_the_location_is_left(step, caplog):
    chain = step.chain.copy()
    position = chain.position
    position[:] = step._default_start
    assert scale_collapses(chain.plan, position)
    with caplog.at_level(logging.INFO):
        step.start(chain)
    assert "all group effects equal their mean" in caplog.text
    assert not scale_collapses(chain.plan, chain.position)


@pytest.mark.parametrize("seed", range(3))
def test_other_starts_are_kept(step, seed):
    chain = step.chain.copy()
    chain.position[:] = step.target.factorization.ravel(
        step.gaussian_draw(np.random.default_rng(seed), 2.0)
    )
    start = chain.position.copy()
    assert not scale_collapses(chain.plan, start)
    step.start(chain)
    np.testing.assert_array_equal(chain.position, start)


@pytest.mark.parametrize("spelling", ["centred", "non-centred"])
def test_no_chain_runs_away(spelling):
    """Chains did so with two in eight of these seeds."""
    model = hierarchy(spelling)
    step = TunaMH(model=model, rng=0)
    trace = drawn(model, step, 300, 300, chains=8, random_seed=0)
    assert float(trace.posterior["tau"].min()) > COLLAPSED


def test_a_start_beside_the_location_is_left(step):
    """Rounding keeps the density of the scale from being infinite, at a scale of rounding."""
    position = step._default_start.copy()
    names = step.target.factorization.coordinate_names
    effects = [k for k, name in enumerate(names) if name.startswith(("effect", "z"))]
    position[effects] += 1e-16 * np.random.default_rng(2).standard_normal(GROUPS)
    assert scale_collapses(step.plan, position)
    near = perturbed_start(step.plan, position, np.random.default_rng(4))
    assert 0.0 < np.abs(near - position).max() < 0.5


@cache
def owning(*names):
    """Return a step that moves some variables of a hierarchy, and leaves the effects to others."""
    model = hierarchy("centred")
    return model, TunaMH(vars=[model[name] for name in names], model=model, rng=1)


def test_a_scale_waits_for_effects_that_another_step_moves(caplog):
    model, step = owning("tau", "mu")
    rest = [model["effect"]]
    with caplog.at_level(logging.INFO), model:
        steps = [step, pm.Metropolis(rest)]
        trace = sample(model, steps, 300, 300, chains=1, random_seed=0, quiet=False)
    assert caplog.text.count("Updating only once other steps have moved") == 1
    assert float(trace.posterior["tau"].min()) > COLLAPSED
    assert np.unique(trace.posterior["tau"]).size > 30


def test_a_chain_that_waits_makes_no_update_and_says_so():
    model, step = owning("tau")
    start = model.initial_point()
    step.setup_chain(np.random.default_rng(1), 10, 10)
    for draw in range(3):
        point, (stats,) = step.step(start)
        assert all(np.array_equal(point[name], start[name]) for name in start)
        assert stats["n_obs"] == stats["accept"] == stats["n_prior"] == 0
        assert (stats["warning"] is not None) == (draw == 2)
        if draw == 1:
            step.stop_tuning()
    assert "this step waits for that" in stats["warning"].message
    moved = {**start, "effect": 0.3 * np.random.default_rng(2).standard_normal(GROUPS)}
    point, (stats,) = step.step(moved)
    assert stats["n_prior"] > 0
    assert step.chain.state.started
    assert not step.chain.state.is_waiting


def test_a_chain_goes_on_when_all_that_it_waits_for_has_moved():
    """However small the scale is at which it began: effects follow it."""
    model, step = owning("tau")
    step.setup_chain(np.random.default_rng(1), 10, 10)
    start = {**model.initial_point(), "tau_log__": np.array(-30.0)}
    step.step(start)
    assert not step.chain.state.started
    some = {**start, "effect": 1e-13 * (np.arange(GROUPS) > 0)}
    step.step(some)
    assert not step.chain.state.started
    step.step({**start, "effect": 1e-13 * np.random.default_rng(2).standard_normal(GROUPS)})
    assert step.chain.state.started
