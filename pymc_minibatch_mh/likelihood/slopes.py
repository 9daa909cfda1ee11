"""Partial derivatives of cells, as cells: by rules for what PyTensor has no derivative of."""

from collections.abc import Callable, Sequence

import numpy as np
from pymc.distributions.dist_math import I1e, i0e_scalar
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.graph.null_type import NullType
from pytensor.graph.traversal import toposort
from pytensor.graph.utils import MethodNotDefined
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.likelihood import operations
from pymc_minibatch_mh.likelihood.arithmetic import (
    add,
    exp,
    multiply,
    negative,
    reciprocal,
    sigmoid,
    softplus,
    subtract,
)
from pymc_minibatch_mh.likelihood.cells import Apply, Argument, Cell, Cells, LoweringError
from pymc_minibatch_mh.likelihood.simplify import apply

_STEPS = (
    scalar.LogicalComparison, scalar.AND, scalar.OR, scalar.XOR, scalar.Invert, scalar.Sign,
)  # fmt: skip

#: What a derivative by PyTensor is put together from; the rest of it stays as it stands.
_ARITHMETIC = (
    scalar.Add, scalar.Sub, scalar.Mul, scalar.TrueDiv, scalar.Neg, scalar.Reciprocal, scalar.Sqr,
    scalar.Exp, scalar.Log, scalar.Second, scalar.Identity,
)  # fmt: skip


class Slopes:
    """Partial derivatives with respect to arguments, each made once."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._known: dict[tuple[Cell, int], Cell] = {}

    def of(self, cell: Cell, *numbers: int) -> Cell:
        """Return the partial derivative with respect to arguments, one for each order.

        Raises
        ------
        LoweringError
            If an operation has no derivative.
        """
        for number in numbers:
            cell = self._first(cell, number)
        return cell

    def _first(self, cell: Cell, number: int) -> Cell:
        key = (cell, number)
        if key not in self._known:
            self._known[key] = self._computed(cell, number)
        return self._known[key]

    def _computed(self, cell: Cell, number: int) -> Cell:
        cells = self._cells
        if cell.is_data:
            return cells.zero
        if isinstance(cell, Argument):
            return cells.one if cell.number == number else cells.zero
        assert isinstance(cell, Apply)
        op, inputs = cell.op, cell.inputs
        if isinstance(op, _STEPS):
            return cells.zero
        if isinstance(op, scalar.Switch):
            condition, *branches = inputs
            return apply(cells, op, condition, *(self._first(x, number) for x in branches))
        inner = [self._first(x, number) for x in inputs]
        if isinstance(op, scalar.Add):
            return add(cells, *inner)
        if isinstance(op, scalar.Mul):
            others = [[*inputs[:k], *inputs[k + 1 :]] for k in range(len(inputs))]
            parts = zip(inner, others, strict=True)
            return add(cells, *(multiply(cells, x, *rest) for x, rest in parts))
        moving = [k for k, x in enumerate(inner) if x is not cells.zero]
        if not moving:
            return cells.zero
        outer = _outer(cells, cell, moving)
        return add(cells, *(multiply(cells, outer[k], inner[k]) for k in moving))


def _outer(cells: Cells, cell: Apply, places: Sequence[int]) -> dict[int, Cell]:
    """Return the derivatives of an operation with respect to some of its operands."""
    rule = _RULES.get(type(cell.op))
    if rule is not None and len(places) == 1:
        return {places[0]: rule(cells, cell, *cell.inputs)}
    operands = [scalar.get_scalar_type(x.dtype.name)() for x in cell.inputs]
    outputs = cell.op.make_node(*operands).outputs
    try:
        slopes = cell.op.pullback(operands, outputs, [scalar.constant(np.float64(1.0))])
    except (MethodNotDefined, NotImplementedError) as error:
        raise LoweringError(cell.op, "has no derivative") from error
    return {k: _taken_over(cells, cell, operands, slopes[k]) for k in places}


def _taken_over(cells: Cells, cell: Apply, inputs: list[Variable], slope: Variable) -> Cell:
    """Return a scalar graph of an operation's operands as a cell."""
    if isinstance(slope.type, NullType | DisconnectedType):
        raise LoweringError(cell.op, "has no derivative")
    known: dict[Variable, Cell] = dict(zip(inputs, cell.inputs, strict=True))

    def cell_of(variable: Variable) -> Cell:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = cells.constant(variable.data)
        return known[variable]

    for node in toposort([slope], blockers=inputs):
        if len(node.outputs) > 1 or not isinstance(node.op, scalar.ScalarOp):
            raise LoweringError(cell.op, "has a derivative that is computed in a loop")
        operands = [cell_of(x) for x in node.inputs]
        simple = isinstance(node.op, _ARITHMETIC)
        made = apply(cells, node.op, *operands) if simple else cells.node(node.op, operands)
        known[node.outputs[0]] = made
    return cell_of(slope)


