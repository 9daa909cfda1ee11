"""Chains in threads of one process: each step has its own state, whatever the others do."""

import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from conformance.harness import run
from zoo import METHODS, SOME_METHODS

DRAWS = 250


def chain(step, start, seed, barrier=None):
    """Return the draws of a chain, which begins when all others do."""
    if barrier is not None:
        barrier.wait()
    step.setup_chain(np.random.default_rng(seed), DRAWS, DRAWS)
    return run(step, start, DRAWS, stop_at=DRAWS // 2)[0]


def together(steps, starts, seeds):
    """Return the draws of several chains that run at the same time."""
    barrier = Barrier(len(steps))
    with ThreadPoolExecutor(len(steps)) as pool:
        futures = [
            pool.submit(chain, *each, barrier) for each in zip(steps, starts, seeds, strict=True)
        ]
        return [future.result() for future in futures]


@pytest.mark.parametrize("method", SOME_METHODS)
def test_two_steps_in_two_threads_draw_as_one_after_the_other(step_of, model_of, method):
    names = ("two_likelihoods", "logistic")
    steps = [step_of(name, method) for name in names]
    starts = [model_of(name).initial_point() for name in names]
    alone = [chain(*each) for each in zip(steps, starts, (0, 1), strict=True)]
    for found, expected in zip(together(steps, starts, (0, 1)), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", METHODS)
def test_copies_of_a_step_draw_in_threads_as_the_step_does(step_of, model_of, method):
    step = step_of("two_likelihoods", method)
    start = model_of("two_likelihoods").initial_point()
    alone = [chain(step, start, seed) for seed in (3, 4)]
    copies = [copy.deepcopy(step), copy.copy(step)]
    for found, expected in zip(together(copies, [start] * 2, (3, 4)), alone, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("method", METHODS)
def test_states_that_are_swapped_between_steps_swap_the_chains(step_of, model_of, method):
    step = step_of("two_likelihoods", method)
    start = model_of("two_likelihoods").initial_point()
    states, points, expected = [], [], []
    for seed in (5, 6):
        step.setup_chain(np.random.default_rng(seed), DRAWS, DRAWS)
        points.append(run(step, start, 40)[1])
        states.append(step.sampling_state)
        expected.append(run(step, points[-1], 40)[0])
    others = [copy.copy(step), copy.copy(step)]
    for other, state, seed in zip(others, states[::-1], (7, 8), strict=True):
        other.setup_chain(np.random.default_rng(seed), DRAWS, DRAWS)
        other.sampling_state = state
    for other, point, whole in zip(others, points[::-1], expected[::-1], strict=True):
        np.testing.assert_array_equal(run(other, point, 40)[0], whole)


def test_mutant_of_two_chains_in_one_step_is_caught(step_of, model_of):
    step = step_of("two_likelihoods", "PenaltyMH")
    start = model_of("two_likelihoods").initial_point()
    alone = chain(step, start, 0)
    for seed in (0, 1):
        step.setup_chain(np.random.default_rng(seed), DRAWS, DRAWS)
    assert not np.array_equal(run(step, start, DRAWS, stop_at=DRAWS // 2)[0], alone)
