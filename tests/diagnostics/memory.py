"""Memory and time of what is asked of a trace: python tests/diagnostics/memory.py 10000000.

Prints a JSON object: MiB of the data, and for each function the MiB by which the memory of the
process grew at most and the seconds that it took, compilation included.
"""

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pymc as pm

from pymc_minibatch_mh import log_likelihood, loo_subsample, posterior_predictive

sys.path.insert(0, str(Path(__file__).parents[1]))
from diagnostics.after.traces import trace_of

MIB, PAGE = 2**20, 4096
CHAINS, DRAWS, CHOSEN = 2, 1_000, 400


def resident():
    """Return the MiB of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / MIB


def growth(function):
    """Return the largest growth of memory while a function runs, and its seconds."""
    before, done = resident(), threading.Event()
    seen = [before]

    def watch():
        while not done.wait(0.01):
            seen.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.perf_counter()
    function()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    return {"mib": round(max(seen) - before, 1), "seconds": round(seconds, 1)}


def main(rows):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(rows, dtype=np.float32)
    y = x + rng.standard_normal(rows, dtype=np.float32)
    with pm.Model() as model:
        b, sigma = pm.Normal("b", shape=2), pm.HalfNormal("sigma")
        pm.Normal("y", b[0] + b[1] * x, sigma, observed=y)
    shape = CHAINS, DRAWS
    trace = trace_of(
        {
            "b": [0.0, 1.0] + rng.standard_normal((*shape, 2)) / np.sqrt(rows),
            "sigma": 1.0 + rng.standard_normal(shape) / np.sqrt(2 * rows),
        }
    )
    chosen = rng.choice(rows, CHOSEN, replace=False)
    asked = {
        "log_likelihood": lambda: log_likelihood(trace, chosen, model=model),
        "loo_subsample": lambda: loo_subsample(trace, CHOSEN, model=model),
        "posterior_predictive": lambda: posterior_predictive(trace, chosen, model=model),
    }
    data = {"data": (x.nbytes + y.nbytes) / MIB, "all_rows_and_draws": 8 * rows * 2_000 / MIB}
    print(json.dumps(data | {name: growth(function) for name, function in asked.items()}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
