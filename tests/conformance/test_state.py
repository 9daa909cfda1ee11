"""A chain can be cut, stored, moved to another process and resumed."""

import copy
import pickle
import zlib

import cloudpickle
import numpy as np
import pytest

from conformance.harness import run, same_state
from pymc_minibatch_mh import SettingError
from zoo import METHODS, logistic

SEED = 21
#: Draws among which a chain of 200 draws of warm-up and 100 others is cut.
PHASES = {"in warm-up": (1, 200), "after it": (201, 300)}


@pytest.fixture(params=METHODS)
def step(step_of, request):
    step = step_of("two_likelihoods", request.param)
    step.setup_chain(np.random.default_rng(SEED), 300, 300)
    return step


@pytest.fixture
def start(model_of):
    return model_of("two_likelihoods").initial_point()


def drawn_cut(method, phase):
    """Return a draw at random, the same one in every run."""
    seed = zlib.crc32(f"{method} {phase}".encode())
    return int(np.random.default_rng(seed).integers(*PHASES[phase]))


def test_restoring_a_state_repeats_the_draws(step, start):
    _, point = run(step, start, 130)
    state = step.sampling_state
    first, _ = run(step, point, 90, stop_at=60)
    after = step.sampling_state
    step.sampling_state = state
    same_state(step.sampling_state, state)
    again, _ = run(step, point, 90, stop_at=60)
    np.testing.assert_array_equal(first, again)
    same_state(step.sampling_state, after)


@pytest.mark.parametrize("phase", PHASES)
def test_a_cut_chain_resumes_bit_for_bit_in_another_step(step, start, phase):
    cut = drawn_cut(type(step).__name__, phase)
    whole, _ = run(step, start, 300, stop_at=200)
    step.setup_chain(np.random.default_rng(SEED), 300, 300)
    before, point = run(step, start, cut, stop_at=200)
    stored = pickle.dumps(step.sampling_state)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    other.setup_chain(np.random.default_rng(99), 300, 300)
    run(other, start, 60)
    other.sampling_state = pickle.loads(stored)
    after, _ = run(other, point, 300 - cut, stop_at=200 - cut)
    np.testing.assert_array_equal(np.vstack([before, after]), whole)


def test_a_state_of_other_settings_is_refused(step, step_of):
    other = step_of("logistic", type(step).__name__, updates_per_draw=5)
    with pytest.raises(
        SettingError, match=r"^updates_per_draw=1 is not that of the sampling state, 5"
    ):
        step.sampling_state = other.sampling_state


def frozen_after_warm_up(step, start):
    """Return whether nothing that adapts has changed since the end of warm-up."""
    _, point = run(step, start, 150)
    step.stop_tuning()
    before = step.sampling_state
    step.tune = True
    run(step, point, 150)
    arrays = ("numbers", "test_settings", "window_sums", "warm_up_sum")
    same = [np.array_equal(getattr(step, name), getattr(before, name)) for name in arrays]
    fields = zip(step.surrogate, before.surrogate, strict=True)
    return all(same) and all(np.array_equal(*pair) for pair in fields)


def test_nothing_adapts_after_warm_up(step, start):
    assert frozen_after_warm_up(step, start)
    assert not step.adapting


def test_adaptation_left_on_is_noticed(step, start):
    mutant = copy.copy(step)
    mutant.setup_chain(np.random.default_rng(SEED), 300, 300)
    mutant.stop_tuning = lambda: None
    assert not frozen_after_warm_up(mutant, start)


def test_a_chain_that_takes_over_from_another_is_noticed(step, start):
    def last_of_two_chains(step):
        for seed in (1, 2):
            step.setup_chain(np.random.default_rng(seed), 300, 300)
            positions, _ = run(step, start, 150)
        return positions

    mutant = copy.copy(step)
    clean = last_of_two_chains(step)
    mutant._reset = lambda adapting: None
    assert not np.array_equal(last_of_two_chains(mutant), clean)


def test_warm_up_adapts(step, start):
    before = step.numbers.copy()
    run(step, start, 150)
    assert not np.array_equal(step.numbers, before)


def test_a_chain_without_warm_up_does_not_adapt(step, start):
    step.setup_chain(np.random.default_rng(1), 0, 100)
    before = step.numbers.copy()
    run(step, start, 100)
    np.testing.assert_array_equal(step.numbers, before)


@pytest.mark.parametrize("method", METHODS)
def test_a_pickle_is_little_larger_than_the_data(method):
    model = logistic(rows=250_000)
    nbytes = model["X"].get_value().nbytes + model.rvs_to_values[model["y"]].data.nbytes
    assert nbytes > 5e6
    step = METHODS[method](model=model)
    assert len(cloudpickle.dumps(step)) < 1.2 * nbytes
