"""Rows that are stored: arrays that cannot be, files that change, and what they do not serve."""

import os
from functools import partial

import dask.array as da
import numpy as np
import pandas as pd
import pymc as pm
import zarr

from inputs.case import Section
from pymc_minibatch_mh import BarkerMinibatchMH, Langevin, PoissonMH, Rows, TunaMH
from pymc_minibatch_mh.errors import (
    MinibatchError,
    SettingError,
    SourceError,
    UnsplittableModelError,
)
from pymc_minibatch_mh.likelihood.stored import WholeArrayError

arrays = Section("Arrays of Rows(...)")
files = Section("Files and chunks of rows", SourceError)
served = Section("What rows of Rows(...) do not serve")

N = 2_000
RNG = np.random.default_rng(1)
X, Y = RNG.standard_normal((N, 2)), RNG.poisson(1.0, N)
AGAIN = "Build Rows(...), the model and the step again on the file as it shall be."
NUMBERS = "Give real numbers: floats, integers or bools."


def model_of(rows):
    with pm.Model() as model:
        eta = rows.data("X") @ pm.Normal("b", shape=2)
        pm.Poisson("y", pm.math.exp(eta), observed=rows.data("y"))
    return model


arrays.refuses(
    "Rows()", "Rows()", "has no arrays.", "Name some, such as X and y.", call=lambda g: Rows()
)
arrays.refuses(
    "Rows(X=X, y=y[:-1])",
    "'y'",
    "has 1,999 rows, and 'X' has 2,000.",
    "Give arrays of one length.",
    call=lambda g: Rows(X=X, y=Y[:-1]),
)
arrays.refuses(
    'Rows(X=np.array(["a"]))',
    "'X'",
    "has type <U1.",
    NUMBERS,
    call=lambda g: Rows(X=np.array(["a"])),
)
arrays.refuses(
    "Rows(X=np.ma.masked_greater(X, 2.0))",
    "'X'",
    "has masked entries, whose values are missing.",
    "Drop their rows from all arrays.",
    call=lambda g: Rows(X=np.ma.masked_greater(X, 2.0)),
)
arrays.refuses(
    "Rows(X=X.astype(np.float16))",
    "'X'",
    "has type float16, and compiled code reads floats of 32 or 64 bits.",
    "Store it as float32 or float64.",
    call=lambda g: Rows(X=X.astype(np.float16)),
)
arrays.refuses(
    'rows.data("Z")',
    "data('Z')",
    "names no array.",
    "Choose from ['X', 'y'].",
    call=lambda g: Rows(X=X, y=Y).data("Z"),
)
arrays.refuses(
    'rows.n_groups("h")',
    "n_groups('h')",
    "names no array.",
    "Choose from ['X', 'y'].",
    call=lambda g: Rows(X=X, y=Y).n_groups("h"),
)
STORE = "Store numbers 0, 1, 2 and so on, as np.unique(..., return_inverse=True) gives them"
MISSING = "-1 is pandas' code for a missing category: drop its rows, or number it as a group."
arrays.refuses(
    'rows.n_groups("g") with an index of -1',
    "'g'",
    "is -1 in row 7, which is no number of a group.",
    f"{STORE}. {MISSING}",
    call=lambda g: Rows(g=np.where(np.arange(N) == 7, -1, Y)).n_groups("g"),
    error=SourceError,
)
arrays.refuses(
    'rows.n_groups("g") with identifiers',
    "'g'",
    "is 98765 in row 7, but there are only 2,000 rows: most of so many groups would have none.",
    f"{STORE}, or declare the number of groups that is meant.",
    call=lambda g: Rows(g=np.where(np.arange(N) == 7, 98_765, Y)).n_groups("g"),
    error=SourceError,
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


FILE = "the file <folder>/X.npy"
files.refuses(
    'Rows.from_npy(X="gone.npy")',
    "the file gone.npy",
    "cannot be read: No such file or directory.",
    "Give a path that can.",
    call=lambda g: Rows.from_npy(X="gone.npy"),
)
files.refuses(
    "a mapped file, cut short after the model was built",
    FILE,
    "has 1,000 bytes and had 32,128 when it was opened.",
    AGAIN,
    call=after(lambda path: os.truncate(path, 1_000)),
)
files.refuses(
    "a mapped file, removed after the model was built",
    FILE,
    "is no more.",
    AGAIN,
    call=after(os.remove),
)
files.refuses(
    "a mapped file, written to after the model was built",
    FILE,
    "was written to after it was opened.",
    AGAIN,
    call=after(lambda path: os.utime(path, (1, 1))),
)


@files.refuses(
    "an array of Zarr of which a chunk is missing",
    "file://<folder>/z/X",
    "has no chunk 'X/c/2/0', which Zarr would read as 0.0.",
    "Write the array again with config={'write_empty_chunks': True}, or set missing_are_fill=True "
    "if it is meant.",
)
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


files.refuses(
    "Parquet files of which one lacks a column",
    "'a'",
    "is not one column of <folder>/table/1.parquet.",
    "Choose from 'y'.",
    call=table(lambda frame: frame[["y"]]),
    error=SettingError,
)
files.refuses(
    "Parquet files of which one has words in a column",
    "the column 'a' of <folder>/table/1.parquet",
    "has type large_string.",
    "Store real numbers: floats, integers or bools.",
    call=table(lambda frame: frame.assign(a="x")),
    error=SettingError,
)
files.refuses(
    "a Parquet column with an empty entry",
    "the column 'y'",
    "has 1 empty entries in row group 0 of <folder>/table/1.parquet.",
    "Fill or drop these rows before the file is written.",
    call=table(lambda frame: frame.assign(y=pd.array([None] + [1] * (N - 1), dtype="Int64"))),
)


@files.refuses(
    "a row with NaN",
    "'y'",
    "has a log-likelihood that is not finite at the starting point, first in row 1234.",
    "Correct that row, or pass other initvals=.",
    error=MinibatchError,
)
def one_nan(g):
    wrong = X.copy()
    wrong[1234, 1] = np.nan
    TunaMH(model=model_of(Rows(X=wrong, y=Y)))


served.refuses(
    "PoissonMH()",
    "'y':",
    "data of Rows(...) are drawn ahead, evenly or by bounds that are derived from the model. This "
    "step draws them otherwise, reads all of them at every update or finds them by their numbers.",
    "Use TunaMH(), ScalableSubsamplingMH() or FactorizedMH() without bounds=; BarkerMinibatchMH(), "
    "PenaltyMH() or AustereMH(); or give the model arrays in memory.",
    call=lambda g: PoissonMH(model=model_of(Rows(X=X, y=Y))),
)
served.refuses(
    "BarkerMinibatchMH(full_pass_above=50)",
    "'y':",
    "batches from 50 rows on read all 2,000 stored rows: 10,000 of 10,000 moves would, so that "
    "sampling would take longer than reading them as often.",
    "Use a larger full_pass_above=, control variates of order 2, TunaMH(), or fewer parameters "
    "with more rows each; or give the model arrays in memory, where explain(model) tells more.",
    call=lambda g: BarkerMinibatchMH(model=model_of(Rows(X=X, y=Y)), full_pass_above=50),
)
served.refuses(
    "TunaMH(proposal=Langevin())",
    "proposal=Langevin(...)",
    "draws a batch of rows, and data of Rows(...) are drawn ahead for the test alone.",
    "Use batch_size=0, another proposal such as the default, or give the model arrays in memory.",
    call=lambda g: TunaMH(model=model_of(Rows(X=X, y=Y)), proposal=Langevin()),
)
served.refuses(
    "TunaMH(weights=w)",
    "weights=",
    "are given for 'y', whose data are of Rows(...), and are not of the same Rows.",
    'Put them into it as well, and give weights=rows.data("...").',
    call=lambda g: TunaMH(model=model_of(Rows(X=X, y=Y)), weights=np.ones(N)),
)


@served.refuses(
    'mu = X @ b, pm.Poisson("y", pm.math.exp(mu), observed=rows.data("y"))',
    "'y'",
    "uses 'y', data of Rows(...), and 'columns', which is not of the same Rows, so it cannot be "
    "subsampled.",
    "Put all data of a likelihood into one Rows(...).",
    error=UnsplittableModelError,
)
def partly_in_memory(g):
    with pm.Model() as model:
        mu = pm.Data("columns", X) @ pm.Normal("b", shape=2)
        pm.Poisson("y", pm.math.exp(mu), observed=Rows(y=Y).data("y"))
    TunaMH(model=model)


@served.refuses(
    'a[rows.data("g")] with a number of a group that "a" has not',
    "'y'",
    "chooses entry 5 in row 1234 of something that has 5 entries.",
    "Correct 'g', which counts from 0.",
    error=UnsplittableModelError,
)
def beyond_the_groups(g, wrong=5):
    rows = Rows(g=np.where(np.arange(N) == 1_234, wrong, Y % 5), y=Y)
    with pm.Model() as model:
        mu = pm.math.exp(pm.Normal("a", shape=5)[rows.data("g")])
        pm.Poisson("y", mu, observed=rows.data("y"))
    TunaMH(model=model)


served.refuses(
    'a[rows.data("g")] with -1, which counts from the end in memory',
    "'y'",
    "chooses entry -1 in row 1234 of something that has 5 entries.",
    f"Correct 'g', which counts from 0. {MISSING}",
    call=lambda g: beyond_the_groups(g, -1),
    error=UnsplittableModelError,
)


def changing(g, size):
    noise = np.random.default_rng(2)
    noisy = da.from_array(X, chunks=(500, 2)).map_blocks(
        lambda block: block + size * noise.standard_normal(block.shape), dtype=X.dtype, meta=X[:0]
    )
    TunaMH(model=model_of(Rows.from_dask(X=noisy, y=da.from_array(Y, chunks=500))))


for size in (0.1, 1e-4):
    files.refuses(
        f"an array of Dask that is another by {size} each time it is computed",
        "'X'",
        "has other numbers each time that row 0 (row 0, chunk 0 of 'X' and chunk 0 of 'y') is "
        "read, as where Dask draws random numbers in the computation.",
        "Store the array, or call its persist() before, so that rows stay.",
        call=partial(changing, size=size),
    )


@served.refuses(
    "two likelihoods, one of them on Rows(...)",
    "'w'",
    "is subsampled beside 'y', whose data are of Rows(...), so it cannot be subsampled.",
    "Put the data of both into one Rows(...), or name one of them in observed=[...].",
    error=UnsplittableModelError,
)
def two_likelihoods(g):
    with model_of(Rows(X=X, y=Y)) as model:
        pm.Normal("w", pm.Normal("c"), observed=X[:, 0])
    TunaMH(model=model)


@served.refuses(
    "rows.data(...) in a density that bounds cannot be derived from, such as pm.OrderedProbit",
    "'y'",
    "goes through IsInf, which asks something of the parameters that bounds cannot answer, so no "
    "bound can be derived for it. Data of Rows(...) are computed with by what bounds are derived "
    "from.",
    "Give the model arrays in memory, and use BarkerMinibatchMH() or PenaltyMH().",
    error=UnsplittableModelError,
)
def without_bounds(g):
    rows = Rows(X=X, y=Y % 3)
    with pm.Model() as model:
        eta = rows.data("X") @ pm.Normal("b", shape=2)
        pm.OrderedProbit(
            "y", eta, cutpoints=np.array([-1.0, 1.0]), observed=rows.data("y"), compute_p=False
        )
    BarkerMinibatchMH(model=model)


@served.refuses(
    "rows.data(...) where all rows are computed with at once, as by pm.NUTS()",
    "'X'",
    "is data of Rows(...), of which PyMC itself would read all 2,000 rows at once.",
    "Sample with a step of pymc_minibatch_mh, which reads them in blocks, and compute on the array "
    "itself what you need besides.",
    error=WholeArrayError,
)
def evaluated_at_once(g):
    Rows(X=X).data("X").eval(mode="FAST_COMPILE")


CASES = [*arrays.cases, *files.cases, *served.cases]
