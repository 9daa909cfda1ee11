"""Rows that exist nowhere as a whole: python tests/robustness/rows/generated.py 20000000.

Each of them is made by a counter-based generator where it is asked for. A posterior is sampled in
a process that may take less memory than a number for each row, and is compared with the mode and
the Hessian that sums over blocks give in NumPy. Prints a JSON object.
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
from pymc_minibatch_mh.data.source import Field

SEED = 20_260_310
#: Rows that are summed together.
AT_ONCE = 65_536
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
            rows = np.arange(*rows.indices(self.n_rows))
        self.returned += rows.size
        a, b, u = uniforms(rows)
        a, b = 2.0 * a - 1.0, 2.0 * b - 1.0
        columns = {"a": a, "b": b}
        if "y" in names:
            columns["y"] = u < expit(SLOPES[0] * a + SLOPES[1] * b)
        return {name: columns[name].astype(self.fields[name].dtype) for name in names}

    def where(self, row):
        return f"row {row:,}"


def uniforms(rows):
    """Return three numbers in [0, 1) of each row, shape (3, N): SplitMix64, with rows as counters.

    See Steele, Lea & Flood (2014), doi:10.1145/2660193.2660195.
    """
    z = 3 * rows.astype(np.uint64) + np.arange(1, 4, dtype=np.uint64)[:, None]
    z = z * np.uint64(0x9E3779B97F4A7C15) + np.uint64(SEED)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)


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
    for first in range(0, n_rows, AT_ONCE):
        some = storage.read(["a", "b", "y"], slice(first, first + AT_ONCE))
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
    limited(min(int(7.5 * n_rows), MOST))
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
        np.ones(n_rows)
    except MemoryError:
        figures["limited"] = True
    print(json.dumps(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]))
