"""The driver draws what ``pm.sample`` draws, in blocks and in threads."""

import logging
import re
import threading

import numpy as np
import pymc as pm
import pytest

import pymc_minibatch_mh
from helpers.altered import with_tables
from helpers.zoo import METHODS
from pymc_minibatch_mh import RandomWalk, TunaMH, audit, sample
from pymc_minibatch_mh.errors import BoundViolationError
from pymc_minibatch_mh.sampling import workers
from pymc_minibatch_mh.sampling import workers as bars

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

SETTINGS = {"tune": 120, "chains": 2, "random_seed": 5, "discard_tuned_samples": False}
QUIET = {"progressbar": False, "compute_convergence_checks": False}


def driven(step, draws=80, **settings):
    return sample(step, draws, **{**SETTINGS, **QUIET, **settings})


def starts(step):
    reference = step.plan.reference
    point = step.target.factorization.unravel(reference.centre, {})
    return {name: values + 0.1 for name, values in point.items()}


def by_pymc(model, step, draws=80, **settings):
    with model:
        return pm.sample(draws, step=step, cores=1, quiet=True, **{**SETTINGS, **QUIET, **settings})


def same(one, other, rtol):
    if rtol and one.dtype.kind == "f":
        return np.allclose(one, other, rtol=rtol, atol=0.0, equal_nan=True)
    return np.array_equal(one, other)


def differences(one, other, rtol=0.0):
    """Return what of two traces is not the same, except for times."""
    assert set(one.children) == set(other.children)
    found = []
    for group in one.children:
        assert set(one[group].data_vars) == set(other[group].data_vars)
        found += [
            f"{group}/{name}"
            for name in one[group].data_vars
            if name != "perf_counter_diff" and not same(one[group][name], other[group][name], rtol)
        ]
    return found


#: Methods, and one whose statistics are averaged over several updates.
DRIVEN = [pytest.param(method, {}, id=method) for method in METHODS]
DRIVEN.append(pytest.param("TunaMH", {"updates_per_draw": 5}, id="averaged"))


@pytest.mark.parametrize(("method", "own"), DRIVEN)
def test_draws_and_stats_are_those_of_pymcs_loop(model_of, prepared, method, own):
    model, step = model_of("two_likelihoods"), prepared("two_likelihoods", method, **own)
    settings = {"initvals": starts(step)}
    expected = by_pymc(model, step, **settings)
    for cores in (1, 2):
        assert differences(driven(step, cores=cores, **settings), expected) == []


def test_a_default_start_far_off_is_left_as_in_pymcs_loop(model_of, prepared):
    model, step = model_of("student_fixed"), prepared("student_fixed", "TunaMH")
    expected = by_pymc(model, step)
    # What PyMC compiles of a transform may round in another way.
    assert differences(driven(step, initvals={}), expected, rtol=1e-14) == []


def test_blocks_of_any_length_draw_the_same(prepared, monkeypatch):
    step = prepared("two_likelihoods", "PenaltyMH")
    expected = driven(step)
    monkeypatch.setattr(workers, "FIRST_BLOCK", 7)
    monkeypatch.setattr(workers, "BLOCK_SECONDS", 1e-9)
    assert differences(driven(step), expected) == []


