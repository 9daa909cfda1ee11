"""A trace with right marginals and a wrong joint distribution is told, and right traces are not."""

import logging
from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.special import expit

from diagnostics.audit.test_iterations import sampled
from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, TunaMH, audit
from pymc_minibatch_mh.diagnostics import audit as audits
from pymc_minibatch_mh.diagnostics.audit import affordable_pairs
from pymc_minibatch_mh.diagnostics.bias import log_density_drift

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

RHO = 0.9
WIDE = np.array([[1.0, RHO], [RHO, 1.0]])


@cache
def correlated():
    """A model of two variables whose posterior is correlated."""
    rng = np.random.default_rng(61)
    x = 6.0 + rng.standard_normal(1_000)
    with pm.Model() as model:
        intercept, slope = pm.Normal("intercept", 0.0, 1.0), pm.Normal("slope", 0.0, 1.0)
        late = rng.random(x.size) < expit(0.5 * x - 3.0)
        pm.Bernoulli("late", logit_p=intercept + slope * x, observed=late)
    return model


def shuffled(trace, seed=62):
    """Return a trace in which the draws of each coordinate are reordered independently."""
    other, rng = trace.copy(deep=True), np.random.default_rng(seed)
    for values in other.posterior.data_vars.values():
        flat = values.to_numpy().reshape(*values.shape[:2], -1)
        for k in range(flat.shape[-1]):
            flat[..., k] = rng.permutation(flat[..., k].ravel()).reshape(flat.shape[:2])
        values[:] = flat.reshape(values.shape)
    return other


def anew(trace):
    """Return a trace in whose state the step is not, so that warm-up runs anew."""
    other = trace.copy(deep=True)
    other.sample_stats["scaling"][:] += 1.0
    return other


@pytest.mark.parametrize("method", [TunaMH, PenaltyMH])
def test_draws_that_are_shuffled_by_variable_are_told(method):
    model = correlated()
    step = method(model=model, rng=63)
    trace = sample(model, step, 2_000, 500, random_seed=64)
    right, wrong = (
        audit(one, step, 200, 65, model=model) for one in (anew(trace), shuffled(anew(trace)))
    )
    assert right.attrs["state"] == "adapted anew, on draws of the trace"
    assert list(right["verdict"].to_numpy()) == ["ok"] * 6, right["message"].to_numpy()
    assert abs(right["moments"]["log_density_drift"]) < 3.0
    failed = [str(check) for check in wrong["check"].values[wrong["verdict"] == "fail"]]
    assert failed == ["drift"]
    assert wrong["moments"]["log_density_drift"] > 9.0
    message = str(wrong["message"].sel(check="drift").item())
    assert message.startswith("'intercept', 'slope': further updates would change the log-density")
    # Neither coordinate has moved away.
    assert np.abs(wrong["moments"]["drift"]).max() < 3.5


def test_iterations_from_shuffled_draws_are_told():
    model, step, trace = sampled()
    right, wrong = (
        audit(one, step, pairs=400, random_seed=1, model=model) for one in (trace, shuffled(trace))
    )
    assert abs(right["moments"]["log_density_drift"]) < 3.0
    assert wrong["moments"]["log_density_drift"] > 4.0
    assert wrong["verdict"].sel(check="drift") == "fail"


def proposed(draws, scale, rng):
    """Return pairs of normal draws and proposals, as an audit of an exact test has them."""
    n, d = draws.shape
    factor = np.linalg.cholesky(WIDE) if d == 2 else np.eye(d)
    new = draws + scale / np.sqrt(d) * rng.standard_normal((n, d)) @ factor.T
    precision = np.linalg.inv(factor @ factor.T)
    log_ratio = 0.5 * (draws @ precision * draws - new @ precision * new).sum(axis=1)
    acceptance, back = (np.exp(np.minimum(one, 0.0)) for one in (log_ratio, -log_ratio))
    columns = {"log_ratio": log_ratio, "acceptance": acceptance, "acceptance_back": back}
    return xr.Dataset({name: ("pair", x) for name, x in columns.items()})


