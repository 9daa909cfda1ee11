"""Digests of graphs: equal for graphs that compute the same by the same operations."""

import hashlib
from collections.abc import Mapping
from types import FunctionType
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import toposort

from pymc_minibatch_mh.data import digest
from pymc_minibatch_mh.likelihood.factorization import Factorization
from pymc_minibatch_mh.likelihood.stored import NumberOfRows

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
        return _digest(f"{variable.type} {digest(values)}")
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
        return digest(value)
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
