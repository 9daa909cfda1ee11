"""The figures of tests/benchmarks/README.md, each measured by one command.

    python tests/benchmarks/figures.py sampling|scaling|setup|imports|compilation|memory|correction

Nothing here is a test: machines differ and are shared, so what is to be compared is run side by
side in one process, in turns, and medians and ratios are printed.
"""

import argparse
import gc
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import arviz as az
import numpy as np
import pymc as pm
from scipy.special import log_expit

import pymc_minibatch_mh as mb

# What a step imports when it is built counts in none of the figures.
import pymc_minibatch_mh.steps.tuna
from pymc_minibatch_mh.compiled.compiled_model import CompiledModel
from pymc_minibatch_mh.compiled.graphs import row_source
from pymc_minibatch_mh.likelihood.factorization import Factorization
from pymc_minibatch_mh.steps.base import MinibatchStep
from pymc_minibatch_mh.steps.correction import correction_table

SIZE = 10
METHODS = ("BarkerMinibatchMH", "PenaltyMH", "AustereMH")
TURNS = 5


def logistic_data(n_rows: int, size: int = SIZE) -> tuple[np.ndarray, np.ndarray]:
    """Draw a logistic regression with standard normal columns."""
    rng = np.random.default_rng(1)
    design = rng.standard_normal((n_rows, size))
    logits = design @ rng.normal(0.0, 0.4, size)
    return design, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-logits))).astype(np.int8)


def logistic_model(design: np.ndarray, response: np.ndarray) -> pm.Model:
    """Write the model as any PyMC user would."""
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.5, shape=design.shape[1])
        pm.Bernoulli("y", logit_p=design @ beta, observed=response)
    return model


