"""Rows that Dask computes: what is taken, and passes that the workers of a cluster make."""

import dask
import dask.array as da
import numpy as np
import pymc as pm
import pytest
from dask.callbacks import Callback
from distributed import Client, LocalCluster, get_task_stream

from data.stored_rows import arrays, chunked
from pymc_minibatch_mh import Rows, TunaMH
from pymc_minibatch_mh.bounds import bound_check
from pymc_minibatch_mh.data.dask import DaskStorage
from pymc_minibatch_mh.data.source import map_blocks, workers_of
from pymc_minibatch_mh.errors import SettingError, SourceError
from pymc_minibatch_mh.reference import full_data as parallel
from pymc_minibatch_mh.reference import target


def test_only_the_chunks_that_hold_rows_are_computed_and_only_the_rows_returned():
    sizes = []
    X = da.from_array(arrays()["X"], chunks=(1_000, 3)).map_blocks(
        lambda block: (sizes.append(len(block)), block + 0)[1],
        dtype="f4",
        meta=np.empty((0, 3), "f4"),
    )
    storage = DaskStorage({"X": X})
    kept = []
    with (
        dask.config.set(scheduler="synchronous"),
        Callback(posttask=lambda k, v, *_: kept.append(v)),
    ):
        storage.read(["X"], np.array([7_000, 3, 7_500, 3]))
    assert sizes == [1_000, 1_000]
    assert len(kept[-1]) <= 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, r"from_dask\(\) has no arrays"),
        ({"X": np.ones(3)}, "is a ndarray. Give a Dask array"),
        ({"X": da.ones(3).sum()}, "is a single number"),
        ({"X": da.ones(9)[da.ones(9) > 0]}, r"Call X.compute_chunk_sizes\(\)"),
        ({"X": da.ones(3), "y": da.ones(4)}, "'y' has 4 rows, and 'X' has 3"),
        ({"X": da.from_array(np.array(["a"]))}, "'X' has type <U1"),
    ],
)
def test_what_is_no_array_of_rows_is_refused(given, message):
    with pytest.raises(SettingError, match=message):
        Rows.from_dask(**given)


def failing(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 3:
        raise OSError("disk on fire")
    return block


def test_a_chunk_that_cannot_be_computed_is_named():
    X = da.from_array(arrays()["X"], chunks=(1_000, 3)).map_blocks(
        failing, dtype="f4", meta=np.empty((0, 3), "f4")
    )
    storage = DaskStorage({"X": X})
    with pytest.raises(SourceError, match=r"rows 3,100 to 3,199 \(chunks 3 to 3 of 'X'\).*on fire"):
        storage.read(["X"], slice(3_100, 3_200))
    np.testing.assert_array_equal(storage.read(["X"], slice(5))["X"], arrays()["X"][:5])
    assert storage.where(3_100) == "row 3,100, chunk 3 of 'X'"


@pytest.mark.parametrize(
    "wrong", [lambda block: block[1:], lambda block: block.astype("f8")], ids=["rows", "type"]
)
def test_blocks_that_are_not_what_was_announced_are_named(wrong):
    X = da.from_array(arrays()["t"], chunks=1_000).astype("f4")
    storage = DaskStorage({"t": X.map_blocks(wrong, dtype="f4", meta=np.empty(0, "f4"))})
    with pytest.raises(SourceError, match=r"('t' was computed as|Dask cannot compute)"):
        storage.read(["t"], slice(0, 1_000))


def test_stamps_tell_other_contents():
    before = DaskStorage(chunked()).stamp
    assert DaskStorage(chunked()).stamp == before
    assert DaskStorage(chunked(t=da.from_array(arrays()["t"] + 1))).stamp != before


N = 30_000
RNG = np.random.default_rng(4)
ARRAYS = {
    "X": RNG.standard_normal((N, 3)).astype(np.float32),
    "y": RNG.poisson(2.0, N),
    "g": RNG.integers(0, 5, N),
}
CHUNKS = {"X": (7_000, 2), "y": 4_096, "g": 11_000}


def model_of(rows):
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=3)
        level = pm.Normal("level", shape=5)
        mu = rows.data("X") @ beta + level[rows.data("g")]
        pm.Poisson("y", mu=pm.math.exp(mu), observed=rows.data("y"))
    return model


