"""Rows in files against rows in memory: benchmarks/README.md.

    OMP_NUM_THREADS=1 PYTHONPATH=.:tests python benchmarks/big_data.py FOLDER [--rows N]
        [--compare N] [--only-arriving]

A logistic regression on 10 columns, float32, in two files of 41 bytes a row, which are written to
the folder unless they are there. The system is asked to forget them; a step is prepared, and 10,000
draws are made of each of two chains, in a process that may hold 1.5 GiB of memory of its own. The
comparison is of the first N rows of the same files, mapped and read into memory, and of 1 % more,
once they have been read: preparing a step on these anew beside extending one on the first, the
median of five. With --only-arriving nothing else is measured, and the files are as long as that
takes.
"""

import argparse
import os
import resource
import time
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_minibatch_mh as mb
import pymc_minibatch_mh.steps.tuna

COLUMNS, BLOCK = 10, 10**6
#: Memory that a process may hold beside mapped files, bytes.
LIMIT = 1536 * 2**20
DRAWS, TUNE, TURNS = 10_000, 1_000, 5


def written(folder: Path, rows: int) -> dict[str, Path]:
    """Return the files, written unless they are there."""
    paths = {name: folder / f"{name}-{rows}.npy" for name in ("X", "y")}
    if all(path.exists() for path in paths.values()):
        return paths
    rng, beta = np.random.default_rng(1), np.linspace(-0.5, 0.5, COLUMNS, dtype=np.float32)
    open_memmap = np.lib.format.open_memmap
    X = open_memmap(paths["X"], "w+", dtype="f4", shape=(rows, COLUMNS))
    y = open_memmap(paths["y"], "w+", dtype="i1", shape=(rows,))
    for first in range(0, rows, BLOCK):
        block = rng.standard_normal((min(BLOCK, rows - first), COLUMNS), dtype=np.float32)
        X[first : first + len(block)] = block
        y[first : first + len(block)] = rng.random(len(block)) < 1 / (1 + np.exp(-block @ beta))
    return paths


def forget(paths: dict[str, Path]) -> None:
    """Ask the system to read the files from disk again."""
    for path in paths.values():
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def model_of(X, y) -> pm.Model:
    """Return the regression on what stands for columns and outcomes."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 1.0, shape=COLUMNS)
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    return model


def stored(X, y) -> pm.Model:
    """Return the regression on rows that stay where they are."""
    rows = mb.Rows(X=X, y=y)
    return model_of(rows.data("X"), rows.data("y"))


def timed(call, *arguments, **settings):
    """Return what a call returns, and its seconds."""
    began = time.perf_counter()
    return call(*arguments, **settings), time.perf_counter() - began


def a_pass(step: mb.TunaMH) -> float:
    """Return the seconds of a pass with Hessian, the shorter of two."""
    centre, passes = step.reference.centre, step.target.full_data
    return min(timed(passes.likelihood, centre, hessian=True)[1] for _ in range(2))


def updates_a_second(step: mb.TunaMH) -> float:
    """Return the updates of one chain in a second, frozen: the median of five blocks of 20,000."""
    step.chain.advance(TUNE)
    step.chain.stop_adapting()
    return 20_000 / sorted(timed(step.chain.advance, 20_000)[1] for _ in range(5))[2]


def arriving(X: np.ndarray, y: np.ndarray, few: int) -> None:
    """Measure and print what one per cent more rows cost."""
    more = few + few // 100
    # Neither what compiled code takes to be loaded counts, nor a disk.
    mb.TunaMH(model=stored(X[:BLOCK], y[:BLOCK]), rng=1)
    X[:more].max(), y[:more].max()
    before = mb.TunaMH(model=stored(X[:few], y[:few]), rng=1)

    def prepared(**settings) -> tuple[float, float]:
        """Return the seconds of preparing a step on all rows, and those of the processors."""
        began = time.process_time()
        _, wall = timed(mb.TunaMH, model=stored(X[:more], y[:more]), rng=1, **settings)
        return wall, time.process_time() - began

    runs = np.array([prepared(prepared=before) for _ in range(TURNS)])
    (longer, busy), (anew, busy_anew) = np.median(runs, axis=0), prepared()
    print(
        f"N = {few:,} and 1 % more rows: {longer:.2f} s, {longer / anew:.1%} of the {anew:.1f} s "
        f"of preparing anew; processors {busy:.2f} s, {busy / busy_anew:.1%} of {busy_anew:.1f} s"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--compare", type=int, default=10**7)
    parser.add_argument("--only-arriving", action="store_true")
    given = parser.parse_args()
    few = given.compare
    rows = few + few // 100 if given.only_arriving else given.rows
    paths = written(given.folder, rows)
    X, y = (np.load(path, mmap_mode="r") for path in paths.values())
    if given.only_arriving:
        arriving(X, y, few)
        return
    forget(paths)
    of_all(X, y, few)
    arriving(X, y, few)


def of_all(X: np.ndarray, y: np.ndarray, few: int) -> None:
    """Measure and print what all rows take, beside the first few and these in memory."""
    free = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, free[1]))
    step, prepared = timed(mb.TunaMH, model=stored(X, y), rng=1)
    trace, sampled = timed(mb.sample, step, DRAWS, tune=TUNE, chains=2, random_seed=1)
    own = int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024
    print(
        f"N = {len(y):,}: prepared in {prepared:.0f} s from a cold file, two chains of {DRAWS:,} "
    )
    print(f"draws in {sampled:.1f} s, {trace.sample_stats.n_obs.mean().item():.3f} rows an update")
    print(f"a pass {a_pass(step):.1f} s, own memory {own:.0f} MiB")
    far = updates_a_second(step)
    resource.setrlimit(resource.RLIMIT_DATA, free)
    on_disk = mb.TunaMH(model=stored(X[:few], y[:few]), rng=1)
    in_memory = mb.TunaMH(model=model_of(np.array(X[:few]), np.array(y[:few])), rng=1)
    print(f"N = {few:,}: pass from disk {a_pass(on_disk) / a_pass(in_memory):.2f} x in memory")
    small = mb.TunaMH(model=model_of(np.array(X[:BLOCK]), np.array(y[:BLOCK])), rng=1)
    near = updates_a_second(small)
    print(
        f"updates a second: {far:,.0f} drawn ahead at N = {len(y):,}, {near:,.0f} in memory at 10^6"
    )


if __name__ == "__main__":
    main()
