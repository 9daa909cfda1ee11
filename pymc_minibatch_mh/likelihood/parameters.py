"""Parameter checks of distributions, read as conditions of single rows.

PyMC guards a log-density with one check over all rows at once, such as "every p lies in [0, 1]",
and its samplers read a violation as a density of zero. For a batch the same follows from the
condition of each row. Conditions that hold for every position, because the parameter is an
exponential or a logistic function of something, are left out: they would cost an evaluation of it.
Statements on signs and sizes are about real numbers, of which exp(-1000) is positive.
"""

from collections.abc import Sequence

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.tensor.basic import Alloc, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All, Sum
from pytensor.tensor.special import Softmax
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

UNKNOWN, NON_NEGATIVE, POSITIVE = range(3)

_PASS_ON = (Alloc, DimShuffle, Subtensor, AdvancedSubtensor, TensorFromScalar, ScalarFromTensor)
_POSITIVE_OPS = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Softplus, scalar_math.Erfc)
_SIGN_OF_ARGUMENT = (scalar.Sign, scalar.Sqrt, scalar.Identity)
# Rounding errors that a check of a sum has to tolerate, to hold for all sums that are one.
_ROUNDED = 1e-9


def _passes_on(op: Op) -> bool:
    """Whether an output is among the first inputs."""
    return isinstance(op.core_op if isinstance(op, Blockwise) else op, _PASS_ON)


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
    if len(inputs) != 2:
        return False
    if isinstance(op, scalar.GT):
        return _sign(inputs[0]) == POSITIVE and _at_most(inputs[1], 0.0)
    if isinstance(op, scalar.GE):
        return _sign(inputs[0]) >= NON_NEGATIVE and _at_most(inputs[1], 0.0)
    if isinstance(op, scalar.LE):
        unit = _at_most(inputs[0], 1.0) and _at_least(inputs[1], 1.0)
        return unit or (_is_distance_from_one(inputs[0]) and _at_least(inputs[1], _ROUNDED))
    return False


def _never_holds(condition: Variable) -> bool:
    if isinstance(condition, Constant):
        return not condition.data.any()
    node = condition.owner
    if node is None:
        return False
    if _passes_on(node.op):
        return _never_holds(node.inputs[0])
    if not isinstance(node.op, Elemwise):
        return False
    op = node.op.scalar_op
    if isinstance(op, scalar.OR):
        return all(_never_holds(part) for part in node.inputs)
    return isinstance(op, scalar.IsNan | scalar.IsInf) and _is_sum_to_one(node.inputs[0])


def _is_distance_from_one(variable: Variable) -> bool:
    """Whether this is |1 - Σp| for probabilities p."""
    difference = _argument_of(variable, scalar.Abs)
    if difference is None or not _is_elementwise(difference, scalar.Sub):
        return False
    total, one = difference.owner.inputs
    return _is_sum_to_one(total) and _at_most(one, 1.0) and _at_least(one, 1.0)


