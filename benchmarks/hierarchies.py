"""Proposals of hierarchies by tables of scales and by the map of third order, beside normal ones.

    OMP_NUM_THREADS=1 PYTHONPATH=.:tests:examples python -m benchmarks.hierarchies [model ...]
        [--events 300] [--seed SEED]

One chain of each from the centre, one after the other; seconds are of the processor, of updates
after warm-up. ESS is the smallest bulk ESS over all coordinates. Nothing here is a test, and
nothing is stored.
"""

import argparse
import logging
import time
from functools import partial

import arviz as az
import numpy as np
import pymc as pm
from scipy.optimize import brentq
from scipy.special import expit

import pymc_minibatch_mh as mb
from benchmarks import models
from models.gallery import models_hierarchies as gallery
from pymc_minibatch_mh.chain.chain import Chain

TUNE, DRAWS = 2_000, 6_000
ROWS, RARE_ROWS, SLOPES, GROUPS = 20_000, 100_000, 9, 30
#: Whether proposals go through the tables, and whether they go through the map.
PROPOSALS = {
    "normal": (False, False),
    "tables": (True, False),
    "map": (False, True),
    "tables, map": (True, True),
}
HEADS = (
    "model", "unknowns", "scales", "order", "proposals", "acceptance", "rows/update",
    "updates on all rows", "ESS/update", "of scales", "µs/update", "ESS/s",
)  # fmt: skip


def rare_events(events: float) -> pm.Model:
    """A logistic hierarchy whose intercept gives the expected number of events."""
    rng = np.random.default_rng(0)
    x, group = rng.standard_normal((RARE_ROWS, SLOPES)), rng.integers(0, GROUPS, RARE_ROWS)
    slopes, effects = 0.5 * rng.standard_normal(SLOPES), 0.7 * rng.standard_normal(GROUPS)
    eta = x @ slopes + effects[group]
    shift = brentq(lambda m: expit(eta + m).sum() - events, -20.0, 0.0)
    y = rng.random(RARE_ROWS) < expit(eta + shift)
    with pm.Model() as model:
        tau, mu = pm.HalfNormal("tau", 1.0), pm.Normal("mu", -6.0, 5.0)
        b, a = pm.Normal("b", 0.0, 2.0, shape=SLOPES), pm.Normal("a", mu, tau, shape=GROUPS)
        pm.Bernoulli("y", logit_p=pm.math.dot(x, b) + a[group], observed=y.astype(np.int8))
    return model


MODELS = {
    "flights-50000": partial(models.destinations, 50_000),
    "robust-slopes": models.robust_slopes,
    "small-groups": models.small_groups,
    "radon_intercepts": partial(gallery.radon_intercepts, ROWS),
    "radon_covariation": partial(gallery.radon_covariation, ROWS),
    "rugby": partial(gallery.rugby, ROWS),
    "item_response": partial(gallery.item_response, ROWS),
    "rare-events": rare_events,
}


def measure(step: mb.TunaMH, seed: int) -> list[str]:
    """Cells of a line, from the acceptance rate on."""
    chain = Chain(step.program, np.random.default_rng(seed), True)
    chain.advance(TUNE)
    chain.stop_adapting()
    begin = time.process_time()
    draws = chain.advance(DRAWS)
    per_update = (time.process_time() - begin) / DRAWS
    ess = np.array([float(az.ess(x[None])) for x in draws.positions.T]) / DRAWS
    scales = list(step.target.scales(step.plan.reference.centre))
    accept, rows, full = (draws.counts[name].mean() for name in ("accept", "n_obs", "full_pass"))
    return [
        f"{accept:.3f}",
        f"{rows:,.0f}",
        f"{full:.0%}",
        f"{ess.min():.2f}",
        f"{ess[scales].min():.2f}",
        f"{1e6 * per_update:,.0f}",
        f"{ess.min() / per_update:,.0f}",
    ]


def lines_of(name: str, model: pm.Model, order: int, seed: int) -> None:
    """Print a line for each way to propose that differs."""
    with model:
        step = mb.TunaMH(taylor_order=order)
    plan, reference = step.plan, step.plan.reference
    tables = plan.scale_conditional
    for words, (by_tables, by_map) in PROPOSALS.items():
        # In the place of what the plan has chosen.
        plan.__dict__.pop("skew_map", None)
        plan.__dict__["scale_conditional"] = tables if by_tables else None
        if not by_map:
            plan.__dict__["skew_map"] = None
        if (by_tables and tables is None) or (by_map and plan.skew_map is None):
            continue
        scales = step.target.scales(reference.centre)
        about = [f"`{name}`", str(reference.centre.size), str(len(scales)), str(order), words]
        print(f"| {' | '.join([*about, *measure(step, seed)])} |", flush=True)


def main() -> None:
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--events", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    for name in asked.model or MODELS:
        rare = name == "rare-events"
        model = rare_events(asked.events) if rare else MODELS[name]()
        for order in (2, 3) if rare else (2,):
            lines_of(name, model, order, asked.seed)


if __name__ == "__main__":
    main()