def reference_moments(
    design: np.ndarray, response: np.ndarray, centre: np.ndarray, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return posterior means and sds by importance sampling with the Gaussian as control.

    All rows are read at every point, in NumPy. What is estimated is only how far the posterior is
    from its Gaussian approximation, so that a few hundred points give a thousandth of an sd.
    """
    rng = np.random.default_rng(2)
    noise = rng.standard_normal((200, centre.size))
    noise = np.concatenate([noise, -noise])
    signs = np.where(response, 1.0, -1.0)
    logs = np.array(
        [
            log_expit(signs * (design @ theta)).sum() - 0.5 * (theta**2).sum() / 2.5**2
            for theta in centre + noise @ factor.T
        ]
    )
    logs += 0.5 * (noise**2).sum(axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    surplus = weights - 1.0 / weights.size
    points = noise @ factor.T
    shift = surplus @ points
    spread = np.diag(factor @ factor.T) + surplus @ points**2 - shift**2
    return centre + shift, np.sqrt(spread)


def run_chain(model: pm.Model, step: MinibatchStep, draws: int) -> dict[str, float]:
    """Sample one chain through pm.sample and summarise it."""
    with model:
        trace = pm.sample(
            draws=draws,
            tune=2_000,
            step=step,
            chains=1,
            cores=1,
            random_seed=3,
            progressbar=False,
            compute_convergence_checks=False,
        )
    stats, draws_of = trace["sample_stats"], trace["posterior"]["beta"].values[0]
    seconds = trace["posterior"].attrs["sampling_time"] * draws / (draws + 2_000)
    return {
        "seconds": seconds,
        "ess": float(az.ess(trace)["beta"].min()),
        "rows": float(stats["n_obs"].mean()) / step.updates_per_draw,
        "full": float(stats["full_pass"].mean()) / step.updates_per_draw,
        "acceptance": float(stats["accepted_share"].mean()),
        "mean": draws_of.mean(axis=0),
        "sd": draws_of.std(axis=0),
    }


def sampling() -> None:
    """ESS per second of sampling at N = 10^6, one chain, default settings."""
    design, response = logistic_data(1_000_000)
    model = logistic_model(design, response)
    steps = {}
    for name in METHODS:
        with model:
            steps[name] = getattr(mb, name)()
    some = steps["PenaltyMH"].reference
    mean, sd = reference_moments(design, response, some.centre, some.factor)
    runs: dict[str, list[dict]] = {name: [] for name in METHODS}
    for _ in range(TURNS):
        for name in METHODS:
            runs[name].append(run_chain(model, steps[name], 40_000))
    print("sampler | rows/update | full-data | acceptance | ESS | ESS/s | mean off (sd) | sd off")
    for name, turns in runs.items():
        one = turns[0]
        speed = statistics.median(turn["ess"] / turn["seconds"] for turn in turns)
        print(
            f"{name} | {one['rows']:.0f} | {one['full']:.2%} | {one['acceptance']:.3f} | "
            f"{one['ess']:,.0f} of 40,000 | {speed:,.0f} | "
            f"{np.abs((one['mean'] - mean) / sd).max():.3f} | "
            f"{np.abs(one['sd'] / sd - 1.0).max():.2%}"
        )


def scaling() -> None:
    """Time per compiled update at N = 10^6 against N = 10^4."""
    loops: dict[int, Callable[[], float]] = {}
    for n_rows in (10_000, 1_000_000):
        with logistic_model(*logistic_data(n_rows)):
            step = mb.BarkerMinibatchMH(updates_per_draw=2_000)
        step.setup_chain(np.random.default_rng(0), 0, 1)
        loops[n_rows] = _timed_draws(step)
    seconds: dict[int, list[float]] = {n_rows: [] for n_rows in loops}
    for _ in range(4 * TURNS):
        for n_rows, loop in loops.items():
            seconds[n_rows].append(loop() / 2_000)
    small, tall = (statistics.median(seconds[n]) for n in loops)
    print(f"µs per update: N=10^4 {small * 1e6:.1f}, N=10^6 {tall * 1e6:.1f}")
    print(f"ratio {tall / small:.2f}")


def _timed_draws(step: MinibatchStep) -> Callable[[], float]:
    point = step.gaussian_draw(np.random.default_rng(0), 1.0)
    step.step(point)

    def loop() -> float:
        start = time.perf_counter()
        step.step(point)
        return time.perf_counter() - start

    return loop


def setup() -> None:
    """Setup at N = 10^6 without compilation, beside a hand-written NumPy Newton."""
    design, response = logistic_data(1_000_000)
    turns = [_setup_turn(design, response) for _ in range(TURNS + 1)]
    # The first turn fills the caches.
    numpy_newton, ours, compiling = zip(*turns[1:], strict=True)
    print(f"setup without compilation: {statistics.median(ours):.2f} s")
    print(f"compilation, warm: {statistics.median(compiling):.2f} s")
    print(f"NumPy Newton: {statistics.median(numpy_newton):.2f} s")
    ratios = [a / b for a, b in zip(ours, numpy_newton, strict=True)]
    print(f"ratio {statistics.median(ratios):.1f}")


def _setup_turn(design: np.ndarray, response: np.ndarray) -> tuple[float, float, float]:
    """Return the seconds of NumPy, of the rest of a setup, and of its compilation."""
    start = time.perf_counter()
    _numpy_newton(design, response.astype(float))
    numpy_newton = time.perf_counter() - start
    # A second step on the same model would take over what the first has found.
    model = logistic_model(design, response)
    start = time.perf_counter()
    step = mb.PenaltyMH(model=model)
    total = time.perf_counter() - start
    # Functions that are in use are not compiled again.
    factorization = step.target.factorization
    del step, model
    gc.collect()
    start = time.perf_counter()
    _compile_again(factorization)
    compiling = time.perf_counter() - start
    return numpy_newton, total - compiling, compiling


def _compile_again(factorization: Factorization) -> None:
    compiled = CompiledModel(factorization, None)
    compiled.prior.compiled()
    rows = compiled.rows.at(row_source(factorization))
    rows.evaluate(2)
    rows.row_derivatives()
    rows.skewness()


def _numpy_newton(design: np.ndarray, response: np.ndarray) -> np.ndarray:
    theta = np.zeros(design.shape[1])
    for _ in range(6):
        p = 1.0 / (1.0 + np.exp(-(design @ theta)))
        gradient = design.T @ (response - p) - theta / 2.5**2
        hessian = (design * (p * (1.0 - p))[:, None]).T @ design + np.eye(theta.size) / 2.5**2
        theta = theta + np.linalg.solve(hessian, gradient)
    return theta


def imports() -> None:
    """Seconds, after ``import pymc``, to the signature of a step class, in fresh processes."""
    code = (
        "import inspect, time, pymc; began = time.perf_counter(); import pymc_minibatch_mh as mb; "
        "inspect.signature(mb.TunaMH); print(time.perf_counter() - began)"
    )
    command = [sys.executable, "-c", code]
    seconds = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(TURNS)
    ]
    print(f"median {statistics.median(seconds):.3f} s of {np.round(seconds, 3)}")


def compilation() -> None:
    """Seconds from the constructor to the first draw in fresh processes, by what is cached."""
    with tempfile.TemporaryDirectory() as filled:
        _first_draw_in_a_process(filled)
        caches = {"PyTensor cache empty": None, "PyTensor cache filled": filled}
        for label, folder in caches.items():
            seconds = [_first_draw_in_a_process(folder) for _ in range(TURNS)]
            print(f"{label}: median {statistics.median(seconds):.1f} s of {np.round(seconds, 1)}")
    with tempfile.TemporaryDirectory() as kernels:
        alone = _first_draw_in_a_process(None, NUMBA_CACHE_DIR=kernels)
    print(f"once per installation, with the package's own kernels: {alone:.1f} s")


def _first_draw_in_a_process(folder: str | None, **variables: str) -> float:
    with tempfile.TemporaryDirectory() as empty:
        flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={folder or empty}"
        out = subprocess.run(
            [sys.executable, __file__, "first_draw"],
            env={**os.environ, "PYTENSOR_FLAGS": flags.strip(","), **variables},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(json.loads(out.stdout.splitlines()[-1]))


def first_draw() -> None:
    """Build a step and make one draw, at N = 10^4 so that compilation is what takes time."""
    model = logistic_model(*logistic_data(10_000))
    start = time.perf_counter()
    with model:
        step = mb.BarkerMinibatchMH()
    step.setup_chain(np.random.default_rng(0), 0, 1)
    step.step(step.gaussian_draw(np.random.default_rng(0), 1.0))
    print(json.dumps(time.perf_counter() - start))


def memory() -> None:
    """Peak memory beyond a model and its data, from setup to the trace, at N = 10^6."""
    _first_model_pays_for_compilation()
    design, response = logistic_data(1_000_000)
    model = logistic_model(design, response)
    before = _resident()
    with model:
        step = mb.PenaltyMH()
    data = step.target.source.nbytes
    run_chain(model, step, 1_000)
    beyond = _peak() - before
    print(f"data {data / 2**20:.0f} MiB, beyond {beyond / 2**20:.0f} MiB")
    print(f"ratio {beyond / data:.2f}")


def _first_model_pays_for_compilation() -> None:
    model = logistic_model(*logistic_data(10_000))
    with model:
        step = mb.PenaltyMH()
    run_chain(model, step, 100)


def _resident() -> int:
    # Writing 5 resets the peak, so that making the data does not count.
    with open("/proc/self/clear_refs", "w") as control:
        control.write("5")
    with open("/proc/self/statm") as status:
        return int(status.read().split()[1]) * resource.getpagesize()


def _peak() -> int:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def correction() -> None:
    """Certified error of the correction distribution."""
    for sigma in (0.9, 1.0, 1.1, 1.2, 1.3):
        table = correction_table(sigma)
        print(f"sigma={sigma}: {table.error:.2e} with {table.atoms.size} atoms")


FIGURES = {
    f.__name__: f for f in (sampling, scaling, setup, imports, compilation, memory, correction)
}


def main() -> None:
    """Print the figure that was asked for."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=[*FIGURES, "first_draw"])
    {**FIGURES, "first_draw": first_draw}[parser.parse_args().figure]()


if __name__ == "__main__":
    main()
