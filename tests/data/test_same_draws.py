"""Wherever rows lie, a chain is the same: rows are drawn by their numbers."""

import dask
import numpy as np
import pymc as pm
import pytest

from data.stored_rows import STORAGES
from helpers.zoo import sample
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.model.rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation")


def drawn(kind, folder):
    # Storages of Dask say by which threads they are computed.
    with dask.config.set(scheduler="threads"), pm.Model() as model:
        rows = Rows.of(STORAGES[kind](folder))
        mu = rows.data("X") @ pm.Normal("beta", 0, 1, shape=3)
        pm.StudentT("t", nu=4, mu=mu, sigma=1.0, observed=rows.data("t"))
        trace = sample(model, TunaMH(), 40, 40, chains=1, random_seed=3)
    return trace.posterior["beta"].to_numpy()


@pytest.fixture(scope="module")
def of_memory():
    return drawn("memory", None)


@pytest.mark.parametrize("kind", ["files", "large chunks", "row groups", "Dask"])
def test_draws_are_those_of_rows_in_memory(of_memory, kind, tmp_path):
    assert np.unique(of_memory).size > 20
    np.testing.assert_array_equal(drawn(kind, tmp_path), of_memory)
