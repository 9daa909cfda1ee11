"""What an audit costs, and how good its estimates are, as printed in docs/after.md.

    PYTHONPATH=tests:examples python tests/benchmarks/audit.py bias|cost

Nothing here is a test: machines differ and are shared.
"""

import argparse
import logging
import resource
import time

import numpy as np
import pymc as pm

import pymc_minibatch_mh as mb
from benchmarks.models import logistic
from diagnostics.audit.rare import measured_bias, rare_rows

DRAWS, TUNE, PAIRS = 100_000, 1_000, 600
#: Tests from useless to exact.
CASES = (
    ("AustereMH", {"epsilon": 0.3, "batch_size": 5, "taylor_order": 1}),
    ("AustereMH", {"epsilon": 0.3, "batch_size": 20, "taylor_order": 1}),
    ("AustereMH", {"epsilon": 0.1, "batch_size": 30, "taylor_order": 1}),
    ("BarkerMinibatchMH", {"batch_rule": "grow", "batch_size": 20, "taylor_order": 1}),
    ("TunaMH", {"taylor_order": 1}),
)
ROWS, SIZE = 1_000_000, 3


def sampled(model: pm.Model, step: object, draws: int) -> object:
    """Sample one chain in this process."""
    with model:
        return pm.sample(
            draws=draws, tune=TUNE, chains=2, cores=1, step=step, random_seed=3,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip


def bias() -> None:
    """Estimated bias of the posterior's mean and sd beside that by quadrature, in sd of draws."""
    model = rare_rows()
    print("step | moment | estimated | measured")
    for name, settings in CASES:
        step = getattr(mb, name)(model=model, **settings)
        trace = sampled(model, step, DRAWS)
        found = mb.audit(trace, step, PAIRS, 4, model=model)
        there, errors = measured_bias(trace)
        own, noise = (found[field].to_numpy()[:, 0] for field in ("bias", "bias_mcse"))
        written = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        for k, moment in enumerate(("mean", "sd")):
            print(
                f"{name}({written}) | {moment} | {own[k]:+.4f} ± {noise[k]:.4f} | "
                f"{there[k]:+.4f} ± {errors[k]:.4f}",
                flush=True,
            )


def cost() -> None:
    """Seconds and memory of 200 pairs with a million rows."""
    model = logistic(ROWS, SIZE)
    print("step | seconds | growth of the peak memory, MiB | largest relative bias")
    for name in ("TunaMH", "BarkerMinibatchMH"):
        step = getattr(mb, name)(model=model)
        trace = sampled(model, step, 2_000)
        mb.audit(trace, step, 2, 4, model=model)
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        found = mb.audit(trace, step, 200, 4, model=model)
        seconds = time.perf_counter() - began
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
        worst = float(np.abs(found["bias"]).max())
        print(f"{name} | {seconds:.0f} | {growth:.0f} | {worst:.4f}", flush=True)


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("bias", "cost"))
    {"bias": bias, "cost": cost}[parser.parse_args().what]()
