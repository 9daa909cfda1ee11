"""Draws of models whose rows sum over states, beside importance sampling of PyMC's density."""

import pytest

from bounds.state_sums import STATE_SUMS
from law.statistical.importance import assert_draws_follow
from pymc_minibatch_mh import TunaMH

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", STATE_SUMS)
def test_draws_of_sums_over_states_follow_their_density(name):
    model = STATE_SUMS[name](rows=1_500)
    step = TunaMH(model=model)
    assert all(f.states is not None for f in step.plan.target.compiled.row_functions)
    assert_draws_follow(model, step)
