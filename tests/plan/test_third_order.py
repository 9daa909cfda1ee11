"""Order 3 by forecast: where it is taken, and that plans of it are saved, sent and shared."""

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import PenaltyMH, TunaMH, explain, sample
from pymc_minibatch_mh.published.lower_bounds import AT_CENTRE, lower_bounds

ROWS, GROUPS = 4_000, 30


def rare_events(chance=0.01):
    """Return a logistic regression with few events, and effects of groups."""
    rng = np.random.default_rng(2)
    x, group = rng.normal(size=(ROWS, 2)), rng.integers(0, GROUPS, ROWS)
    y = (rng.random(ROWS) < chance).astype(np.int8)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", -3.0, 3.0), pm.HalfNormal("tau", 1.0)
        effects = pm.Normal("a", mu, tau, shape=GROUPS)
        slopes = pm.Normal("b", 0.0, 1.0, shape=2)
        pm.Bernoulli("y", logit_p=effects[group] + x @ slopes, observed=y)
    return model


@cache
def cubic_step():
    """Return a step whose forecast chooses order 3, built once."""
    return TunaMH(model=rare_events())


@pytest.mark.slow
def test_the_order_is_three_where_that_leaves_fewer_candidates():
    step = cubic_step()
    assert (step.reference.order, step.target.taylor_order) == (3, 3)
    assert step.reference.thirds.size > 100
    assert "cubic" in explain(step).order_reason
    assert TunaMH(model=rare_events(), taylor_order=2).reference.order == 2
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        x = np.random.default_rng(1).normal(size=(ROWS, 2))
        pm.Bernoulli("y", logit_p=x @ b, observed=(x[:, 0] > 0.0).astype(np.int8))
    assert TunaMH(model=model).reference.order == 2


def test_a_saved_plan_keeps_its_order(tmp_path):
    step = cubic_step()
    step.save(tmp_path / "step.npz")
    other = TunaMH(model=rare_events(), prepared=tmp_path / "step.npz")
    assert (other.reference.order, other.target.taylor_order) == (3, 3)
    np.testing.assert_array_equal(other.reference.lines, step.reference.lines)
    draws = [
        sample(one, draws=30, tune=30, chains=1, random_seed=4, progressbar=False).posterior
        for one in (step, other)
    ]
    np.testing.assert_array_equal(draws[0]["b"], draws[1]["b"])


def test_a_plan_in_another_process_keeps_its_order():
    step = cubic_step()
    plan = pickle.loads(pickle.dumps(step.plan))
    assert (plan.reference.order, plan.target.taylor_order) == (3, 3)
    assert plan.target.chooses_order


def test_other_steps_on_the_model_have_the_same_order():
    other = PenaltyMH(model=rare_events())
    assert (other.reference.order, other.target.taylor_order) == (3, 3)


def test_lower_bounds_have_no_cubic_terms():
    step = cubic_step()
    below = lower_bounds(step.target, step.reference, AT_CENTRE)
    assert below.reference.order == 2
    assert below.reference.lines.size == below.reference.thirds.size == 0
