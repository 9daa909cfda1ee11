"""The forecasts of `explain` beside what was measured, as printed in docs/before.md.

    python tests/benchmarks/forecast.py steps|nuts

Nothing here is a test: machines differ and are shared.
"""

import argparse
import logging
import statistics

import arviz as az
import numpy as np
import pymc as pm
from exact import DRAWS, PROBLEMS
from figures import TURNS, run_chain

import pymc_minibatch_mh as mb
from pymc_minibatch_mh.diagnostics.recommend import condition_number

NAMES = ("logistic d=10, N=10^5", "logistic d=10, N=10^6", "flights, 27 coefficients")
#: Draws of NUTS, and their seeds.
NUTS_DRAWS, SEEDS = 4_000, (1, 2)


def steps() -> None:
    """Forecasts of pilots beside runs of TunaMH, in turns; one chain, default settings."""
    print("problem | rows forecast | measured | ESS/s forecast | measured | NUTS forecast")
    for name in NAMES:
        model = PROBLEMS[name]()
        with model:
            step = mb.TunaMH()
        found, runs = [], []
        for turn in range(TURNS):
            found.append(mb.explain(step, nuts=True, random_seed=turn))
            runs.append(run_chain(model, step, DRAWS))
        pilots = [e.forecast for e in found]
        speeds = [p.ess_per_second for p in pilots]
        measured = statistics.median(r["ess"] / r["seconds"] for r in runs)
        nuts = statistics.median(e.nuts.ess_per_second for e in found)
        print(
            f"{name} | {pilots[0].rows_per_update:.2f} ± {pilots[0].rows_error:.2f} | "
            f"{runs[0]['rows']:.2f} | {statistics.median(speeds):,.0f} "
            f"({min(speeds):,.0f} to {max(speeds):,.0f}) | {measured:,.0f} | {nuts:,.1f}",
            flush=True,
        )


def nuts() -> None:
    """Gradients per effective draw of PyMC's NUTS on normal posteriors, beside the rule."""
    print("d | κ | steps per draw | gradients per effective draw | over √κ")
    for size in (2, 10, 30, 100):
        for spread in (1.0, 10.0, 100.0, 1000.0):
            covariance = normal_covariance(size, spread)
            number = condition_number(covariance)
            n_steps, gradients = nuts_on_normal(np.linalg.inv(covariance))
            print(
                f"{size} | {number:.0f} | {n_steps:.1f} | {gradients:.1f} | "
                f"{gradients / np.sqrt(number):.1f}",
                flush=True,
            )


def normal_covariance(size: int, spread: float) -> np.ndarray:
    """Return a covariance whose principal variances spread evenly, on the log scale."""
    rng = np.random.default_rng(size)
    rotation, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (rotation * np.geomspace(1.0, spread, size)) @ rotation.T


def nuts_on_normal(precision: np.ndarray) -> tuple[float, float]:
    """Return leapfrog steps per draw and per effective draw of the worst coordinate."""
    size = len(precision)
    with pm.Model():
        x = pm.Flat("x", shape=size, initval=np.ones(size))
        pm.Potential("density", -0.5 * (x @ (precision @ x)))
        traces = [
            pm.sample(
                NUTS_DRAWS,
                tune=1_000,
                chains=1,
                cores=1,
                random_seed=seed,
                nuts_sampler="pymc",
                quiet=True,
                compute_convergence_checks=False,
            )
            for seed in SEEDS
        ]
    steps_made = [float(t["sample_stats"]["n_steps"].mean()) for t in traces]
    ess = [float(az.ess(t)["x"].min()) / NUTS_DRAWS for t in traces]
    ratios = [s / e for s, e in zip(steps_made, ess, strict=True)]
    return statistics.mean(steps_made), statistics.mean(ratios)


FIGURES = {f.__name__: f for f in (steps, nuts)}


def main() -> None:
    """Print the figure that was asked for."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=FIGURES)
    FIGURES[parser.parse_args().figure]()


if __name__ == "__main__":
    main()
