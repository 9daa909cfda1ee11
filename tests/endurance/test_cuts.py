"""Chains that are cut at random draws and resumed from their state, bit for bit."""

import pickle

import cloudpickle
import numpy as np
import pytest

from conformance.harness import same_state
from recording import record
from zoo import METHODS

pytestmark = pytest.mark.slow

SEED = 20_260_303
CHAINS, CUTS, TUNE, DRAWS = 20, 10, 200, 400


def drawn(step, point, first, last, store=()):
    """Return the positions of draws `first` to `last`, and the states before some of them."""
    positions, states = [], {}
    for k in range(first, last):
        if k == TUNE:
            step.stop_tuning()
        if k in store:
            states[k] = pickle.dumps((step.sampling_state, point))
        point, _ = step.step(point)
        positions.append(step.target.factorization.ravel(point))
    return np.array(positions), states


def resumed_alike(step, other, start, seed):
    """Return how many of a chain's random cuts resume, in another step, as they went on."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, DRAWS), CUTS, replace=False))
    step.setup_chain(np.random.default_rng(seed), TUNE, DRAWS - TUNE)
    whole, states = drawn(step, start, 0, DRAWS, set(cuts.tolist()))
    end, alike = step.sampling_state, 0
    for cut in cuts:
        # Whatever the other step did before must not show.
        other.setup_chain(rng, int(rng.integers(0, 50)), 10)
        drawn(other, start, 0, int(rng.integers(1, 60)))
        state, point = pickle.loads(states[int(cut)])
        other.sampling_state = state
        again, _ = drawn(other, point, int(cut), DRAWS)
        alike += np.array_equal(again, whole[cut:])
        same_state(other.sampling_state, end)
    return alike


@pytest.mark.parametrize("model", ["two_likelihoods", "student"])
@pytest.mark.parametrize("method", METHODS)
def test_cuts_resume_bit_for_bit(model_of, step_of, method, model):
    step = step_of(model, method)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    start = model_of(model).initial_point()
    alike = sum(resumed_alike(step, other, start, [SEED, k]) for k in range(CHAINS))
    record(
        "endurance",
        f"resumed cuts, {method}, {model}",
        asked=f"{CHAINS * CUTS} of {CHAINS * CUTS} random cuts resumed bit for bit",
        measured=f"{alike} of {CHAINS * CUTS}",
        seed=SEED,
    )
    assert alike == CHAINS * CUTS


def test_a_state_without_a_part_of_it_is_noticed(model_of, step_of):
    step = step_of("two_likelihoods", "TunaMH")
    other = cloudpickle.loads(cloudpickle.dumps(step))
    start = model_of("two_likelihoods").initial_point()
    step.setup_chain(np.random.default_rng(SEED), TUNE, DRAWS - TUNE)
    whole, states = drawn(step, start, 0, DRAWS, {120})
    state, point = pickle.loads(states[120])
    other.setup_chain(np.random.default_rng(1), TUNE, DRAWS - TUNE)
    state.chain_state.proposal = other.chain.state.proposal
    other.sampling_state = state
    again, _ = drawn(other, point, 120, DRAWS)
    assert not np.array_equal(again, whole[120:])
