"""Simulation-based calibration: ranks and intervals over a thousand posteriors."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from helpers.altered import with_program
from helpers.recording import record
from helpers.zoo import METHODS
from law.calibration.models import PERSONS, SIMULATORS
from law.calibration.replications import UPDATES, calibrate, copy_of, posterior_draws, renew
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.compiled.scalar_functions import LOG_PRIOR, called_by_library
from robustness.conformance.harness import same_state

SEED = 20_260_301
MANY, MANY_GROUPS, SOME, FEW = 1_000, 400, 300, 25
#: Chance of a false alarm per model and step, over all quantities and tests.
LEVEL = 1e-5
#: Most autocorrelation of successive draws, and most updates on all rows, that ranks allow.
MOST_CORRELATED, MOST_FULL = 0.1, 0.2


@pytest.fixture(scope="module")
def built():
    """Return a function that builds a step and its simulator once."""
    made = {}

    def build(model, method, **settings):
        key = model, method, *settings.items()
        if key not in made:
            simulator = SIMULATORS[model]()
            step = METHODS[method](model=simulator.build(), updates_per_draw=UPDATES, **settings)
            made[key] = simulator, step
        simulator, step = made[key]
        return simulator, copy_of(step)

    return build


def require_worth_testing(found):
    assert found.autocorrelation < MOST_CORRELATED
    assert found.full_passes <= MOST_FULL


def with_prior_times(step, factor):
    prior = step.target.full_data.log_prior.source

    def scaled(position, context):
        return factor * prior(position, context)

    step.target.full_data.log_prior = called_by_library(scaled, LOG_PRIOR, "mh_log_prior")
    return step


def with_narrow_bounds(tables):
    # A slice of every bound, so that most differences exceed it and are clipped.
    c, headers = tables.c * np.float32(0.05), tables.headers * [1.0, 1.0, 0.05]
    return replace(tables, c=c, headers=headers)


@pytest.mark.slow
@pytest.mark.parametrize("model", SIMULATORS)
def test_a_renewed_step_is_a_new_one(built, model):
    simulator, renewed = built(model, "TunaMH")
    truth = simulator.prior(np.random.default_rng(SEED))
    data = simulator.observe(truth, np.random.default_rng(SEED))
    renewed = renew(renewed, data)
    own = simulator.build()
    for name, values in data.items():
        own.rvs_to_values[own[name]].data[...] = values
    new = METHODS["TunaMH"](model=own, updates_per_draw=UPDATES)
    np.testing.assert_array_equal(renewed.tables.c, new.tables.c)
    draws = [posterior_draws(step, np.random.default_rng(SEED))[0] for step in (renewed, new)]
    np.testing.assert_array_equal(*draws)
    same_state(renewed.sampling_state, new.sampling_state)


@pytest.fixture
def quick(prepared):
    """A simulator and a step of the zoo that is built once for all tests."""
    step = copy_of(prepared("two_likelihoods", "TunaMH"))
    step = with_program(step, replace(step.program, updates_per_draw=UPDATES))
    return SIMULATORS["two_likelihoods"](), step


def test_few_ranks_are_uniform_and_a_prior_counted_four_times_is_noticed(quick):
    simulator, step = quick
    found = calibrate(simulator, step, FEW, SEED)
    require_worth_testing(found)
    assert found.p_value > LEVEL
    mutant = with_prior_times(step, 4.0)
    assert calibrate(simulator, mutant, FEW, SEED).p_value < LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("method", ["TunaMH", "PenaltyMH"])
@pytest.mark.parametrize("model", SIMULATORS)
def test_ranks_are_uniform_and_intervals_cover(built, model, method):
    require_calibrated(calibrate(*built(model, method), MANY, SEED), model, method)


@pytest.mark.slow
@pytest.mark.parametrize("family", PERSONS)
def test_ranks_of_small_groups_are_uniform(family):
    simulator = PERSONS[family]()

    def prepare_anew(step, data):
        model = simulator.build(**data)
        return TunaMH(model=model, observed=["y"], blocks="groups", updates_per_draw=6)

    found = calibrate(simulator, None, MANY_GROUPS, SEED, prepare_anew)
    require_calibrated(found, f"{family} groups", "TunaMH")


def require_calibrated(found, model, method):
    """Record what was found, and assert that ranks are uniform."""
    cover, many = found.coverage, f"{len(found.ranks):,}"
    worst = found.names[int(np.abs(cover - 0.9).argmax())]
    record(
        "law/calibration",
        f"{method}, {model}: ranks",
        asked=f"uniform ranks of {', '.join(found.names)} over {many} replications: p > {LEVEL}",
        measured=f"smallest p, corrected for {found.p_values.size} tests: {found.p_value:.3g}",
        seed=SEED,
    )
    record(
        "law/calibration",
        f"{method}, {model}: 90 % intervals",
        asked=f"90 % of {many} intervals hold the truth",
        measured=f"{cover.min():.1%} to {cover.max():.1%}, farthest for {worst}",
        seed=SEED,
    )
    require_worth_testing(found)
    assert found.p_value > LEVEL


def prior_counted_twice(built):
    simulator, step = built("poisson", "TunaMH")
    return simulator, with_prior_times(step, 2.0)


def temperature_of_two(built):
    return built("poisson", "TunaMH", temperature=2.0)


def bounds_too_narrow(built):
    # Without second order, so that rows come near to their bounds.
    return built("poisson", "TunaMH", taylor_order=1, on_violation="warn")


def observations_of_before(built):
    simulator, step = built("poisson", "PenaltyMH")
    late = []

    def observe(theta, rng):
        late.append(simulator.observe(theta, rng))
        return late[max(0, len(late) - 2)]

    return replace(simulator, observe=observe), step


#: What makes the mutant -> what happens to its bounds.
MUTANTS = {
    prior_counted_twice: lambda tables: tables,
    temperature_of_two: lambda tables: tables,
    bounds_too_narrow: with_narrow_bounds,
    observations_of_before: lambda tables: tables,
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_noticed(built, mutant):
    found = calibrate(*mutant(built), SOME, SEED, partial(renew, change_tables=MUTANTS[mutant]))
    record(
        "law/calibration",
        f"mutant: {mutant.__name__.replace('_', ' ')}",
        asked=f"noticed within {SOME} replications: p < {LEVEL}",
        measured=f"smallest p, corrected for {found.p_values.size} tests: {found.p_value:.3g}",
        seed=SEED,
    )
    assert found.p_value < LEVEL
