"""Time per effective draw against the number of rows: tests/benchmarks/README.md.

    OMP_NUM_THREADS=1 PYTHONPATH=tests python tests/benchmarks/against_n.py FOLDER [--rows N ...]

A logistic regression on 10 columns, float32, in files of 41 bytes a row, which are written to the
folder block by block unless they are there. Each line is of three chains of `TunaMH` after warm-up,
one after the other, one update a draw, on rows that stay in the files or, where these are few, on
the same rows in memory; figures are medians of the chains. Updates are timed in blocks, by seconds
of all processors of the process, as rows are fetched ahead beside the chain; the median block
counts. ESS is the smallest of all coefficients.
"""

import argparse
import time
from pathlib import Path

import arviz as az
import numpy as np

import pymc_minibatch_mh as mb
import pymc_minibatch_mh.steps.tuna
from benchmarks.big_data import BLOCK, model_of, stored, timed, written
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.kernels import roles as entry

#: Chains, draws of warm-up and of a block, blocks; rows beyond which none are read into memory.
CHAINS, TUNE, DRAWS, BLOCKS, FIT = 3, 2_000, 20_000, 5, 10**7
HEAD = ("N", "rows", "prepared in s", "rows per update", "ESS per draw", "µs per update")


def of_chain(chain: Chain) -> tuple[float, float, float]:
    """Return rows per update, ESS per draw and µs per update of a chain after warm-up."""
    chain.advance(TUNE)
    chain.stop_adapting()
    times, draws = [], []
    for _ in range(BLOCKS):
        began = time.process_time()
        draws.append(chain.advance(DRAWS))
        times.append((time.process_time() - began) / DRAWS)
    positions = np.concatenate([block.positions for block in draws])
    read = np.mean([block.counts[:, entry.N_OBS].mean() for block in draws])
    ess = min(float(az.ess(own[None])) for own in positions.T) / len(positions)
    return float(read), ess, 1e6 * float(np.median(times))


def line(X: np.ndarray, y: np.ndarray, *, in_memory: bool) -> str:
    """Prepare a step, run chains, and return a line of the table."""
    model = model_of(np.array(X), np.array(y)) if in_memory else stored(X, y)
    step, seconds = timed(mb.TunaMH, model=model, rng=1)
    chains = [Chain(step.program, np.random.default_rng(k), True) for k in range(CHAINS)]
    read, ess, update = np.median([of_chain(chain) for chain in chains], axis=0)
    where = "memory" if in_memory else "files"
    cells = f"{len(y):,}", where, f"{seconds:.1f}", f"{read:.2g}", f"{ess:.2f}", f"{update:.2g}"
    return f"| {' | '.join([*cells, f'{update / ess:.2g}'])} |"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[10**k for k in range(4, 9)])
    given = parser.parse_args()
    paths = written(given.folder, max(given.rows))
    X, y = (np.load(path, mmap_mode="r") for path in paths.values())
    # What compiled code takes to be loaded is no part of the first line.
    for in_memory in (False, True):
        line(X[: BLOCK // 100], y[: BLOCK // 100], in_memory=in_memory)
    print("|", " | ".join((*HEAD, "µs per effective draw")), "|")
    print("|", " | ".join(["---"] * (1 + len(HEAD))), "|")
    for rows in given.rows:
        for in_memory in (True, False):
            if not in_memory or rows <= FIT:
                print(line(X[:rows], y[:rows], in_memory=in_memory), flush=True)


if __name__ == "__main__":
    main()
