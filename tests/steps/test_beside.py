"""The approximate step that a forecast compares with, beside a step that is in use."""

import numpy as np

from conformance.harness import same_state
from pymc_minibatch_mh.steps.penalty import penalty_beside


def test_states_belong_to_the_step_that_they_were_taken_of(prepared):
    step, penalty = prepared("poisson", "TunaMH"), prepared("poisson", "PenaltyMH")
    assert step.key["method"] == "TunaMH"
    beside = penalty_beside(step, np.random.default_rng(1))
    assert beside.key == penalty.key
    assert step.key["method"] == "TunaMH"
    state = beside.sampling_state
    penalty.sampling_state = state
    same_state(penalty.sampling_state, state)
