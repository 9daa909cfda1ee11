"""``sample(model)`` takes an exact step where that pays, and says which step, why and how fast."""

import logging

import numpy as np
import pymc as pm
import pytest

from helpers.models import logistic
from pymc_minibatch_mh import PenaltyMH, TunaMH, sample
from pymc_minibatch_mh.diagnostics import forecast
from pymc_minibatch_mh.errors import (
    BoundsError,
    ModeError,
    NotWorthwhileError,
    SettingError,
    UnsupportedModelError,
)
from pymc_minibatch_mh.plan import bound_sources as plan
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.identity import WatchedModel
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.sampling import choose

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")
RNG = np.random.default_rng(5)
N = 3_000
RUN = {"tune": 100, "chains": 2, "random_seed": 4, "progressbar": False}
RUN["compute_convergence_checks"] = False


@pytest.fixture
def of_tuna(model_of):
    return model_of("logistic")


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, logger="pymc")
    return caplog


@pytest.fixture(autouse=True)
def nuts_is_slow(monkeypatch):
    """Let no speed of this machine decide."""
    monkeypatch.setattr(choose, "MIN_GRADIENT", 1.0)


def refuse_bounds(monkeypatch):
    """Refuse all methods that need bounds, where a model's graph would be asked."""

    def refuse(_function):
        raise BoundsError("'y' goes through an operation that no rule bounds.")

    monkeypatch.setattr(plan, "require_rules", refuse)


def test_a_model_is_sampled_as_by_its_step(of_tuna, said):
    trace = sample(of_tuna, 80, **RUN)
    by_step = sample(TunaMH(model=of_tuna), 80, **RUN)
    np.testing.assert_array_equal(trace.posterior["beta"], by_step.posterior["beta"])
    line = trace.posterior.attrs["step_choice"]
    assert line.startswith("TunaMH (exact): ")
    assert " of 5,000 observations a draw, 1,000 effective draws in about " in line
    assert line in said.messages
    assert trace.posterior.attrs["step"] == "TunaMH"
    assert "step_choice" not in by_step.posterior.attrs


@pytest.mark.parametrize("asked", [(), (60,), (np.int64(60),), (None, 60)])
def test_the_model_of_the_context_is_taken(of_tuna, asked):
    with of_tuna:
        trace = sample(*asked, **RUN)
    assert trace.posterior.sizes["draw"] == (60 if asked else 1_000)


def test_an_approximate_step_is_taken_where_no_bound_can_be_derived(said, monkeypatch):
    refuse_bounds(monkeypatch)
    choice = choose.choose_step(logistic())
    assert isinstance(choice.step, PenaltyMH)
    assert "no rule bounds" in choice.why_not_exact
    assert "(approximate, error estimated)" in choice.in_words(100, 2)
    assert any(text.startswith("PenaltyMH instead of TunaMH: ") for text in said.messages)


def test_a_model_is_read_once_for_both_steps(monkeypatch):
    read, watch = [], WatchedModel.__init__

    def counted(self, *arguments):
        read.append(self)
        return watch(self, *arguments)

    refuse_bounds(monkeypatch)
    monkeypatch.setattr(WatchedModel, "__init__", counted)
    choose.choose_step(logistic())
    assert len(read) == 1


def test_a_centre_serves_the_approximate_step_where_bounds_fail_after_it(monkeypatch):
    searches, expand, completed = [], Target.expand, DensePlan.completed

    def counted(self, *arguments):
        searches.append(self)
        return expand(self, *arguments)

    def without_tables(self):
        if self.requirements.derives_bounds:
            raise BoundsError("'y' has no bound in row 3.")
        return completed(self)

    monkeypatch.setattr(Target, "expand", counted)
    monkeypatch.setattr(DensePlan, "completed", without_tables)
    assert isinstance(choose.choose_step(logistic()).step, PenaltyMH)
    assert len(searches) == 1


