"""What a model is given straight, without Rows, is read where it lies."""

import numpy as np
import pandas as pd
import polars as pl
import pymc as pm
import pytest
import xarray as xr

from pymc_minibatch_mh import TunaMH, sample

N = 20_000
RNG = np.random.default_rng(6)
X = RNG.standard_normal(N)
Y = 0.4 * X + RNG.standard_t(4, N)


def memmap(folder):
    np.save(folder / "x.npy", X)
    mapped = np.load(folder / "x.npy", mmap_mode="r")
    return mapped, mapped


def pandas_column(folder):
    column = pd.DataFrame({"x": X})["x"]
    return column, column.to_numpy()


def polars_column(folder):
    column = pl.Series("x", X)
    return column.to_numpy(), column.to_numpy()


def xarray_array(folder):
    array = xr.DataArray(X.copy(), dims="row")
    return array.to_numpy(), array.values


WAYS = {f.__name__: f for f in (memmap, pandas_column, polars_column, xarray_array)}


def model_of(x):
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0)
        pm.StudentT("y", nu=4, mu=b * x, sigma=1.0, observed=Y)
    return model


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("data", ["a constant", "pm.Data"])
def test_what_is_given_straight_is_not_copied(way, data, tmp_path):
    given, lies = way(tmp_path)
    if data == "a constant":
        model = model_of(given)
    else:
        with pm.Model() as model:
            b, x = pm.Normal("b", 0.0, 1.0), pm.Data("x", given)
            pm.StudentT("y", nu=4, mu=b * x, sigma=1.0, observed=Y)
        # PyMC makes a copy of its own, which is the one that is read.
        lies = model["x"].get_value(borrow=True)
    step = TunaMH(model=model)
    read = [column.values for column in step.target.source.columns]
    assert any(np.shares_memory(values, lies) for values in read)
    assert step.target.source.nbytes == 2 * 8 * N


def drawn(model):
    settings = {"draws": 200, "tune": 100, "chains": 1, "random_seed": 2, "progressbar": False}
    trace = sample(TunaMH(model=model), compute_convergence_checks=False, **settings)
    return trace.posterior["b"].to_numpy()


def test_draws_are_those_of_an_array_in_memory(tmp_path):
    expected = drawn(model_of(X))
    for way in WAYS.values():
        given, _ = way(tmp_path)
        np.testing.assert_array_equal(drawn(model_of(given)), expected)
