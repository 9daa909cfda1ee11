"""A prepared step in a file: a NumPy archive without pickle.

Beside its arrays stands whose they are: digests of the package's sources, of the model's data and
graphs, and of the arrays themselves. A file of another kind, a damaged or an altered one is a
SettingError; one of another model, other data or another version a StaleDataError.
"""

import errno
import hashlib
import json
import logging
from collections.abc import Mapping
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import toposort

from pymc_minibatch_mh.data import Contents, array_digest
from pymc_minibatch_mh.data.archive import write_archive
from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.inputs import ModelArrays
from pymc_minibatch_mh.model.stored_ops import NumberOfRows
from pymc_minibatch_mh.plan.arrow import ArrowPlan
from pymc_minibatch_mh.plan.dense import DensePlan
from pymc_minibatch_mh.plan.plan import Plan
from pymc_minibatch_mh.reference.target import Target

_log = logging.getLogger("pymc")

#: The description of objects that do not describe themselves: their address.
_SILENT: Any = object.__repr__


def split_digests(factorization: Factorization) -> dict[str, str]:
    """Return digests of everything in a factorization but its data: part -> digest.

    They do not depend on the process, so that they can be compared with stored ones.
    """
    layout = [
        (b.name, b.shape, str(b.variable.dtype))
        for b in (*factorization.blocks, *factorization.others)
    ]
    known = {factorization.position: "position", factorization.other_values: "others"}
    digests = {
        "the variables": _digest(repr((layout, factorization.first))),
        "the prior part": graph_digest(factorization.prior, known),
    }
    for term in factorization.terms:
        own = {batch: f"batch {k}" for k, (_, batch) in enumerate(term.batches)}
        rows = known | own | {term.length: "length"}
        digests[f"the likelihood of {term.name!r}"] = graph_digest(term.logp, rows)
    return digests


def graph_digest(output: Variable, known: Mapping[Variable, str]) -> str:
    """Return the digest of a graph."""
    tokens = dict(known)

    def token(variable: Variable) -> str:
        if variable not in tokens:
            tokens[variable] = _leaf(variable)
        return tokens[variable]

    for node in toposort([output], blockers=list(known)):
        inputs = [token(x) for x in node.inputs]
        own = _digest(repr((_operation(node.op), inputs)))
        for k, result in enumerate(node.outputs):
            tokens[result] = _digest(f"{own} {k} {result.type}")
    return token(output)


def _leaf(variable: Variable) -> str:
    if isinstance(variable, Constant):
        values = np.asarray(variable.data)
        if values.dtype.kind == "O":
            return _digest(f"{variable.type} {variable.data!r}")
        return _digest(f"{variable.type} {array_digest(values)}")
    return _digest(f"{variable.type} {variable.name}")


def _operation(op: Op) -> str:
    name = f"{type(op).__module__}.{type(op).__qualname__}"
    if isinstance(op, NumberOfRows):
        return f"{name} {op.held.n_rows}"
    if isinstance(op, HasInnerGraph):
        known = {x: f"input {k}" for k, x in enumerate(op.inner_inputs)}
        inner = [graph_digest(out, known) for out in op.inner_outputs]
        return f"{name} {getattr(op, 'info', '')!r} {inner}"
    return f"{name} {_described(op._props() if hasattr(op, '_props') else op.__getstate__())}"


def _described(value: Any, above: tuple[int, ...] = ()) -> str:
    """Describe a property of an operation, equally in every process.

    Objects that do not describe themselves are their contents. Where that is unknown,
    their address remains, so that two processes never take them for the same.
    """
    if id(value) in above:
        return "itself"
    above = (*above, id(value))
    if isinstance(value, Op):
        return _operation(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return array_digest(value)
    if isinstance(value, list | tuple):
        return f"{[_described(part, above) for part in value]}"
    if isinstance(value, set | frozenset):
        return f"{sorted(_described(part, above) for part in value)}"
    if isinstance(value, Mapping):
        return f"{[(str(k), _described(part, above)) for k, part in value.items()]}"
    if isinstance(value, FunctionType):
        held = [expr.cell_contents for expr in value.__closure__ or ()]
        return f"{value.__module__}.{value.__qualname__} {_described(held, above)}"
    if type(value).__repr__ is _SILENT and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__} {_described(vars(value), above)}"
    return repr(value)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


#: Value variable and transform of a variable of a model.
Declared = dict[Variable, tuple[Any, Any]]


