"""A prepared step in a file: a NumPy archive without pickle.

Its key has digests of the package's sources, of the model's data and graphs, and of its arrays. A
file that is damaged, altered or of another kind raises a SettingError; a file of another model,
other data or another version raises a StaleDataError.
"""

import errno
import hashlib
import json
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from pymc_minibatch_mh.data import array_digest
from pymc_minibatch_mh.data.archive import write_archive
from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.plan.arrow import ArrowPlan
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.plan.identity import first_difference, key_of
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.target import Target

#: Parts of the package whose sources determine the contents of a file.
COMPUTING = (
    "_jit.py", "costs.py", "data", "functions", "expressions", "model", "structure",
    "reparametrize", "native", "compiled", "reference", "bounds", "plan", "published",
)  # fmt: skip
#: Error numbers of paths that are no readable archive; any other OSError is raised unchanged.
_NOT_SAVED = (errno.EISDIR, errno.EINVAL)


def _package_key() -> str:
    """Version of this package, with a digest of the sources that determine a file's contents."""
    return f"{version('pymc-minibatch-mh')} {_sources_digest(Path(__file__).parents[1])}"


def _sources_digest(root: Path) -> str:
    """Digest of the sources in a folder that determine the contents of a file."""
    whole = hashlib.sha256()
    for room in COMPUTING:
        for path in sorted([root / room, *(root / room).rglob("*.*")]):
            if path.suffix in (".py", ".c", ".h"):
                whole.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def write(path: str | PathLike, plan: Plan) -> None:
    """Write a prepared step to a file, and replace an existing file; OSError if that fails.

    Custom bounds with a metric, which is a function, are left out with a warning.
    """
    if not isinstance(path, str | PathLike):
        raise SettingError(f"path={path!r} is not a path. Give the path of the file to write.")
    arrays = plan.stored_arrays()
    about = {
        "package": _package_key(),
        "model": key_of(plan.described),
        "arrays": {name: array_digest(array) for name, array in arrays.items()},
    }
    write_archive(Path(path), {**arrays, "key": np.asarray(json.dumps(about))})


def read(path: str | PathLike, target: Target, model: pm.Model | None = None) -> Plan:
    """Read a prepared step; those of groups need the model.

    SettingError if the file holds no prepared step or was altered; StaleDataError, with the first
    difference, if it belongs to another model, other data or another version.
    """
    if not isinstance(path, str | PathLike):
        raise SettingError(
            f"prepared={path!r} is not a path. Give the path of a file that step.save() wrote."
        )
    package = _package_key()
    about, plan = _read_archive(path, package, target, model)
    fix = "Leave it out to prepare the step anew, and save it again."
    if about["package"] != package:
        raise StaleDataError(
            f"prepared={str(path)!r} was saved by another version of this package, which may have "
            f"computed its contents differently. {fix}"
        )
    if differs := first_difference(about["model"], key_of(target)):
        raise StaleDataError(
            f"prepared={str(path)!r} was saved for a model that differs in {differs}. {fix}"
        )
    assert plan is not None
    return plan


def _read_archive(
    path: str | PathLike, package: str, target: Target, model: pm.Model | None
) -> tuple[dict[str, Any], Plan | None]:
    """Metadata of a file and its plan; None if another version of the package wrote the file."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return _contents_of(archive, package, target, model)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"prepared={str(path)!r} does not exist. Write it with step.save(), or leave it out to "
            "prepare the step anew."
        ) from error
    except Exception as error:
        # Reading a damaged archive may raise nearly any error.
        if isinstance(error, OSError) and error.errno not in _NOT_SAVED:
            raise
        what = "was not written by step.save(), or is damaged"
        if isinstance(error, _AlteredError):
            what = f"was altered after step.save(): {error}"
        elif isinstance(error, MemoryError):
            what = f"does not fit into memory, or was altered after step.save() ({error})"
        raise SettingError(
            f"prepared={str(path)!r} {what}. Leave it out to prepare the step anew."
        ) from error


class _AlteredError(ValueError):
    """Archive with arrays that differ from the saved ones."""


def _contents_of(
    archive: Any, package: str, target: Target, model: pm.Model | None
) -> tuple[dict[str, Any], Plan | None]:
    if damaged := archive.zip.testzip():
        raise ValueError(damaged)
    about = json.loads(str(archive["key"]))
    if about.setdefault("package") != package:
        return about, None
    digests: dict[str, str] = about["arrays"]
    for name in digests.keys() ^ {*archive.files} - {"key"}:
        raise _AlteredError(f"the array {name!r} is missing or was added")
    stored = {name: np.asarray(archive[name], order="C") for name in digests}
    for name, array in stored.items():
        if array_digest(array) != digests[name]:
            raise _AlteredError(f"the array {name!r} has changed")
    about["model"] = dict(about["model"])
    if "log_weights" in stored:
        # Groups are read from the model, which has to be the same.
        differs = first_difference(about["model"], key_of(target))
        return about, None if differs else GroupsPlan.of_model(target, model, stored)
    kind = ArrowPlan if "elements_centre" in stored else DensePlan
    return about, kind.from_arrays(target, stored)
