"""Proposals by the map of third order beside normal ones, on posteriors with few events.

    OMP_NUM_THREADS=1 PYTHONPATH=. python benchmarks/skewed.py [--events 300] [--seed SEED]

Logistic regressions of 100,000 rows with 9 slopes and 30 groups, at orders 2 and 3 of the control
variates. One chain of each from the centre, one after the other; seconds are of the processor.
ESS is the smallest bulk ESS over all coordinates. Nothing here is a test, and nothing is stored.
"""

import argparse
import logging
import time

import arviz as az
import numpy as np
import pymc as pm
from scipy.optimize import brentq
from scipy.special import expit

import pymc_minibatch_mh as mb
from pymc_minibatch_mh.chain.chain import Chain

ROWS, SLOPES, GROUPS = 100_000, 9, 30
TUNE, DRAWS = 2_000, 6_000
HEADS = (
    "events", "order", "proposals", "acceptance", "rows/update", "ESS/update",
    "rows/effective draw", "µs/update", "ESS/s", "s for the map",
)  # fmt: skip


def rare_events(events: float) -> pm.Model:
    """A logistic hierarchy whose intercept gives the expected number of events."""
    rng = np.random.default_rng(0)
    x, group = rng.standard_normal((ROWS, SLOPES)), rng.integers(0, GROUPS, ROWS)
    slopes, effects = 0.5 * rng.standard_normal(SLOPES), 0.7 * rng.standard_normal(GROUPS)
    eta = x @ slopes + effects[group]
    shift = brentq(lambda m: expit(eta + m).sum() - events, -20.0, 0.0)
    y = rng.random(ROWS) < expit(eta + shift)
    with pm.Model() as model:
        tau, mu = pm.HalfNormal("tau", 1.0), pm.Normal("mu", -6.0, 5.0)
        b, a = pm.Normal("b", 0.0, 2.0, shape=SLOPES), pm.Normal("a", mu, tau, shape=GROUPS)
        pm.Bernoulli("y", logit_p=pm.math.dot(x, b) + a[group], observed=y.astype(np.int8))
    return model


def measure(model: pm.Model, order: int, skewness: bool, seed: int) -> list[str]:
    """Return the cells of a line."""
    with model:
        step = mb.TunaMH(proposal=mb.Mixture(skewness=skewness), taylor_order=order)
    step.plan.__dict__.pop("skew_map", None)
    begin = time.process_time()
    mapped = skewness and step.plan.skew_map is not None
    seconds = time.process_time() - begin
    chain = Chain(step.program, np.random.default_rng(seed), True)
    chain.advance(TUNE)
    chain.stop_adapting()
    begin = time.process_time()
    draws = chain.advance(DRAWS)
    per_update = (time.process_time() - begin) / DRAWS
    ess = min(float(az.ess(x[None])) for x in draws.positions.T) / DRAWS
    accept, rows = (draws.counts[name].mean() for name in ("accept", "n_obs"))
    return [
        str(order),
        "by the map" if mapped else "without it",
        f"{accept:.3f}",
        f"{rows:.0f}",
        f"{ess:.2f}",
        f"{rows / ess:.0f}",
        f"{1e6 * per_update:.0f}",
        f"{ess / per_update:,.0f}",
        f"{seconds:.1f}" if skewness else "–",
    ]


def main() -> None:
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    model = rare_events(asked.events)
    for order in (2, 3):
        for skewness in (False, True):
            cells = [f"{asked.events:.0f}", *measure(model, order, skewness, asked.seed)]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