def test_a_draw_of_three_updates_counts_them_all_and_its_trace_says_so(prepared):
    steps = [prepared("two_likelihoods", "TunaMH", updates_per_draw=n) for n in (1, 3)]
    whole, few = (driven(step, 90 // n, tune=0) for step, n in zip(steps, (1, 3), strict=True))
    kept = whole.posterior.isel(draw=slice(2, None, 3))
    for name in whole.posterior.data_vars:
        np.testing.assert_array_equal(few.posterior[name], kept[name])
    rows = whole.sample_stats["n_obs"].to_numpy().reshape(2, 30, 3).sum(axis=2)
    np.testing.assert_array_equal(few.sample_stats["n_obs"], rows)
    shares = whole.sample_stats["accept"].to_numpy().reshape(2, 30, 3).mean(axis=2)
    np.testing.assert_allclose(few.sample_stats["accept"], shares)
    assert [trace.posterior.attrs["updates_per_draw"] for trace in (whole, few)] == [1, 3]
    np.testing.assert_array_equal(few.posterior["draw"], np.arange(30))


def test_an_interrupt_keeps_the_draws(prepared, monkeypatch, caplog):
    step = prepared("two_likelihoods", "TunaMH")
    reached = threading.Event()

    def show(self, chains):
        if min(chain.drawn for chain in chains) > 0:
            reached.set()
            raise KeyboardInterrupt

    monkeypatch.setattr(bars.Bars, "show", show)
    monkeypatch.setattr(workers, "SECONDS_BETWEEN_CHECKS", 0.001)
    with caplog.at_level(logging.WARNING, logger="pymc"):
        trace = driven(step, 10_000_000, cores=2)
    assert reached.is_set()
    draws = trace.posterior.sizes["draw"]
    assert 0 < draws < 10_000_000
    assert "Sampling was interrupted" in caplog.text
    monkeypatch.undo()
    again = driven(step, draws, cores=2).posterior.isel(chain=trace.posterior["chain"].to_numpy())
    for name in again.data_vars:
        np.testing.assert_array_equal(trace.posterior[name], again[name])


def test_an_error_in_a_chain_stops_the_others(prepared, monkeypatch):
    chain = prepared("two_likelihoods", "TunaMH").chain
    settings = workers.RunSettings(draws=10, tune=0, chains=2, cores=2)
    both = [chain.copy(), chain.copy()]
    run = workers.Workers(settings, both, False, chain.program.statistics)
    advance, told = workers.Chain.advance, []

    def failing(chain, *arguments):
        if chain is run.chains[0]:
            raise BoundViolationError("a row exceeds its bound")
        told.append(run._stop.wait(20.0))
        return advance(chain, *arguments)

    monkeypatch.setattr(workers.Chain, "advance", failing)
    with pytest.raises(BoundViolationError):
        run.run(workers.Bars(2, 10, shown=False))
    # A chain that had not begun was not run at all.
    assert all(told)


def test_a_legacy_random_state_seeds_chains(prepared):
    step = prepared("two_likelihoods", "TunaMH")
    state = np.random.RandomState(7)
    first, second = (driven(step, 10, random_seed=state) for _ in range(2))
    again = driven(step, 10, random_seed=np.random.RandomState(7))
    assert differences(first, again) == []
    assert not first.posterior.equals(second.posterior)


def test_draws_after_a_tolerated_violation_are_not_certified(model_of, prepared, caplog):
    step = with_tables(prepared("bernoulli_logit", "TunaMH", on_violation="warn"), 0.2)
    settings = {"initvals": starts(step), "chains": 1}
    with caplog.at_level(logging.ERROR, logger="pymc"):
        trace = driven(step, 2_000, **settings)
    assert "is not exact" in caplog.text
    expected = by_pymc(model_of("bernoulli_logit"), step, 2_000, **settings)
    assert differences(trace, expected) == []
    certified = trace["sample_stats"]["certified"].to_numpy()
    assert not certified[0, -1]


def test_a_trace_is_audited_in_the_state_that_its_last_chain_ended_in(model_of, prepared, caplog):
    model, step = model_of("logistic"), prepared("logistic", "TunaMH", updates_per_draw=2)
    trace = sample(step, 400, tune=200, chains=2, random_seed=3, progressbar=False)
    with caplog.at_level(logging.INFO, logger="pymc"):
        found = audit(trace, step, pairs=20, random_seed=1, model=model)
    begin, *checks, end = (text for text in caplog.messages if text.startswith("audit:"))
    assert begin == "audit: evaluating 5,000 observations of 'y' for each of 20 pairs."
    assert re.fullmatch(r"audit: took [\d.]+ (milli)?seconds\.", end)
    for name, verdict, message, said in zip(
        *(found[key].values for key in ("check", "verdict", "message")), checks, strict=True
    ):
        assert said == f"audit: {name} {verdict}. {message}"
    assert found.attrs["state"] == "chain 1, as it ended"
    assert found.attrs["updates_per_draw"] == 2


def test_a_run_its_variables_and_convergence_checks_are_told_of_as_in_pymc(prepared, caplog):
    step = prepared("student", "TunaMH")
    with caplog.at_level(logging.INFO, logger="pymc"):
        sample(step, 200, tune=100, chains=2, progressbar=False)
    assert "Sampling 2 chains in 2 threads" in caplog.text
    assert "for 100 tune and 200 draw iterations" in caplog.text
    assert "recommend running at least 4 chains" in caplog.text
    names = [v.name.removesuffix("_log__") for v in step.vars]
    assert f"TunaMH: [{', '.join(names)}]" in caplog.messages
    assert "tau" in names
    assert re.search(r"took (\d+ milliseconds|[1-9][\d.]* seconds)\.$", caplog.text, re.MULTILINE)


def test_a_trace_says_which_step_drew_it(model_of):
    model = model_of("two_likelihoods")
    step = TunaMH(model=model, chi=2.0, taylor_order=2, proposal=RandomWalk(), rng=3)
    trace = sample(step, 4, tune=4, chains=1, **QUIET)
    for group in ("posterior", "sample_stats"):
        said = trace[group].attrs
        assert said["step"] == "TunaMH"
        assert said["step_library"] == "pymc_minibatch_mh"
        assert said["step_library_version"] == pymc_minibatch_mh.__version__
        assert said["step_settings"].startswith("chi=2.0, taylor_order=2, proposal=RandomWalk")
        assert said["step_guarantee"] == "exact given valid bounds"
        assert said["preparation_time"] > 0.0
        assert said["sampling_time"] > 0.0
