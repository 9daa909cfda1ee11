"""CPU seconds of a first step with empty caches, and of the same step in the next process.

    PYTHONPATH=.:tests python benchmarks/first_minute.py

Each step is built in a process of its own, and all of them keep their compiled functions in one
temporary folder. Seconds are those of the processor from the model to the step, without imports.
"""

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

BUILD = """
import sys, time
import numpy as np, pymc as pm
import pymc_minibatch_mh as mb
kind, step = sys.argv[1:]
rng = np.random.default_rng(1)
x = rng.normal(size=100_000)
with pm.Model() as model:
    a, b = pm.Normal("a", 0.0, 2.5), pm.Normal("b", 0.0, 2.5)
    eta = a + b * x
    if kind == "Poisson":
        pm.Poisson("y", pm.math.exp(eta), observed=rng.poisson(np.exp(0.5 * x - 1.0)))
    else:
        pm.Bernoulli("y", logit_p=eta, observed=rng.random(x.size) < 1 / (1 + np.exp(1 - 0.5 * x)))
build = getattr(mb, step)
began = time.process_time()
build(model=model)
print(time.process_time() - began)
"""
#: Kind of model and step, in the order in which they are built.
CASES = [("logistic", "TunaMH"), ("Poisson", "TunaMH"), ("logistic", "BarkerMinibatchMH")]


def seconds(case: tuple[str, str], folder: str) -> float:
    """Return the CPU seconds that a step takes in a new process."""
    caches = {
        "NUMBA_CACHE_DIR": f"{folder}/numba",
        "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
    }
    command = [sys.executable, "-c", BUILD, *case]
    done = subprocess.run(command, env=os.environ | caches, stdout=subprocess.PIPE, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    print("| model | step | first process | next process |\n| --- | --- | --- | --- |")
    with TemporaryDirectory() as folder:
        for case in CASES:
            first, again = seconds(case, folder), seconds(case, folder)
            print(f"| {case[0]} | `{case[1]}` | {first:.0f} | {again:.1f} |", flush=True)
