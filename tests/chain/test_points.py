"""A chain knows its own position in the points of PyMC's loop, whatever coordinates it lies in."""

import copy
from functools import cache

import numpy as np
import pytest

from helpers.zoo import METHODS, SOME_METHODS, sample
from law.golden.combinations import hierarchy
from pymc_minibatch_mh import FireflyMH, overdispersed_initvals
from pymc_minibatch_mh import sample as sample_in_blocks
from pymc_minibatch_mh.chain.chain import set_to_point
from robustness.conformance.harness import run

pytestmark = pytest.mark.filterwarnings("ignore:The number of samples is too small")

SETTINGS = {"random_seed": 5, "discard_tuned_samples": False}
GROUPS = ("warmup_posterior", "posterior", "warmup_sample_stats", "sample_stats")


@cache
def noncentred():
    return hierarchy(None, centred=False)


@cache
def step_of(model, method):
    step = method(model=model())
    assert step.target.factorization.maps
    return step


def same_draws(model, method):
    """Assert that PyMC's loop and the driver draw the same, and return the statistics."""
    step = step_of(model, method)
    settings = SETTINGS | {"initvals": overdispersed_initvals(step, 1, 1.0, random_seed=1)}
    loop = sample(model(), step, 60, 120, chains=1, **settings)
    quiet = {"progressbar": False, "compute_convergence_checks": False}
    blocks = sample_in_blocks(step, 60, tune=120, chains=1, **quiet, **settings)
    untransformed = {rv.name for rv, by in model().rvs_to_transforms.items() if by is None}
    for name, one in ((f"{g}/{n}", loop[g][n]) for g in GROUPS for n in loop[g].data_vars):
        if name.endswith(("perf_counter_diff", "warning")):
            continue
        rounds = "posterior" in name and name.split("/")[1] not in untransformed
        np.testing.assert_allclose(
            blocks[name], one, rtol=1e-14 if rounds else 0.0, atol=0.0, err_msg=name
        )
    return loop.sample_stats


@pytest.mark.parametrize("method", SOME_METHODS)
def test_the_loop_of_pymc_draws_what_the_driver_draws_in_other_coordinates(method):
    stats = same_draws(noncentred, METHODS[method])
    if method == "FireflyMH":
        # Drawing all bright rows anew reads all rows.
        assert float(stats["n_obs"].mean()) < 600.0


@pytest.fixture
def step():
    own = copy.copy(step_of(noncentred, FireflyMH))
    own.setup_chain(np.random.default_rng(3), 100, 100)
    return own


@pytest.fixture
def start():
    return noncentred().initial_point()


def test_a_chain_follows_what_other_steps_have_moved(step, start):
    _, point = run(step, start, 20)
    own, factorization = step.chain.position.copy(), step.target.factorization
    for name in point:
        moved = point | {name: np.nextafter(point[name], np.inf)}
        set_to_point(step.chain, moved)
        np.testing.assert_array_equal(step.chain.position, factorization.ravel(moved))
        assert not np.array_equal(step.chain.position, own)
        set_to_point(step.chain, point)
        np.testing.assert_array_equal(step.chain.position, own)
    # There and back again is another position: it is not computed where it is known.
    assert not np.array_equal(factorization.ravel(point), own)


def test_a_new_chain_is_where_it_is_put(step, start):
    _, point = run(step, start, 20)
    step.setup_chain(np.random.default_rng(5), 100, 100)
    set_to_point(step.chain, point)
    np.testing.assert_array_equal(step.chain.position, step.target.factorization.ravel(point))
