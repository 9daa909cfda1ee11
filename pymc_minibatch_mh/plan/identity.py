"""Identity of a model and its data: digests for comparisons, and changes after a step was built.

Digests are the same in every process.
"""

import hashlib
from collections.abc import Mapping
from types import FunctionType
from typing import Any
from weakref import ReferenceType, ref

import numpy as np
import pymc as pm
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import toposort

from pymc_minibatch_mh.data import Contents, array_digest
from pymc_minibatch_mh.errors import StaleDataError
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.inputs import ModelArrays
from pymc_minibatch_mh.model.stored_ops import NumberOfRows
from pymc_minibatch_mh.reference.target import Target

#: Default `repr` of objects: it shows their address, which differs between processes.
_SILENT: Any = object.__repr__


def split_digests(factorization: Factorization) -> dict[str, str]:
    """Digests of a factorization without its data: part -> digest.

    They are the same in every process, so they can be compared with stored ones.
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
    """Digest of a PyTensor graph; `known` gives texts that stand for its variables."""
    tokens = dict(known)

    def variable_token(variable: Variable) -> str:
        if variable not in tokens:
            tokens[variable] = _leaf_digest(variable)
        return tokens[variable]

    for node in toposort([output], blockers=list(known)):
        inputs = [variable_token(x) for x in node.inputs]
        own = _digest(repr((_describe_operation(node.op), inputs)))
        for k, result in enumerate(node.outputs):
            tokens[result] = _digest(f"{own} {k} {result.type}")
    return variable_token(output)


def _leaf_digest(variable: Variable) -> str:
    if isinstance(variable, Constant):
        values = np.asarray(variable.data)
        if values.dtype.kind == "O":
            return _digest(f"{variable.type} {variable.data!r}")
        return _digest(f"{variable.type} {array_digest(values)}")
    return _digest(f"{variable.type} {variable.name}")


def _describe_operation(op: Op) -> str:
    name = f"{type(op).__module__}.{type(op).__qualname__}"
    if isinstance(op, NumberOfRows):
        return f"{name} {op.held.n_rows}"
    if isinstance(op, HasInnerGraph):
        known = {x: f"input {k}" for k, x in enumerate(op.inner_inputs)}
        inner = [graph_digest(out, known) for out in op.inner_outputs]
        return f"{name} {getattr(op, 'info', '')!r} {inner}"
    return f"{name} {_describe_value(op._props() if hasattr(op, '_props') else op.__getstate__())}"


def _describe_value(value: Any, above: tuple[int, ...] = ()) -> str:
    """Description of an operation's property, the same in every process.

    Objects without a `repr` of their own are described by their attributes. Without attributes
    their address remains, so that two processes never consider them equal.
    """
    if id(value) in above:
        return "itself"
    above = (*above, id(value))
    if isinstance(value, Op):
        return _describe_operation(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return array_digest(value)
    if isinstance(value, list | tuple):
        return f"{[_describe_value(part, above) for part in value]}"
    if isinstance(value, set | frozenset):
        return f"{sorted(_describe_value(part, above) for part in value)}"
    if isinstance(value, Mapping):
        return f"{[(str(k), _describe_value(part, above)) for k, part in value.items()]}"
    if isinstance(value, FunctionType):
        held = [expr.cell_contents for expr in value.__closure__ or ()]
        return f"{value.__module__}.{value.__qualname__} {_describe_value(held, above)}"
    if type(value).__repr__ is _SILENT and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__} {_describe_value(vars(value), above)}"
    return repr(value)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def key_of_reference(target: Target) -> dict[str, str]:
    """Settings that determine control variates: name -> text or digest."""
    given = target.covariance
    return {
        "taylor_order": "auto" if target.chooses_order else str(target.taylor_order),
        "temperature": repr(1.0 / target.inverse_temperature),
        "the centre": "sought" if given is None else f"the start, {array_digest(given)}",
    }


def key_of(target: Target) -> dict[str, str]:
    """Key of prepared arrays, the same in every process: name -> digest or number.

    The model comes first, because orders that are chosen for two models may differ.
    """
    data = {f"{c.name!r} (column {k})": c.digest() for k, c in enumerate(target.source.columns)}
    return {**split_digests(target.factorization), **data, **key_of_reference(target)}


def first_difference(given: dict[str, str], own: dict[str, str]) -> str:
    """Name of the first entry in which two keys differ, or an empty string."""
    return next((what for what in {**own, **given} if given.get(what) != own.get(what)), "")


#: Variable of a model -> its value variable and transform.
Declared = dict[Variable, tuple[Any, Any]]


class WatchedModel:
    """Snapshot of a model, its arrays and a step's array arguments, when the step was built.

    Arrays can be edited in place or replaced, so all their bytes are compared. Graphs cannot
    change, but variables can be added, removed, or get other values and transforms. The snapshot
    does not keep the model alive, and a pickle omits it.
    """

    def __init__(
        self, model: pm.Model, arrays: ModelArrays, given: Mapping[str, np.ndarray]
    ) -> None:
        self._model: ReferenceType[pm.Model] | None = ref(model)
        self._declared = _declared_in(model)
        self._arrays = arrays
        self._given = dict(given)
        self.contents = self._current_contents()

    def __getstate__(self) -> dict[str, Any]:
        """State for a pickle, without the model, its variables and the step's arrays."""
        return {**self.__dict__, "_model": None, "_declared": {}, "_given": {}}

    def require_unchanged(self, step: str) -> None:
        """Raise StaleDataError if the model or data have changed; the message names `step`."""
        edited, changed = self._edited_variable(), self._changed_data()
        if edited or changed:
            what, other = (edited, "another model") if edited else (changed, "other data")
            raise StaleDataError(
                f"{what} after this step was built, so its mode and sums belong to {other}. Build "
                f"{step}() again."
            )

    @property
    def is_unchanged(self) -> bool:
        """Whether model and data are the same as when the step was built."""
        return not (self._edited_variable() or self._changed_data())

    def _edited_variable(self) -> str:
        model = None if self._model is None else self._model()
        return "" if model is None else _first_difference(self._declared, _declared_in(model))

    def _changed_data(self) -> str:
        name = "" if self._model is None else self.contents.difference(self._current_contents())
        return f"{name!r} changed" if name else ""

    def _current_contents(self) -> Contents:
        return Contents.of([*self._arrays.named_arrays(), *self._given.items()])


def _declared_in(model: pm.Model) -> Declared:
    values, transforms = model.rvs_to_values, model.rvs_to_transforms
    summands = [*model.basic_RVs, *model.potentials]
    return {v: (values.get(v), transforms.get(v)) for v in summands}


def _first_difference(before: Declared, now: Declared) -> str:
    """Description of the first changed variable, or an empty string."""
    for variable in {**before, **now}:
        if variable not in before:
            return f"{variable.name!r} was added to the model"
        if variable not in now:
            return f"{variable.name!r} was removed from the model"
        if any(a is not b for a, b in zip(before[variable], now[variable], strict=True)):
            return f"{variable.name!r} got other values or another transform"
    return ""