def test_an_approximate_step_is_taken_where_exactness_is_dear(of_tuna, monkeypatch):
    summarize = forecast.summarize_pilots

    def dear(step, *arguments):
        found = summarize(step, *arguments)
        if not step.guarantee.is_exact:
            return found
        return choose.replace(found, rows_per_update=0.4 * N, ess_per_second_in_blocks=1.0)

    monkeypatch.setattr(forecast, "summarize_pilots", dear)
    choice = choose.choose_step(of_tuna)
    assert isinstance(choice.step, PenaltyMH)
    assert "would evaluate 24% of the observations" in choice.why_not_exact


def test_the_exact_step_stays_where_the_approximate_one_is_slower(model_of, monkeypatch):
    summarize = forecast.summarize_pilots

    def dear(step, *arguments):
        found = summarize(step, *arguments)
        return choose.replace(found, rows_per_update=0.4 * N, ess_per_second_in_blocks=1e4)

    monkeypatch.setattr(forecast, "summarize_pilots", dear)
    assert isinstance(choose.choose_step(model_of("logistic")).step, TunaMH)


@pytest.mark.slow
def test_a_model_for_nuts_is_refused_with_the_line_to_type(monkeypatch):
    summarize = forecast.summarize_pilots

    def slow(*arguments):
        return choose.replace(summarize(*arguments), ess_per_second_in_blocks=1e-3)

    monkeypatch.setattr(forecast, "summarize_pilots", slow)
    monkeypatch.setattr(choose, "MIN_GRADIENT", 1e-9)
    with pytest.raises(NotWorthwhileError, match="times the ESS/s of TunaMH") as refusal:
        sample(logistic(), **RUN)
    assert 'Type pm.sample(nuts_sampler="nutpie") instead' in str(refusal.value)


def few():
    return logistic(500)


def walk():
    with pm.Model() as model:
        values = RNG.normal(size=N).cumsum()
        pm.GaussianRandomWalk("y", init_dist=pm.Normal.dist(), observed=values)
        pm.Normal("free")
    return model


def flat():
    with pm.Model() as model:
        pm.Normal("y", pm.Flat("a") + pm.Flat("b"), 1.0, observed=RNG.normal(size=N))
    return model


@pytest.mark.parametrize(
    ("model", "error"),
    [(few, UnsupportedModelError), (walk, UnsupportedModelError), (flat, ModeError)],
)
def test_a_model_that_fits_no_step_is_refused_with_the_line_to_type(model, error):
    with pytest.raises(error, match=r'type pm.sample\(nuts_sampler="nutpie"\)'):
        sample(model(), **RUN)


def test_discrete_unknowns_are_refused_with_the_line_of_compound_steps():
    with pm.Model() as model:
        shift = pm.Bernoulli("shift", 0.5)
        pm.Normal("y", pm.Normal("a") + shift, 1.0, observed=RNG.normal(size=N))
    with pytest.raises(UnsupportedModelError, match="'shift' is discrete") as refusal:
        sample(model, **RUN)
    assert "pm.sample(step=TunaMH())" in str(refusal.value)


def test_a_run_of_a_model_goes_on_from_its_folder(of_tuna, tmp_path):
    whole = sample(of_tuna, 80, **RUN)
    sample(of_tuna, 40, checkpoint=tmp_path / "run", **RUN)
    resumed = sample(of_tuna, 80, resume=tmp_path / "run", tune=100, progressbar=False)
    np.testing.assert_array_equal(resumed.posterior["beta"], whole.posterior["beta"])


def test_a_run_of_another_method_asks_for_its_step(of_tuna, tmp_path, prepared):
    step = prepared("logistic", "BarkerMinibatchMH")
    sample(step, 40, checkpoint=tmp_path / "run", **RUN)
    with pytest.raises(SettingError, match="is a run of BarkerMinibatchMH"):
        sample(of_tuna, 80, resume=tmp_path / "run", tune=100)
