"""Partial derivatives of cells, as cells."""

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
from pymc_minibatch_mh.likelihood.cells import Apply, Argument, Cell, Cells, LoweringError
from pymc_minibatch_mh.likelihood.simplify import apply

_STEPS = (
    scalar.LogicalComparison, scalar.AND, scalar.OR, scalar.XOR, scalar.Invert, scalar.Sign,
)  # fmt: skip

#: What a derivative is put together from; the rest of it stays as it stands.
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
    operands = [scalar.get_scalar_type(x.dtype.name)() for x in cell.inputs]
    try:
        value, slopes = slopes_of(cell.op, operands)
    except (MethodNotDefined, NotImplementedError) as error:
        raise LoweringError(cell.op, "has no derivative") from error
    known = dict(zip([*operands, value], [*cell.inputs, cell], strict=True))
    return {k: _taken_over(cells, cell.op, known, slopes[k]) for k in places}


def _taken_over(
    cells: Cells, op: ScalarOp, given: Mapping[Variable, Cell], slope: Variable
) -> Cell:
    """Return a scalar graph of what is given as a cell."""
    if isinstance(slope.type, NullType | DisconnectedType):
        raise LoweringError(op, "has no derivative")
    known = dict(given)

    def cell_of(variable: Variable) -> Cell:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = cells.constant(variable.data)
        return known[variable]

    for node in toposort([slope], blockers=given):
        if len(node.outputs) > 1 or not isinstance(node.op, ScalarOp):
            raise LoweringError(op, "has a derivative that is computed in a loop")
        operands = [cell_of(x) for x in node.inputs]
        simple = isinstance(node.op, _ARITHMETIC)
        made = apply(cells, node.op, *operands) if simple else cells.node(node.op, operands)
        known[node.outputs[0]] = made
    return cell_of(slope)
