"""Make ``run_gallery.json``: sample the gallery's models with this package and with PyMC's NUTS.

Run ``PYTHONPATH=.:tests python benchmarks/run_gallery.py [NAME ...]`` in the root folder.
Without names, the models that have no result yet are sampled, one after the other; each result is
stored as soon as it is there, so that an interrupted run goes on where it ended.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

import arviz as az
import numpy as np
import pymc as pm

from models.gallery.catalogue import EXAMPLES
from models.gallery.record import TALL
from pymc_minibatch_mh import PenaltyMH, TunaMH, explain, overdispersed_initvals
from pymc_minibatch_mh.errors import BoundsError, ModeError, UnsupportedModelError

FILE = Path(__file__).with_suffix(".json")
COMMAND = "PYTHONPATH=.:tests python benchmarks/run_gallery.py"
CHAINS, SEED = 2, 20_261_121
DRAWS, TUNE = 10_000, 2_000


def sampled(model, seed=SEED, **settings):
    """Return the draws of every free coordinate, the sampler's stats, and the seconds it took."""
    with model:
        trace = pm.sample(
            chains=CHAINS,
            cores=1,
            random_seed=seed,
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
            # Deterministics of all rows would fill the memory.
            var_names=[rv.name for rv in model.free_RVs],
            **settings,
        )
    draws = {}
    for name, values in trace.posterior.data_vars.items():
        cells = values.to_numpy().reshape(*values.shape[:2], -1)
        draws |= {f"{name}[{k}]": cells[..., k] for k in range(cells.shape[2])}
    return draws, trace.sample_stats, float(trace.posterior.attrs["sampling_time"])


def figures(draws):
    """Return mean, sd, Monte Carlo error and effective draws of every coordinate."""
    rows = []
    for x in draws.values():
        # A coordinate that is fixed, such as one of a triangular matrix, has nothing to compare.
        if x.std() > 0.0:
            error, size = float(az.mcse(x, method="mean")), float(az.ess(x, method="bulk"))
            rows.append((x.mean(), x.std(ddof=1), error, size, float(az.rhat(x))))
        else:
            rows.append((x.mean(), 0.0, np.inf, 0.0, np.inf))
    return np.transpose(rows)


def compared(own, reference):
    """Return how far the draws are from those of NUTS, at the worst coordinate."""
    mean, sd, error, ess, rhat = figures(own)
    nuts_mean, nuts_sd, nuts_error, nuts_ess, nuts_rhat = figures(reference)
    gap = np.abs(mean - nuts_mean)
    ratio = sd / nuts_sd
    return {
        "coordinates": len(mean),
        "mean_in_sd": float((gap / nuts_sd).max()),
        "mean_in_mcse": float((gap / np.hypot(error, nuts_error)).max()),
        "least_sd_ratio": float(ratio.min()),
        "largest_sd_ratio": float(ratio.max()),
        "rhat": float(rhat.max()),
        "ess": float(ess.min()),
        "nuts_rhat": float(nuts_rhat.max()),
        "nuts_ess": float(nuts_ess.min()),
    }


def step_for(model):
    """Return a step, and what becomes of the model."""
    try:
        return TunaMH(model=model), "exact"
    except BoundsError:
        return PenaltyMH(model=model), "order 2"


def unsuited(step):
    """Return what is forecast of a step that reads all rows at most updates."""
    found = explain(step, random_seed=SEED)
    verdict = "reads all rows" if found.forecast.full_pass_share > 0.5 else "sampled"
    return {"verdict": verdict, "message": f"{found.recommended}: {found.reason}"}


def measured(example, rows=TALL, draws=DRAWS, tune=TUNE):
    """Sample an example with this package and with NUTS, and compare them."""
    model = example.build(rows)
    start = perf_counter()
    try:
        step, verdict = step_for(model)
    except UnsupportedModelError as error:
        return {"verdict": "refused", "message": str(error)}
    except ModeError as error:
        return {"verdict": "no mode", "message": str(error)}
    setup = perf_counter() - start
    if example.reads_all:
        return unsuited(step)
    starts = overdispersed_initvals(step, CHAINS, random_seed=SEED)
    own, stats, seconds = sampled(model, step=step, draws=draws, tune=tune, initvals=starts)
    length = example.nuts_draws
    given = {"initvals": starts} if example.starts_nuts else {}
    reference, nuts_stats, nuts_seconds = sampled(
        model, nuts_sampler="pymc", draws=length, tune=length, **given
    )
    comparison = compared(own, reference)
    return {
        "verdict": verdict,
        "method": type(step).__name__,
        "order": int(step.reference.order),
        "rows": int(step.target.source.n_rows),
        "setup_seconds": setup,
        "rows_per_update": float(stats["n_obs"].mean()),
        "full_pass_share": float(stats["full_pass"].mean()),
        "acceptance": float(stats["accept"].mean()),
        **comparison,
        "nuts_draws": length,
        "divergences": int(nuts_stats["diverging"].sum()),
        "ess_per_second": comparison["ess"] / seconds,
        "nuts_ess_per_second": comparison["nuts_ess"] / nuts_seconds,
    }


def stored():
    """Return the results so far: name -> figures."""
    return json.loads(FILE.read_text())["results"] if FILE.exists() else {}


def store(name, result):
    """Add a result to the file."""
    results = stored() | {name: result}
    versions = {p: version(p) for p in ("pymc", "pytensor", "arviz", "numpy", "numba")}
    content = {
        "command": COMMAND,
        "rows": TALL,
        "draws": [CHAINS, TUNE, DRAWS],
        "versions": versions,
        "results": {name: results[name] for name in EXAMPLES if name in results},
    }
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    known = stored()
    for name in sys.argv[1:] or [name for name in EXAMPLES if name not in known]:
        start = perf_counter()
        result = measured(EXAMPLES[name])
        store(name, result)
        print(f"{name}: {result}, {(perf_counter() - start) / 60.0:.1f} minutes", flush=True)
