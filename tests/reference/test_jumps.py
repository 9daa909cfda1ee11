"""Coordinates that decide where observations jump: their place is found from a far start."""

import logging
from logging.handlers import BufferingHandler
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from helpers.grouped import target_of
from model.evaluation import split_of
from pymc_minibatch_mh import TunaMH, sample
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape
from pymc_minibatch_mh.steps.report import warn_of_jumps
from pymc_minibatch_mh.structure.row_function import lowered_rows

N, PLACE = 4_000, 63.0


def jumping(n_groups=0):
    """Return a model of counts that jump at time 63, with a start at 50."""
    rng = np.random.default_rng(5)
    time, group = np.arange(N) * (100.0 / N), rng.integers(0, max(n_groups, 1), N)
    effects = 0.4 * rng.standard_normal(n_groups) if n_groups else np.zeros(1)
    counts = rng.poisson(np.exp(0.5 + effects[group] + 0.8 * (time > PLACE)))
    with pm.Model() as model:
        place, jump = pm.Normal("place", 50.0, 30.0), pm.Normal("jump")
        level = pm.Normal("level")
        if n_groups:
            scale = pm.HalfNormal("scale")
            level = level + pm.Normal("effect", 0.0, scale, shape=n_groups)[group]
        pm.Poisson("y", pm.math.exp(level + jump * (time > place)), observed=counts)
    return model


@pytest.mark.parametrize("start", [50.0, 120.0])
def test_the_place_of_a_jump_is_found(start):
    """No observation is later than 100."""
    target = target_of(jumping())
    mode = target.mode(np.array([start, 0.0, 0.0]), np.random.default_rng(0))
    assert abs(mode.position[0] - PLACE) < 0.5
    np.testing.assert_allclose(mode.position[1:], [0.8, 0.5], atol=0.15)
    # The log-density falls by 1/2 within some ten observations.
    assert 0.02 < mode.precision[0, 0] ** -0.5 < 1.0


def test_a_place_between_two_ends_still_jumps_in_the_coordinate_of_its_odds():
    time = np.arange(N) / N
    counts = np.random.default_rng(5).poisson(np.where(time < 0.4, 3.0, 2.0))
    with pm.Model() as model:
        place, early, late = pm.Uniform("place", 0.0, 1.0), pm.Exponential("e"), pm.Exponential("l")
        pm.Poisson("y", pm.math.switch(place > time, early, late), observed=counts)
    moved = in_inverse_shape(split_of(model), "place_interval__", 1)
    (row,) = lowered_rows(moved)
    assert len(kinks_of(row.exprs, row.root)) == 1


def jumping_by_group(places):
    """Return a model of counts with a change in each group, at an unknown share of the time."""
    rng, n = np.random.default_rng(5), 600
    group, time = np.repeat(np.arange(len(places)), n), np.tile(np.arange(n) / n, len(places))
    counts = rng.poisson(np.where(time < np.array(places)[group], 4.0, 1.5))
    with pm.Model() as model:
        place = pm.Uniform("place", 0.0, 1.0, shape=len(places))
        early, late = (pm.Normal(name, shape=len(places)) for name in ("early", "late"))
        log_mean = pm.math.switch(place[group] > time, early[group], late[group])
        pm.Poisson("y", pm.math.exp(log_mean), observed=counts)
    return model


def test_the_places_of_groups_between_two_ends_are_found():
    """In the odds against a place, which are positive: the search is in their logarithms."""
    places = np.array([0.75, 0.3])
    model = jumping_by_group(places)
    target = Target(CompiledModel(in_inverse_shape(split_of(model), "place_interval__", 1)))
    start = target.factorization.ravel(model.initial_point())
    mode = target.mode(start, np.random.default_rng(0))
    odds, sds = mode.position[:2], np.diag(np.linalg.inv(mode.precision))[:2] ** 0.5
    np.testing.assert_allclose(1.0 / (1.0 + odds), places, atol=0.03)
    # Of the place itself, the deviation is that of some observations in 600.
    assert (sds / (1.0 + odds) ** 2 < 0.02).all()


def test_many_places_of_jumps_are_warned_of_before_sampling():
    told = BufferingHandler(100)
    logging.getLogger("pymc").addHandler(told)
    for n, messages in ((3, 0), (4, 1)):
        target = target_of(jumping_by_group([0.5] * n))
        plan = SimpleNamespace(integrated="", blocks=None, target=target)
        told.flush()
        warn_of_jumps("TunaMH", SimpleNamespace(plan=plan))
        words = [one.getMessage() for one in told.buffer]
        assert sum("jump at 4 places, which 'place' decide" in x for x in words) == messages
    logging.getLogger("pymc").removeHandler(told)


def test_effects_are_proposed_beside_a_jump():
    """Tables of a scale have the averaged precision: the place is not drawn from its prior."""
    step = TunaMH(model=jumping(12))
    trace = sample(step, draws=400, tune=300, chains=1, random_seed=2, progressbar=False)
    assert float(trace["sample_stats"]["accept"].mean()) > 0.3
    assert abs(float(trace["posterior"]["place"].mean()) - PLACE) < 0.5
