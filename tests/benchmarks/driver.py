"""The driver in one thread and in two, beside ``pm.sample``: tests/benchmarks/README.md.

    PYTHONPATH=tests:examples python tests/benchmarks/driver.py

Everything is run in turns in one process; medians over the turns are printed, of effective draws
a second. Seconds are those of sampling with its warm-up, and for two threads also those of whole
calls, with starts and the making of the trace.
"""

import logging
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import arviz as az
import pymc as pm

import pymc_minibatch_mh as mb
from benchmarks.models import logistic
from flights import late_flights, load_table
from quickstart import late_departures

TUNE = 1_000
#: Draws of each of two chains by pm.sample.
FEWER = 20_000
SETTINGS: dict[str, Any] = {
    "tune": TUNE, "chains": 2, "random_seed": 3, "progressbar": False,
    "compute_convergence_checks": False,
}  # fmt: skip


class Problem(NamedTuple):
    """A model, and how many draws of each of two chains the driver makes, how many times."""

    build: Callable[[], pm.Model]
    draws: int
    turns: int


PROBLEMS = {
    "logistic, d = 10, N = 10⁶": Problem(partial(logistic, 1_000_000, 10), 500_000, 5),
    "logistic, d = 50, N = 10⁵": Problem(partial(logistic, 100_000, 50), 40_000, 3),
    "flights, d = 27, N = 325,724": Problem(
        lambda: late_departures(late_flights(load_table())), 40_000, 3
    ),
}


def effective_per_second(run: Callable[[], Any]) -> tuple[float, float]:
    """Return the least bulk ESS of a run over the seconds of sampling, and of the whole call."""
    began = time.perf_counter()
    trace = run()
    seconds = time.perf_counter() - began
    ess = float(min(x.min() for x in az.ess(trace).values()))
    return ess / trace["posterior"].attrs["sampling_time"], ess / seconds


def main() -> None:
    """Print a table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(
        "| problem | pm.sample | one thread | two threads | whole calls | two threads to one | "
        "two threads to pm.sample |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, problem in PROBLEMS.items():
        with problem.build():
            step = mb.TunaMH()
            runs = {
                "pm": partial(pm.sample, FEWER, step=step, cores=1, **SETTINGS),
                "one": partial(mb.sample, step, problem.draws, cores=1, **SETTINGS),
                "two": partial(mb.sample, step, problem.draws, cores=2, **SETTINGS),
            }
            found = [
                {k: effective_per_second(run) for k, run in runs.items()}
                for _ in range(problem.turns)
            ]
        median = statistics.median
        speeds = [median(turn[k][0] for turn in found) for k in runs]
        speeds.append(median(turn["two"][1] for turn in found))
        gains = [median(turn["two"][0] / turn[k][0] for turn in found) for k in ("one", "pm")]
        figures = " | ".join([*(f"{x:,.0f}" for x in speeds), *(f"{x:.2f}" for x in gains)])
        print(f"| {name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
