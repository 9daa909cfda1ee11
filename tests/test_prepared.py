"""A step from the disk is the one that was stored."""

import numpy as np
import pytest

from helpers.prepared import Steps
from helpers.zoo import METHODS, MODELS, sample
from pymc_minibatch_mh import sample as sample_alone
from pymc_minibatch_mh.steps.base import model_behind

SETTINGS = {"random_seed": 2, "progressbar": False, "compute_convergence_checks": False}


def steps(folder):
    """Return the steps of a worker, which has models of its own."""
    known = {}
    return Steps(folder, lambda name: known.setdefault(name, MODELS[name](1_500)), METHODS)


@pytest.mark.parametrize("method", ["TunaMH", "PenaltyMH"])
def test_a_stored_step_draws_as_the_one_that_was_built(tmp_path, monkeypatch, method):
    built = steps(tmp_path)("poisson", method, updates_per_draw=2)
    other = steps(tmp_path)
    monkeypatch.setattr(other, "_built", None)
    stored = other("poisson", method, updates_per_draw=2)
    assert stored is other("poisson", method, updates_per_draw=2)
    assert model_behind(stored) is other.model_of("poisson") is not model_behind(built)
    for draw in (alone, in_pymc):
        one, another = draw(built), draw(stored)
        for name in ("level", "slope"):
            np.testing.assert_array_equal(one.posterior[name], another.posterior[name])


def alone(step):
    return sample_alone(step, 50, tune=50, chains=1, **SETTINGS)


def in_pymc(step):
    return sample(model_behind(step), step, 20, 20, chains=1, random_seed=3)


def test_steps_of_other_settings_are_others(tmp_path):
    own = steps(tmp_path)
    one, other = own("poisson", "PenaltyMH"), own("poisson", "PenaltyMH", taylor_order=1)
    assert [step.reference.order for step in (one, other)] == [2, 1]
