"""Make ``hierarchy_references.json``: runs of PyMC's NUTS on hierarchies.

Run ``PYTHONPATH=.:tests python tests/statistical/make_hierarchy_references.py [FIGURES ...]`` in
the root folder. Without names every posterior is run; with names the others are kept as they are.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import numpy as np
import pymc as pm

from statistical.hierarchies import AS_THEY_ARE, HIERARCHIES, coordinates
from statistical.make_family_references import effective, figures

FILE = Path(__file__).with_name("hierarchy_references.json")
COMMAND = "PYTHONPATH=.:tests python tests/statistical/make_hierarchy_references.py"
CHAINS, TUNE, DRAWS, SEED = 2, 1_000, 2_000, 20_260_301

#: Effective draws of every coordinate and of its squared deviation.
ESS, RHAT = 1_000, 1.01
#: Largest share of trajectories that may diverge: near the neck of a funnel a few do.
DIVERGING = 1e-3


def run(model, seed):
    with model:
        trace = pm.sample(
            DRAWS,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            nuts_sampler="pymc",
            target_accept=0.9,
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    return coordinates(trace), float(trace.sample_stats["diverging"].mean())


def reference(model):
    """Run chains, and more of the same length until every coordinate has its effective draws."""
    draws, diverging = run(model, SEED)
    rows = {name: figures(x) for name, x in draws.items()}
    for seed in range(SEED + 1, SEED + 6):
        if effective(rows) >= ESS:
            break
        more, also = run(model, seed)
        diverging = max(diverging, also)
        draws = {name: np.concatenate((x, more[name])) for name, x in draws.items()}
        rows = {name: figures(x) for name, x in draws.items()}
    worst = effective(rows), max(row["rhat"] for row in rows.values()), diverging
    print("least effective, largest R-hat, diverging:", worst, flush=True)
    assert effective(rows) >= ESS
    assert max(row["rhat"] for row in rows.values()) < RHAT
    assert diverging <= DIVERGING
    return rows


if __name__ == "__main__":
    models = json.loads(FILE.read_text())["models"] if FILE.exists() else {}
    builders = {one.posterior: HIERARCHIES[one.posterior].build for one in HIERARCHIES.values()}
    for name in sys.argv[1:] or builders:
        start = perf_counter()
        models[name] = reference(builders[name](centred=name not in AS_THEY_ARE))
        versions = {p: version(p) for p in ("pymc", "pytensor", "arviz", "numpy", "numba")}
        ordered = {name: models[name] for name in builders if name in models}
        content = {"command": COMMAND, "versions": versions, "models": ordered}
        FILE.write_text(json.dumps(content, indent=1) + "\n")
        minutes = (perf_counter() - start) / 60.0
        print(f"{name}: ESS {effective(models[name]):.0f}, {minutes:.1f} minutes", flush=True)
