"""What all traces are asked, of traces whose effects are integrated out and drawn afterwards."""

import cloudpickle
import numpy as np
import pytest

from helpers.models import small_groups
from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, TunaMH, draw_effects
from pymc_minibatch_mh import sample as sample_in_blocks
from pymc_minibatch_mh.plan.groups import GroupsPlan
from robustness.conformance.harness import same_draws

DRAWS, TUNE, SEED = 90, 60, 7
QUIET = {"progressbar": False, "compute_convergence_checks": False}
METHODS = {"TunaMH": TunaMH, "PenaltyMH": PenaltyMH}


@pytest.fixture(scope="module")
def model():
    return small_groups()


@pytest.fixture(scope="module")
def steps(model):
    return {name: method(model=model) for name, method in METHODS.items()}


@pytest.fixture(
    scope="module", params=["TunaMH", pytest.param("PenaltyMH", marks=pytest.mark.slow)]
)
def step(steps, request):
    assert isinstance(steps[request.param].plan, GroupsPlan)
    return steps[request.param]


@pytest.fixture(scope="module")
def trace(step):
    return run(step)


def run(step, draws=DRAWS, **settings):
    """Sample by the package's own driver."""
    common = {"tune": TUNE, "chains": 2, "random_seed": SEED, **QUIET}
    return sample_in_blocks(step, draws, **common | settings)


def positions(trace):
    """Return all parameters but the effects, shape (chains, draws, 3)."""
    return np.stack([trace.posterior[name] for name in ("mu", "b", "tau")], axis=-1)


def test_effects_of_repeated_positions_are_others(step, trace):
    """A draw that repeats its predecessor's position has effects of its own."""
    repeated = (np.diff(positions(trace), axis=1) == 0.0).all(axis=2)
    assert repeated.sum() > 5
    same = np.diff(trace.posterior["z"], axis=1)[repeated] == 0.0
    assert not same.any()


def test_loop_of_pymc_draws_the_same_effects(model, step):
    start = step.plan.unravel(step.plan.reference.centre, {})
    settings = {"initvals": start, "random_seed": SEED, "discard_tuned_samples": False}
    own, theirs = run(step, **settings), sample(model, step, DRAWS, TUNE, **settings)
    same_draws(own, theirs)
    for name in own.warmup_posterior.data_vars:
        np.testing.assert_array_equal(own.warmup_posterior[name], theirs.warmup_posterior[name])


@pytest.mark.parametrize("cores", [1, 2])
def test_cores_do_not_change_effects(step, trace, cores):
    same_draws(trace, run(step, cores=cores))


def test_a_resumed_run_is_one_longer_run(step, trace):
    # In the middle of a position that is repeated, if there is one.
    repeated = (np.diff(positions(trace), axis=1) == 0.0).all(axis=2)
    cut = int(np.flatnonzero(repeated.any(axis=0))[-1]) + 1
    first = run(step, cut)
    rest = sample_in_blocks(step, DRAWS - cut, resume=first, **QUIET)
    same_draws(trace.isel(draw=slice(None, cut)), first)
    same_draws(trace.isel(draw=slice(cut, None)), rest)
    np.testing.assert_array_equal(rest.posterior["draw"], np.arange(cut, DRAWS))


def test_a_checkpoint_is_one_longer_run(step, trace, tmp_path):
    run(step, DRAWS // 2, checkpoint=tmp_path / "run")
    same_draws(trace, sample_in_blocks(step, DRAWS, tune=TUNE, resume=tmp_path / "run", **QUIET))


def test_a_step_that_was_pickled_draws_the_same_effects(model, step, trace):
    other = cloudpickle.loads(cloudpickle.dumps(step))
    with model:
        same_draws(trace, run(other))


def test_traces_without_effects_are_of_the_same_draws(step, trace):
    shared = run(step, effects=False)
    assert set(shared.posterior.data_vars) == {"mu", "b", "tau"}
    for name in shared.posterior.data_vars:
        np.testing.assert_array_equal(shared.posterior[name], trace.posterior[name])
    complete = draw_effects(shared, step).posterior["z"]
    assert complete.dims == trace.posterior["z"].dims
    repeated = (np.diff(positions(trace), axis=1) == 0.0).all(axis=2)
    assert not (np.diff(complete, axis=1)[repeated] == 0.0).any()


@pytest.mark.parametrize("names", [["tau"], ["z"], ["tau", "rate"]])
def test_variables_are_chosen_by_name(step, trace, names):
    some = run(step, var_names=names).posterior
    assert set(some.data_vars) == set(names)
    for name in names:
        np.testing.assert_array_equal(some[name], trace.posterior[name])


def test_what_a_trace_says_of_its_step(step, trace):
    told = trace.posterior.attrs
    assert told["step"] == type(step).__name__
    assert told["step_guarantee"] == str(step.guarantee)
    assert told["updates_per_draw"] == step.updates_per_draw
    assert told["tuning_steps"] == TUNE
    assert set(trace.sample_stats.data_vars) == set(step.program.statistics)
    assert trace.posterior["z"].dims == ("chain", "draw", "person")
