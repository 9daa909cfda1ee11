"""Values that a model computes from its data alone are data.

A predictor that is standardised, sorted, lagged or masked inside the model mixes rows, but no
parameter is mixed with them: the result is one fixed array, whose rows are as good as given.

Models written with pymc.dims: their variables carry the names of their axes.

PyMC writes a log-density in plain tensors, between a variable with dims that is read as a tensor
and a result that is given its dims back. Only these ends are dealt with here.

Numbers that PyTensor computes in single precision, in double precision: those that it holds
exactly, as 2.0, are taken for such, and the root of two in a normal distribution function is then
off by 2e-8 of its size. Forms of a function that are meant to be one, for either tail, differ by
that much: the log-likelihood would jump where they meet.
"""

from collections.abc import Iterable, Mapping, Sequence

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
from pytensor.graph.traversal import ancestors, toposort
from pytensor.tensor import as_tensor
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.xtensor.basic import TensorFromXTensor, XTensorFromTensor
from pytensor.xtensor.type import XTensorType, as_xtensor

from pymc_minibatch_mh.model.independence_rules import Walk, batch_of
from pymc_minibatch_mh.model.stored_ops import ReadStored


def has_dims(variable: Variable) -> bool:
    """Whether the axes of a variable carry names."""
    return isinstance(variable.type, XTensorType)


def plain(variable: Variable) -> Variable:
    """Return a variable as a tensor, its axes in the same order."""
    return as_tensor(variable, allow_xtensor_conversion=True) if has_dims(variable) else variable


def as_read(
    outputs: Sequence[Variable], replacements: Mapping[Variable, Variable]
) -> dict[Variable, Variable]:
    """Return the replacements in `outputs`, so that tensors can take the place of variables."""
    found = {
        variable: as_xtensor(tensor, dims=variable.type.dims) if has_dims(variable) else tensor
        for variable, tensor in replacements.items()
    }
    for variable in ancestors(outputs):
        node = variable.owner
        if node is not None and isinstance(node.op, TensorFromXTensor):
            tensor = replacements.get(node.inputs[0])
            found |= {} if tensor is None else {variable: tensor}
    return found


@batch_of.register(TensorFromXTensor)
@batch_of.register(XTensorFromTensor)
def _named(
    op: TensorFromXTensor | XTensorFromTensor, node: Apply, axis: int, walk: Walk
) -> Variable:
    return walk.rows(node.inputs[0], axis)


@node_rewriter(None)
def inlined(fgraph: object, node: Apply) -> list[Variable] | None:
    """Open a symbolic operation up, which would otherwise be compiled on its own."""
    return inline_ofg_node(node) if isinstance(node.op, OpFromGraph) else None


@node_rewriter([CAReduce])
def number_alone(fgraph: object, node: Apply) -> list[Variable] | None:
    """Leave out the sum of a number along an axis, as in pm.CAR, which only compiled code takes."""
    (x,), (total,) = node.inputs, node.outputs
    return [x.astype(total.type.dtype)] if x.type.ndim == 0 else None


#: With symbolic operations opened up, and violated checks of parameters as -inf, as PyMC's samplers
#: read them.
AS_SAMPLED = dfs_rewriter(local_check_parameter_to_ninf_switch, inlined, number_alone)

#: Compiles nothing, for graphs that are evaluated once.
IN_PYTHON = Mode(linker="py", optimizer=dfs_rewriter(inlined, number_alone))


def data_behind(variable: Variable) -> list[Variable] | None:
    """Return the data arrays that a variable is computed from, None if not from data alone.

    Stored data, which need not fit into memory, are not computed with as a whole.
    """
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


def computed(variable: Variable) -> np.ndarray:
    """Return the value of a graph of data alone."""
    values = pytensor.function([], plain(variable), mode=IN_PYTHON)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values())


