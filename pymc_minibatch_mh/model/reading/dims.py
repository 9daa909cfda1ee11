"""Models written with pymc.dims: their variables carry the names of their axes.

PyMC writes a log-density in plain tensors, between a variable with dims that is read as a tensor
and a result that is given its dims back. Only these ends are dealt with here.
"""

from collections.abc import Mapping, Sequence

from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor import as_tensor
from pytensor.xtensor.basic import TensorFromXTensor, XTensorFromTensor
from pytensor.xtensor.type import XTensorType, as_xtensor

from pymc_minibatch_mh.model.reading.axis import Walk, batch_of


def has_dims(variable: Variable) -> bool:
    """Whether the axes of a variable carry names."""
    return isinstance(variable.type, XTensorType)


def plain(variable: Variable) -> Variable:
    """Return a variable as a tensor, its axes in the same order."""
    return as_tensor(variable, allow_xtensor_conversion=True) if has_dims(variable) else variable


def as_read(
    outputs: Sequence[Variable], replacements: Mapping[Variable, Variable]
) -> dict[Variable, Variable]:
    """Return what to replace in `outputs`, so that tensors can take the place of variables.

    Parameters
    ----------
    outputs
        Graphs.
    replacements
        Variable, with dims or without -> tensor.
    """
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
