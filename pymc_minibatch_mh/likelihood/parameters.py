"""Parameter checks of distributions, read as conditions of single rows.

PyMC guards a log-density with one check over all rows at once, such as "every p lies in [0, 1]",
and its samplers read a violation as a density of zero. For a batch the same follows from the
condition of each row. Conditions that hold for every position, because the parameter is an
exponential or a logistic function of something, are left out: they would cost an evaluation of it.
"""

from pytensor.graph.basic import Constant, Variable
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.basic import Alloc, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

UNKNOWN, NON_NEGATIVE, POSITIVE = range(3)

_PASS_ON = (Alloc, DimShuffle, Subtensor, AdvancedSubtensor, TensorFromScalar, ScalarFromTensor)
_POSITIVE_OPS = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Softplus, scalar_math.Erfc)
_SIGN_OF_ARGUMENT = (scalar.Sign, scalar.Sqrt, scalar.Cast, scalar.Identity)
_SIGN_OF_ALL = (scalar.Mul, scalar.TrueDiv)


def conditions(check: Variable) -> list[Variable]:
    """Take a check over all rows apart into the elementwise conditions that it is made of."""
    if check.owner is not None:
        op = check.owner.op
        if isinstance(op, MakeVector | ScalarFromTensor | TensorFromScalar) or (
            isinstance(op, All) and op.axis is None
        ):
            return [leaf for part in check.owner.inputs for leaf in conditions(part)]
    return [check]


def always_holds(condition: Variable) -> bool:
    """Whether a condition can be seen to hold for all positions."""
    node = condition.owner
    if node is None or not isinstance(node.op, Elemwise):
        return False
    op, inputs = node.op.scalar_op, node.inputs
    if isinstance(op, scalar.AND):
        return all(always_holds(part) for part in inputs)
    if len(inputs) != 2:
        return False
    if isinstance(op, scalar.GT):
        return _sign(inputs[0]) == POSITIVE and _at_most(inputs[1], 0.0)
    if isinstance(op, scalar.GE):
        return _sign(inputs[0]) >= NON_NEGATIVE and _at_most(inputs[1], 0.0)
    if isinstance(op, scalar.LE):
        return _at_most(inputs[0], 1.0) and _at_least(inputs[1], 1.0)
    return False


def _sign(variable: Variable) -> int:
    if isinstance(variable, Constant):
        return POSITIVE if (variable.data > 0).all() else int((variable.data >= 0).all())
    node = variable.owner
    if node is None:
        return UNKNOWN
    if isinstance(node.op, _PASS_ON):
        return _sign(node.inputs[0])
    if isinstance(node.op, MakeVector):
        return min(_sign(part) for part in node.inputs)
    if not isinstance(node.op, Elemwise):
        return UNKNOWN
    op = node.op.scalar_op
    if isinstance(op, _POSITIVE_OPS):
        return POSITIVE
    if isinstance(op, scalar.Sqr | scalar.Abs):
        return NON_NEGATIVE
    if isinstance(op, _SIGN_OF_ARGUMENT):
        return _sign(node.inputs[0])
    if isinstance(op, scalar.Add):
        signs = [_sign(part) for part in node.inputs]
        return max(signs) if min(signs) >= NON_NEGATIVE else UNKNOWN
    if isinstance(op, scalar.Pow):
        return POSITIVE if _sign(node.inputs[0]) == POSITIVE else UNKNOWN
    if isinstance(op, scalar.Sub) and _complements_a_probability(*node.inputs):
        return POSITIVE
    if isinstance(op, _SIGN_OF_ALL):
        return min(_sign(part) for part in node.inputs)
    return UNKNOWN


def _complements_a_probability(left: Variable, right: Variable) -> bool:
    """Whether this is 1 - p with p inside (0, 1)."""
    return _at_least(left, 1.0) and _sign(right) == POSITIVE and _at_most(right, 1.0)


def _at_most(variable: Variable, bound: float) -> bool:
    if isinstance(variable, Constant):
        return bool((variable.data <= bound).all())
    node = variable.owner
    if node is None:
        return False
    if isinstance(node.op, _PASS_ON):
        return _at_most(node.inputs[0], bound)
    if isinstance(node.op, MakeVector):
        return all(_at_most(part, bound) for part in node.inputs)
    if not isinstance(node.op, Elemwise):
        return False
    op = node.op.scalar_op
    if isinstance(op, scalar_math.Sigmoid):
        return bound >= 1.0
    if isinstance(op, scalar_math.Erfc):
        return bound >= 2.0
    if isinstance(op, scalar.Sub):
        return _at_most(node.inputs[0], bound) and _sign(node.inputs[1]) >= NON_NEGATIVE
    return isinstance(op, scalar.Mul) and _scaled_at_most(node.inputs, bound)


def _scaled_at_most(factors: list[Variable], bound: float) -> bool:
    if len(factors) != 2 or not isinstance(factors[0], Constant):
        return False
    scale = float(factors[0].data.max()) if factors[0].data.size == 1 else 0.0
    return scale > 0.0 and _at_most(factors[1], bound / scale)


def _at_least(variable: Variable, bound: float) -> bool:
    if isinstance(variable, Constant):
        return bool((variable.data >= bound).all())
    node = variable.owner
    return node is not None and isinstance(node.op, _PASS_ON) and _at_least(node.inputs[0], bound)
