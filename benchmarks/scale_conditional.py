"""Moves of hierarchies drawn given scales, beside those of one normal approximation.

    PYTHONPATH=.:tests:examples python benchmarks/scale_conditional.py [model ...] [--seed SEED]

One chain of each, from the centre, in one thread (set OMP_NUM_THREADS=1), the two one after the
other in one process. Seconds are those of the processor for updates after warm-up. ESS is the
smallest bulk ESS over all coordinates of the chain. Nothing here is a test, and nothing is stored.
"""

import argparse
import logging
import time
from functools import partial
from typing import Any

import arviz as az
import numpy as np

import pymc_minibatch_mh as mb
from benchmarks import models
from models.gallery import models_hierarchies as gallery
from pymc_minibatch_mh.chain.chain import Chain

TUNE, DRAWS = 2_000, 6_000
ROWS = 20_000
MODELS = {
    "flights-50000": partial(models.destinations, 50_000),
    "robust-slopes": models.robust_slopes,
    "small-groups": models.small_groups,
    "radon_intercepts": partial(gallery.radon_intercepts, ROWS),
    "radon_covariation": partial(gallery.radon_covariation, ROWS),
    "rugby": partial(gallery.rugby, ROWS),
    "item_response": partial(gallery.item_response, ROWS),
}
HEADS = (
    "model", "unknowns", "scales", "moves", "acceptance", "rows/update", "updates on all rows",
    "ESS/update", "of scales", "µs/update", "ESS/s", "s for the tables",
)  # fmt: skip


def measure(name: str, step: Any, seed: int, seconds: float) -> list[str]:
    """Return the cells of a line."""
    chain = Chain(step.program, np.random.default_rng(seed), True)
    chain.advance(TUNE)
    chain.stop_adapting()
    chain.compile()
    begin = time.process_time()
    draws = chain.advance(DRAWS)
    per_update = (time.process_time() - begin) / DRAWS
    ess = np.array([float(az.ess(x[None])) for x in draws.positions.T]) / DRAWS
    scales = step.target.scales(step.plan.reference.centre)
    tabled = bool(step.program.sampler.scales(step.plan))
    means = {name: draws.counts[name].mean() for name in ("accept", "n_obs", "full_pass")}
    return [
        f"`{name}`",
        str(ess.size),
        str(len(scales)),
        "given scales" if tabled else "one normal approximation",
        f"{means['accept']:.3f}",
        f"{means['n_obs']:,.0f}",
        f"{means['full_pass']:.0%}",
        f"{ess.min():.2f}",
        f"{ess[list(scales)].min():.2f}",
        f"{1e6 * per_update:,.0f}",
        f"{ess.min() / per_update:,.0f}",
        f"{seconds:.1f}" if tabled else "–",
    ]


def main() -> None:
    """Print the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="*", help=f"of {', '.join(MODELS)}; all by default")
    parser.add_argument("--seed", type=int, default=3)
    asked = parser.parse_args()
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}", flush=True)
    for name in asked.model or MODELS:
        model = MODELS[name]()
        for scale_conditional in (False, True):
            with model:
                step = mb.TunaMH(proposal=mb.Mixture(scale_conditional=scale_conditional))
            begin = time.process_time()
            # Found when the step was built.
            step.plan.__dict__.pop("scale_conditional", None)
            step.program.sampler.scales(step.plan)
            seconds = time.process_time() - begin
            print(f"| {' | '.join(measure(name, step, asked.seed, seconds))} |", flush=True)


if __name__ == "__main__":
    main()
