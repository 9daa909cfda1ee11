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


def drawn(step):
    settings = {"draws": 200, "tune": 100, "chains": 1, "random_seed": 2, "progressbar": False}
    return sample(step, compute_convergence_checks=False, **settings).posterior["b"].to_numpy()


@pytest.fixture(scope="module")
def expected():
    return drawn(TunaMH(model=model_of(X)))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_what_is_given_straight_is_not_copied(way, tmp_path, expected):
    given, lies = way(tmp_path)
    step = TunaMH(model=model_of(given))
    assert_read_from(step, lies)
    np.testing.assert_array_equal(drawn(step), expected)


def assert_read_from(step, lies):
    read = [column.values for column in step.target.source.columns]
    assert any(np.shares_memory(values, lies) for values in read)
    assert step.target.source.nbytes == 2 * 8 * N
