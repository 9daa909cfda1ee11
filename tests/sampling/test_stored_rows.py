"""The trace of chains on stored rows says which rows they were."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import Rows, TunaMH, sample

N = 2_000
RNG = np.random.default_rng(3)
Y = RNG.normal(0.2, 1.0, N)


@pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation")
def test_a_trace_of_stored_rows_has_their_stamp_and_no_observed_data():
    rows = Rows(y=Y)
    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), observed=rows.data("y"))
        trace = sample(TunaMH(), draws=50, tune=50, chains=1, random_seed=1, progressbar=False)
    assert trace["posterior"].attrs["rows"] == rows.stamp
    assert "y" not in trace["observed_data"]


def test_a_trace_of_rows_in_memory_has_no_stamp():
    with pm.Model():
        pm.Normal("y", pm.Normal("mu"), observed=Y)
        trace = sample(TunaMH(), draws=50, tune=50, chains=1, random_seed=1, progressbar=False)
    assert "rows" not in trace["posterior"].attrs
    assert "y" in trace["observed_data"]
