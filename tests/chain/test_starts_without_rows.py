"""Starts from which the scale of a hierarchy would run to zero, and never come back."""

import logging
from functools import cache

import numpy as np
import pymc as pm
import pytest

from every import every
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.chain.chain import perturbed_start, scale_collapses
from zoo import drawn, sample

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
    assert "at their location" in caplog.text
    assert not scale_collapses(chain.plan, chain.position)


@every("seed", range(3))
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


def test_starts_of_ones_own_are_left_too():
    model = hierarchy("non-centred")
    step = TunaMH(model=model, rng=0)
    trace = drawn(model, step, 300, 300, random_seed=0, initvals={"tau": 1e-4})
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


def test_effects_that_are_far_apart_are_no_reason_to_step_off(step):
    """Nothing beside them would be nearer."""
    position = step.plan.reference.centre.copy()
    position[-GROUPS:] += 1e30 * np.random.default_rng(2).standard_normal(GROUPS)
    assert scale_collapses(step.plan, position)
    assert perturbed_start(step.plan, position, np.random.default_rng(4)) is None


@every("seed", range(3))
def test_no_chain_runs_away_from_a_centre_that_is_its_start(seed):
    model = hierarchy("centred")
    with model:
        step = TunaMH(centre="start", covariance=0.01 * np.eye(2 + GROUPS), rng=seed)
    trace = drawn(model, step, 100, 100, random_seed=seed)
    assert float(trace.posterior["tau"].min()) > COLLAPSED


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
        trace = sample(model, steps, 300, 500, chains=1, random_seed=0, quiet=False)
    assert caplog.text.count("makes no update until they have moved them") == 1
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
    assert "makes no update until one has" in stats["warning"].message
    moved = {**start, "effect": 0.3 * np.random.default_rng(2).standard_normal(GROUPS)}
    point, (stats,) = step.step(moved)
    assert stats["n_prior"] > 0
    assert step.chain.state.started
    assert not step.chain.state.waiting


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


def test_a_chain_that_waits_is_saved_and_resumed():
    model, step = owning("tau")
    step.setup_chain(np.random.default_rng(1), 10, 10)
    step.step(model.initial_point())
    state = step.sampling_state
    step.setup_chain(np.random.default_rng(1), 10, 10)
    assert not step.chain.state.waiting
    step.sampling_state = state
    assert step.chain.state == state.chain_state
    _, (stats,) = step.step(model.initial_point())
    assert stats["n_prior"] == 0