def in_double(graph: Variable) -> Variable:
    """Return a graph in which single numbers, made of constants alone, are in double precision.

    Numbers that enter an expression which the model has in single precision stay as they are.
    """
    numbers: dict[Variable, Variable] = {}
    computed: set[Variable] = set()
    kept: set[Variable] = set()
    nodes = list(toposort([graph]))
    folded = _folded(x for node in nodes for x in node.inputs)
    for node in nodes:
        wide = _in_double(node, numbers, folded)
        if wide is not None:
            numbers[node.outputs[0]] = wide
            # A constant that is only given more axes is the same in double precision.
            from_other = not folded.keys().isdisjoint(node.inputs)
            if isinstance(node.op, Elemwise) or from_other or not computed.isdisjoint(node.inputs):
                computed.add(node.outputs[0])
        elif any(_is_single(output) for output in node.outputs):
            kept.update(node.inputs)
    # A number in single precision keeps the expression behind it.
    for node in reversed(nodes):
        if node.outputs[0] in kept:
            kept.update(node.inputs)
    changed = {number: wide for number, wide in numbers.items() if number in computed - kept}
    changed |= {x: _widened(x, folded) for x in folded if x not in kept}
    return clone_replace(graph, changed, rebuild_strict=False) if changed else graph


def _in_double(
    node: object, numbers: dict[Variable, Variable], folded: dict[Variable, float]
) -> Variable | None:
    """Return the result of a node on numbers in double precision, if that makes a difference."""
    op, inputs, outputs = node.op, node.inputs, node.outputs  # type: ignore[attr-defined]
    single = len(outputs) == 1 and _is_single(outputs[0]) and _is_number(outputs[0])
    of_numbers = all(x in numbers or (isinstance(x, Constant) and _is_number(x)) for x in inputs)
    if not isinstance(op, Elemwise | DimShuffle) or not single or not of_numbers:
        return None
    known = (numbers[x] if x in numbers else _widened(x, folded) for x in inputs)
    wide = op.make_node(*known).outputs[0]
    return wide if wide.type.dtype == "float64" else None


def _is_single(variable: Variable) -> bool:
    return getattr(variable.type, "dtype", None) == "float32"


def _is_number(variable: Variable) -> bool:
    return all(getattr(variable.type, "broadcastable", (False,)))


def _widened(number: Variable, folded: dict[Variable, float]) -> Variable:
    value = np.asarray(number.data, dtype=np.float64)
    return pt.constant(np.full(value.shape, folded[number]) if number in folded else value)


#: Roots and logarithms of whole numbers and of their inverses, by what PyMC folds them to: numbers
#: in single precision, and reciprocals of these.
_ROUNDED = {
    sign * rounded: sign * exact
    for sign in (1.0, -1.0)
    for k in range(2, 11)
    for x in map(float, (np.sqrt(k), np.sqrt(1.0 / k), np.log(k)))
    for rounded, exact in ((float(np.float32(x)), x), (1.0 / float(np.float32(x)), 1.0 / x))
    if rounded != exact
}
_KEYS = np.array(sorted(_ROUNDED))
#: Relative rounding error of a quotient of two numbers, and digits of their product.
_QUOTIENT, _MANY_DIGITS = 5e-16, 15


def _folded(inputs: Iterable[Variable]) -> dict[Variable, float]:
    """Return what numbers were rounded from when PyMC folded them in single precision.

    As sqrt(2) and log(1/2) in the densities of normal variables, alone or times another number of
    the graph, such as a known scale. Their spellings are equal in double precision only.
    """
    real = ("float32", "float64")
    numbers = {
        x: float(x.data.ravel()[0])
        for x in inputs
        if isinstance(x, Constant) and _is_number(x) and getattr(x.type, "dtype", None) in real
    }
    found = {x: _ROUNDED[value] for x, value in numbers.items() if value in _ROUNDED}
    others = {value for value in numbers.values() if np.isfinite(value) and value != 0.0}
    for number, value in numbers.items():
        # Numbers that a user writes have few digits.
        if number in found or len(repr(value)) < _MANY_DIGITS:
            continue
        for other in others - _ROUNDED.keys() - {value}:
            near = _KEYS[np.abs(value / other / _KEYS - 1.0) < _QUOTIENT]
            if near.size:
                found[number] = other * _ROUNDED[float(near[0])]
    return found
