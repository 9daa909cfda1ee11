"""The settings of a run, and what is told of it, without a chain."""

import logging

import numpy as np
import pytest
import xarray as xr

from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.sampling import driver
from pymc_minibatch_mh.sampling.driver import _number_after, _quiet_logging, _run_settings
from pymc_minibatch_mh.sampling.trace import Draws


def test_chains_are_as_many_as_cores_and_at_least_two(monkeypatch):
    for usable, chains in ((1, 2), (3, 3), (64, 4)):
        monkeypatch.setattr(driver, "usable_cores", lambda usable=usable: usable)
        assert _run_settings(10, 0, None, None).chains == chains
        assert _run_settings(10, 0, None, 6).chains == 6
        assert _run_settings(10, 0, 1, 6).chains == 1
    with pytest.raises(SettingError, match=r"^draws="):
        _run_settings(0, 0, None, None)
    with pytest.raises(SettingError, match=r"^tune="):
        _run_settings(1, -1, None, None)


def test_nothing_is_logged_while_hushed_and_all_of_it_afterwards():
    log = logging.getLogger("pymc")
    before = log.level
    with _quiet_logging(quiet=True):
        assert not log.isEnabledFor(logging.CRITICAL)
    assert log.level == before
    with _quiet_logging(quiet=False):
        assert log.level == before


def test_draws_that_go_on_are_numbered_on():
    own = Draws(np.zeros((1, 4, 2)), {}, {"chain": np.array([1]), "draw": np.arange(4)})
    coords = {"chain": [4, 7], "draw": np.arange(10)}
    before = xr.DataTree.from_dict({"/posterior": xr.Dataset(coords=coords)})
    assert _number_after(own, None) is own
    found = _number_after(own, before).coords
    assert found["chain"].tolist() == [7]
    assert found["draw"].tolist() == [10, 11, 12, 13]
