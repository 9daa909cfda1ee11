"""Wherever rows lie, a chain is the same: rows are drawn by their numbers."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pymc as pm
import pytest
import zarr

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.likelihood.stored import Rows

N = 30_000
pytestmark = pytest.mark.filterwarnings("ignore:Could not extract data from symbolic observation")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, 2)).astype(np.float32)
    return X, (rng.random(N) < 1 / (1 + np.exp(-X @ [0.5, -1.0]))).astype(np.int8)


def npy(X, y, folder):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", y)
    return Rows.from_npy(X=folder / "X.npy", y=folder / "y.npy")


def zarrs(X, y, folder):
    group = zarr.open_group(folder / "rows.zarr", mode="w")
    for name, values in {"X": X, "y": y}.items():
        array = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(4_096, 1)[: values.ndim]
        )
        array[:] = values
    return Rows.from_zarr(folder / "rows.zarr")


def parquet(X, y, folder):
    table = pa.table({"x1": X[:, 0], "x2": X[:, 1], "y": y})
    pq.write_table(table, folder / "rows.parquet", row_group_size=7_000)
    return Rows.from_parquet(folder / "rows.parquet", {"X": ["x1", "x2"], "y": "y"})


def daskarrays(X, y, folder):
    return Rows.from_dask(X=da.from_array(X, chunks=(5_000, 2)), y=da.from_array(y, chunks=8_000))


def drawn(rows):
    with pm.Model():
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=rows.data("X") @ beta, observed=rows.data("y"))
        trace = pm.sample(
            40, tune=40, chains=1, cores=1, step=TunaMH(), random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    return trace.posterior["beta"].to_numpy()


@pytest.fixture(scope="module")
def of_memory(data):
    return drawn(Rows(X=data[0], y=data[1]))


@pytest.mark.parametrize("stored", [npy, zarrs, parquet, daskarrays])
def test_draws_are_those_of_rows_in_memory(data, of_memory, stored, tmp_path):
    assert np.unique(of_memory).size > 20
    np.testing.assert_array_equal(drawn(stored(*data, tmp_path)), of_memory)
