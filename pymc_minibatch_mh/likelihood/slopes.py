"""Partial derivatives of expressions, as expressions."""

from collections.abc import Mapping, Sequence

from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.graph.null_type import NullType
from pytensor.graph.traversal import toposort
from pytensor.graph.utils import MethodNotDefined
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.functions.base import slopes_of
from pymc_minibatch_mh.likelihood.arithmetic import add, multiply
from pymc_minibatch_mh.likelihood.exprs import Apply, Argument, Expr, ExprGraph, LoweringError
from pymc_minibatch_mh.likelihood.simplify import apply

_STEPS = (
    scalar.LogicalComparison, scalar.AND, scalar.OR, scalar.XOR, scalar.Invert, scalar.Sign,
)  # fmt: skip

#: Operations that a derivative is rebuilt from; others stay as they are.
_ARITHMETIC = (
    scalar.Add, scalar.Sub, scalar.Mul, scalar.TrueDiv, scalar.Neg, scalar.Reciprocal, scalar.Sqr,
    scalar.Exp, scalar.Log, scalar.Second, scalar.Identity,
)  # fmt: skip


class Slopes:
    """Partial derivatives with respect to arguments, each made once."""

    def __init__(self, exprs: ExprGraph) -> None:
        self._cells = exprs
        self._known: dict[tuple[Expr, int], Expr] = {}

    def of(self, expr: Expr, *numbers: int) -> Expr:
        """Return the partial derivative with respect to arguments, one for each order.

        Raises
        ------
        LoweringError
            If an operation has no derivative.
        """
        for number in numbers:
            expr = self._first(expr, number)
        return expr

    def _first(self, expr: Expr, number: int) -> Expr:
        key = (expr, number)
        if key not in self._known:
            self._known[key] = self._computed(expr, number)
        return self._known[key]

    def _computed(self, expr: Expr, number: int) -> Expr:
        exprs = self._cells
        if expr.is_data:
            return exprs.zero
        if isinstance(expr, Argument):
            return exprs.one if expr.number == number else exprs.zero
        assert isinstance(expr, Apply)
        op, inputs = expr.op, expr.inputs
        if isinstance(op, _STEPS):
            return exprs.zero
        if isinstance(op, scalar.Switch):
            condition, *branches = inputs
            return apply(exprs, op, condition, *(self._first(x, number) for x in branches))
        inner = [self._first(x, number) for x in inputs]
        if isinstance(op, scalar.Add):
            return add(exprs, *inner)
        if isinstance(op, scalar.Mul):
            others = [[*inputs[:k], *inputs[k + 1 :]] for k in range(len(inputs))]
            parts = zip(inner, others, strict=True)
            return add(exprs, *(multiply(exprs, x, *rest) for x, rest in parts))
        moving = [k for k, x in enumerate(inner) if x is not exprs.zero]
        if not moving:
            return exprs.zero
        outer = _outer(exprs, expr, moving)
        return add(exprs, *(multiply(exprs, outer[k], inner[k]) for k in moving))


def _outer(exprs: ExprGraph, expr: Apply, places: Sequence[int]) -> dict[int, Expr]:
    """Return the derivatives of an operation with respect to some of its operands."""
    operands = [scalar.get_scalar_type(x.dtype.name)() for x in expr.inputs]
    try:
        value, slopes = slopes_of(expr.op, operands)
    except (MethodNotDefined, NotImplementedError) as error:
        raise LoweringError(expr.op, "has no derivative") from error
    known = dict(zip([*operands, value], [*expr.inputs, expr], strict=True))
    return {k: _taken_over(exprs, expr.op, known, slopes[k]) for k in places}


def _taken_over(
    exprs: ExprGraph, op: ScalarOp, given: Mapping[Variable, Expr], slope: Variable
) -> Expr:
    """Return a scalar graph of given operands as an expression."""
    if isinstance(slope.type, NullType | DisconnectedType):
        raise LoweringError(op, "has no derivative")
    known = dict(given)

    def cell_of(variable: Variable) -> Expr:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = exprs.constant(variable.data)
        return known[variable]

    for node in toposort([slope], blockers=given):
        if len(node.outputs) > 1 or not isinstance(node.op, ScalarOp):
            raise LoweringError(op, "has a derivative that is computed in a loop")
        operands = [cell_of(x) for x in node.inputs]
        simple = isinstance(node.op, _ARITHMETIC)
        made = apply(exprs, node.op, *operands) if simple else exprs.node(node.op, operands)
        known[node.outputs[0]] = made
    return cell_of(slope)
