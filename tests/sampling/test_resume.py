"""Chains go on where those of a trace ended, as if they had never stopped."""

import pickle

import numpy as np
import pytest
import xarray as xr

from pymc_minibatch_mh import sample
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling import driver

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

QUIET = {"quiet": True, "compute_convergence_checks": False}
SETTINGS = {"tune": 120, "chains": 2, "random_seed": 5, **QUIET}


def test_a_trace_may_be_gone_on_from_again_and_again(model_of, prepared, tmp_path):
    model = model_of("two_likelihoods")
    step = prepared("two_likelihoods", "TunaMH", updates_per_draw=3)
    whole, first = (sample(step, draws, **SETTINGS) for draws in (30, 10))
    ended = step.ended
    second = sample(step, 10, resume=first, **QUIET)
    first.to_netcdf(tmp_path / "first.nc")
    stored = xr.open_datatree(tmp_path / "first.nc")
    elsewhere, step.ended = pickle.loads(pickle.dumps(step)), ended
    again = sample(step, 10, resume=stored, **QUIET)
    third = sample(elsewhere, 10, resume=second, model=model, **QUIET)
    assert again.posterior.equals(second.posterior)
    names = [*first.posterior["draw"], *second.posterior["draw"], *third.posterior["draw"]]
    np.testing.assert_array_equal(names, whole.posterior["draw"])
    for name, values in third.posterior.data_vars.items():
        np.testing.assert_array_equal(values, whole.posterior[name][:, 20:])


def test_what_a_step_draws_by_itself_moves_no_end(prepared):
    step = prepared("two_likelihoods", "TunaMH")
    first = sample(step, 10, **SETTINGS)
    second = sample(step, 10, resume=first, **QUIET)
    step.chain.advance(20)
    third = sample(step, 10, resume=second, **QUIET)
    whole = sample(step, 30, **SETTINGS)
    np.testing.assert_array_equal(third.posterior["slope"], whole.posterior["slope"][:, 20:])


def test_chains_that_an_interrupt_has_left_go_on_under_their_numbers(prepared, monkeypatch):
    step = prepared("two_likelihoods", "TunaMH")
    monkeypatch.setattr(driver.Workers, "complete", lambda self: ([1], 40))
    first = sample(step, 40, **SETTINGS)
    monkeypatch.undo()
    second = sample(step, 40, resume=first, **QUIET)
    whole = sample(step, 80, **SETTINGS)
    assert second.posterior["chain"].to_numpy().tolist() == [1]
    np.testing.assert_array_equal(second.posterior["slope"][0], whole.posterior["slope"][1, 40:])


def test_other_traces_are_refused_by_name(prepared, model_of):
    step = prepared("two_likelihoods", "TunaMH")
    other = sample(prepared("student", "TunaMH"), 10, **SETTINGS)
    penalty = prepared("two_likelihoods", "PenaltyMH")
    trace = sample(step, 10, **SETTINGS)
    for wrong, given, message in (
        (step, other, "'effect', which is not a variable of this model"),
        (penalty, trace, "is a trace of TunaMH, not of this PenaltyMH"),
        (step, 7, "int is neither a trace"),
    ):
        with pytest.raises(SettingError, match=f"^resume=.*{message}"):
            sample(wrong, 10, resume=given, **QUIET)
    for name, value in (("chains", 2), ("initvals", {}), ("random_seed", 1)):
        with pytest.raises(SettingError, match=f"^{name}= does not go with resume="):
            sample(step, 10, resume=trace, **{name: value}, **QUIET)
    sample(step, 10, **SETTINGS | {"random_seed": 6})
    with pytest.raises(SettingError, match=r"^resume= is not the last trace of this TunaMH"):
        sample(step, 10, resume=trace, **QUIET)
    with pytest.raises(SettingError, match=r"^model= is not the model that this TunaMH was built"):
        sample(step, 10, model=model_of("poisson"))


def test_a_model_is_given_to_a_step_that_left_it_behind(model_of, prepared):
    step = pickle.loads(pickle.dumps(prepared("two_likelihoods", "TunaMH")))
    sample(step, 4, tune=4, model=model_of("two_likelihoods"), **QUIET)
    with pytest.raises(SettingError, match="was moved to this process without its model"):
        sample(step, 4, **QUIET)
