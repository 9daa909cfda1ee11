"""Rows that are stored: arrays that cannot be, files that change, and what they do not serve."""

import os
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pymc as pm
import zarr

from docs.inputs.case import Section
from pymc_minibatch_mh import BarkerMinibatchMH, Langevin, PoissonMH, Rows, TunaMH

arrays = Section("Arrays of Rows(...)")
files = Section("Files and chunks of rows")
served = Section("What rows of Rows(...) do not serve")

N = 2_000
RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((N, 2)), RNG.poisson(1.0, N)


def model_of(rows):
    with pm.Model() as model:
        eta = rows.data("X") @ pm.Normal("b", shape=2)
        pm.Poisson("y", pm.math.exp(eta), observed=rows.data("y"))
    return model


arrays.reads(
    "Rows()", "Rows(X=X, y=y[:-1])", "Rows(X=X[:0])", 'Rows(X=np.array(["a"]))',
    "Rows(X=np.ma.masked_greater(X, 2.0))", "Rows(X=X.astype(np.float16))", X=X, y=Y,
)  # fmt: skip
arrays.reads('rows.data("Z")', 'rows.n_groups("h")', rows=Rows(X=X, y=Y))
arrays.gives(
    'rows.n_groups("g") with an index of -1',
    lambda g: Rows(g=np.where(np.arange(N) == 7, -1, Y)).n_groups("g"),
)
arrays.gives(
    'rows.n_groups("g") with identifiers',
    lambda g: Rows(g=np.where(np.arange(N) == 7, 98_765, Y)).n_groups("g"),
)


def written(g, name="X.npy"):
    np.save(g.folder / name, X)
    return g.folder / name


def after(change):
    """Return the call that builds a step on a file to which something has happened."""

    def call(g):
        path = written(g)
        mapped = np.load(path, mmap_mode="r")
        model = model_of(Rows(X=mapped, y=Y))
        change(path)
        TunaMH(model=model)

    return call


files.reads('Rows.from_npy(X="gone.npy")')
files.gives(
    "a mapped file, cut short after the model was built",
    after(lambda path: os.truncate(path, 1_000)),
)
files.gives("a mapped file, removed after the model was built", after(os.remove))
files.gives(
    "a mapped file, written to after the model was built",
    after(lambda path: os.utime(path, (1, 1))),
)


@files.gives("an array of Zarr of which a chunk is missing")
def chunk_missing(g):
    group = zarr.open_group(g.folder / "z", mode="w")
    group.create_array("X", shape=X.shape, chunks=(500, 2), dtype="f8")[:] = X
    os.remove(g.folder / "z/X/c/2/0")
    Rows.from_zarr(str(g.folder / "z"))


def table(second):
    """Return the call that reads a table of two files, of which the second is another."""

    def call(g):
        folder = g.folder / "table"
        folder.mkdir(exist_ok=True)
        first = pd.DataFrame({"a": X[:, 0], "y": Y})
        first.to_parquet(folder / "0.parquet")
        second(first.copy()).to_parquet(folder / "1.parquet")
        Rows.from_parquet(str(folder), {"X": ["a"], "y": "y"})

    return call


files.gives("Parquet files of which one lacks a column", table(lambda frame: frame[["y"]]))
files.gives(
    "Parquet files of which one has words in a column", table(lambda frame: frame.assign(a="x"))
)
files.gives(
    "a Parquet column with an empty entry",
    table(lambda frame: frame.assign(y=pd.array([None] + [1] * (N - 1), dtype="Int64"))),
)


@files.gives("a row with NaN")
def one_nan(g):
    wrong = X.copy()
    wrong[1234, 1] = np.nan
    TunaMH(model=model_of(Rows(X=wrong, y=Y)))


served.gives("PoissonMH()", lambda g: PoissonMH(model=model_of(Rows(X=X, y=Y))))
served.gives(
    "BarkerMinibatchMH(full_pass_above=50)",
    lambda g: BarkerMinibatchMH(model=model_of(Rows(X=X, y=Y)), full_pass_above=50),
)
served.gives(
    "TunaMH(proposal=Langevin())",
    lambda g: TunaMH(model=model_of(Rows(X=X, y=Y)), proposal=Langevin()),
)
served.gives(
    "TunaMH(weights=w)", lambda g: TunaMH(model=model_of(Rows(X=X, y=Y)), weights=np.ones(N))
)


@served.gives('mu = X @ b, pm.Poisson("y", pm.math.exp(mu), observed=rows.data("y"))')
def partly_in_memory(g):
    with pm.Model() as model:
        mu = pm.Data("columns", X) @ pm.Normal("b", shape=2)
        pm.Poisson("y", pm.math.exp(mu), observed=Rows(y=Y).data("y"))
    TunaMH(model=model)


@served.gives('a[rows.data("g")] with a number of a group that "a" has not')
def beyond_the_groups(g, wrong=5):
    rows = Rows(g=np.where(np.arange(N) == 1_234, wrong, Y % 5), y=Y)
    with pm.Model() as model:
        mu = pm.math.exp(pm.Normal("a", shape=5)[rows.data("g")])
        pm.Poisson("y", mu, observed=rows.data("y"))
    TunaMH(model=model)


served.gives(
    'a[rows.data("g")] with -1, which counts from the end in memory',
    lambda g: beyond_the_groups(g, -1),
)


def changing(g, size):
    noise = np.random.default_rng(2)
    noisy = da.from_array(X, chunks=(500, 2)).map_blocks(
        lambda block: block + size * noise.standard_normal(block.shape), dtype=X.dtype, meta=X[:0]
    )
    TunaMH(model=model_of(Rows.from_dask(X=noisy, y=da.from_array(Y, chunks=500))))


for size in (0.1, 1e-4):
    files.gives(
        f"an array of Dask that is another by {size} each time it is computed",
        partial(changing, size=size),
    )


@served.gives("two likelihoods, one of them on Rows(...)")
def two_likelihoods(g):
    with model_of(Rows(X=X, y=Y)) as model:
        pm.Normal("w", pm.Normal("c"), observed=X[:, 0])
    TunaMH(model=model)


@served.gives(
    "rows.data(...) in a density that bounds cannot be derived from, such as pm.math.floor(mu)"
)
def without_bounds(g):
    rows = Rows(X=X, y=Y)
    with pm.Model() as model:
        mu = rows.data("X") @ pm.Normal("b", shape=2)
        pm.Normal("y", pm.math.floor(mu), observed=rows.data("y"))
    BarkerMinibatchMH(model=model)


@served.gives("rows.data(...) where all rows are computed with at once, as by pm.NUTS()")
def evaluated_at_once(g):
    Rows(X=X).data("X").eval(mode="FAST_COMPILE")


CASES = [*arrays.cases, *files.cases, *served.cases]
