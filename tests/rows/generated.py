"""Rows that exist nowhere as a whole: python tests/rows/generated.py 20000000.

Every block of them is made by a counter-based generator where it is asked for. A posterior is
sampled in a process that may take less memory than four bytes for each row, and is compared with
the mode and the Hessian that sums over the blocks give in NumPy. Prints a JSON object.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.special import expit

from pymc_minibatch_mh import Rows, TunaMH, sample
from pymc_minibatch_mh.data.storage import Field

SEED = 20_260_310
#: Rows that are generated together, which one key makes.
TOGETHER = 4_096
SLOPES = np.array([0.8, -0.5])
DRAWS = 10_000
#: So many draws that PyMC checks their convergence, for which it imports ArviZ.
CHECKED = 1_000
CORES = 2
#: Bytes that a process may take at most beside what it has before, whatever the number of rows.
MOST = 200_000_000


class Generated:
    """Two predictors and a binary outcome of a logistic regression, made where they are read.

    Parameters
    ----------
    n_rows
        Number of the rows.
    """

    def __init__(self, n_rows):
        self.n_rows = n_rows
        floats = Field(np.dtype(np.float32), ())
        self.fields = {"a": floats, "b": floats, "y": Field(np.dtype(np.int8), ())}
        self.stamp = f"{n_rows} rows of the seed {SEED}"
        #: Rows that were returned.
        self.returned = 0

    def read(self, names, rows):
        if isinstance(rows, slice):
            first, stop, _ = rows.indices(self.n_rows)
            blocks = range(first // TOGETHER, -(-stop // TOGETHER))
            made = np.concatenate([self._block(block) for block in blocks])
            numbers = made[first - blocks.start * TOGETHER : stop - blocks.start * TOGETHER]
        else:
            order = np.argsort(rows, kind="stable")
            blocks, firsts = np.unique(rows[order] // TOGETHER, return_index=True)
            numbers = np.empty((rows.size, 3), dtype=np.float32)
            for block, places in zip(blocks, np.split(order, firsts[1:]), strict=True):
                numbers[places] = self._block(block)[rows[places] - block * TOGETHER]
        self.returned += len(numbers)
        a, b, u = numbers.T
        a, b = 2.0 * a - 1.0, 2.0 * b - 1.0
        columns = {"a": a, "b": b}
        if "y" in names:
            columns["y"] = u < expit(SLOPES[0] * a + SLOPES[1] * b)
        return {name: columns[name].astype(self.fields[name].dtype) for name in names}

    def where(self, row):
        return f"row {row:,} of block {row // TOGETHER:,}"

    @staticmethod
    def _block(number):
        generator = np.random.Generator(np.random.Philox(key=[SEED, int(number)]))
        return generator.random((TOGETHER, 3), dtype=np.float32)


def model_of(storage):
    rows = Rows.of(storage)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        eta = b[0] * rows.data("a") + b[1] * rows.data("b")
        pm.Bernoulli("y", logit_p=eta, observed=rows.data("y"))
    return model


def gaussian(n_rows):
    """Return mode and standard deviations by sums over blocks, one Newton step from the truth.

    What it leaves of the mode is the square of its distance from the truth, some N^-1.
    """
    storage = Generated(n_rows)
    gradient, hessian = -SLOPES, -np.eye(2)
    for first in range(0, n_rows, 16 * TOGETHER):
        some = storage.read(["a", "b", "y"], slice(first, first + 16 * TOGETHER))
        x = np.stack([some["a"], some["b"]])
        p = expit(SLOPES @ x)
        gradient = gradient + x @ (some["y"] - p)
        hessian = hessian - (x * (p * (1.0 - p))) @ x.T
    return SLOPES - np.linalg.solve(hessian, gradient), np.sqrt(np.diag(np.linalg.inv(-hessian)))


def memory():
    """Return the bytes of data that this process has."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1_024 * int(next(line.split()[1] for line in lines if line.startswith("VmData")))


def limited(n_bytes):
    """Let this process take no more than so many bytes beyond those that it has."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory() + n_bytes,) * 2)


def drawn(storage, draws):
    """Return a trace, the seconds of preparation, and the rows that sampling has read."""
    model = model_of(storage)
    began = time.perf_counter()
    step = TunaMH(model=model)
    seconds, before = time.perf_counter() - began, storage.returned
    with model:
        trace = sample(step, draws=draws, tune=500, chains=2, random_seed=1, progressbar=False)
    return trace, seconds, storage.returned - before


def main(n_rows):
    # Each core holds a block of rows of its own.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    # Compiled and imported before memory is limited.
    drawn(Generated(20_000), CHECKED)
    gaussian(20_000)
    limited(min(int(3.75 * n_rows), MOST))
    storage = Generated(n_rows)
    trace, seconds, read = drawn(storage, DRAWS)
    mode, sd = gaussian(n_rows)
    draws = trace.posterior["b"].to_numpy().reshape(-1, 2)
    figures = {
        "off": float(np.abs((draws.mean(axis=0) - mode) / sd).max()),
        "width": (draws.std(axis=0) / sd).tolist(),
        "read": read,
        "passes": (storage.returned - read) / n_rows,
        "seconds": round(seconds, 1),
    }
    try:
        np.ones(n_rows, dtype=np.int32)
    except MemoryError:
        figures["limited"] = True
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]))
