"""The sum of quadratic lower bounds, and the gaps that rows leave, add up to the log-likelihood."""

import pickle
from functools import cache

import numpy as np
import pytest

from every import every
from pymc_minibatch_mh import FireflyMH, PenaltyMH, TunaMH
from pymc_minibatch_mh.kernels.bound_tables import table_of_move
from pymc_minibatch_mh.kernels.posterior import expansion_change
from pymc_minibatch_mh.reference.full_data import FullData
from zoo import logistic


@cache
def model():
    return logistic(2_000)


@cache
def step_at(temperature):
    return FireflyMH(model=model(), bound="untuned", temperature=temperature)


@pytest.fixture
def step():
    return step_at(1.0)


def positions(reference):
    noise = np.random.default_rng(151).standard_normal((6, reference.centre.size))
    return reference.centre + 3.0 * noise @ reference.factor.T


def gaps(below, position):
    passes = FullData(below.rows, below.target.compiled.prior, below.target.source)
    return passes.values(position)


@every("temperature", [1.0, 4.0])
def test_lower_bounds_and_gaps_add_up(temperature):
    step = step_at(temperature)
    below, target = step.plan.lower_bounds, step.target
    centre, beta = below.reference.centre, below.reference.inverse_temperature

    def whole(position):
        return target.log_likelihood(position) - gaps(below, position).sum()

    for position in positions(below.reference):
        expected = beta * (whole(position) - whole(centre))
        assert expansion_change(below.reference, centre, position) == pytest.approx(
            expected, abs=1e-8
        )


@every("temperature", [1.0, 4.0])
def test_gaps_in_the_centre_are_rounded_up(temperature):
    below = step_at(temperature).plan.lower_bounds
    exact = below.reference.inverse_temperature * gaps(below, below.reference.centre)
    assert (below.gaps > exact).all()
    np.testing.assert_allclose(below.gaps, exact, rtol=1e-6, atol=1e-8)


def test_they_bound_moves_from_the_centre_and_no_others(step):
    below = step.plan.lower_bounds
    one, other, *_ = positions(below.reference)
    own = below.tables, below.reference
    assert table_of_move(*own, below.reference.centre, one) == (0, 1.0)
    assert table_of_move(*own, one, other)[0] == -1
    assert table_of_move(*own, one, below.reference.centre)[0] == -1


def test_they_are_pickled_and_found_again(step):
    arrived = pickle.loads(pickle.dumps(step.plan)).lower_bounds
    np.testing.assert_array_equal(arrived.gaps, step.plan.lower_bounds.gaps)
    np.testing.assert_array_equal(
        gaps(arrived, arrived.reference.centre),
        gaps(step.plan.lower_bounds, arrived.reference.centre),
    )


def test_other_steps_on_the_model_know_nothing_of_them(step, tmp_path):
    step.save(tmp_path / "step.npz")
    for method in (TunaMH, PenaltyMH):
        settings = {"model": model()}
        for file in ({}, {"prepared": tmp_path / "step.npz"}):
            other = method(**settings, **file)
            assert other.plan.lower_bounds is None
            np.testing.assert_allclose(other.reference.hessian, step.reference.hessian, rtol=1e-12)
