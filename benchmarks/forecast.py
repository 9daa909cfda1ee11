"""The forecasts of `explain` beside measured figures, as printed in docs/before.md.

    PYTHONPATH=.:tests:examples python benchmarks/forecast.py nuts|seconds

Nothing here is a test: machines differ and are shared.
"""

import argparse
import logging
import statistics
from time import perf_counter, process_time

import arviz as az
import numpy as np
import pymc as pm
import xarray as xr

import pymc_minibatch_mh as mb
from flights import late_flights, load_table
from pymc_minibatch_mh.diagnostics.forecast import condition_number
from quickstart import late_departures

#: Draws of NUTS, and their seeds.
NUTS_DRAWS, SEEDS = 4_000, (1, 2)


def sampled(step: object, **settings: int) -> xr.DataTree:
    """Sample one chain through ``pm.sample``, in the context of a model."""
    return pm.sample(
        step=step,
        chains=1,
        cores=1,
        progressbar=False,
        compute_convergence_checks=False,
        **settings,
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
            sampled(pm.NUTS(), draws=NUTS_DRAWS, tune=1_000, random_seed=seed) for seed in SEEDS
        ]
    steps_made = [float(t["sample_stats"]["n_steps"].mean()) for t in traces]
    ess = [float(az.ess(t)["x"].min()) / NUTS_DRAWS for t in traces]
    ratios = [s / e for s, e in zip(steps_made, ess, strict=True)]
    return statistics.mean(steps_made), statistics.mean(ratios)


def poisson_regions() -> pm.Model:
    """Return counts of 200,000 rows with an offset, by 3 slopes and 40 regions."""
    rng, n = np.random.default_rng(2), 200_000
    x, region, exposure = (
        rng.standard_normal((n, 3)),
        rng.integers(0, 40, n),
        rng.gamma(2.0, 1.0, n),
    )
    rate = np.exp(x @ [0.2, -0.1, 0.3] - 2.0 + 0.3 * rng.standard_normal(40)[region])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        effect = tau * pm.Normal("z", shape=40)
        log_rate = mu + x @ pm.Normal("beta", shape=3) + effect[region]
        pm.Poisson("y", exposure * pm.math.exp(log_rate), observed=rng.poisson(exposure * rate))
    return model


def weibull_censored() -> pm.Model:
    """Return 500,000 times, a third of them censored."""
    rng, n = np.random.default_rng(5), 500_000
    z = rng.standard_normal(n)
    time, end = rng.weibull(1.5, n) * np.exp(1.0 - 0.3 * z), rng.exponential(5.0, n)
    upper = np.where(time <= end, np.inf, end)
    with pm.Model() as model:
        scale = pm.math.exp(pm.Normal("a", 0.0, 2.0) + pm.Normal("b") * z)
        lifetime = pm.Weibull.dist(alpha=pm.HalfNormal("k", 2.0), beta=scale)
        pm.Censored("t", lifetime, lower=None, upper=upper, observed=np.minimum(time, end))
    return model


#: Models whose seconds to 1,000 effective draws are measured.
SECONDS = {
    "flights, 27 coefficients": lambda: late_departures(late_flights(load_table())),
    "Poisson with offset, 40 regions": poisson_regions,
    "censored Weibull": weibull_censored,
}


def seconds() -> None:
    """Seconds to 1,000 effective draws, forecast and by one chain of sample()."""
    print("problem | explain, CPU s | rows ± | measured | seconds forecast | measured | ratio")
    for name, build in SECONDS.items():
        with build():
            step = mb.TunaMH()
            for turn in range(3):
                began = perf_counter(), process_time()
                found = mb.explain(step, random_seed=turn)
                cpu = process_time() - began[1]
                pilot = found.forecast
                draws = int(1_000 * pilot.draws / pilot.ess)
                began = perf_counter(), process_time()
                quiet = {"progressbar": False, "random_seed": 9 + turn, "tune": 1_000, "chains": 1}
                trace = mb.sample(step, draws, **quiet)
                taken = perf_counter() - began[0]
                least = min(float(v.min()) for v in az.ess(trace.posterior.ds).data_vars.values())
                measured = taken * 1_000 / least
                rows = float(trace["sample_stats"]["n_obs"].mean())
                print(
                    f"{name} | {cpu:.1f} | {pilot.rows_per_update:.3g} ± {pilot.rows_error:.2g} | "
                    f"{rows:.3g} | {pilot.seconds:.2f} | {measured:.2f} | "
                    f"{pilot.seconds / measured:.2f}",
                    flush=True,
                )
        print(found, flush=True)


FIGURES = {f.__name__: f for f in (nuts, seconds)}


def main() -> None:
    """Print the figure that was asked for."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=FIGURES)
    FIGURES[parser.parse_args().figure]()


if __name__ == "__main__":
    main()
