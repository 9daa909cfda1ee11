"""Sample models of real data with `TunaMH` and with NUTS, and store the figures of their pages.

    cd examples
    python -m uv run --group gallery python -m real_data.run [NAME ...]

The chains run one after the other in one thread, of `sample` and of nutpie's NUTS. A name that has
results is sampled anew.
"""

import argparse
import json
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import arviz as az
import nutpie
import pymc as pm
from xarray import DataTree

import pymc_minibatch_mh as mb
from papers import provenance
from real_data import CHAINS, DRAWS, NAMES, NUTS_DRAWS, SEED, TUNE

HERE = Path(__file__).parent
RESULTS = HERE / "results"
LIBRARIES = (*provenance.LIBRARIES, "nutpie", "arviz")


def summary(trace: DataTree) -> dict[str, list[float]]:
    """Return mean, 5 %, 95 % and bulk ESS of each entry of the unknowns, by label."""
    table = az.summary(trace, ci_prob=0.9, ci_kind="eti", round_to="none")
    columns = table[["mean", "eti90_lb", "eti90_ub", "ess_bulk"]]
    return {row[0]: [float(f"{x:.5g}") for x in row[1:]] for row in columns.itertuples()}


def measured(model: pm.Model) -> dict[str, Any]:
    """Sample a model both ways, and return the figures of its page."""
    names = [variable.name for variable in model.free_RVs]
    began = time.perf_counter()
    step = mb.TunaMH(model=model, rng=SEED)
    prepared = time.perf_counter() - began
    run: dict[str, Any] = {"chains": CHAINS, "cores": 1, "random_seed": SEED, "progressbar": False}
    # Code that no other process has compiled is compiled here, and not in the time of sampling.
    mb.sample(step, 10, tune=10, **run, quiet=True)
    began = time.perf_counter()
    trace = mb.sample(step, DRAWS, tune=TUNE, **run, var_names=names)
    sampling = time.perf_counter() - began
    began = time.perf_counter()
    compiled = nutpie.compile_pymc_model(model, var_names=names)
    compilation = time.perf_counter() - began
    nuts = {"draws": NUTS_DRAWS, "tune": NUTS_DRAWS, "chains": CHAINS, "cores": 1, "seed": SEED}
    began = time.perf_counter()
    nuts_trace = nutpie.sample(compiled, **nuts, progress_bar=False)
    nuts_seconds = time.perf_counter() - began
    stats, of_tuna = trace.sample_stats, summary(trace)
    return {
        "rows": int(step.target.source.n_rows),
        "unknowns": len(of_tuna),
        "prepared": prepared,
        "seconds": sampling,
        "rows_per_update": float(stats["n_obs"].mean()),
        "acceptance": float(stats["accept"].mean()),
        "full": float(stats["full_pass"].mean()),
        "tuna": of_tuna,
        "nuts_compilation": compilation,
        "nuts_seconds": nuts_seconds,
        "nuts": summary(nuts_trace),
    }


def main() -> None:
    """Sample the models that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    for name in parser.parse_args().names or NAMES:
        model = import_module(f"real_data.{name}").model()
        provenance.forget()
        provenance.note_data(model)
        began = time.perf_counter()
        found = measured(model)
        seconds = time.perf_counter() - began
        command = f"python -m real_data.run {name}"
        found["run"] = provenance.record(command, SEED, seconds, LIBRARIES)
        RESULTS.mkdir(exist_ok=True)
        text = json.dumps(found, indent=1)
        (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(name, {k: v for k, v in found.items() if isinstance(v, int | float)}, flush=True)


if __name__ == "__main__":
    main()
