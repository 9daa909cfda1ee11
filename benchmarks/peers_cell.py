"""One run of one sampler on one problem, in a process of its own: a cell of ``peers.py``.

    PYTHONPATH=.:tests:examples python -m benchmarks.peers_cell PROBLEM SAMPLER --record FILE
        [--seed 1] [--budget SECONDS] [--core CORE]

The clock starts when the data are in memory, before any library but NumPy is imported.
"""

import argparse
import json
import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers_mode import NoModeError
from benchmarks.peers_problems import PROBLEMS, UNKNOWNS, Problem
from benchmarks.peers_run import Clock, OutOfTimeError, Run, Task

#: Draws from which an effective sample size is computed.
FEWEST = 20


@dataclass(frozen=True)
class Sampler:
    """Where a sampler is, and what is imported for it."""

    #: Its function of a `Task`, and the module of this folder that has it.
    module: str
    function: str
    #: Libraries, in the order in which they are imported.
    imports: tuple[str, ...]
    #: Further arguments of the function.
    settings: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Callable[[Task], Run]:
        """Import the libraries, and return the function."""
        for library in self.imports:
            import_module(library)
        found = getattr(import_module(f"benchmarks.{self.module}"), self.function)
        return partial(found, **self.settings)


# What a step imports when it is built counts as an import.
_OURS = partial(
    Sampler,
    "peers_pymc",
    "ours",
    ("pymc", "pymc_minibatch_mh", "pymc_minibatch_mh.steps.tuna"),
)
_NUMPYRO = ("jax", "numpyro", "numpyro.infer")
SAMPLERS = {
    "driver": _OURS(settings={"method": "TunaMH", "driver": True}),
    "tuna": _OURS(settings={"method": "TunaMH"}),
    "without-copy": _OURS(settings={"method": "TunaMH", "driver": True, "copied": False}),
    "penalty": _OURS(settings={"method": "PenaltyMH"}),
    "barker": _OURS(settings={"method": "BarkerMinibatchMH"}),
    "hmcecs-100": Sampler("peers_numpyro", "hmcecs", _NUMPYRO, {"batch": 100, "blocks": 10}),
    "hmcecs-300": Sampler("peers_numpyro", "hmcecs", _NUMPYRO, {"batch": 300, "blocks": 30}),
    "hmcecs-30": Sampler("peers_numpyro", "hmcecs", _NUMPYRO, {"batch": 30, "blocks": 3}),
    "numpyro": Sampler("peers_numpyro", "nuts", _NUMPYRO),
    "nutpie": Sampler("peers_pymc", "nutpie", ("pymc", "nutpie")),
    "pymc": Sampler("peers_pymc", "nuts", ("pymc",)),
    "metropolis": Sampler("peers_pymc", "metropolis", ("pymc",)),
    "advi": Sampler("peers_pymc", "advi", ("pymc",)),
    "reference": _OURS(settings={"method": "TunaMH", "driver": True, "updates": 10}),
}


def measure(problem: Problem, sampler: Sampler, budget: float, seed: int) -> dict[str, Any]:
    """Run a sampler, and return what is stored of it."""
    data = problem.data()
    reset_peak()
    clock, used = Clock(budget), time.process_time()
    try:
        function = sampler.load()
        clock.importing = clock.seconds
        with _counting(sampler, clock):
            run = function(Task(problem, data, clock, seed))
    except OutOfTimeError:
        return {
            "status": "limit",
            "seconds": {
                "import": clock.importing, "compile": clock.compiling, "total": clock.seconds,
            },
            "peak": peak(),
        }  # fmt: skip
    total, highest = clock.seconds, peak()
    # Below 1 where others had the core as well.
    share = round((time.process_time() - used) / total, 3)
    seconds = {
        "import": clock.importing,
        "compile": clock.compiling,
        "tune": run.tune,
        "sampling": run.sampling,
    }
    # All the rest: the model's graph, passes over all rows, and what is done with the draws.
    seconds["setup"] = max(0.0, total - sum(seconds.values()))
    return {
        "status": "ok" if run.finished else "limit",
        "seconds": seconds | {"total": total},
        "share": share,
        "peak": highest,
        "warm-up": run.warm_up,
        **summary(run.draws, UNKNOWNS[problem.family]),
        "note": run.note,
    }


def _counting(sampler: Sampler, clock: Clock) -> Any:
    """Return a context that counts PyTensor's and numba's compilation, where they are used."""
    if sampler.module == "peers_numpyro":
        return nullcontext()
    return import_module("benchmarks.peers_pymc").compilation_counted(clock)


def summary(
    draws: dict[str, NDArray[np.float64]], names: tuple[str, ...]
) -> dict[str, int | float | list[float] | None]:
    """Return the least effective sample sizes of all unknowns, their means and deviations."""
    columns = np.column_stack([draws[name].reshape(len(draws[name]), -1) for name in names])
    found: dict[str, int | float | list[float] | None] = {
        "draws": len(columns), "bulk": None, "tail": None,
    }  # fmt: skip
    deviations = columns.std(axis=0)
    if len(columns) >= FEWEST:
        stats = import_module("arviz")
        trace = stats.from_dict({"posterior": {"x": columns[None]}})
        for kind in ("bulk", "tail"):
            # ArviZ takes draws that do not change for independent ones.
            least = float(stats.ess(trace, method=kind)["x"].min()) if deviations.all() else 1.0
            found[kind] = float(f"{least:.5g}")
    return found | {
        "mean": [float(f"{x:.8g}") for x in columns.mean(axis=0)],
        "sd": [float(f"{x:.5g}") for x in deviations],
    }


def reset_peak() -> None:
    """Begin a new peak of memory, so that making the data counts only as far as they are kept."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> float:
    """Return the peak of memory, in MiB."""
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmHWM:")[1].split()[0]) / 2**10, 1)


def versions() -> dict[str, str]:
    """Return the versions of the libraries that are installed."""
    names = (
        "numpy", "numba", "pytensor", "pymc", "pymc-minibatch-mh", "arviz", "nutpie", "jax",
        "numpyro",
    )  # fmt: skip
    found = {"python": platform.python_version()}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            # Run from its folder, such as this project itself.
            continue
    return found


def main() -> None:
    """Measure the cell and store its record, that of a failure too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", choices=PROBLEMS)
    parser.add_argument("sampler", choices=SAMPLERS)
    parser.add_argument("--record", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=120.0)
    parser.add_argument("--core", type=int)
    asked = parser.parse_args()
    if asked.core is not None:
        os.sched_setaffinity(0, {asked.core})
    warnings.simplefilter("ignore")
    try:
        record = measure(PROBLEMS[asked.problem], SAMPLERS[asked.sampler], asked.budget, asked.seed)
    except NoModeError as error:
        record = {"status": "inapplicable", "error": str(error)}
    except Exception:
        # Stored, so that the other cells go on; the process that asked prints it.
        record = {"status": "failed", "error": traceback.format_exc(limit=-4)}
    record["versions"] = versions()
    asked.record.write_text(json.dumps(record))


if __name__ == "__main__":
    main()
