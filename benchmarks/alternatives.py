"""Errors of approximations beside exact draws, on three models of 500,000 observations.

    PYTHONPATH=.:tests python -m benchmarks.alternatives [MODEL ...]

Laplace and Pathfinder are those of pymc-extras, which has to be installed: no dependency group has
it, because it holds PyMC back. ADVI is PyMC's, on minibatches. The reference is a long run of
`TunaMH`. Errors are in its standard deviations; tails are posterior probabilities below the 2.5 %
quantile of an approximation, and above its 97.5 % one.
Results go to ``alternatives.json``, from which ``docs/howto/alternatives.md`` quotes them.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import NDArray

from papers import provenance
from pymc_minibatch_mh import TunaMH, sample

RESULTS = Path(__file__).with_name("alternatives.json")
N, SEED, DRAWS = 500_000, 1, 10_000
BATCH, UPDATES, PATH_DRAWS = 500, 100_000, 250

#: A model as a function of columns: all of the data, or minibatches of them.
type Build = Callable[..., None]
type Draws = dict[str, NDArray]


def _logistic(rng: np.random.Generator, eta: NDArray) -> NDArray:
    return (rng.random(N) < 1.0 / (1.0 + np.exp(-eta))).astype(np.int32)


def common() -> tuple[Build, tuple[NDArray, ...]]:
    """Return a logistic regression whose seven coefficients are all well known."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((N, 6))
    y = _logistic(rng, -1.0 + X @ [0.5, -0.4, 0.3, -0.2, 0.1, 0.0])

    def build(X: Any, y: Any, **size: Any) -> None:
        level, b = pm.Normal("level", 0, 2), pm.Normal("b", 0, 1, shape=6)
        pm.Bernoulli("y", logit_p=level + pm.math.dot(X, b), observed=y, **size)

    return build, (X, y)


