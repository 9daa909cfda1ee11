"""How long it takes to start: importing, building, the first draw, 10,000 effective draws.

    PYTHONPATH=tests python tests/benchmarks/start.py steps|families|first|hessian [--beside FOLDER]

Every figure is taken in processes of its own, with caches that are filled (warm) or empty (cold).
With ``--beside``, another checkout of the project is measured in turn with this one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from families import FAMILIES

ROOT = Path(__file__).parents[2]
TURNS = 3
#: Families whose cold start is measured beside another checkout: some take minutes there.
COLD = ("bernoulli_logit", "student_free", "normal_mixture", "zero_inflated_poisson")

IN_PROCESS = """
import json, sys, time, warnings
from importlib import import_module
warnings.simplefilter("ignore")
import numpy as np, pymc as pm
sys.path.insert(0, {tests!r})
marks = [("", time.perf_counter())]
def mark(name):
    marks.append((name, time.perf_counter()))
def done():
    passed = zip(marks[1:], marks, strict=False)
    print(json.dumps({{name: now - before for (name, now), (_, before) in passed}}))
"""

STEPS = """
import inspect
from pymc_minibatch_mh import TunaMH
inspect.signature(TunaMH)
mark("import")
for folder in ("step", "steps"):
    try:
        import_module("pymc_minibatch_mh." + folder + ".machinery")
    except ImportError:
        pass
mark("import for the first step")
rng = np.random.default_rng(1)
X = rng.standard_normal(({rows}, 10))
y = (rng.random({rows}) < 1.0 / (1.0 + np.exp(-X @ rng.normal(0.0, 0.4, 10)))).astype(np.int8)
with pm.Model() as model:
    pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0.0, 2.5, shape=10), observed=y)
mark("data and model")
step = TunaMH(model=model)
mark("step")
TunaMH(model=model)
mark("second step")
with model:
    trace = pm.sample({draws}, tune=1_000, chains=1, step=step, random_seed=1, progressbar=False,
                      compute_convergence_checks=False)
mark("draws")
import arviz as az
smallest = float(np.min(az.ess(trace)["beta"]))
assert smallest > 10_000, smallest
done()
"""

FAMILY_STEPS = """
from families import FAMILIES
from pymc_minibatch_mh import TunaMH
for folder in ("step", "steps"):
    try:
        import_module("pymc_minibatch_mh." + folder + ".machinery")
    except ImportError:
        pass
# What the first step of a process imports counts for none of them.
TunaMH(model=FAMILIES["exponential"](1_500))
for name in {names!r}:
    model = FAMILIES[name](20_000)
    order = {{"taylor_order": 0}} if name == "laplace" else {{}}
    mark("model of " + name)
    TunaMH(model=model, **order)
    mark(name)
done()
"""

FIRST = """
from pymc_minibatch_mh import TunaMH
from zoo import logistic
model = logistic()
with model:
    pm.sample(1, tune=0, chains=1, step=TunaMH(), progressbar=False, random_seed=1,
              compute_convergence_checks=False)
mark("first draw")
done()
"""

HESSIAN = """
from pymc_minibatch_mh.likelihood.factorization import split
from pymc_minibatch_mh.reference.target import Target
rng = np.random.default_rng(1)
X = rng.standard_normal((100_000, 50))
y = (rng.random(100_000) < 0.4).astype(np.int8)
with pm.Model() as model:
    pm.Bernoulli("y", logit_p=X @ pm.Normal("beta", 0.0, 2.5, shape=50), observed=y)
passes = Target(split(model, model.value_vars), 2, 1.0, None).passes
theta = rng.normal(0.0, 0.1, 50)
for hessian in (False, True):
    passes.likelihood(theta, hessian=hessian)
found = {{False: [], True: []}}
for _ in range(15):
    for hessian in found:
        began = time.perf_counter()
        passes.likelihood(theta, hessian=hessian)
        found[hessian].append(time.perf_counter() - began)
