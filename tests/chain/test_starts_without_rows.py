"""Starts from which the scale of a hierarchy would run to zero, and never come back."""

import logging

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.chain.moves_without_rows import runs_away
from zoo import sample

ROWS, GROUPS = 3_000, 8


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


def test_a_start_at_the_location_is_left(step, caplog):
    chain = step.chain.copy()
    position = chain.position
    position[:] = step._default_start
    assert runs_away(chain.program, position)
    with caplog.at_level(logging.INFO):
        step.start(chain)
    assert "at their location" in caplog.text
    assert not runs_away(chain.program, chain.position)


@pytest.mark.parametrize("seed", range(3))
def test_other_starts_are_kept(step, seed):
    chain = step.chain.copy()
    chain.position[:] = step.target.split.ravel(
        step.gaussian_draw(np.random.default_rng(seed), 2.0)
    )
    start = chain.position.copy()
    assert not runs_away(chain.program, start)
    step.start(chain)
    np.testing.assert_array_equal(chain.position, start)


@pytest.mark.parametrize("spelling", ["centred", "non-centred"])
def test_no_chain_runs_away(spelling):
    """Chains did so with two in eight of these seeds."""
    model = hierarchy(spelling)
    step = TunaMH(model=model, rng=0)
    trace = sample(model, step, 300, 300, chains=8, random_seed=0)
    assert float(trace.posterior["tau"].min()) > 1e-8


def test_starts_of_ones_own_are_left_too():
    model = hierarchy("non-centred")
    step = TunaMH(model=model, rng=0)
    trace = sample(model, step, 300, 300, random_seed=0, initvals={"tau": 1e-4})
    assert float(trace.posterior["tau"].min()) > 1e-8