def _is_sum_to_one(variable: Variable) -> bool:
    """Whether this is Σp for p that are made to add up to one, as softmax does."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        (variable,) = variable.owner.inputs
    if variable.owner is None or not isinstance(variable.owner.op, Sum):
        return False
    (shares,) = variable.owner.inputs
    return _shared_axes(shares) == _axes(variable.owner.op.axis, shares)


def _shared_axes(shares: Variable) -> tuple[int, ...] | None:
    """Return the axes over which these are positive shares of one, if they are."""
    if shares.owner is not None and isinstance(shares.owner.op, Softmax):
        return _axes(shares.owner.op.axis, shares)
    if shares.owner is not None and isinstance(shares.owner.op, DimShuffle):
        inner = _shared_axes(shares.owner.inputs[0])
        order = shares.owner.op.new_order
        # An axis that is dropped has one share, which is one.
        return inner and tuple(k for k, source in enumerate(order) if source in inner)
    if shares.owner is not None and isinstance(shares.owner.op, AdvancedSubtensor):
        return _axes_of_taken_shares(shares)
    if not _is_elementwise(shares, scalar.TrueDiv):
        return None
    parts, total = shares.owner.inputs
    while total.owner is not None and isinstance(total.owner.op, DimShuffle):
        (total,) = total.owner.inputs
    if total.owner is None or not isinstance(total.owner.op, Sum):
        return None
    axes = _axes(total.owner.op.axis, parts)
    positive = _argument_of(parts, scalar.Exp) is not None
    kept = _is_kept_sum(shares.owner.inputs[1], parts, axes)
    return axes if positive and kept else None


def _axes_of_taken_shares(taken: Variable) -> tuple[int, ...] | None:
    """Return these axes where an index array takes whole sets of shares, as P[group] does."""
    op, (shares, *_) = taken.owner.op, taken.owner.inputs
    inner = _shared_axes(shares)
    if inner is None or 0 in inner or op.idx_list != (0,):
        return None
    added = taken.type.ndim - shares.type.ndim
    return tuple(axis + added for axis in inner)


def _axes(axis: Sequence[int] | None, variable: Variable) -> tuple[int, ...]:
    return tuple(range(variable.type.ndim)) if axis is None else tuple(axis)


def _is_kept_sum(total: Variable, parts: Variable, axes: tuple[int, ...]) -> bool:
    """Whether `total` is the sum of `parts`, with axes of length one where it was taken."""
    if total.owner is None or not isinstance(total.owner.op, DimShuffle):
        return False
    (inner,) = total.owner.inputs
    if inner.owner is None or not isinstance(inner.owner.op, Sum):
        return False
    kept = iter(range(parts.type.ndim))
    order = tuple("x" if k in axes else next(kept) for k in range(parts.type.ndim))
    return inner.owner.inputs[0] is parts and total.owner.op.new_order == order


def _is_elementwise(variable: Variable, op: type) -> bool:
    node = variable.owner
    return node is not None and isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, op)


def _argument_of(variable: Variable, op: type) -> Variable | None:
    return variable.owner.inputs[0] if _is_elementwise(variable, op) else None


def _sign(variable: Variable) -> int:
    if isinstance(variable, Constant):
        return POSITIVE if (variable.data > 0).all() else int((variable.data >= 0).all())
    node = variable.owner
    if node is None:
        return UNKNOWN
    if _passes_on(node.op):
        return _sign(node.inputs[0])
    if isinstance(node.op, MakeVector):
        return min(_sign(part) for part in node.inputs)
    if _shared_axes(variable) is not None:
        return POSITIVE
    if isinstance(node.op, Elemwise):
        return _sign_of_elementwise(node.op.scalar_op, node)
    return UNKNOWN


def _sign_of_elementwise(op: scalar.ScalarOp, node: Apply) -> int:
    if isinstance(op, _POSITIVE_OPS):
        return POSITIVE
    if isinstance(op, scalar.Sqr | scalar.Abs):
        return NON_NEGATIVE
    if isinstance(op, scalar.Sub):
        return _sign_of_complement(*node.inputs)
    signs = [_sign(part) for part in node.inputs]
    if isinstance(op, _SIGN_OF_ARGUMENT):
        return signs[0]
    # Casts to integers round to zero, and small ones wrap around.
    if isinstance(op, scalar.Cast) and np.dtype(op.o_type.dtype).kind == "f":
        return signs[0]
    if isinstance(op, scalar.Add):
        return max(signs) if min(signs) >= NON_NEGATIVE else UNKNOWN
    if isinstance(op, scalar.Pow):
        return POSITIVE if signs[0] == POSITIVE else UNKNOWN
    if isinstance(op, scalar.Mul):
        return min(signs)
    if isinstance(op, scalar.TrueDiv) and signs[1] == POSITIVE:
        return signs[0]
    return UNKNOWN


def _sign_of_complement(left: Variable, right: Variable) -> int:
    """Return the sign of 1 - p, which is positive for p inside (0, 1)."""
    if not _at_least(left, 1.0) or not _at_most(right, 1.0):
        return UNKNOWN
    return POSITIVE if _at_most(right, 1.0, strictly=True) else NON_NEGATIVE


def _at_most(variable: Variable, bound: float, *, strictly: bool = False) -> bool:
    if isinstance(variable, Constant):
        return bool(((variable.data < bound) | ((variable.data == bound) & (not strictly))).all())
    node = variable.owner
    if node is None:
        return False
    if _passes_on(node.op):
        return _at_most(node.inputs[0], bound, strictly=strictly)
    if isinstance(node.op, MakeVector):
        return all(_at_most(part, bound, strictly=strictly) for part in node.inputs)
    if _shared_axes(variable) is not None:
        # The only share of one is one.
        return bound > 1.0 or (bound == 1.0 and not strictly)
    if not isinstance(node.op, Elemwise):
        return False
    op = node.op.scalar_op
    if isinstance(op, scalar_math.Sigmoid):
        return bound >= 1.0
    if isinstance(op, scalar_math.Erfc):
        return bound >= 2.0
    if isinstance(op, scalar.Sub):
        least = POSITIVE if strictly else NON_NEGATIVE
        return _at_most(node.inputs[0], bound) and _sign(node.inputs[1]) >= least
    return isinstance(op, scalar.Mul) and _scaled_at_most(node.inputs, bound, strictly)


def _scaled_at_most(factors: list[Variable], bound: float, strictly: bool) -> bool:
    constants = [_number(factor) for factor in factors]
    if len(factors) != 2 or constants[0] is None or not constants[0] > 0.0:
        return False
    return _at_most(factors[1], bound / constants[0], strictly=strictly)


def _number(variable: Variable) -> float | None:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        (variable,) = variable.owner.inputs
    if not isinstance(variable, Constant) or variable.data.size != 1:
        return None
    return float(variable.data.item())


def _at_least(variable: Variable, bound: float) -> bool:
    if isinstance(variable, Constant):
        return bool((variable.data >= bound).all())
    node = variable.owner
    return node is not None and _passes_on(node.op) and _at_least(node.inputs[0], bound)