names = {{False: "gradient pass", True: "Hessian pass"}}
print(json.dumps({{names[hessian]: np.median(seconds) for hessian, seconds in found.items()}}))
"""


def run(script: str, root: Path, cache: str | None, kernels: str | None, **values: object) -> dict:
    """Run a script in a process on one checkout; return seconds by what they were spent on."""
    text = (IN_PROCESS + script).format(tests=str(ROOT / "tests"), **values)
    variables = {**os.environ, "PYTHONPATH": str(root)}
    if cache is not None:
        variables["PYTENSOR_FLAGS"] = f"base_compiledir={cache}"
    if kernels is not None:
        variables["NUMBA_CACHE_DIR"] = kernels
    # Python looks into the working folder first.
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def medians(found: list[dict]) -> dict:
    """Return the median of each figure."""
    return {name: statistics.median(one[name] for one in found) for name in found[0]}


def show(title: str, figures: dict[str, dict]) -> None:
    """Print the figures of every checkout as a line of a table."""
    print(f"\n{title}")
    for name, one in figures.items():
        print(f"| {name} | " + " | ".join(f"{k} {v:.2f}" for k, v in one.items()) + " |")


def steps(checkouts: dict[str, Path]) -> None:
    """Time import, steps and draws at a million rows, warm and cold."""
    settings = {"rows": 1_000_000, "draws": 13_000}
    for root in checkouts.values():
        run(STEPS, root, None, None, **settings)
    warm: dict[str, list[dict]] = {name: [] for name in checkouts}
    cold: dict[str, list[dict]] = {name: [] for name in checkouts}
    for _ in range(TURNS):
        for name, root in checkouts.items():
            warm[name].append(run(STEPS, root, None, None, **settings))
            with tempfile.TemporaryDirectory() as cache:
                cold[name].append(run(STEPS, root, cache, None, **settings))
    show("warm", {name: medians(found) for name, found in warm.items()})
    show("cold: PyTensor's cache empty", {name: medians(found) for name, found in cold.items()})


def families(checkouts: dict[str, Path]) -> None:
    """Time a step on 20,000 rows of every family, warm and cold; beside another, of a few."""
    names = list(FAMILIES) if len(checkouts) == 1 else COLD
    found: dict[str, list[dict]] = {}
    for checkout, root in checkouts.items():
        with tempfile.TemporaryDirectory() as cache:
            found[checkout] = [run(FAMILY_STEPS, root, cache, None, names=names) for _ in range(4)]
    for name in names:
        figures = {
            checkout: {"cold": one[0][name], "warm": medians(one[1:])[name]}
            for checkout, one in found.items()
        }
        show(name, figures)


def first(checkouts: dict[str, Path]) -> None:
    """Time the first draw where nothing was ever compiled, not even the package's kernels."""
    found: dict[str, list[dict]] = {name: [] for name in checkouts}
    for _ in range(3):
        for name, root in checkouts.items():
            with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as kernels:
                found[name].append(run(FIRST, root, cache, kernels))
    show("from installation to the first draw", {k: medians(v) for k, v in found.items()})


def hessian(checkouts: dict[str, Path]) -> None:
    """Time passes with and without Hessian, d = 50, N = 100,000."""
    figures = {name: run(HESSIAN, root, None, None) for name, root in checkouts.items()}
    for one in figures.values():
        one["ratio"] = one["Hessian pass"] / one["gradient pass"]
    show("passes", figures)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    figures = {one.__name__: one for one in (steps, families, first, hessian)}
    parser.add_argument("figure", choices=figures)
    parser.add_argument("--beside", type=Path, help="another checkout of the project")
    asked = parser.parse_args()
    checkouts = {"this": ROOT}
    if asked.beside is not None:
        checkouts["the other"] = asked.beside.resolve()
    figures[asked.figure](checkouts)


if __name__ == "__main__":
    main()