def on_dask(**changed):
    arrays = ARRAYS | changed
    return Rows.from_dask(**{name: da.from_array(x, CHUNKS[name]) for name, x in arrays.items()})


@pytest.fixture(scope="module")
def client():
    settings = {"processes": False, "n_workers": 2, "threads_per_worker": 1}
    # Several of these may run beside each other.
    with LocalCluster(dashboard_address=":0", **settings) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def sizes():
    """The rows that are read by this process, whatever they are read for."""
    read, found = DaskStorage.read, []

    def counted(self, names, rows):
        values = read(self, names, rows)
        found.append(len(next(iter(values.values()))))
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DaskStorage, "read", counted)
        yield found


def built(rows):
    return TunaMH(model=model_of(rows), rng=3)


@pytest.fixture(scope="module")
def steps(client, sizes):
    with pytest.MonkeyPatch.context() as patch:
        for room in ("reference.full_data", "bounds.block_tables"):
            patch.setattr(f"pymc_minibatch_mh.{room}.BLOCK_ROWS", 8_192)
        yield built(on_dask()), built(Rows(**ARRAYS))


def test_sums_and_bounds_are_those_of_this_process(steps):
    ours, theirs = steps
    assert workers_of(ours.target.source.stored_by)
    assert not workers_of(theirs.target.source.stored_by)
    for one, other in zip(ours.reference, theirs.reference, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-8)
    np.testing.assert_allclose(ours.tables.headers, theirs.tables.headers)
    # Bounds are those of another centre, by rounding.
    np.testing.assert_allclose(ours.tables.largest, theirs.tables.largest, rtol=1e-6)
    np.testing.assert_allclose(ours.tables.sums, theirs.tables.sums, rtol=1e-6)


@pytest.mark.parametrize(
    ("cuts", "whole", "ends"),
    [
        ((), 1, [0, 40, 80, 100]),
        ((30, 60), 1, [0, 30, 60, 100]),
        ((30, 60), 8, [0, 24, 56, 96, 100]),
        ((3, 10, 20, 97), 1, [0, 10, 20, 60, 100]),
    ],
)
def test_chunks_begin_where_blocks_of_a_cluster_do(monkeypatch, cuts, whole, ends):
    monkeypatch.setattr(parallel, "LEAST", 10)
    chunks = parallel.chunks_of(100, 40, cuts=cuts, whole=whole)
    assert [chunk.start for chunk in chunks] == ends[:-1]
    assert [chunk.stop for chunk in chunks] == ends[1:]


def test_few_rows_travel_to_this_process(client, sizes, monkeypatch):
    sizes.clear()
    monkeypatch.setattr(target, "CHECK_ROWS", 100)
    monkeypatch.setattr(bound_check, "MAX_CHANGES", 100)
    step = built(on_dask())
    assert sum(sizes) < N / 5
    sizes.clear()
    step.target.full_data.likelihood(step.reference.centre, hessian=True)
    assert not sizes


def test_rows_that_fail_on_a_worker_are_named(client):
    def broken(block, block_id=None):
        if block_id[0] == 2:
            raise OSError("no such bucket")
        return block

    y = da.from_array(ARRAYS["y"], 10_000).map_blocks(broken, dtype=np.int64)
    storage = DaskStorage({"y": y})
    rows = Rows.of(storage)
    with pm.Model() as model:
        pm.Poisson("y", mu=pm.Exponential("rate", 1.0), observed=rows.data("y"))
    with pytest.raises(SourceError, match=r"rows .* \(chunks . to 2 of 'y'\).*no such bucket"):
        TunaMH(model=model)


class Shared:
    """What all blocks share."""


def sum_of(shared, arrays):
    """Return the sum of some outcomes."""
    assert isinstance(shared, Shared)
    return arrays["y"].sum()


def test_a_whole_chunk_is_taken_as_it_is(client):
    y = client.persist(da.from_array(ARRAYS["y"], CHUNKS["y"]))
    storage = DaskStorage({"y": y})
    blocks = [(slice(0, CHUNKS["y"]), sum_of)]
    list(map_blocks(storage, ["y"], shared := Shared(), blocks))
    with get_task_stream(client) as stream:
        list(map_blocks(storage, ["y"], shared, blocks))
    assert len(stream.data) == 1