class WatchedModel:
    """A model, its arrays and those that a step was given, as they were when it was built.

    Arrays can be edited in place or replaced, so that all of their bytes are compared. Graphs
    cannot change, but variables can come, go, or get other values and transforms. The model is not
    kept alive, and a pickle leaves it behind.
    """

    def __init__(
        self, model: pm.Model, arrays: ModelArrays, given: Mapping[str, np.ndarray]
    ) -> None:
        self._model: ReferenceType[pm.Model] | None = ref(model)
        self._declared = _declared(model)
        self._arrays = arrays
        self._given = dict(given)
        self.contents = self._read()

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind all that can change."""
        return {**self.__dict__, "_model": None, "_declared": {}, "_given": {}}

    def require_unchanged(self, step: str) -> None:
        """Raise StaleDataError for changed data, with their name and the step to build again."""
        edited, changed = self._edited(), self._changed()
        if edited or changed:
            what, other = (edited, "another model") if edited else (changed, "other data")
            raise StaleDataError(
                f"{what} after this step was built, so its mode and sums belong to {other}. Build "
                f"{step}() again."
            )

    @property
    def is_unchanged(self) -> bool:
        """Whether model and data are those that the step was built on."""
        return not (self._edited() or self._changed())

    def _edited(self) -> str:
        model = None if self._model is None else self._model()
        return "" if model is None else _difference(self._declared, _declared(model))

    def _changed(self) -> str:
        name = "" if self._model is None else self.contents.difference(self._read())
        return f"{name!r} changed" if name else ""

    def _read(self) -> Contents:
        return Contents.of([*self._arrays.named(), *self._given.items()])


def _declared(model: pm.Model) -> Declared:
    values, transforms = model.rvs_to_values, model.rvs_to_transforms
    summands = [*model.basic_RVs, *model.potentials]
    return {v: (values.get(v), transforms.get(v)) for v in summands}


def _difference(before: Declared, now: Declared) -> str:
    """Return the change of the first variable that is not as it was, or an empty string."""
    for variable in {**before, **now}:
        if variable not in before:
            return f"{variable.name!r} was added to the model"
        if variable not in now:
            return f"{variable.name!r} was removed from the model"
        if any(a is not b for a, b in zip(before[variable], now[variable], strict=True)):
            return f"{variable.name!r} got other values or another transform"
    return ""


#: Rooms of the package that compute what a file holds.
COMPUTING = (
    "_jit.py", "data", "functions", "expressions", "model", "structure", "reparametrize",
    "native", "compiled", "reference", "bounds", "plan", "published",
)  # fmt: skip
#: Errors of the system by which a file is no archive, or a damaged one: others are of the disk.
_NOT_SAVED = (errno.EISDIR, errno.EINVAL)


def key_of_reference(target: Target) -> dict[str, str]:
    """Return the settings behind control variates: name -> in words, or digest."""
    given = target.covariance
    return {
        "taylor_order": str(target.taylor_order),
        "temperature": repr(1.0 / target.inverse_temperature),
        "the centre": "sought" if given is None else f"the start, {array_digest(given)}",
    }


def key_of(target: Target) -> dict[str, str]:
    """Return the key of prepared arrays, the same in every process: name -> digest or number."""
    data = {f"{c.name!r} (column {k})": c.digest() for k, c in enumerate(target.source.columns)}
    return {**key_of_reference(target), **split_digests(target.factorization), **data}


def _package() -> str:
    """Return the version of this package, by the sources that compute what a file holds."""
    return f"{version('pymc-minibatch-mh')} {_sources(Path(__file__).parents[1])}"


def _sources(root: Path) -> str:
    """Return a digest of the sources in a folder that compute what a file holds."""
    whole = hashlib.sha256()
    for room in COMPUTING:
        for path in sorted([root / room, *(root / room).rglob("*.*")]):
            if path.suffix in (".py", ".c", ".h"):
                whole.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()[:16]


def write(path: str | PathLike, plan: Plan) -> None:
    """Write a prepared step to a file, over one that is there unless that fails with an OSError.

    Bounds of a user are written unless they have a metric, a function, which a warning then says.
    """
    if not isinstance(path, str | PathLike):
        raise SettingError(f"path={path!r} is not a path. Give the path of the file to write.")
    arrays = plan.stored_arrays()
    about = {
        "package": _package(),
        "model": key_of(plan.target),
        "arrays": {name: array_digest(array) for name, array in arrays.items()},
    }
    write_archive(Path(path), {**arrays, "key": np.asarray(json.dumps(about))})


def read(path: str | PathLike, target: Target) -> Plan:
    """Read a prepared step.

    SettingError if the file is no prepared step, or an altered one; StaleDataError, which names the
    first difference, if it belongs to another model, other data or another version.
    """
    if not isinstance(path, str | PathLike):
        raise SettingError(
            f"prepared={path!r} is not a path. Give the path of a file that step.save() wrote."
        )
    package = _package()
    about, plan = _contents(path, package, target)
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


def _contents(
    path: str | PathLike, package: str, target: Target
) -> tuple[dict[str, Any], Plan | None]:
    """Whose a file is, and its plan, None unless this version of the package has written it."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return _unaltered(archive, package, target)
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
    """An archive whose arrays are not those that were saved."""


def _unaltered(archive: Any, package: str, target: Target) -> tuple[dict[str, Any], Plan | None]:
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
    kind = ArrowPlan if "elements_centre" in stored else DensePlan
    return {**about, "model": dict(about["model"])}, kind.from_arrays(target, stored)


def first_difference(given: dict[str, str], own: dict[str, str]) -> str:
    """Return the first thing in which two keys differ, or an empty string."""
    return next((what for what in {**own, **given} if given.get(what) != own.get(what)), "")
