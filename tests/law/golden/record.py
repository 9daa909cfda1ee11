"""Draws and the public surface, as they were once and as they are.

Run in the root of the repository, with ``PYTHONPATH=.:tests:examples``:

``python -m law.golden.record``
    Write the stored draws and the stored surface anew, which a change of draws has to say why.
``python -m law.golden.record "small groups"``
    The same for the combinations that are named: others are left as another processor rounded them.
``python -m law.golden.record surface``
    Write the stored surface anew, with names, settings and statistics that are new.
"""

import inspect
import json
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pymc as pm

import pymc_minibatch_mh
from law.golden.combinations import COMBINATIONS, Combination
from pymc_minibatch_mh import sample
from pymc_minibatch_mh.native.statistics import STATS

FOLDER = Path(__file__).parent
#: What was recorded.
DRAWS, SURFACE = FOLDER / "draws.npz", FOLDER / "surface.json"
TUNE, KEPT, SEED = 100, 100, 77
#: Seconds differ from run to run.
TIMED = "perf_counter_diff"


def drawn(combination: Combination, folder: Path) -> dict[str, np.ndarray]:
    """Return all draws of one chain and all its statistics: name -> array, shape (200, ...)."""
    with warnings.catch_warnings():
        # PyMC's own, of observations that are not in memory.
        warnings.filterwarnings("ignore", "Could not extract data from symbolic observation")
        model = combination.model(folder)
        step = combination.step(model)
        common = {
            "tune": TUNE, "chains": 1, "cores": 1, "random_seed": SEED, "progressbar": False,
            "discard_tuned_samples": False, "compute_convergence_checks": False,
        }  # fmt: skip
        if combination.pymc:
            with model:
                trace = pm.sample(KEPT, step=step, **common)
        else:
            trace = sample(step, KEPT, **common)
    return {
        f"{kind}.{name}": np.concatenate(
            [trace[f"warmup_{group}"][name].values[0], trace[group][name].values[0]]
        )
        for kind, group in (("draw", "posterior"), ("statistic", "sample_stats"))
        for name in trace[group].data_vars
        if name != TIMED
    }


def surface() -> dict[str, dict]:
    """Return public names with their settings, and statistics with their types."""
    return {
        "names": {name: _settings(name) for name in sorted(pymc_minibatch_mh.__all__)},
        "statistics": {name: np.dtype(one.dtype).name for name, one in STATS.items()},
    }


def _settings(name: str) -> list[str]:
    thing = getattr(pymc_minibatch_mh, name)
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return []
    return list(inspect.signature(thing).parameters)


def stored(name: str) -> dict[str, np.ndarray]:
    """Return the stored draws of a combination: "kind.name" -> array."""
    with np.load(DRAWS, allow_pickle=False) as file:
        return {
            key.partition("/")[2]: file[key] for key in file.files if key.startswith(f"{name}/")
        }


def recorded(names: Iterable[str]) -> dict[str, np.ndarray]:
    """Return the draws of combinations: "combination/kind.name" -> array."""
    found = {}
    for name in names:
        with TemporaryDirectory() as folder:
            draws = drawn(COMBINATIONS[name], Path(folder))
        found |= {f"{name}/{key}": values for key, values in draws.items()}
    return found


def main() -> None:
    """Record the combinations that are named, or all; the surface alone for ``surface``."""
    names = sys.argv[1:] or list(COMBINATIONS)
    if names != ["surface"]:
        with np.load(DRAWS, allow_pickle=False) as file:
            others = {k: file[k] for k in file.files if k.partition("/")[0] not in names}
        np.savez_compressed(DRAWS, **others | recorded(names))
    SURFACE.write_text(json.dumps(surface(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
