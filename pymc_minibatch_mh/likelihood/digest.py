"""Digests of graphs: equal for graphs that compute the same by the same operations."""

import hashlib
from collections.abc import Mapping

import numpy as np
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort

from pymc_minibatch_mh.likelihood.split import Split


def split_digests(split: Split) -> dict[str, str]:
    """Return digests of everything in a split model but its data: what -> digest.

    They do not depend on the process, so that they can be compared with stored ones.
    """
    layout = [(b.name, b.shape, str(b.variable.dtype)) for b in (*split.blocks, *split.others)]
    known = {split.position: "position", split.other_values: "others"}
    digests = {
        "the variables": _digest(repr((layout, split.first))),
        "the prior part": graph_digest(split.prior, known),
    }
    for term in split.terms:
        own = {batch: f"batch {k}" for k, (_, batch) in enumerate(term.batches)}
        rows = known | own | {term.length: "length"}
        digests[f"the likelihood of {term.name!r}"] = graph_digest(term.logp, rows)
    return digests


def graph_digest(output: Variable, known: Mapping[Variable, str]) -> str:
    """Return the digest of a graph.

    Parameters
    ----------
    output : Variable
        The result.
    known
        Inputs of the graph and what they are called.
    """
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
        content = hashlib.blake2b(np.ascontiguousarray(values).tobytes(), digest_size=16)
        return _digest(f"{variable.type} {values.shape} {content.hexdigest()}")
    return _digest(f"{variable.type} {variable.name}")


def _operation(op: Op) -> str:
    name = f"{type(op).__module__}.{type(op).__qualname__}"
    if isinstance(op, OpFromGraph):
        inner = op.fgraph
        known = {x: f"input {k}" for k, x in enumerate(inner.inputs)}
        return f"{name} {[graph_digest(out, known) for out in inner.outputs]}"
    properties = op._props() if hasattr(op, "_props") else ()
    return f"{name} {op} {properties!r}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
