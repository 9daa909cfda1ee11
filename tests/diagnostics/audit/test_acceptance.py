"""A trace that is anywhere else than its step left it is found, also where nothing moves."""

import numpy as np
import pytest
import xarray as xr

from pymc_minibatch_mh.diagnostics.audit import judge_acceptance
from pymc_minibatch_mh.diagnostics.bias import compare_rates


def shifted(trace, name, place, by):
    """Return a trace of which one coordinate is shifted by some of its standard deviations."""
    values = trace["posterior"][name].copy(deep=True)
    one = values.to_numpy()[(..., *place)]
    one += by * one.std()
    return xr.DataTree.from_dict(
        {
            "/posterior": trace["posterior"].to_dataset().assign({name: values}),
            "/sample_stats": trace["sample_stats"].to_dataset(),
        }
    )


def rates(pairs, trace, number=0, temperature=1.0, times=1.0):
    """Return what is told of audited moves of some rates, and of updates, per chain and draw."""
    trace = np.asarray(trace, dtype=float)
    stats = {
        "accepted_share": (("chain", "draw", "step")[: trace.ndim], trace),
        "temperature": (("chain", "draw"), np.broadcast_to(temperature, trace.shape[:2])),
    }
    coords = {"chain": np.arange(len(trace))}
    tree = xr.DataTree.from_dict({"/sample_stats": xr.Dataset(stats, coords)})
    return compare_rates(np.asarray(pairs, dtype=float), tree, number, np.array([np.nan, times]))


def updates(*shares, draws=1_000, seed=75):
    """Return whether updates were accepted, in a chain for every share."""
    return np.random.default_rng(seed).random((len(shares), draws)) < np.array(shares)[:, None]


def verdict(*args, **settings):
    return judge_acceptance(rates(*args, **settings)).verdict


def test_moves_that_are_rejected_alone_do_not_pass():
    found = judge_acceptance(rates(np.full(200, 0.012), updates(0.97)))
    assert found.verdict == "fail"
    assert found.message.startswith("0.012 of the audited proposals are accepted, 0.97")
    # Rare rejections say little, however sure their rate is; nor do few or dependent moves.
    assert verdict(np.repeat([1.0, 0.0], [198, 2]), updates(0.999)) == "ok"
    assert verdict(np.zeros(2), updates(0.9)) == "ok"
    assert verdict(np.full(200, 0.5), np.repeat(updates(0.7, draws=20), 50, axis=1)) == "ok"
    assert verdict(np.full(200, 0.5), updates(0.7), times=50.0) == "ok"
    assert verdict(np.full(200, 0.5), updates(0.7)) == "fail"
    assert verdict(np.full(200, 0.9), updates(0.7)) == "fail"


def test_moves_of_a_warm_up_run_anew_may_be_accepted_half_as_often():
    trace = updates(0.8, 0.8)
    assert verdict(np.full(200, 0.41), trace, number=None) == "ok"
    assert verdict(np.full(200, 0.99), trace, number=None) == "ok"
    assert verdict(np.full(200, 0.1), trace, number=None) == "fail"


def test_the_chain_that_proposes_is_compared_at_its_last_temperature():
    trace = updates(0.3, 0.8)
    assert [verdict(np.full(200, 0.8), trace, number=k) for k in (0, 1)] == ["fail", "ok"]
    hot = np.where(np.arange(1_000) % 5 > 1, 1.0, 5.0)
    trace = np.where(hot > 1.0, updates(0.1), updates(0.8))
    assert verdict(np.full(200, 0.8), trace, temperature=hot) == "ok"
    assert verdict(np.full(200, 0.8), trace) == "fail"


def test_of_steps_side_by_side_one_has_to_agree():
    both = np.stack([updates(0.2), updates(0.9)], axis=-1)
    assert [verdict(np.full(200, rate), both) for rate in (0.2, 0.9, 0.5)] == ["ok", "ok", "fail"]


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.97])
def test_equal_rates_seldom_look_different(rate):
    rng = np.random.default_rng(76)
    logs = []
    for seed in range(200):
        # Moves of all kinds: some are always accepted, some hardly ever.
        pairs = rng.beta(rate, 1.0 - rate, 200)
        logs.append(rates(pairs, updates(rate, seed=seed)).log_chance)
    # One of two hundred lies within the five standard errors of e⁻⁵.
    assert np.mean(np.array(logs) < -5.0) < 0.02