def rare() -> tuple[Build, tuple[NDArray, ...]]:
    """Return the same with a rare category: 400 observations with two events."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((N, 3))
    seldom = np.zeros(N, np.int8)
    seldom[:400] = 1
    seldom = rng.permutation(seldom)
    y = _logistic(rng, -3.0 + X @ [0.5, -0.4, 0.3] - 1.6 * seldom)

    def build(X: Any, seldom: Any, y: Any, **size: Any) -> None:
        level, b = pm.Normal("level", 0, 2), pm.Normal("b", 0, 1, shape=3)
        eta = level + pm.math.dot(X, b) + pm.Normal("seldom", 0, 2) * seldom
        pm.Bernoulli("y", logit_p=eta, observed=y, **size)

    return build, (X, seldom, y)


def groups() -> tuple[Build, tuple[NDArray, ...]]:
    """Return a hierarchy: twelve groups with effects of an unknown scale."""
    rng = np.random.default_rng(SEED)
    x, group = rng.standard_normal(N), rng.integers(0, 12, N)
    y = _logistic(rng, -1.0 + 0.5 * x + 0.1 * rng.standard_normal(12)[group])

    def build(x: Any, group: Any, y: Any, **size: Any) -> None:
        level, b = pm.Normal("level", 0, 2), pm.Normal("b", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        effect = pm.Normal("effect", 0, scale, shape=12)
        pm.Bernoulli("y", logit_p=level + b * x + effect[group], observed=y, **size)

    return build, (x, group, y)


MODELS = {"common": common, "rare": rare, "groups": groups}


def model_of(build: Build, columns: tuple[NDArray, ...]) -> pm.Model:
    """Return the model of all data."""
    with pm.Model() as model:
        build(*columns)
    return model


def exactly(build: Build, columns: tuple[NDArray, ...], draws: int, seed: int) -> Any:
    """Return a trace of `TunaMH`."""
    step = TunaMH(model=model_of(build, columns), rng=seed)
    quiet = {"chains": 2, "cores": 1, "progressbar": False, "quiet": True}
    return sample(step, draws, tune=1_000, random_seed=seed, **quiet)


def laplace(build: Build, columns: tuple[NDArray, ...]) -> Any:
    """Return draws of a Laplace approximation."""
    model = model_of(build, columns)
    # BFGS would return its own approximation of the inverse Hessian.
    newton = {"optimize_method": "Newton-CG", "use_grad": True, "use_hessp": True}
    extras = import_module("pymc_extras")
    return extras.fit_laplace(
        model=model, **newton, draws=DRAWS, random_seed=SEED, progressbar=False
    )


def pathfinder(build: Build, columns: tuple[NDArray, ...]) -> Any:
    """Return draws of multi-path Pathfinder."""
    model = model_of(build, columns)
    return import_module("pymc_extras").fit_pathfinder(
        model=model,
        num_draws_per_path=PATH_DRAWS,
        num_draws=4 * PATH_DRAWS,
        # Vectorised, 1,000 draws take four gigabytes.
        vectorize_logp=False,
        random_seed=SEED,
        progressbar=False,
        parallel=False,
    )


def advi(build: Build, columns: tuple[NDArray, ...]) -> Any:
    """Return draws of mean-field ADVI on minibatches."""
    with pm.Model():
        build(*pm.Minibatch(*columns, batch_size=BATCH), total_size=N)
        fitted = pm.fit(UPDATES, method="advi", random_seed=SEED, progressbar=False)
    return fitted.sample(DRAWS, random_seed=SEED)


def tuna(build: Build, columns: tuple[NDArray, ...]) -> Any:
    """Return draws of two chains of `TunaMH`."""
    return exactly(build, columns, DRAWS, SEED)


METHODS = {"TunaMH": tuna, "Laplace": laplace, "Pathfinder": pathfinder, "ADVI": advi}


def unknowns(trace: Any, names: list[str]) -> Draws:
    """Return the draws of each entry of the unknowns, by name."""
    found = {}
    for name in names:
        draws = trace.posterior[name].stack(sample=("chain", "draw")).to_numpy()
        draws = draws.reshape(-1, draws.shape[-1])
        found |= {f"{name}[{k}]" if len(draws) > 1 else name: each for k, each in enumerate(draws)}
    return found


def errors(found: Draws, exact: Draws) -> dict[str, dict[str, float]]:
    """Return distances of means in sds, ratios of sds, and both tails, for each unknown."""
    table = {}
    for name, truth in exact.items():
        low, high = np.quantile(found[name], [0.025, 0.975])
        table[name] = {
            "mean": float((found[name].mean() - truth.mean()) / truth.std()),
            "sd": float(found[name].std() / truth.std()),
            "below": float((truth < low).mean()),
            "above": float((truth > high).mean()),
        }
    return table


def compared(name: str, methods: list[str]) -> dict[str, Any]:
    """Return the figures of methods on a model."""
    build, columns = MODELS[name]()
    names = [variable.name for variable in model_of(build, columns).free_RVs]
    # Functions that no other process has compiled are compiled here, and not in the time.
    exactly(build, columns, 10, SEED)
    reference = exactly(build, columns, 20 * DRAWS, SEED + 1)
    exact = unknowns(reference, names)
    found: dict[str, Any] = {}

    def note(method: str, run: Callable[[], Any]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        trace = run()
        seconds = time.process_time() - cpu, time.perf_counter() - wall
        found[method] = {
            "cpu_seconds": round(seconds[0], 1),
            "seconds": round(seconds[1], 1),
            "unknowns": errors(unknowns(trace, names), exact),
        }
        print(name, method, found[method]["cpu_seconds"], worst(found[method]), flush=True)

    for method in methods:
        note(method, lambda method=method: METHODS[method](build, columns))
    ess = az.ess(reference)
    least = min(float(ess[each].min()) for each in names)
    return {"reference_ess": least, "load": round(os.getloadavg()[0], 1), "methods": found}


def worst(method: dict[str, Any]) -> dict[str, float]:
    """Return the worst figures over all unknowns."""
    entries = method["unknowns"].values()
    ratios = [each["sd"] for each in entries]
    tails = [each[side] for each in entries for side in ("below", "above")]
    return {
        "mean": max(abs(each["mean"]) for each in entries),
        "sd_low": min(ratios),
        "sd_high": max(ratios),
        "tail_low": min(tails),
        "tail_high": max(tails),
    }


def main() -> None:
    """Compare on the models that are named, or on all, and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="MODEL")
    parser.add_argument("--only", choices=METHODS, help="measure a method anew, beside the others")
    given = parser.parse_args()
    for name in given.names or MODELS:
        provenance.forget()
        provenance.note_data(model_of(*MODELS[name]()))
        began = time.perf_counter()
        found = compared(name, [given.only] if given.only else [*METHODS])
        command = f"python -m benchmarks.alternatives {name}"
        command += f" --only {given.only}" if given.only else ""
        run = provenance.record(command, SEED, time.perf_counter() - began)
        run["versions"]["pymc-extras"] = version("pymc-extras")
        # Other models may have been stored in the meantime.
        stored = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        if given.only:
            before = stored[name]
            found["methods"] = before["methods"] | found["methods"]
            run["command"] = f"{before['run']['command']}; {command}"
            run["commit"] = f"{before['run']['commit']}; {run['commit']}"
            run["seconds"] += before["run"]["seconds"]
        stored[name] = found | {"run": run}
        RESULTS.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
