"""Steps whose effects cannot move by themselves: all move at once, or the message says why not."""

import logging

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.errors import BoundsError, ModeError
from pymc_minibatch_mh.plan import prepare as sharing
from pymc_minibatch_mh.plan.arrow import ArrowPlan
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.steps import settings

GROUPS = 6


def effects():
    rng = np.random.default_rng(3)
    g = rng.integers(0, GROUPS, 1_200)
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, 1.0, shape=GROUPS)
        pm.Bernoulli("y", logit_p=effect[g], observed=rng.integers(0, 2, g.size))
    return model


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(settings, "MIN_EFFECTS", GROUPS)
    return effects()


def without_centre(monkeypatch):
    def refuse(*_):
        raise ModeError("effect: no centre. Give a prior.")

    monkeypatch.setattr(sharing, "find_grouped", refuse)


def without_bounds(monkeypatch):
    def refuse(*_):
        raise BoundsError("effect: no centre. Take another step.")

    monkeypatch.setattr(ArrowPlan, "with_bounds", refuse)


@pytest.mark.parametrize("broken", [without_centre, without_bounds])
def test_effects_that_cannot_move_by_themselves_move_at_once(model, caplog, broken):
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO, "pymc"):
        broken(patch)
        assert isinstance(TunaMH(model=model).plan, DensePlan)
        assert (
            "Group effects are not updated one at a time, because effect: no centre." in caplog.text
        )


def test_a_model_without_either_road_is_told_of_both(model, monkeypatch):
    without_centre(monkeypatch)

    def refuse(*_):
        raise ModeError("No mode.")

    monkeypatch.setattr(sharing.Target, "expand", refuse)
    with pytest.raises(ModeError, match=r"^No mode\. Group effects cannot.*either: effect: no cen"):
        TunaMH(model=model)


def test_effects_are_never_moved_at_once_where_that_is_refused(monkeypatch):
    model = effects()
    monkeypatch.setattr(settings, "MIN_EFFECTS", GROUPS)
    without_centre(monkeypatch)
    TunaMH(model=model)
    with pytest.raises(ModeError, match="no centre"):
        TunaMH(model=model, blocks=True)
