"""However a hierarchy is written, its chain is the same, and draws are the model's variables."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from helpers.zoo import drawn
from pymc_minibatch_mh import (
    BarkerMinibatchMH,
    Bounds,
    CustomProposal,
    RandomWalk,
    TunaMH,
    audit,
    explain,
    log_likelihood,
    overdispersed_initvals,
)
from pymc_minibatch_mh.steps.tuna import TunaSettings

ROWS, GROUPS = 4_000, 6


def _data():
    rng = np.random.default_rng(61)
    group, x = rng.integers(0, GROUPS, ROWS), rng.uniform(-1.0, 1.0, ROWS)
    effect = 0.8 * rng.standard_normal(GROUPS)
    return group, x, (rng.random(ROWS) < expit(effect[group] + 0.5 * x)).astype(int)


@cache
def hierarchy(spelling):
    """Return a logistic hierarchy; `spelling` is "centred" or "non-centred"."""
    group, x, y = _data()
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        if spelling == "centred":
            effect = pm.Normal("effect", mu, tau, shape=GROUPS)
        else:
            z = pm.Normal("z", shape=GROUPS)
            effect = pm.Deterministic("effect", mu + tau * z)
        pm.Bernoulli("y", logit_p=effect[group] + pm.Normal("b") * x, observed=y)
    return model


@cache
def step_of(spelling, method=TunaMH):
    return method(model=hierarchy(spelling), rng=5)


def sampled(spelling, method=TunaMH):
    step = step_of(spelling, method)
    return drawn(hierarchy(spelling), step, 300, 300, chains=1, random_seed=4)


@pytest.mark.parametrize("method", [TunaMH, BarkerMinibatchMH])
def test_both_spellings_give_the_same_draws(method):
    centred, other = (sampled(spelling, method) for spelling in ("centred", "non-centred"))
    for name in ("mu", "tau", "b", "effect"):
        one, two = centred.posterior[name].values, other.posterior[name].values
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-10, err_msg=name)
    np.testing.assert_array_equal(centred.sample_stats["n_obs"], other.sample_stats["n_obs"])


def _still(position, new, rng, state, metric, rows):
    for i in range(position.size):
        new[i] = position[i]
    return 0.0


def _far(centre):
    return Bounds(np.full(ROWS, 1.0), np.eye(9))


#: Made where they are needed: a move is compiled by being named.
SETTINGS = {
    "start": lambda: {"centre": "start"},
    "bounds": lambda: {"bounds": _far},
    "move": lambda: {"proposal": CustomProposal(_still)},
    "covariance": lambda: {"proposal": RandomWalk(covariance=np.eye(9))},
    "identity": lambda: {"proposal": RandomWalk(covariance="identity")},
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_in_the_models_own_terms_keep_them(settings):
    for record, linear in ((TunaSettings(**SETTINGS[settings]()), False), (TunaSettings(), True)):
        assert record.linear_for(record.method("best", None)) == linear


def test_explain_names_the_coordinates():
    found = explain(step_of("non-centred"), draws=100, tune=50, nuts=False, random_seed=3)
    (mapped,) = found.coordinates
    assert (mapped.name, mapped.words, mapped.refused) == ("z", "mu + tau × z", "")
    assert "sampled through mu + tau × z" in str(found.details)
    assert "(mu + tau × z)[" in found.terms[0].arguments[0]
    assert explain(step_of("centred"), draws=100, tune=50, nuts=False).coordinates == ()


def test_what_comes_after_sampling_sees_the_models_own_variables():
    model, step, trace = hierarchy("non-centred"), step_of("non-centred"), sampled("non-centred")
    with model:
        found = audit(trace, step, random_seed=1)
        assert "fail" not in found["verdict"].to_numpy()
        rows = log_likelihood(trace, [0, 7])["log_likelihood"]["y"]
        starts = overdispersed_initvals(step, 2, random_seed=1)
    assert np.isfinite(rows.values).all()
    assert set(starts[0]) == {"mu", "tau", "z", "b"}
