"""Make ``public_reports.json``: sample models of large data that people asked about in public.

Run ``PYTHONPATH=.:tests python -m benchmarks.public_reports [NAME ...]`` in the root folder; no
names, all models without a result. Each has a process of its own, which reads, prepares and samples
it by ``TunaMH()``. One that is refused, takes too long, evaluates more than 5 % of the rows in an
update or has few effective draws is sampled by ``PenaltyMH()``, too. Seconds are those of the
processor, without imports and data, and with nothing compiled before. ``python -m
docs.tools.models_page`` writes the table.
"""

import json
import logging
import os
import resource
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import arviz as az
import numpy as np

from benchmarks.public_models.catalogue import MODELS
from pymc_minibatch_mh import PenaltyMH, TunaMH, sample
from pymc_minibatch_mh.errors import MinibatchError

FILE = Path(__file__).with_suffix(".json")
COMMAND = "PYTHONPATH=.:tests python -m benchmarks.public_reports"
CHAINS, TUNE, DRAWS, SEED = 2, 2_000, 3_000, 1
#: CPU seconds, imports included, after which a process is ended.
LIMIT = 150
STEPS = {"TunaMH": TunaMH, "PenaltyMH": PenaltyMH}
#: Largest share of rows in an update, and fewest effective draws, with which a model is served.
MOST_READ, FEWEST = 0.05, 400.0


def say(**figures):
    """Print figures for the parent, which has them even if this process is ended."""
    print(json.dumps(figures), flush=True)


def prepared(model, name):
    """Return a step of a model, None if it is refused; say what that took, and its warnings."""
    began, warned = time.process_time(), []
    say(step=name)
    tells = logging.Handler(logging.WARNING)
    tells.emit = lambda record: warned.append(record.getMessage())
    logging.getLogger("pymc").addHandler(tells)
    try:
        step = STEPS[name](model=model)
    except MinibatchError as error:
        say(refused=[time.process_time() - began, str(error)])
        return None
    finally:
        logging.getLogger("pymc").removeHandler(tells)
    say(setup_seconds=time.process_time() - began, **({"told": warned} if warned else {}))
    return step


def outside(draws, truth):
    """Return the numbers behind the data that are outside of 99.9 % of the draws, by name."""
    away = {}
    for name, value in truth.items():
        low, high = draws[name].quantile([0.0005, 0.9995], dim=("chain", "draw")).to_numpy()
        if np.any((low > value) | (high < value)):
            away[name] = [np.asarray(each).tolist() for each in (value, low, high)]
    return away


def figures(trace, names, truth):
    """Return what a trace shows of the chains and of the posterior."""
    stats, draws = trace["sample_stats"], trace["posterior"].dataset[names]
    ess = {name: float(values.min()) for name, values in az.ess(draws).data_vars.items()}
    slowest = min(ess, key=ess.get)
    return {
        "read_per_update": float(stats["n_obs"].mean()),
        "full_pass_share": float(stats["full_pass"].mean()),
        "acceptance": float(stats["accept"].mean()),
        "ess": ess[slowest],
        "slowest": slowest,
        "rhat": max(float(values.max()) for values in az.rhat(draws).data_vars.values()),
        "outside": outside(draws, truth),
    }


def measure(name, sizes, method="TunaMH"):
    """Read, prepare and sample a model, and say what that took."""
    report = MODELS[name]
    model = report.build(np.random.default_rng(SEED), **sizes)
    step = prepared(model, method)
    if step is None:
        return
    say(rows=step.target.source.n_rows, order=int(step.reference.order))
    began = time.process_time()
    trace = sample(
        step,
        draws=DRAWS,
        tune=TUNE,
        chains=CHAINS,
        cores=1,
        random_seed=SEED,
        quiet=True,
        compute_convergence_checks=False,
    )
    say(sampling_seconds=time.process_time() - began)
    names = [variable.name for variable in model.free_RVs]
    say(**figures(trace, names, report.truth))


def in_a_process(name, sizes, limit=LIMIT, method="TunaMH"):
    """Return the figures of a model, by a process that is ended after some CPU seconds."""
    command = [sys.executable, "-m", "benchmarks.public_reports", name, json.dumps(sizes), method]
    limited = partial(resource.setrlimit, resource.RLIMIT_CPU, (limit, limit))
    with TemporaryDirectory() as folder:
        caches = {
            "NUMBA_CACHE_DIR": f"{folder}/numba",
            "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
        }
        done = subprocess.run(
            command,
            env=os.environ | caches,
            stdout=subprocess.PIPE,
            preexec_fn=limited,
            text=True,
        )
    result = {}
    for line in done.stdout.splitlines():
        result |= json.loads(line)
    if done.returncode < 0:
        # A signal ended it: the limit is passed.
        return result | {"ended": limit}
    done.check_returncode()
    return result


def is_served(result):
    """Return whether a step samples a model with few rows an update."""
    if "ess" not in result:
        return False
    return result["read_per_update"] <= MOST_READ * result["rows"] and result["ess"] >= FEWEST


def best_of(name):
    """Return the figures of the first step that serves a model, or of ``TunaMH``.

    They have those of the other, by its name.
    """
    first = in_a_process(name, {})
    if is_served(first):
        return first
    second = in_a_process(name, {}, method="PenaltyMH")
    return second | {"TunaMH": first} if is_served(second) else first | {"PenaltyMH": second}


def stored():
    """Return the results so far: name -> figures."""
    return json.loads(FILE.read_text(encoding="utf-8"))["results"] if FILE.exists() else {}


def store(name, result):
    """Add a result to the file."""
    results = stored() | {name: result}
    versions = {library: version(library) for library in ("pymc", "pytensor", "arviz", "numpy")}
    content = {
        "command": COMMAND,
        "draws": [CHAINS, TUNE, DRAWS],
        "versions": versions,
        "results": {name: results[name] for name in MODELS if name in results},
    }
    FILE.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments):
    """Measure named models, or all without a result; one with sizes in this process."""
    if len(arguments) == 3 and arguments[1].startswith("{"):
        measure(arguments[0], json.loads(arguments[1]), arguments[2])
        return
    for name in arguments or [name for name in MODELS if name not in stored()]:
        store(name, result := best_of(name))
        print(f"{name}: {result}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
