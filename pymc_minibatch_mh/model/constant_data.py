"""Constant folding of expressions that depend on data only.

A predictor that is standardised, sorted, lagged or masked inside the model mixes rows, but it
involves no parameter: the result is a constant array, which is treated as data.

Variables of pymc.dims carry the names of their axes. PyMC writes their log-density in plain
tensors, between a conversion from dims and a conversion back; only these two ends need care here.

Constants that PyTensor computes in single precision are folded again in double precision. PyTensor
stores exact values such as 2.0 in single precision, so that the root of two in a normal
distribution function has a relative error of 2e-8. Two formulas of one function, one per tail, then
differ by that much, and the log-likelihood jumps between them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor import as_tensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.xtensor.basic import TensorFromXTensor, XTensorFromTensor
from pytensor.xtensor.type import XTensorType, as_xtensor
from scipy.sparse import issparse

from pymc_minibatch_mh.model.independence_rules import Walk, rebuild_output
from pymc_minibatch_mh.model.stored_ops import ReadStored


def has_dims(variable: Variable) -> bool:
    """Whether a variable of pymc.dims has named axes."""
    return isinstance(variable.type, XTensorType)


def as_plain_tensor(variable: Variable) -> Variable:
    """Variable with dims as a plain tensor with the same order of axes."""
    return as_tensor(variable, allow_xtensor_conversion=True) if has_dims(variable) else variable


def with_dims_removed(
    outputs: Sequence[Variable], replacements: Mapping[Variable, Variable]
) -> dict[Variable, Variable]:
    """Replacements by tensors, with the dims of the variables in `outputs` that they replace."""
    found = {
        variable: as_xtensor(tensor, dims=variable.type.dims) if has_dims(variable) else tensor
        for variable, tensor in replacements.items()
    }
    for variable in ancestors(outputs):
        if isinstance(variable.owner_op, TensorFromXTensor):
            tensor = replacements.get(variable.owner.inputs[0])
            found |= {} if tensor is None else {variable: tensor}
    return found


@rebuild_output.register(TensorFromXTensor)
@rebuild_output.register(XTensorFromTensor)
def _keep_dims(op: object, node: Apply, axis: int, walk: Walk) -> Variable:
    return walk.rows(node.inputs[0], axis)


@node_rewriter(None)
def inline_symbolic_op(fgraph: object, node: Apply) -> list[Variable] | None:
    """Inline a symbolic operation, which PyTensor would otherwise compile separately."""
    return inline_ofg_node(node) if isinstance(node.op, OpFromGraph) else None


@node_rewriter([CAReduce])
def drop_sum_of_scalar(fgraph: object, node: Apply) -> list[Variable] | None:
    """Remove the sum of a scalar along an axis (pm.CAR has one): it fails in Python mode."""
    (x,), (total,) = node.inputs, node.outputs
    return [x.astype(total.type.dtype)] if x.type.ndim == 0 else None


#: Rewriter that inlines symbolic operations and returns -inf for violated parameter checks.
AS_SAMPLED = dfs_rewriter(
    local_check_parameter_to_ninf_switch, inline_symbolic_op, drop_sum_of_scalar
)

#: Mode that evaluates graphs in Python, without compilation.
IN_PYTHON = Mode(linker="py", optimizer=dfs_rewriter(inline_symbolic_op, drop_sum_of_scalar))


def data_behind(variable: Variable) -> list[Variable] | None:
    """Data arrays in memory behind a variable, or None if it depends on anything else."""
    arrays = []
    for above in ancestors([variable]):
        if above.owner is not None:
            if isinstance(above.owner.op, RandomVariable | ReadStored):
                return None
        elif isinstance(above.type, TensorType | XTensorType):
            if not isinstance(above, Constant | SharedVariable):
                return None
            arrays.append(above)
        elif not isinstance(above, Constant):
            return None
    return arrays


def compute_constant(variable: Variable) -> Any:
    """Value of a graph that depends on data only: an array, or a sparse matrix."""
    graph = as_plain_tensor(variable)
    if graph is not variable:
        graph = rewrite_graph(graph, include=("lower_xtensor",))
    compute = pytensor.function([], graph, mode=IN_PYTHON)
    with np.errstate(all="ignore"):
        values = compute()
    return values if issparse(values) else np.ascontiguousarray(values)


def with_double_constants(graph: Variable) -> Variable:
    """Graph with scalar constants in double precision, except in single-precision operations.

    A number beside integers makes no such operation.
    """
    numbers: dict[Variable, Variable] = {}
    computed, kept, widened = set[Variable](), set[Variable](), set[Variable]()
    nodes = list(toposort([graph]))
    folded = _folded_constants(x for node in nodes for x in node.inputs)
    for node in nodes:
        wide = _double_result(node, numbers, folded)
        if wide is not None:
            numbers[node.outputs[0]] = wide
            # A constant that only gets more axes keeps its value, so it is not replaced.
            from_other = not folded.keys().isdisjoint(node.inputs)
            if isinstance(node.op, Elemwise) or from_other or not computed.isdisjoint(node.inputs):
                computed.add(node.outputs[0])
        elif _is_double_of_numbers(node, widened | numbers.keys()):
            widened.update(node.outputs)
        elif any(_is_single(output) for output in node.outputs):
            kept.update(node.inputs)
    # All expressions that a single-precision operation depends on stay as they are.
    for node in reversed(nodes):
        if node.outputs[0] in kept:
            kept.update(node.inputs)
    changed = {number: wide for number, wide in numbers.items() if number in computed - kept}
    changed |= {x: _as_double(x, folded) for x in folded if x not in kept}
    singles = {x for output in widened for x in output.owner.inputs if _is_single(x)}
    for x in singles - widened - kept:
        changed[x] = numbers[x] if x in numbers else _as_double(x, folded)
    return clone_replace(graph, changed, rebuild_strict=False) if changed else graph


def _double_result(
    node: object, numbers: dict[Variable, Variable], folded: dict[Variable, float]
) -> Variable | None:
    """Single-precision constant of a node in double precision; None for any other result."""
    op, inputs, outputs = node.op, node.inputs, node.outputs  # type: ignore[attr-defined]
    single = len(outputs) == 1 and _is_single(outputs[0]) and _is_number(outputs[0])
    of_numbers = all(x in numbers or (isinstance(x, Constant) and _is_number(x)) for x in inputs)
    if not isinstance(op, Elemwise | DimShuffle) or not single or not of_numbers:
        return None
    known = (numbers[x] if x in numbers else _as_double(x, folded) for x in inputs)
    wide = op.make_node(*known).outputs[0]
    return wide if wide.type.dtype == "float64" else None


def _is_double_of_numbers(node: object, widened: set[Variable]) -> bool:
    """Whether a node is in single precision only because of a number, beside integers.

    PyTensor takes .75 for a number of single precision, but .7 for one of double: that of
    ``0.75 - pt.lt(x, 0)`` is not what the model asks for.
    """
    op, inputs = node.op, node.inputs  # type: ignore[attr-defined]
    if not isinstance(op, Elemwise | DimShuffle) or not any(map(_is_single, node.outputs)):  # type: ignore[attr-defined]
        return False
    integers = [
        str(getattr(x.type, "dtype", "")).startswith(("int", "uint", "bool")) for x in inputs
    ]
    wide = [x in widened or (isinstance(x, Constant) and _is_number(x)) for x in inputs]
    if not all(map(max, integers, wide)) or not any(_is_single(x) for x in inputs):
        return False
    double = (
        x if integer else x.astype("float64") for x, integer in zip(inputs, integers, strict=True)
    )
    return op.make_node(*double).outputs[0].type.dtype == "float64"


def _is_single(variable: Variable) -> bool:
    return getattr(variable.type, "dtype", None) == "float32"


def _is_number(variable: Variable) -> bool:
    return all(getattr(variable.type, "broadcastable", (False,)))


def _as_double(number: Variable, folded: dict[Variable, float]) -> Variable:
    value = np.asarray(number.data, dtype=np.float64)
    return pt.constant(np.full(value.shape, folded[number]) if number in folded else value)


#: Single-precision constants to which PyMC folds roots, logarithms and their reciprocals -> exact
#: values, for small integers.
_ROUNDED = {
    sign * rounded: sign * exact
    for sign in (1.0, -1.0)
    for k in range(2, 11)
    for x in map(float, (np.sqrt(k), np.sqrt(1.0 / k), np.log(k)))
    for rounded, exact in ((float(np.float32(x)), x), (1.0 / float(np.float32(x)), 1.0 / x))
    if rounded != exact
}
_KEYS = np.array(sorted(_ROUNDED))
#: Relative rounding error of a quotient; and minimum printed length of a folded constant.
_QUOTIENT, _MIN_DIGITS = 5e-16, 15


def _folded_constants(inputs: Iterable[Variable]) -> dict[Variable, float]:
    """Double-precision origins of constants such as sqrt(2) that PyMC folds to single precision."""
    real = ("float32", "float64")
    numbers = {
        x: float(x.data.ravel()[0])
        for x in inputs
        if isinstance(x, Constant) and _is_number(x) and getattr(x.type, "dtype", None) in real
    }
    found = {x: _ROUNDED[value] for x, value in numbers.items() if value in _ROUNDED}
    others = {value for value in numbers.values() if np.isfinite(value) and value != 0.0}
    for number, value in numbers.items():
        # Constants with few digits are written by the user, not folded by PyMC.
        if number in found or len(repr(value)) < _MIN_DIGITS:
            continue
        for other in others - _ROUNDED.keys() - {value}:
            near = _KEYS[np.abs(value / other / _KEYS - 1.0) < _QUOTIENT]
            if near.size:
                found[number] = other * _ROUNDED[float(near[0])]
    return found
