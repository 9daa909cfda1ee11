"""Numbers of a model that PyTensor computes in single precision, in double precision.

Numbers that single precision holds exactly, as 2.0, are taken for such, and the root of two in a
normal distribution function is then off by 2e-8 of its size. Forms of a function that are meant to
be one, for either tail, differ by that much: the log-likelihood would jump where they meet.
"""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.pytensorf import rewrite_pregrad
from pytensor.gradient import DisconnectedType, grad
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.null_type import NullType
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_minibatch_mh.likelihood.derived import AS_SAMPLED


def in_double(graph: Variable) -> Variable:
    """Return a graph in which single numbers, made of constants alone, are in double precision."""
    numbers: dict[Variable, Variable] = {}
    computed: set[Variable] = set()
    kept: set[Variable] = set()
    nodes = list(toposort([graph]))
    for node in nodes:
        wide = _in_double(node, numbers)
        if wide is not None:
            numbers[node.outputs[0]] = wide
            # A constant that is only given more axes is the same in double precision.
            if isinstance(node.op, Elemwise) or not computed.isdisjoint(node.inputs):
                computed.add(node.outputs[0])
        elif any(_is_single(output) for output in node.outputs):
            kept.update(node.inputs)
    # A number in single precision keeps the expression behind it.
    for node in reversed(nodes):
        if node.outputs[0] in kept:
            kept.update(node.inputs)
    changed = {number: wide for number, wide in numbers.items() if number in computed - kept}
    return clone_replace(graph, changed, rebuild_strict=False) if changed else graph


def _in_double(node: object, numbers: dict[Variable, Variable]) -> Variable | None:
    """Return the result of a node on numbers in double precision, if that makes a difference."""
    op, inputs, outputs = node.op, node.inputs, node.outputs  # type: ignore[attr-defined]
    single = len(outputs) == 1 and _is_single(outputs[0]) and _is_number(outputs[0])
    of_numbers = all(x in numbers or (isinstance(x, Constant) and _is_number(x)) for x in inputs)
    if not isinstance(op, Elemwise | DimShuffle) or not single or not of_numbers:
        return None
    wide = op.make_node(*(numbers[x] if x in numbers else _widened(x) for x in inputs)).outputs[0]
    return wide if wide.type.dtype == "float64" else None


def _is_single(variable: Variable) -> bool:
    return getattr(variable.type, "dtype", None) == "float32"


def _is_number(variable: Variable) -> bool:
    return all(getattr(variable.type, "broadcastable", (False,)))


def _widened(number: Variable) -> Variable:
    return pt.constant(np.asarray(number.data, dtype=np.float64))


def stabilised(graph: Variable) -> Variable:
    """Return a log-density with PyTensor's rewrites against the loss of digits."""
    opened = FunctionGraph(outputs=list(clone_replace([graph])), clone=False)
    AS_SAMPLED.rewrite(opened)
    (result,) = rewrite_pregrad(list(opened.outputs))
    return result


def rounding_of(graph: Variable) -> Variable:
    """Return the rounding error that a scalar may have.

    Every intermediate result is rounded to the precision of its type, which its derivative
    carries on to the end. Derivatives that have no value do not count.
    """
    inner = [node.outputs[0] for node in toposort([graph]) if _is_rounded(node.outputs)]
    if not inner:
        return pt.constant(0.0)
    slopes = grad(
        graph,
        inner,
        disconnected_inputs="ignore",
        return_disconnected="disconnected",
        null_gradients="return",
    )
    return sum((_carried(*pair) for pair in zip(inner, slopes, strict=True)), pt.constant(0.0))


def _is_rounded(outputs: Sequence[Variable]) -> bool:
    return len(outputs) == 1 and getattr(outputs[0].type, "dtype", "").startswith("float")


def _carried(result: Variable, slope: Variable) -> Variable:
    if isinstance(slope.type, NullType | DisconnectedType):
        return pt.constant(0.0)
    size = abs(slope * result).astype("float64")
    unit = float(np.finfo(result.type.dtype).eps)
    return unit * pt.switch(pt.isfinite(size), size, 0.0).sum()
