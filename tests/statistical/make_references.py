"""Make ``references.json``: long runs of PyMC's NUTS on the models of the zoo.

Run ``PYTHONPATH=.:tests python tests/statistical/make_references.py`` in the root folder.
"""

import json
from importlib.metadata import version
from pathlib import Path

import arviz as az
import pymc as pm

from zoo import MODELS, coordinates

FILE = Path(__file__).with_name("references.json")
COMMAND = "PYTHONPATH=.:tests python tests/statistical/make_references.py"


def figures(draws):
    return {
        "mean": draws.mean(),
        "sd": draws.std(ddof=1),
        "mcse_mean": float(az.mcse(draws, method="mean")),
        "mcse_sd": float(az.mcse(draws, method="sd")),
        "ess": float(az.ess(draws, method="bulk")),
    }


def reference(build):
    with build():
        trace = pm.sample(
            8_000, tune=1_000, chains=4, cores=2, nuts_sampler="pymc", random_seed=20_260_101
        )
    return {name: figures(draws) for name, draws in coordinates(trace).items()}


if __name__ == "__main__":
    versions = {name: version(name) for name in ("pymc", "pytensor", "arviz", "numpy", "numba")}
    models = {name: reference(build) for name, build in MODELS.items()}
    ess = min(row["ess"] for rows in models.values() for row in rows.values())
    assert ess > 5_000
    content = {"command": COMMAND, "versions": versions, "models": models}
    FILE.write_text(json.dumps(content, indent=1) + "\n")
