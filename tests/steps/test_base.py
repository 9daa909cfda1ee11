"""What a step refuses, and what it tells of itself, without a chain that runs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.steps.base import model_behind, step_of
from pymc_minibatch_mh.steps.settings import SharedSettings, docstring_of


def test_only_steps_of_this_package_are_steps(prepared):
    step = prepared("logistic", "TunaMH")
    assert step_of(step) is step
    with pytest.raises(SettingError, match=r"^step=TunaMH is a class. Pass TunaMH\(\)\."):
        step_of(TunaMH)
    with pytest.raises(SettingError, match=r"^step=int is not a step method of this package"):
        step_of(3)


def test_a_pickled_step_takes_no_other_model_for_its_own(prepared, model_of):
    step = pickle.loads(pickle.dumps(prepared("logistic", "TunaMH")))
    with model_of("logistic") as model:
        assert model_behind(step) is model
    with (
        model_of("poisson"),
        pytest.raises(SettingError, match="was moved to this process without its model"),
    ):
        model_behind(step)


def test_a_state_of_other_updates_or_of_another_shape_is_refused(prepared):
    step = prepared("logistic", "PenaltyMH")
    state = step.sampling_state
    with pytest.raises(
        SettingError, match=r"^updates_per_draw=1 differs from 3 in the sampling stat"
    ):
        step.sampling_state = replace(state, updates_per_draw=3)
    longer = replace(state.chain_state, warm_up_sum=np.zeros(4))
    with pytest.raises(SettingError, match=r"^sampling_state= has 'warm_up_sum' of shape \(4,\)"):
        step.sampling_state = replace(state, chain_state=longer)
    with pytest.raises(SettingError, match=r"method \(TunaMH, not PenaltyMH\)"):
        step.sampling_state = prepared("logistic", "TunaMH").sampling_state


def test_draws_of_the_approximation_are_as_wide_as_asked(prepared):
    step = prepared("logistic", "TunaMH")
    for scale in (0.5, 2.0):
        rng = np.random.default_rng(91)
        draws = np.array([step.gaussian_draw(rng, scale)["beta"] for _ in range(400)])
        gaps = (draws - step.reference.centre) @ step.reference.whitener.T
        assert gaps.std() == pytest.approx(scale, rel=0.1)


def test_a_docstring_has_an_example_where_a_step_needs_no_setting():
    class Ready:
        """A step."""

        def __init__(self, *, size=1):
            pass

    class Asks:
        """A step.

        Raises
        ------
        SettingError
            Always.
        """

        def __init__(self, size):
            pass

    ready, asks = (docstring_of(step, SharedSettings) for step in (Ready, Asks))
    assert "step=Ready())" in ready
    assert "See Also" in asks
    assert "Examples" not in asks
    assert asks.index("Parameters") < asks.index("Raises") < asks.index("See Also")
