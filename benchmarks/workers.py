"""Passes by the workers of a Dask cluster, one and two of them: benchmarks/README.md.

    OMP_NUM_THREADS=1 PYTHONPATH=.:tests python benchmarks/workers.py [--rows N] [--repeats N]

A logistic regression on 10 columns, float32, whose blocks the workers make and hold. Scheduler and
workers are processes of one thread each, beside the one that samples. Timed are passes with
gradient and Hessian. Bytes are those that the sampling process sends and receives through its
sockets, in the preparation of a step and in a pass.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pymc as pm
from distributed import Client, wait
from distributed.comm.tcp import IOStream

import pymc_minibatch_mh as mb

COLUMNS, CHUNK, WORKERS = 10, 250_000, 2
MOVED = {"sent": 0, "received": 0}


def count_bytes() -> None:
    """Have the sockets of this process count what goes through them."""
    write, read = IOStream.write_to_fd, IOStream.read_from_fd

    def write_to_fd(self, data):
        count = write(self, data)
        MOVED["sent"] += count
        return count

    def read_from_fd(self, buf):
        count = read(self, buf)
        MOVED["received"] += count or 0
        return count

    IOStream.write_to_fd, IOStream.read_from_fd = write_to_fd, read_from_fd


@contextmanager
def process(module: str, *arguments: str):
    """Run a part of the cluster."""
    command = [sys.executable, "-m", "distributed.cli." + module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as own:
        try:
            yield
        finally:
            own.terminate()


@contextmanager
def cluster(n_workers: int):
    """Yield a client of a scheduler and some workers, each a process of its own."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "scheduler.json")
        told_by = "--scheduler-file", str(told), "--no-dashboard"
        stack.enter_context(process("dask_scheduler", *told_by, "--port", "0"))
        for _ in range(n_workers):
            alone = "--nthreads", "1", "--no-nanny", "--memory-limit", "0"
            stack.enter_context(process("dask_worker", *told_by, *alone))
        with Client(scheduler_file=str(told)) as client:
            client.wait_for_workers(n_workers)
            yield client


def columns(block_info=None):
    """Make a block of columns."""
    ((first, last), _) = block_info[None]["array-location"]
    rng = np.random.default_rng(first)
    return rng.standard_normal((last - first, COLUMNS), dtype=np.float32)


def outcomes(X):
    """Make the outcomes of a block of columns."""
    rng = np.random.default_rng(int(1e6 * abs(X[0, 0])))
    beta = np.linspace(-0.5, 0.5, COLUMNS)
    return (rng.random(len(X)) < 1 / (1 + np.exp(-X @ beta))).astype(np.int8)


def rows_of(client: Client, n_rows: int) -> mb.Rows:
    """Return rows that the workers have made and hold, each as many as the others."""
    workers, n_chunks = list(client.scheduler_info()["workers"]), n_rows // CHUNK

    def holder(key: tuple) -> str:
        return workers[key[1] % len(workers)]

    with dask.annotate(workers=holder):
        chunks = ((CHUNK,) * n_chunks, (COLUMNS,))
        X = da.map_blocks(columns, chunks=chunks, dtype="f4", meta=np.empty((0, 0), "f4"))
        y = X.map_blocks(outcomes, drop_axis=1, dtype="i1", meta=np.empty(0, "i1"))
    # What is fused has no annotations any more.
    X, y = client.persist([X, y], optimize_graph=False)
    wait([X, y])
    return mb.Rows.from_dask(X=X, y=y)


def model_of(rows: mb.Rows) -> pm.Model:
    """Return the regression."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=COLUMNS)
        pm.Bernoulli("y", logit_p=rows.data("X") @ beta, observed=rows.data("y"))
    return model


def measured(n_workers: int, n_rows: int, repeats: int) -> tuple[float, mb.TunaMH]:
    """Print and return the seconds of a pass, and return the step."""
    with cluster(n_workers) as client:
        rows = rows_of(client, n_rows)
        MOVED.update(sent=0, received=0)
        start = time.perf_counter()
        step = mb.TunaMH(model=model_of(rows))
        seconds, moved = time.perf_counter() - start, dict(MOVED)
        passes, centre = step.target.full_data, step.reference.centre
        MOVED.update(sent=0, received=0)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            passes.likelihood(centre, hessian=True)
            times.append(time.perf_counter() - start)
        print(
            f"{n_workers} workers: prepared in {seconds:.1f} s, {_megabytes(moved)}; a pass "
            f"{np.median(times):.2f} s ({min(times):.2f} to {max(times):.2f}), "
            f"{_megabytes({k: v / repeats for k, v in MOVED.items()})}"
        )
        return float(np.median(times)), step


def _megabytes(moved: dict) -> str:
    return ", ".join(f"{size / 1e6:.2f} MB {how}" for how, size in moved.items())


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    n_rows = arguments.rows // CHUNK * CHUNK
    print(f"{n_rows:,} rows, {n_rows * (4 * COLUMNS + 1) / 1e6:.0f} MB")
    count_bytes()
    measured(WORKERS, 4 * CHUNK, 1)
    found = [measured(n, n_rows, arguments.repeats) for n in (1, WORKERS, 1, WORKERS)]
    seconds = np.array([one for one, _ in found]).reshape(2, 2).mean(axis=0)
    one, two = (step.reference for _, step in found[:2])
    print(f"1 to {WORKERS} workers: {seconds[0] / seconds[1]:.2f} times as fast")
    print(f"centres differ by {np.abs(one.whitener @ (one.centre - two.centre)).max():.1e} sd")


if __name__ == "__main__":
    main()
