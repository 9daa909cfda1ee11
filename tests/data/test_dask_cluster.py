"""Rows that the processes of a cluster compute, and what becomes of those that die.

Starting a cluster takes some ten seconds.
"""

import multiprocessing as mp
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import dask
import dask.array as da
import numpy as np
import pymc as pm
import pytest
from distributed import Client, LocalCluster

from data.dask_blocks import deadly, slow, slow_once
from data.stored_rows import arrays
from pymc_minibatch_mh import Rows, TunaMH
from pymc_minibatch_mh.data import dask as dask_workers
from pymc_minibatch_mh.data.dask import DaskStorage
from pymc_minibatch_mh.data.source import map_blocks
from pymc_minibatch_mh.errors import SourceError
from pymc_minibatch_mh.reference import full_data

pytestmark = [
    pytest.mark.slow,
    # What a cluster leaves behind where its workers are killed.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]
ROWS = np.array([17_000, 3, 9_999, 3])


def started(n_workers):
    return LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def cluster():
    few_failures = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with few_failures, started(2) as cluster, Client(cluster):
        yield cluster


@pytest.fixture
def storage(cluster):
    chunks = {"X": (6_000, 2), "t": 4_500, "y": 20_000, "on": 777}
    return DaskStorage({n: da.from_array(x, chunks=chunks[n]) for n, x in arrays().items()})


def test_rows_are_those_of_the_arrays(storage):
    asked = [ROWS, slice(5_000, 9_000), slice(None), slice(15_000, 15_001)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda rows: storage.read(list(arrays()), rows), asked))
    for rows, values in zip(asked, found, strict=True):
        for name, expected in arrays().items():
            np.testing.assert_array_equal(values[name], expected[rows], strict=True)


def read_elsewhere(given, answer):
    storage = pickle.loads(given) if isinstance(given, bytes) else given
    answer.put(storage.read(["X"], ROWS)["X"])


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_compute_on_the_same_cluster(storage, method):
    storage.read(["X"], ROWS)
    context = mp.get_context(method)
    answer = context.Queue()
    given = storage if method == "fork" else pickle.dumps(storage)
    process = context.Process(target=read_elsewhere, args=(given, answer))
    process.start()
    np.testing.assert_array_equal(answer.get(timeout=120), arrays()["X"][ROWS])
    process.join(timeout=60)
    assert process.exitcode == 0


def test_rows_of_a_worker_that_is_killed_are_computed_again(cluster, tmp_path):
    t = da.from_array(arrays()["t"], chunks=10_000)
    storage = DaskStorage({"t": t.map_blocks(slow, str(tmp_path), dtype="f8", meta=np.empty(0))})
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(storage.read, ["t"], ROWS)
        while not list(tmp_path.iterdir()):
            time.sleep(0.05)
        os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)
        found = read.result(timeout=120)["t"]
    np.testing.assert_array_equal(found, arrays()["t"][ROWS])


def test_groups_are_counted_by_the_workers(cluster):
    g = da.from_array(np.arange(20_000) % 300, chunks=5_000)
    assert Rows.from_dask(g=g).n_groups("g") == 300


def test_rows_that_kill_their_workers_are_named(cluster):
    t = da.from_array(arrays()["t"], chunks=1_000)
    storage = DaskStorage({"t": t.map_blocks(deadly, dtype="f8", meta=np.empty(0))})
    with pytest.raises(SourceError, match=r"rows 4,000 to 4,009 \(chunks 4 to 4 .*KilledWorker"):
        storage.read(["t"], slice(4_000, 4_010))


def test_a_cluster_that_is_gone_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(dask_workers, "MAX_SILENT_SECONDS", 3.0)
    t = da.from_array(arrays()["t"], chunks=1_000)
    with started(1) as cluster, Client(cluster):
        storage = DaskStorage({"t": t})
        kept = pickle.dumps(storage)
        cluster.scale(0)
        with pytest.raises(SourceError, match="has no workers for 3 s"):
            storage.read(["t"], ROWS)
    # As in a process that has no client of another cluster.
    monkeypatch.setattr(dask_workers, "_default_client", lambda: None)
    with pytest.raises(SourceError, match=r"does not answer this process"):
        pickle.loads(kept).read(["t"], ROWS)
    lost = pickle.loads(kept)
    assert lost.workers
    with pytest.raises(SourceError, match=r"rows 0 to 9 .* does not answer this process"):
        next(map_blocks(lost, ["t"], len, [(slice(0, 10), len)]))


def poisson_of(rows):
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=2)
        pm.Poisson("y", mu=pm.math.exp(rows.data("X") @ beta), observed=rows.data("y"))
    return model


def test_a_pass_is_made_by_processes_one_of_which_is_killed(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(full_data, "BLOCK_ROWS", 4_096)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20_000, 2))
    values = {"X": X, "y": rng.poisson(np.exp(X @ [0.3, -0.2]))}
    blocks = {name: da.from_array(x, chunks=5_000) for name, x in values.items()}
    step = TunaMH(model=poisson_of(Rows.from_dask(**blocks)))
    in_memory = TunaMH(model=poisson_of(Rows(**values)))
    np.testing.assert_allclose(step.reference.hessian, in_memory.reference.hessian, rtol=1e-12)
    np.testing.assert_allclose(step.tables.largest, in_memory.tables.largest, rtol=1e-6)

    delayed = {
        name: x.map_blocks(slow_once, str(tmp_path), dtype=x.dtype, meta=x._meta)
        for name, x in blocks.items()
    }
    step.target.source.columns[0].values.storage._arrays = delayed
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(step.target.full_data.likelihood, step.reference.centre, hessian=True)
        while not list(tmp_path.iterdir()):
            assert not found.done() or found.result()
            time.sleep(0.05)
        os.kill(int(next(tmp_path.iterdir()).name), signal.SIGKILL)
        again = found.result(timeout=180)
    np.testing.assert_array_equal(again.hessian, step.reference.hessian)
