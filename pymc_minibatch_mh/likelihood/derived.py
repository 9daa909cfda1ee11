"""Values that a model computes from its data alone are data.

A predictor that is standardised, sorted, lagged or masked inside the model mixes rows, but no
parameter is mixed with them: the result is one fixed array, whose rows are as good as given.

Models written with pymc.dims: their variables carry the names of their axes.

PyMC writes a log-density in plain tensors, between a variable with dims that is read as a tensor
and a result that is given its dims back. Only these ends are dealt with here.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytensor
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor import as_tensor
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType
from pytensor.xtensor.basic import TensorFromXTensor, XTensorFromTensor
from pytensor.xtensor.type import XTensorType, as_xtensor

from pymc_minibatch_mh.likelihood.axis import Walk, batch_of
from pymc_minibatch_mh.likelihood.stored import ReadStored


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


#: With symbolic operations opened up, and violated checks of parameters as -inf, as PyMC's samplers
#: read them.
AS_SAMPLED = dfs_rewriter(local_check_parameter_to_ninf_switch, inlined)

#: Compiles nothing, for graphs that are evaluated once.
IN_PYTHON = Mode(linker="py", optimizer=dfs_rewriter(inlined))


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
