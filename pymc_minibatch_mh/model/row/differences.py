"""How much the log-likelihood of a row changes in a move, without the cancellation of its values.

With the arguments at u before and u' after a move, f(u') - f(u) of two large values would be off
by their rounding, which is more than the difference itself where counts are large or rows are
many. So differences go through the expression: they add up over sums, follow the product rule
over products, and of exponentials and logarithms are taken in one. Elsewhere values are
subtracted. Along with every difference goes the rounding error that it may have, which is that of
absolute summands.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.model.row import change_operations
from pymc_minibatch_mh.model.row.cells import Apply, Argument, Cell, Cells, Constant, Data
from pymc_minibatch_mh.model.row.change_operations import CHANGE_OF
from pymc_minibatch_mh.model.row.plain import Plain

#: Functions whose relative error is the absolute error of their argument.
_EXPONENTIAL = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Softplus)


@dataclass(frozen=True, eq=False)
class Difference:
    """A cell in a move.

    Parameters
    ----------
    before, after
        Its values.
    step
        Their difference.
    error
        Rounding error of the values, in units of the machine precision.
    doubt
        The same of the step.
    """

    before: Cell
    after: Cell
    step: Cell
    error: Cell
    doubt: Cell


class Differences:
    """Differences of cells in a move, each made once.

    Everything is kept as it stands here: what is equal among real numbers is not among floats.

    Parameters
    ----------
    cells
        Where the expressions were made.
    arguments
        What the arguments are in a move, by number.
    """

    def __init__(self, cells: Cells, arguments: Sequence[Difference]) -> None:
        self.plain = Plain(cells)
        self._cells = cells
        self._known: dict[Cell, Difference] = {}
        self._arguments = arguments

    def of(self, cell: Cell) -> Difference:
        """Return the difference of a cell."""
        if cell not in self._known:
            self._known[cell] = self._computed(cell)
        return self._known[cell]

    def _computed(self, cell: Cell) -> Difference:
        zero = self._cells.zero
        if cell.is_data:
            exact = isinstance(cell, Constant | Data) or cell.dtype.kind in "biu"
            return Difference(cell, cell, zero, zero if exact else self.plain.sizes(cell), zero)
        if isinstance(cell, Argument):
            return self._arguments[cell.number]
        assert isinstance(cell, Apply)
        parts = [self.of(x) for x in cell.inputs]
        before = self._cells.node(cell.op, [x.before for x in parts])
        after = self._cells.node(cell.op, [x.after for x in parts])
        if cell.dtype.kind == "b":
            return Difference(before, after, zero, zero, zero)
        if isinstance(cell.op, scalar.Switch):
            return self._choice(before, after, *parts)
        if isinstance(cell.op, scalar.Add):
            return self._sum(before, after, parts)
        if isinstance(cell.op, scalar.Mul):
            return self._product(parts)
        if isinstance(cell.op, scalar.Sqr):
            return self._product([parts[0], parts[0]])
        if type(cell.op) in CHANGE_OF:
            return self._in_one(cell.op, before, after, parts[0])
        return self._subtracted(cell, before, after, parts)

    def _sum(self, before: Cell, after: Cell, parts: Sequence[Difference]) -> Difference:
        plain = self.plain
        steps, values = [x.step for x in parts], [x.before for x in parts]
        return Difference(
            before,
            after,
            plain.add(*steps),
            plain.sizes(*values, *(x.error for x in parts)),
            plain.sizes(*steps, *(x.doubt for x in parts)),
        )

    def _product(self, parts: Sequence[Difference]) -> Difference:
        left, *others = parts
        for right in others:
            left = self._times(left, right)
        return left

    def _times(self, left: Difference, right: Difference) -> Difference:
        if left.step is self._cells.zero:
            left, right = right, left
        plain, node = self.plain, self._cells.node
        before = plain.multiply(left.before, right.before)
        error = node(
            change_operations.product_error, (left.before, left.error, right.before, right.error)
        )
        if right.step is self._cells.zero:
            step = plain.multiply(left.step, right.before)
            spoilt = plain.multiply(right.error, left.step)
            doubt = plain.sizes(step, plain.multiply(left.doubt, right.before), spoilt)
            return Difference(before, plain.multiply(left.after, right.before), step, error, doubt)
        pair = left, right
        step = node(
            change_operations.product_change, [f for x in pair for f in (x.before, x.after, x.step)]
        )
        middles = [plain.add(x.before, x.after) for x in pair]
        known = zip(middles, pair, strict=True)
        doubt = node(
            change_operations.product_doubt,
            [f for m, x in known for f in (m, x.step, x.error, x.doubt)],
        )
        return Difference(before, plain.multiply(left.after, right.after), step, error, doubt)

    def _in_one(self, op: ScalarOp, before: Cell, after: Cell, x: Difference) -> Difference:
        """Return the difference of a function for which there is an operation of its own."""
        node = self._cells.node
        step = node(CHANGE_OF[type(op)], (x.before, x.after, x.step))
        sensitivity = self._sensitivity(op, x)
        doubt = node(
            change_operations.change_doubt,
            (step, x.step, x.doubt, sensitivity, self._slope(op, before, x)),
        )
        if isinstance(op, scalar.Log | scalar.Log1p):
            error = self.plain.sizes(before, sensitivity)
        else:
            error = node(change_operations.relative_error, (before, sensitivity))
        return Difference(before, after, step, error, doubt)

    def _slope(self, op: ScalarOp, before: Cell, x: Difference) -> Cell:
        """Return the slope of a function before the move, or what is no less."""
        one = self._cells.one
        if isinstance(op, scalar.Exp):
            return before
        if isinstance(op, scalar_math.Softplus):
            return one
        inner = x.before if isinstance(op, scalar.Log) else self.plain.add(one, x.before)
        return self.plain.ratio(one, inner)

    def _sensitivity(self, op: ScalarOp, x: Difference) -> Cell:
        """Return the relative error of a function's slope, by the error of its argument."""
        if isinstance(op, _EXPONENTIAL):
            return x.error
        if isinstance(op, scalar.Log1p):
            return self.plain.ratio(x.error, self.plain.add(self._cells.one, x.before))
        return self.plain.ratio(x.error, x.before)

    def _choice(
        self, before: Cell, after: Cell, condition: Difference, yes: Difference, no: Difference
    ) -> Difference:
        plain = self.plain

        def chosen(condition: Cell, left: Cell, right: Cell) -> Cell:
            return self._cells.node(scalar.switch, (condition, left, right))

        here = condition.before
        step, doubt = chosen(here, yes.step, no.step), chosen(here, yes.doubt, no.doubt)
        error = chosen(here, yes.error, no.error)
        if here is not condition.after:
            # Which branch is taken changed: what is left is to subtract.
            stays = self._cells.node(scalar.eq, (here, condition.after))
            step = chosen(stays, step, plain.subtract(after, before))
            doubt = chosen(stays, doubt, plain.sizes(before, after, yes.error, no.error))
        return Difference(before, after, step, error, doubt)

    def _subtracted(
        self, cell: Apply, before: Cell, after: Cell, parts: Sequence[Difference]
    ) -> Difference:
        plain, node = self.plain, self._cells.node
        sensitivity = plain.add(*(self._sensitivity(cell.op, x) for x in parts))
        error = node(change_operations.relative_error, (before, sensitivity))
        doubt = plain.sizes(error, node(change_operations.relative_error, (after, sensitivity)))
        return Difference(before, after, plain.subtract(after, before), error, doubt)
