"""Make ``family_references.json``: long runs of PyMC's NUTS on the certified families.

Run ``PYTHONPATH=.:tests python tests/statistical/make_family_references.py [FAMILY ...]`` in the
root folder. Without names every family is run; with names the others are kept as they are.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import arviz as az
import numpy as np
import pymc as pm

from families import FAMILIES
from zoo import coordinates

FILE = Path(__file__).with_name("family_references.json")
COMMAND = "PYTHONPATH=.:tests python tests/statistical/make_family_references.py"
CHAINS, TUNE, DRAWS, SEED = 4, 1_000, 18_000, 20_260_201

#: Effective draws of every coordinate and of its squared deviation.
ESS, RHAT = 26_000, 1.003


def figures(draws):
    squares = (draws - draws.mean()) ** 2
    return {
        "mean": draws.mean(),
        "sd": draws.std(ddof=1),
        "mcse_mean": float(az.mcse(draws, method="mean")),
        "mcse_sd": float(az.mcse(draws, method="sd")),
        "mcse_variance": float(az.mcse(squares, method="mean")),
        "ess": float(az.ess(draws, method="bulk")),
        "ess_square": float(az.ess(squares, method="bulk")),
        "rhat": float(az.rhat(draws)),
    }


def effective(rows):
    return min(min(row["ess"], row["ess_square"]) for row in rows.values())


def run(model, draws, seed):
    with model:
        trace = pm.sample(
            draws,
            tune=TUNE,
            chains=CHAINS,
            cores=1,
            nuts_sampler="pymc",
            random_seed=seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    assert not trace.sample_stats["diverging"].any()
    return coordinates(trace)


def reference(model):
    """Run chains, and more of the same length until every coordinate has its effective draws."""
    draws = run(model, DRAWS, SEED)
    rows = {name: figures(x) for name, x in draws.items()}
    for seed in range(SEED + 1, SEED + 5):
        if effective(rows) >= ESS:
            break
        more = run(model, DRAWS, seed)
        draws = {name: np.concatenate((x, more[name])) for name, x in draws.items()}
        rows = {name: figures(x) for name, x in draws.items()}
    assert effective(rows) >= ESS
    assert max(row["rhat"] for row in rows.values()) < RHAT
    return rows


if __name__ == "__main__":
    models = json.loads(FILE.read_text())["models"] if FILE.exists() else {}
    for name in sys.argv[1:] or FAMILIES:
        start = perf_counter()
        models[name] = reference(FAMILIES[name]())
        versions = {p: version(p) for p in ("pymc", "pytensor", "arviz", "numpy", "numba")}
        ordered = {name: models[name] for name in FAMILIES if name in models}
        content = {"command": COMMAND, "versions": versions, "models": ordered}
        FILE.write_text(json.dumps(content, indent=1) + "\n")
        minutes = (perf_counter() - start) / 60.0
        print(f"{name}: ESS {effective(models[name]):.0f}, {minutes:.1f} minutes", flush=True)
