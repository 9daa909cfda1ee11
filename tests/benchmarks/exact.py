"""The figures of the exact methods in tests/benchmarks/README.md, each measured by one command.

    python tests/benchmarks/exact.py sampling|walks|bounds|scaling

Nothing here is a test: machines differ and are shared, so that what is to be compared runs in
turns in one process, and medians are printed.
"""

import argparse
import logging
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import TURNS, logistic_data, logistic_model, run_chain

import pymc_minibatch_mh as mb
from flights import late_flights
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.likelihood.function import row_functions
from pymc_minibatch_mh.steps.base import MinibatchStep

DRAWS = 40_000
# Scale of a walk in d dimensions: this over the root of d.
KAPPA = 1.5


def logistic(n_rows: int, size: int = 10) -> pm.Model:
    """Return a logistic regression with standard normal columns."""
    return logistic_model(*logistic_data(n_rows, size))


def logistic_of_unit_logits(n_rows: int, size: int) -> pm.Model:
    """Return one whose logits have a standard deviation of about 1, whatever the dimension."""
    rng = np.random.default_rng(1)
    design = rng.standard_normal((n_rows, size))
    logits = design @ rng.normal(0.0, size**-0.5, size)
    return logistic_model(design, (rng.random(n_rows) < 1 / (1 + np.exp(-logits))).astype(np.int8))


def correlated(n_rows: int, size: int, correlation: float) -> pm.Model:
    """Return a logistic regression whose columns share most of their variance."""
    rng = np.random.default_rng(1)
    shared = rng.standard_normal((n_rows, 1))
    own = rng.standard_normal((n_rows, size))
    design = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    logits = design @ rng.normal(0.0, 0.4, size)
    return logistic_model(design, (rng.random(n_rows) < 1 / (1 + np.exp(-logits))).astype(np.int8))


def student(n_rows: int, size: int = 10) -> pm.Model:
    """Return a robust regression on `size` coefficients with an unknown scale."""
    rng = np.random.default_rng(1)
    design = rng.standard_normal((n_rows, size))
    response = design @ rng.normal(0.0, 0.4, size) + rng.standard_t(4, n_rows)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=size)
        sigma = pm.HalfNormal("sigma", 5.0)
        pm.StudentT("y", nu=4, mu=pt.dot(design, beta), sigma=sigma, observed=response)
    return model


def flights(size: int) -> pm.Model:
    """Return the regression of late flights."""
    data = late_flights(size)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=size)
        pm.Bernoulli("late", logit_p=data.X @ beta, observed=data.late)
    return model


PROBLEMS: dict[str, Callable[[], pm.Model]] = {
    "logistic d=10, N=10^6": lambda: logistic(1_000_000),
    "logistic d=10, N=10^5": lambda: logistic(100_000),
    "logistic d=10, N=10^4": lambda: logistic(10_000),
    "Student-t d=11, N=10^6": lambda: student(1_000_000),
    "flights, 12 coefficients": lambda: flights(12),
    "flights, 27 coefficients": lambda: flights(27),
}


def sampling() -> None:
    """Rows, acceptance and ESS per second of TunaMH, one chain, default settings."""
    steps: dict[str, tuple[pm.Model, MinibatchStep]] = {}
    for name, build in PROBLEMS.items():
        model = build()
        with model:
            steps[name] = model, mb.TunaMH()
    runs: dict[str, list[dict]] = {name: [] for name in steps}
    for _ in range(TURNS):
        for name, (model, step) in steps.items():
            runs[name].append(run_chain(model, step, DRAWS))
    print("problem | rows/update | full-data | acceptance | ESS of 40,000 | ESS/s")
    for name, turns in runs.items():
        _print(name, turns[0], statistics.median(t["ess"] / t["seconds"] for t in turns))


def _print(name: str, one: dict, speed: float) -> None:
    print(
        f"{name} | {one['rows']:.2f} | {one['full']:.2%} | {one['acceptance']:.3f} | "
        f"{one['ess']:,.0f} | {speed:,.0f}"
    )


def walks() -> None:
    """Rows and acceptance of random walks of a fixed scale under ScalableSubsamplingMH."""
    print("problem | rows/update | full-data | acceptance | ESS of 40,000 | ESS/s")
    for name, model in (
        ("logistic d=30, N=10^5, logits of sd 1", logistic_of_unit_logits(100_000, 30)),
        ("logistic d=30, N=10^5, logits of sd 2.2", logistic(100_000, 30)),
        ("correlation .99, d=20, N=5 10^4", correlated(50_000, 20, 0.99)),
    ):
        size = len(model.initial_point()["beta"])
        with model:
            step = mb.ScalableSubsamplingMH(
                proposal=mb.RandomWalk(KAPPA / np.sqrt(size)), tune=False
            )
        run = run_chain(model, step, DRAWS)
        _print(name, run, run["ess"] / run["seconds"])


def bounds() -> None:
    """Seconds of the pass that bounds all rows, and the memory that it takes, at N = 10^6."""
    for name, build in (("logistic, d=10", logistic), ("Student-t, d=11", student)):
        with build(1_000_000):
            step = mb.TunaMH()
        factorization = step.target.factorization
        seconds, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(TURNS):
            start = time.perf_counter()
            ends = factorization.lower, factorization.upper
            tables = BoundsPass(row_functions(factorization), step.reference, ends).tables()
            seconds.append(time.perf_counter() - start)
        peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
        print(
            f"{name}: {statistics.median(seconds):.2f} s, {len(tables.headers)} tables of "
            f"{tables.c.shape[1] * 4 / 2**20:.0f} MiB, {peak:.0f} MiB more at the peak than before"
        )


def scaling() -> None:
    """Time per compiled update, without PyMC's loop."""
    for n_rows in (10_000, 100_000, 1_000_000):
        with logistic(n_rows):
            step = mb.TunaMH(updates_per_draw=2_000)
        step.setup_chain(np.random.default_rng(0), 0, 1)
        point = step.gaussian_draw(np.random.default_rng(0), 1.0)
        seconds = []
        for _ in range(4 * TURNS):
            start = time.perf_counter()
            point, _ = step.step(point)
            seconds.append((time.perf_counter() - start) / 2_000)
        print(f"N={n_rows:,}: {statistics.median(seconds) * 1e6:.2f} µs per update")


FIGURES = {f.__name__: f for f in (sampling, walks, bounds, scaling)}


def main() -> None:
    """Print the figure that was asked for."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=FIGURES)
    FIGURES[parser.parse_args().figure]()


if __name__ == "__main__":
    main()
