"""The same arrays in storages of every kind."""

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import zarr

from pymc_minibatch_mh.data.source import ArrayStorage
from pymc_minibatch_mh.data.zarr import ZarrStorage
from pymc_minibatch_mh.model.rows import Rows

N = 20_000
#: Rows as passes and draws ask for them, and as nobody does but may.
REQUESTS = {
    "all": slice(None),
    "a block": slice(3_000, 11_500),
    "one": slice(7, 8),
    "the last": slice(N - 1, N),
    "none": slice(5, 5),
    "beyond the end": slice(N - 3, N + 10),
    "every third": slice(10, 9_000, 3),
    "one number": np.array([12_345]),
    "no numbers": np.array([], dtype=np.int64),
    "sorted": np.sort(np.random.default_rng(1).choice(N, 900, replace=False)),
    "unsorted with repeats": np.random.default_rng(2).integers(0, N, 3_000),
}


def arrays(n_rows=N):
    """Return arrays of several types, with numbers that float64 would change if it were cast."""
    rng = np.random.default_rng(3)
    return {
        "X": rng.standard_normal((n_rows, 3)).astype(np.float32),
        "t": rng.standard_normal(n_rows),
        "y": rng.integers(-5, 5, n_rows).astype(np.int16),
        "on": rng.random(n_rows) < 0.3,
    }


def in_npy(folder, values):
    """Return rows of arrays that are written to a file each."""
    for name, array in values.items():
        np.save(folder / f"{name}.npy", array)
    return Rows.from_npy(**{name: folder / f"{name}.npy" for name in values})


#: Chunks, and shards, of the arrays: X in two columns of chunks, small chunks, shards.
LARGE = {"X": (6_000, 2), "t": (4_500,), "y": (N,), "on": (7_000,)}
SMALL = {"X": (250, 3), "t": (400,), "y": (999,), "on": (200,)}
SHARDED = {"X": (500, 3), "t": (250,), "y": (1_000,), "on": (2_000,)}
SHARDS = {"X": (5_000, 3), "t": (10_000,), "y": (4_000,), "on": (6_000,)}


def zarr_group(store, chunks=LARGE, shards=None, zarr_format=3):
    """Write the arrays to a group."""
    group = zarr.open_group(store, mode="w", zarr_format=zarr_format)
    for name, values in arrays().items():
        array = group.create_array(
            name,
            shape=values.shape,
            dtype=values.dtype,
            chunks=chunks[name],
            shards=(shards or {}).get(name),
            config={"write_empty_chunks": True},
        )
        array[:] = values
    return group


def zarrs(store, *layout, **settings):
    return ZarrStorage(zarr_group(store, *layout, **settings), list(arrays()))


#: The arrays as columns of a table; rows of each file, and of a row group.
COLUMNS = {"X": ["x1", "x2", "x3"], "t": "t", "y": "y", "on": "on"}
PART, GROUP = N // 4, 1_500


def table(rows=slice(None), **others):
    found = arrays()
    X = found.pop("X")[rows]
    columns = {f"x{k + 1}": X[:, k] for k in range(3)}
    return pa.table(columns | {name: values[rows] for name, values in found.items()} | others)


def parquet_files(folder):
    """Write four files of four row groups each; return their paths."""
    paths = [folder / f"part-{k}.parquet" for k in range(4)]
    for k, path in enumerate(paths):
        pq.write_table(table(slice(k * PART, (k + 1) * PART)), path, row_group_size=GROUP)
    return paths


def parquet(folder, source=lambda folder, paths: folder):
    return Rows.from_parquet(source(folder, parquet_files(folder)), COLUMNS).storage


def one_parquet(folder):
    pq.write_table(table(), folder / "rows.parquet")
    return Rows.from_parquet(folder / "rows.parquet", COLUMNS).storage


def chunked(**others):
    """Return arrays of Dask, of which some may be others."""
    chunks = {"X": (6_000, 2), "t": 4_500, "y": N, "on": 777}
    return {name: da.from_array(x, chunks=chunks[name]) for name, x in arrays().items()} | others


def dasks(scheduler):
    dask.config.set(scheduler=scheduler)
    return Rows.from_dask(**chunked()).storage


#: Kind of a storage -> one in a folder.
STORAGES = {
    "memory": lambda folder: ArrayStorage(arrays()),
    "files": lambda folder: in_npy(folder, arrays()).storage,
    "large chunks": zarrs,
    "small chunks": lambda folder: zarrs(folder, SMALL),
    "shards": lambda folder: zarrs(folder, SHARDED, SHARDS),
    "older chunks": lambda folder: zarrs(folder, zarr_format=2),
    "chunks in memory": lambda folder: zarrs(zarr.storage.MemoryStore()),
    "row groups": parquet,
    "paths of row groups": lambda folder: parquet(folder, lambda _, paths: list(map(str, paths))),
    "a dataset": lambda folder: parquet(folder, lambda folder, _: ds.dataset(folder)),
    "large row groups": one_parquet,
    "Dask": lambda _: dasks("threads"),
    "Dask without threads": lambda _: dasks("synchronous"),
}
