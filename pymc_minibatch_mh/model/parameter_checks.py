"""Parameter checks of distributions as conditions of single observations.

PyMC guards a log-density with one check over all rows at once, such as "every p lies in [0, 1]",
and its samplers return density zero if it fails. A minibatch tests each row's condition instead.
Conditions that provably hold at every position are dropped: they would cost an evaluation.
"""

from pytensor.graph.basic import Constant, Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All

from pymc_minibatch_mh.functions.checked import Checked
from pymc_minibatch_mh.model.parameter_ranges import Ranges

#: Operations under which a check of all of a condition's entries asks for the same entries.
_CONJUNCTIONS = (All, DimShuffle, Join, MakeVector, ScalarFromTensor, TensorFromScalar)
checked = Elemwise(Checked(scalar.same_out, name="checked"))
# Allowed rounding error in a check that a sum equals one.
_ROUNDED = 1e-9


def elementwise_conditions(check: Variable) -> list[Variable]:
    """Elementwise conditions that make up a check over all rows."""
    op = check.owner_op
    if isinstance(op, _CONJUNCTIONS):
        return [leaf for part in check.owner.inputs for leaf in elementwise_conditions(part)]
    if isinstance(getattr(op, "scalar_op", None), scalar.Second):
        return elementwise_conditions(check.owner.inputs[1])
    return [check]


def always_holds(condition: Variable) -> bool:
    """Whether a condition provably holds at every position."""
    node = condition.owner
    if node is None:
        return False
    if isinstance(node.op, All | DimShuffle):
        return always_holds(node.inputs[0])
    if not isinstance(node.op, Elemwise):
        return False
    op, inputs = node.op.scalar_op, node.inputs
    if isinstance(op, scalar.AND):
        return all(always_holds(part) for part in inputs)
    if isinstance(op, scalar.OR):
        return any(always_holds(part) for part in inputs)
    if isinstance(op, scalar.Invert):
        return _never_holds(inputs[0])
    if not isinstance(op, scalar.GT | scalar.GE | scalar.LT | scalar.LE):
        return False
    small, large = inputs if isinstance(op, scalar.LT | scalar.LE) else inputs[::-1]
    rest = Ranges().of_difference(large, small)
    if isinstance(getattr(small.owner_op, "scalar_op", None), scalar.Abs):
        # For a check |sum - 1| <= tolerance, allow for the rounding of the sum.
        return rest.low >= _ROUNDED
    return rest.is_positive if isinstance(op, scalar.GT | scalar.LT) else rest.low >= 0.0


def _never_holds(condition: Variable) -> bool:
    if isinstance(condition, Constant):
        return not condition.data.any()
    node = condition.owner
    if node is None:
        return False
    if isinstance(node.op, Alloc | DimShuffle):
        return _never_holds(node.inputs[0])
    if not isinstance(node.op, Elemwise):
        return False
    op = node.op.scalar_op
    if isinstance(op, scalar.OR):
        return all(_never_holds(part) for part in node.inputs)
    return isinstance(op, scalar.IsNan | scalar.IsInf) and Ranges().of(node.inputs[0]).is_bounded
