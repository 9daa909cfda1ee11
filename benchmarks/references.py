"""Make the references: long runs of PyMC's NUTS.

Run ``PYTHONPATH=.:tests python benchmarks/references.py KIND [NAME ...]`` in the root
folder, KIND being zoo, family, hierarchy or groups. Without names every posterior is run; with
names the others are kept as they are.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import arviz as az
import numpy as np
import pymc as pm

from helpers import zoo
from helpers.models import FAMILIES, MODELS
from law.statistical import hierarchies, small_groups

FOLDER = Path(__file__).parents[1] / "tests" / "law" / "statistical"
COMMAND = "PYTHONPATH=.:tests python benchmarks/references.py"
TUNE = 1_000


@dataclass(frozen=True)
class Kind:
    """Posteriors of one file, and what their runs have to be."""

    #: Name of the file.
    file: str
    #: Name of a posterior -> what builds its model.
    builders: dict[str, Callable[[], pm.Model]]
    #: Returns the draws of every coordinate of a trace.
    coordinates: Callable
    #: Settings of NUTS.
    chains: int
    draws: int
    seed: int
    #: Effective draws of every coordinate and of its squared deviation, and largest R-hat.
    ess: float
    rhat: float
    accept: float = 0.8
    #: Largest share of trajectories that may diverge: near the neck of a funnel a few do.
    diverging: float = 0.0


KINDS = {
    "zoo": Kind(
        "references.json", MODELS, zoo.coordinates, 4, 8_000, 20_260_101, 5_000, 1.01
    ),
    "family": Kind(
        "family_references.json", FAMILIES, zoo.coordinates, 4, 18_000, 20_260_201, 26_000, 1.003
    ),
    "hierarchy": Kind(
        "hierarchy_references.json",
        {
            name: partial(
                hierarchies.HIERARCHIES[name].build, centred=name not in hierarchies.AS_THEY_ARE
            )
            for name in dict.fromkeys(one.posterior for one in hierarchies.HIERARCHIES.values())
        },
        hierarchies.coordinates, 2, 2_000, 20_260_301, 1_000, 1.01, accept=0.9, diverging=1e-3,
    ),
    "groups": Kind(
        "group_references.json",
        {
            "few groups": small_groups.few_groups,
            "correlated": small_groups.correlated,
            "two parameters": small_groups.two_parameters,
        },
        small_groups.coordinates, 2, 4_000, 20_260_401, 2_000, 1.01, accept=0.9, diverging=1e-3,
    ),
}  # fmt: skip


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


def run(kind, model, seed):
    with model:
        trace = pm.sample(
            kind.draws, tune=TUNE, chains=kind.chains, cores=1, nuts_sampler="pymc",
            target_accept=kind.accept, random_seed=seed, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    assert float(trace.sample_stats["diverging"].mean()) <= kind.diverging
    return kind.coordinates(trace)


def reference(kind, model):
    """Run chains, and more of the same length until every coordinate has its effective draws."""
    draws = run(kind, model, kind.seed)
    rows = {name: figures(x) for name, x in draws.items()}
    for seed in range(kind.seed + 1, kind.seed + 6):
        if effective(rows) >= kind.ess:
            break
        more = run(kind, model, seed)
        draws = {name: np.concatenate((x, more[name])) for name, x in draws.items()}
        rows = {name: figures(x) for name, x in draws.items()}
    assert effective(rows) >= kind.ess
    assert max(row["rhat"] for row in rows.values()) < kind.rhat
    return rows


def main(name, *wanted):
    """Run the posteriors of a kind, and store each as soon as it is there."""
    kind = KINDS[name]
    file = FOLDER / kind.file
    models = json.loads(file.read_text())["models"] if file.exists() else {}
    for posterior in wanted or kind.builders:
        start = perf_counter()
        models[posterior] = reference(kind, kind.builders[posterior]())
        versions = {p: version(p) for p in ("pymc", "pytensor", "arviz", "numpy", "numba")}
        ordered = {known: models[known] for known in kind.builders if known in models}
        content = {"command": f"{COMMAND} {name}", "versions": versions, "models": ordered}
        file.write_text(json.dumps(content, indent=1) + "\n")
        minutes = (perf_counter() - start) / 60.0
        print(f"{posterior}: ESS {effective(models[posterior]):.0f}, {minutes:.1f} minutes")


if __name__ == "__main__":
    main(*sys.argv[1:])
