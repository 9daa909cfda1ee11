"""The record of how a result came about: command, commit, date, machine, versions and data."""

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_minibatch_mh.data import array_digest

ROOT = Path(__file__).parents[2]
LIBRARIES = "pymc", "pytensor", "numba", "numpy"
#: What every stored result records.
KEYS = frozenset(
    {"command", "seed", "commit", "date", "machine", "seconds", "python", "versions", "data"}
)
#: Digests of the data of all models that were sampled since :func:`forget`.
_seen: set[str] = set()


def forget() -> None:
    """Forget the data of earlier experiments."""
    _seen.clear()


def note_data(model: pm.Model) -> None:
    """Remember the data of a model: every array that its likelihood is a function of."""
    values = [model.rvs_to_values[variable] for variable in model.observed_RVs]
    arrays = [
        np.asarray(each.data)
        for each in ancestors([*model.observed_RVs, *values])
        if isinstance(each, Constant) and np.size(each.data) > 1
    ]
    note_digests(array_digest(array) for array in arrays if array.dtype.kind in "fiub")


def note_digests(several: Iterable[str]) -> None:
    """Remember data by their digests."""
    _seen.update(several)


def digests() -> list[str]:
    """Return the digests of the data so far, in order."""
    return sorted(_seen)


def data() -> str:
    """Return one digest of all data so far."""
    return sha256(" ".join(digests()).encode()).hexdigest()[:16] if _seen else "none"


def record(
    command: str, seed: int, seconds: float, libraries: Iterable[str] = LIBRARIES
) -> dict[str, Any]:
    """Return the record of a run that ends now."""
    return {
        "command": command,
        "seed": seed,
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} cores",
        "seconds": round(seconds, 1),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "data": data(),
    }


def commit() -> str:
    """Return the commit that is checked out, marked where code differs from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--", "pymc_minibatch_mh", "examples/*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}, with changes" if changed else head


def processor() -> str:
    """Return the model of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
