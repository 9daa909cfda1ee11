"""Log-densities that lose as few digits as they can, and how many they still lose."""

from collections.abc import Sequence

import numpy as np
import pytensor.tensor as pt
from pymc.pytensorf import rewrite_pregrad
from pytensor.gradient import DisconnectedType, grad
from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.null_type import NullType
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort

from pymc_minibatch_mh.model.reading.derived import AS_SAMPLED


def stabilised(graph: Variable) -> Variable:
    """Return a log-density with PyTensor's rewrites against the loss of digits.

    Parameters
    ----------
    graph : Variable
        A log-density, which stays as it is.
    """
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