def _first_by(slope: ScalarOp) -> Callable[..., Cell]:
    """Return the rule of a function whose derivatives are one operation of their order."""
    return lambda cells, cell, *xyz: cells.node(slope, (cells.constant(np.int64(1)), *xyz))


def _next_by(slope: ScalarOp) -> Callable[..., Cell]:
    def of(cells: Cells, cell: Apply, order: Cell, *xyz: Cell) -> Cell:
        following = cells.node(scalar.add, (order, cells.constant(np.int64(1))))
        return cells.node(slope, (following, *xyz))

    return of


def _of_erfc_slope(cells: Cells, cell: Apply, x: Cell) -> Cell:
    """Return h' = -h (2x + h) for h = d log(erfc(x))/dx."""
    twice = multiply(cells, cells.constant(2.0), x)
    return negative(cells, multiply(cells, cell, add(cells, twice, cell)))


def _of_log_any_slope(cells: Cells, cell: Apply, x: Cell) -> Cell:
    """Return g' = g (1 - w - g) for g = w/(exp(w) - 1), w = exp(x)."""
    rest = subtract(cells, subtract(cells, cells.one, exp(cells, x)), cell)
    return multiply(cells, cell, rest)


def _of_i1e(cells: Cells, cell: Apply, x: Cell) -> Cell:
    """Return I1e' = I0e - I1e (1/x + sign(x)), of Bessel functions scaled by exp(-abs(x))."""
    rest = add(cells, reciprocal(cells, x), cells.node(scalar.sign, (x,)))
    return subtract(cells, cells.node(i0e_scalar, (x,)), multiply(cells, cell, rest))


#: Operation -> its derivative, where PyTensor has none or one that cancels: the operation as a
#: cell and its operands, of which one depends on arguments.
_RULES: dict[type, Callable[..., Cell]] = {
    scalar.Exp: lambda cells, cell, x: cell,
    scalar.Log: lambda cells, cell, x: reciprocal(cells, x),
    scalar_math.Log1mexp: lambda cells, cell, x: negative(
        cells, reciprocal(cells, cells.node(scalar.expm1, (negative(cells, x),)))
    ),
    scalar_math.Sigmoid: lambda cells, cell, x: multiply(
        cells, cell, sigmoid(cells, negative(cells, x))
    ),
    scalar_math.Softplus: lambda cells, cell, x: sigmoid(cells, x),
    operations.GammaRatio: _first_by(operations.gamma_ratio_slope),
    operations.GammaRise: _first_by(operations.gamma_rise_slope),
    I1e: _of_i1e,
    operations.Log1pRatio: _first_by(operations.log1p_ratio_slope),
    operations.LogAny: lambda cells, cell, x: cells.node(operations.log_any_slope, (x,)),
    operations.LogErfc: lambda cells, cell, x: cells.node(operations.erfc_slope, (x,)),
    operations.LogSoftplus: lambda cells, cell, x: multiply(
        cells, sigmoid(cells, x), reciprocal(cells, softplus(cells, x))
    ),
    operations.ErfcSlope: _of_erfc_slope,
    operations.GammaRatioSlope: _next_by(operations.gamma_ratio_slope),
    operations.GammaRiseSlope: _next_by(operations.gamma_rise_slope),
    operations.Log1pRatioSlope: _next_by(operations.log1p_ratio_slope),
    operations.LogAnySlope: _of_log_any_slope,
}