def drifts(scale, d, n=200, count=1_000, chain=0.0, seed=66):
    """Return the drift of right traces, whose draws have an autocorrelation if asked."""
    rng, found = np.random.default_rng(seed), []
    factor = np.linalg.cholesky(WIDE) if d == 2 else np.eye(d)
    for _ in range(count):
        draws = rng.standard_normal((n, d))
        for k in range(1, n if chain else 0):
            draws[k] = chain * draws[k - 1] + np.sqrt(1.0 - chain**2) * draws[k]
        found.append(log_density_drift(proposed(draws @ factor.T, scale, rng), exact=True))
    return np.array(found)


# Steps from the usual size to one of which nothing is accepted, where few pairs say anything.
@pytest.mark.parametrize(
    "case", [(2.4, 2, 200), (2.4, 30, 200), (0.5, 30, 50), (10.0, 10, 200), (2.4, 2, 50)]
)
def test_the_drift_of_right_traces_is_standard_normal(case):
    z = drifts(*case)
    # Of a thousand seeds 2.7 lie beyond three standard errors, and 12 with a chance of 1e-5.
    assert (np.abs(z) > 3.0).sum() <= 12
    assert np.abs(z).max() < 4.9
    if case[0] < 10.0:
        assert np.abs(z.mean()) < 0.2
        assert 0.9 < z.std() < 1.1


def test_dependent_draws_do_not_alarm():
    z = drifts(2.4, 10, 100, 200, chain=0.98)
    assert (np.abs(z) > 3.5).sum() <= 3


@pytest.mark.parametrize("chance", [0.7, 0.9])
def test_a_test_that_errs_is_not_taken_for_a_wrong_trace(chance):
    """Draws of the distribution that a test with an error leaves invariant."""
    rng, z, signed = np.random.default_rng(67), [], []
    for _ in range(300):
        # The test is that of N(0, chance), whose draws these are; the posterior is N(0, 1).
        draws = np.sqrt(chance) * rng.standard_normal((400, 2))
        new = draws + rng.standard_normal(draws.shape)
        change = 0.5 * (draws**2 - new**2).sum(axis=1)
        a, back = (np.exp(np.minimum(k * change / chance, 0.0)) for k in (1.0, -1.0))
        error = a / (a + back) - expit(change)
        pairs = xr.Dataset(
            {name: ("pair", x) for name, x in {
                "log_ratio": change, "acceptance": a, "acceptance_back": back,
                "acceptance_error": error * (a + back), "acceptance_error_mcse": 0.0 * a,
            }.items()}
        )  # fmt: skip
        z.append(log_density_drift(pairs, exact=False))
        signed.append(log_density_drift(pairs, exact=True))
    assert (np.abs(z) > 3.0).sum() <= 8
    # Held against the posterior they do drift.
    assert np.mean(signed) < (-0.5 if chance == 0.9 else -2.0)


def test_pairs_take_as_long_as_sampling_did():
    assert affordable_pairs(0.1, 12.0) == 120
    assert affordable_pairs(0.1, 1.0) == 50
    assert affordable_pairs(1e-3, 12.0) == affordable_pairs(0.0, 0.0) * 4 == 200
    assert affordable_pairs(5.0, np.inf) == 200


def test_the_number_of_pairs_is_chosen_by_time_and_told(monkeypatch, caplog):
    model = correlated()
    step = TunaMH(model=model, rng=63)
    trace = sample(model, step, 300, 300, random_seed=64)
    caplog.set_level(logging.INFO, "pymc")
    trace["posterior"].attrs["sampling_time"] = 14.0
    monkeypatch.setattr(audits, "affordable_pairs", lambda seconds, sampling: int(5 * sampling))
    found = audit(trace, step, random_seed=65, model=model)
    assert found.attrs["pairs"] == 70
    assert "for each of 70 pairs, chosen by time: 200 would take" in caplog.text
    assert found.attrs["pairs_chosen"].endswith("sampling took 14.0 seconds")
    # Choosing takes no random number of the audit.
    again = audit(trace, step, 70, 65, model=model)
    xr.testing.assert_equal(again, found)
    assert again.attrs["pairs_chosen"] == "as given"
