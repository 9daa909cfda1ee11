"""Conditions on the position, and what is not computed with real numbers."""

from collections.abc import Sequence
from functools import reduce
from math import inf

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.model.row.cells import Affine, Cell, Cells, LoweringError
from pymc_minibatch_mh.model.row.operations import output_type
from pymc_minibatch_mh.model.row.patterns import (
    is_a,
    is_finite,
    is_positive,
    number,
    reachable,
    varies,
)

_EQUALITIES = (scalar.EQ, scalar.NEQ)
_LOGIC = (scalar.AND, scalar.OR, scalar.Invert)
CHOICES = (scalar.Switch, scalar.Second, scalar.Identity)
#: How a model is fixed whose parameters are computed with in single precision.
IN_DOUBLE = "build the model with floatX=float64"
_STEPS = (
    scalar.IntDiv,
    scalar.Mod,
    scalar.Floor,
    scalar.Ceil,
    scalar.Trunc,
    scalar.RoundHalfToEven,
    scalar.RoundHalfAwayFromZero,
)


def as_number(cells: Cells, cell: Cell) -> Cell:
    """Return a condition as one or zero, and any other cell as it is."""
    if cell.is_data or cell.dtype.kind != "b":
        return cell
    return cells.node(scalar.switch, (cell, cells.one, cells.zero))


def outside_the_reals(cells: Cells, op: ScalarOp, operands: Sequence[Cell]) -> Cell | None:
    """Return the result of what is not arithmetic with real numbers, or None.

    Raises
    ------
    LoweringError
        If `op` rounds, or is computed in integers or in single precision.
    """
    if isinstance(op, scalar.Cast):
        return _cast(cells, op, *operands)
    if isinstance(op, _EQUALITIES):
        return _equality(cells, op, *operands)
    dtypes = [cell.dtype for cell in operands]
    of_conditions = all(dtype.kind == "b" for dtype in dtypes)
    if of_conditions and isinstance(op, _LOGIC):
        return _logic(cells, op, operands)
    if of_conditions and isinstance(op, scalar.Mul):
        return reduce(lambda left, right: _logic(cells, scalar.and_, (left, right)), operands)
    if isinstance(op, CHOICES):
        return None
    if isinstance(op, _STEPS):
        raise LoweringError(op, "is a step function of the parameters")
    result = output_type(op, *dtypes)
    if isinstance(op, scalar.IsInf | scalar.IsNan) and _is_finite_number(cells, *operands):
        return cells.constant(False)
    if result.kind == "b":
        raise LoweringError(op, "asks something of the parameters that bounds cannot answer")
    if result.kind != "f":
        raise LoweringError(op, "computes in integers from the parameters")
    # PyTensor has (x > 0) * 0.5 in single precision, which rounds nothing.
    chosen = isinstance(op, scalar.Mul) and sum(dtype.kind != "b" for dtype in dtypes) == 1
    if result.itemsize < 8 and not chosen:
        raise LoweringError(op, f"computes in single precision; {IN_DOUBLE}")
    return None


def _is_finite_number(cells: Cells, x: Cell) -> bool:
    """Whether a cell is finite at every position, and made of no data, which might not be."""
    terms = (t for part in reachable(x) if isinstance(part, Affine) for t in part.terms)
    positive: set[int] = set().union(*cells.sums)
    return is_finite(x, positive) and not any(t.monomial for t in terms)


def _cast(cells: Cells, op: scalar.Cast, x: Cell) -> Cell:
    target = op.o_type.dtype
    if x.dtype.kind == "b":
        return x if target == "bool" else as_number(cells, x)
    if target == "float64":
        return x
    if target.startswith("float"):
        raise LoweringError(op, f"rounds the parameters to single precision; {IN_DOUBLE}")
    raise LoweringError(op, "rounds the parameters to integers")


def _logic(cells: Cells, op: ScalarOp, operands: Sequence[Cell]) -> Cell:
    """Return a condition without what does not decide it."""
    if isinstance(op, scalar.Invert):
        return cells.node(op, operands)
    decisive = isinstance(op, scalar.OR)
    open_ones = [x for x in operands if number(x) is None]
    if any(number(x) is not None and bool(x.value) == decisive for x in operands):  # type: ignore[attr-defined]
        return cells.constant(decisive)
    return cells.node(op, open_ones) if len(open_ones) == len(operands) else open_ones[0]


def _equality(cells: Cells, op: ScalarOp, left: Cell, right: Cell) -> Cell:
    for one, other in ((left, right), (right, left)):
        value = number(other)
        # As real numbers: shares of 1, which some models write over, are shares that were rounded.
        never = (
            (value == 0.0 and is_positive(one))
            or (value == 1.0 and is_a(one, scalar_math.Sigmoid))
            or (value == -inf and is_finite(one))
        )
        if never:
            return cells.constant(isinstance(op, scalar.NEQ))
    if varies(left, right):
        return cells.node(op, (left, right))
    # b * x equals zero where x does, and max(b, 0) on a whole region. Over a box, orders can be
    # decided or are seen to be open.
    at_least, at_most = (cells.node(o, (left, right)) for o in (scalar.ge, scalar.le))
    equal = cells.node(scalar.and_, (at_least, at_most))
    return equal if isinstance(op, scalar.EQ) else cells.node(scalar.invert, (equal,))


def equated(condition: Cell) -> tuple[Cell, ...] | None:
    """Return what a condition takes to be equal, if that is all it asks."""
    if is_a(condition, scalar.AND):
        at_least, at_most = condition.inputs
        orders = is_a(at_least, scalar.GE) and is_a(at_most, scalar.LE)
        return at_least.inputs if orders and at_least.inputs == at_most.inputs else None
    return condition.inputs if is_a(condition, scalar.EQ) else None
