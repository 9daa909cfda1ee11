"""The trace of chains on stored rows says which rows they were."""

import warnings
from functools import partial

import numpy as np
import pymc as pm
import pytest
from pymc.backends.arviz import find_observations

from pymc_minibatch_mh import Rows, TunaMH, sample

N = 2_000
RNG = np.random.default_rng(3)
Y = RNG.normal(0.2, 1.0, N)


@pytest.mark.parametrize("stored", [True, False])
def test_a_trace_has_the_stamp_of_stored_rows_or_the_rows_themselves(stored):
    rows = Rows(y=Y)
    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), observed=rows.data("y") if stored else Y)
        trace = sample(TunaMH(), draws=50, tune=50, chains=1, random_seed=1, progressbar=False)
    assert trace["posterior"].attrs.get("observations") == (rows.stamp if stored else None)
    assert ("y" in trace["observed_data"]) != stored


@pytest.mark.parametrize("way", ["sample", "pm.sample"])
def test_the_step_says_what_a_trace_leaves_out_and_pymc_does_not_warn(way, caplog):
    rows = Rows(y=Y, z=Y)
    settings = {"draws": 20, "tune": 20, "chains": 1, "random_seed": 1, "progressbar": False}
    with pm.Model(), warnings.catch_warnings(), caplog.at_level("INFO", "pymc"):
        warnings.simplefilter("error")
        mu = pm.Normal("mu")
        pm.Normal("y (all)", mu, observed=rows.data("y"))
        pm.Normal("z", mu, 2.0, observed=rows.data("z"))
        step = TunaMH()
        said = "TunaMH: traces have no observed_data for 'y (all)' and 'z', whose data stay"
        assert sum(line.startswith(said) for line in caplog.messages) == 1
        draw = pm.sample if way == "pm.sample" else partial(sample, step)
        settings |= {"step": step, "cores": 1} if way == "pm.sample" else {}
        trace = draw(**settings, compute_convergence_checks=False)
        assert "observed_data" not in trace or not trace["observed_data"].data_vars
        pm.Normal("other", mu, observed=Rows(y=Y).data("y"))
        with pytest.raises(UserWarning, match="symbolic observation other"):
            find_observations(pm.modelcontext(None))
