"""What `pm.sample` does to a step: in one process and in several, with bars and interrupts."""

import copy
import multiprocessing
from typing import get_args

import numpy as np
import pytest
from pymc.progress_bar import ProgressBarOptions

from conformance.harness import same_draws
from zoo import METHODS, sample

#: The method whose expensive cases are part of every run.
CHEAPEST = "PenaltyMH"
#: Draws of warm-up and after it: an adaptation that were left on would fall into both.
TUNE, DRAWS = 120, 120

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def cases(*values):
    """Return every method with every value, those of other methods than the cheapest slow."""
    return [
        pytest.param(name, value, marks=() if name == CHEAPEST else pytest.mark.slow)
        for name in METHODS
        for value in values
    ]


@pytest.fixture
def logistic(model_of):
    return model_of("logistic")


@pytest.mark.parametrize(
    ("method", "start_method"),
    [
        pytest.param(
            name,
            start_method,
            marks=() if (name, start_method) == (CHEAPEST, "fork") else pytest.mark.slow,
        )
        for name in METHODS
        for start_method in ("fork", "forkserver", "spawn")
    ],
)
def test_processes_draw_what_one_process_draws(logistic, step_of, method, start_method):
    step = step_of("logistic", method)
    serial = sample(logistic, step, DRAWS, TUNE, random_seed=7)
    parallel = sample(logistic, step, DRAWS, TUNE, random_seed=7, cores=2, mp_ctx=start_method)
    same_draws(serial, parallel)


@pytest.mark.parametrize(("method", "bar"), cases(True, False, *get_args(ProgressBarOptions)))
def test_progress_bars_draw(logistic, step_of, method, bar):
    step = step_of("logistic", method)
    trace = sample(logistic, step, 10, 10, progressbar=bar, quiet=False)
    assert trace.posterior.sizes["draw"] == 10


def assert_adapts_in_warm_up_only(model, step, cores):
    """Assert that the scale of the walk moves in warm-up, and not after it."""
    trace = sample(model, step, DRAWS, TUNE, cores=cores, discard_tuned_samples=False)
    assert trace.warmup_posterior.sizes["draw"] == TUNE
    warm_up, after = trace.warmup_sample_stats["scaling"], trace.sample_stats["scaling"]
    assert (warm_up.std("draw") > 0.0).all()
    np.testing.assert_array_equal(after, np.broadcast_to(after[:, :1], after.shape))


@pytest.mark.parametrize("method", METHODS)
def test_nothing_adapts_after_warm_up_in_one_process(logistic, step_of, method):
    assert_adapts_in_warm_up_only(logistic, step_of("logistic", method), cores=1)


@pytest.mark.parametrize(("method", "cores"), cases(2))
def test_nothing_adapts_after_warm_up_in_several_processes(logistic, step_of, method, cores):
    assert_adapts_in_warm_up_only(logistic, step_of("logistic", method), cores)


@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_adaptation_left_on_is_noticed_in_a_trace(logistic, step_of, cores):
    mutant = copy.copy(step_of("logistic", CHEAPEST))
    mutant.stop_tuning = lambda: None
    with pytest.raises(AssertionError):
        assert_adapts_in_warm_up_only(logistic, mutant, cores)


def interrupted(model, step, **settings):
    """Return the trace of two chains that are interrupted on the way, and what was left over."""

    def interrupt(trace, draw):
        if draw.draw_idx == 40:
            raise KeyboardInterrupt

    trace = sample(model, step, 2_000, 10, callback=interrupt, **settings)
    # PyMC waits two seconds for a worker that it told to end, which one that is still starting
    # only hears of when it has started.
    for worker in multiprocessing.active_children():
        worker.join(120.0)
    return trace, multiprocessing.active_children()


@pytest.mark.parametrize(
    ("method", "start_method"),
    [
        pytest.param(
            name,
            start_method,
            marks=() if (name, start_method) == (CHEAPEST, "fork") else pytest.mark.slow,
        )
        for name in METHODS
        for start_method in ("fork", "forkserver", "spawn")
    ],
)
def test_an_interrupt_of_processes_keeps_draws_and_leaves_no_orphan(
    logistic, step_of, method, start_method
):
    step = step_of("logistic", method)
    trace, orphans = interrupted(logistic, step, cores=2, mp_ctx=start_method)
    assert orphans == []
    assert 1 <= trace.posterior.sizes["draw"] < 2_000
    assert np.isfinite(trace.posterior["beta"]).all()


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupted_step_samples_as_if_it_had_not_been(logistic, step_of, method):
    step = step_of("logistic", method)
    before = sample(logistic, step, 20, 60, random_seed=11)
    interrupted(logistic, step, chains=1)
    same_draws(before, sample(logistic, step, 20, 60, random_seed=11))
