"""Derivatives of an observation's log-likelihood, and its differences in a proposed move.

The rounding of two large values can exceed their difference f(u') - f(u), if counts are large or
observations are many. So differences are propagated through the expression: they are summed over
sums, follow the product rule, and use special functions for exponentials and logarithms. Each
difference has a bound of its rounding error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Constant as GraphConstant
from pytensor.graph.basic import Variable
from pytensor.graph.null_type import NullType
from pytensor.graph.traversal import toposort
from pytensor.graph.utils import MethodNotDefined
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import (
    Apply,
    Argument,
    Constant,
    Data,
    Expr,
    ExprGraph,
    LoweringError,
)
from pymc_minibatch_mh.expressions.patterns import constant_value, is_a, operands_first, sum_parts
from pymc_minibatch_mh.expressions.rules import apply_operation
from pymc_minibatch_mh.functions import changes
from pymc_minibatch_mh.functions.base import CHANGES, numpy_function, value_and_slopes
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

_STEPS = (
    scalar.LogicalComparison, scalar.AND, scalar.OR, scalar.XOR, scalar.Invert, scalar.Sign,
)  # fmt: skip

#: Operations that are rebuilt as expressions in a derivative; others remain scalar operations.
_ARITHMETIC = (
    scalar.Add, scalar.Sub, scalar.Mul, scalar.TrueDiv, scalar.Neg, scalar.Reciprocal, scalar.Sqr,
    scalar.Exp, scalar.Log, scalar.Second, scalar.Identity,
)  # fmt: skip


class PartialDerivatives:
    """Cache of partial derivatives of expressions with respect to arguments."""

    def __init__(self, exprs: ExprGraph) -> None:
        self._exprs = exprs
        self._known: dict[tuple[Expr, int], Expr] = {}

    def of(self, expr: Expr, *numbers: int) -> Expr:
        """Partial derivative with respect to the given arguments, one for each order."""
        for argument in numbers:
            expr = self._first(expr, argument)
        return expr

    def _first(self, expr: Expr, argument: int) -> Expr:
        key = (expr, argument)
        if key not in self._known:
            self._known[key] = self._computed(expr, argument)
        return self._known[key]

    def _computed(self, expr: Expr, argument: int) -> Expr:
        exprs = self._exprs
        if expr.is_data:
            return exprs.zero
        if isinstance(expr, Argument):
            return exprs.one if expr.number == argument else exprs.zero
        assert isinstance(expr, Apply)
        op, inputs = expr.op, expr.inputs
        if isinstance(op, _STEPS):
            return exprs.zero
        if isinstance(op, scalar.Switch):
            condition, *branches = inputs
            return apply_operation(
                exprs, op, condition, *(self._first(x, argument) for x in branches)
            )
        inner = [self._first(x, argument) for x in inputs]
        if isinstance(op, scalar.Add):
            return add_exprs(exprs, *inner)
        if isinstance(op, scalar.Mul):
            others = [[*inputs[:k], *inputs[k + 1 :]] for k in range(len(inputs))]
            parts = zip(inner, others, strict=True)
            return add_exprs(exprs, *(multiply_exprs(exprs, x, *rest) for x, rest in parts))
        moving = [k for k, x in enumerate(inner) if x is not exprs.zero]
        if not moving:
            return exprs.zero
        outer = _operand_slopes(exprs, expr, moving)
        return add_exprs(exprs, *(multiply_exprs(exprs, outer[k], inner[k]) for k in moving))


def _operand_slopes(exprs: ExprGraph, expr: Apply, places: Sequence[int]) -> dict[int, Expr]:
    """Derivatives of an operation with respect to the operands at `places`."""
    operands = [scalar.get_scalar_type(x.dtype.name)() for x in expr.inputs]
    try:
        value, slopes = value_and_slopes(expr.op, operands)
    except (MethodNotDefined, NotImplementedError) as error:
        raise LoweringError(expr.op, "has no derivative") from error
    known = dict(zip([*operands, value], [*expr.inputs, expr], strict=True))
    return {k: _to_expr(exprs, expr.op, known, slopes[k]) for k in places}


def _to_expr(
    exprs: ExprGraph, op: ScalarOp, given: Mapping[Variable, Expr], slope: Variable
) -> Expr:
    """Expression for PyTensor's scalar graph of a derivative."""
    if isinstance(slope.type, NullType | DisconnectedType):
        raise LoweringError(op, "has no derivative")
    known = dict(given)

    def expr_of(variable: Variable) -> Expr:
        if variable not in known and isinstance(variable, GraphConstant):
            known[variable] = exprs.constant(variable.data)
        return known[variable]

    for node in toposort([slope], blockers=given):
        if len(node.outputs) > 1 or not isinstance(node.op, ScalarOp):
            raise LoweringError(op, "has a derivative that is computed in a loop")
        operands = [expr_of(x) for x in node.inputs]
        simple = isinstance(node.op, _ARITHMETIC)
        made = (
            apply_operation(exprs, node.op, *operands) if simple else exprs.node(node.op, operands)
        )
        known[node.outputs[0]] = made
    return expr_of(slope)


def undefined_operation(function: RowFunction, row: int, position: np.ndarray) -> ScalarOp | None:
    """First operation of an observation without finite derivatives up to the second, if any."""
    data, slopes = RowData(function, np.array([row])), PartialDerivatives(function.exprs)
    forms = [data.coefficients(form, position.size) @ position for form in function.arguments]
    known: dict[Expr, Any] = {}

    def value_of(root: Expr) -> Any:
        for expr in operands_first([root], known):
            if expr.is_data:
                known[expr] = np.ravel(data.value(expr))[0]
            elif isinstance(expr, Argument):
                known[expr] = forms[expr.number][0]
            elif isinstance(expr, Apply):
                known[expr] = numpy_function(expr.op)(*(known[x] for x in expr.inputs))
        return known[root]

    def is_defined(expr: Expr) -> bool:
        numbers = range(len(function.arguments))
        orders = (combinations_with_replacement(numbers, order) for order in range(3))
        found = [value_of(slopes.of(expr, *index)) for order in orders for index in order]
        return bool(np.isfinite(found).all())

    with np.errstate(all="ignore"):
        value_of(function.root)
        taken = _evaluated_expressions(function.root, known)
        operations = (
            x for x in operands_first([function.root]) if x in taken and isinstance(x, Apply)
        )
        return next((x.op for x in operations if not (x.is_data or is_defined(x))), None)


def _evaluated_expressions(root: Expr, known: Mapping[Expr, Any]) -> set[Expr]:
    """Expressions that determine a value: a switch contributes only its selected branch."""
    taken, waiting = {root}, [root]
    while waiting:
        expr = waiting.pop()
        inputs = expr.inputs
        if is_a(expr, scalar.Switch):
            inputs = (inputs[1 if known[inputs[0]] else 2],)
        waiting += [x for x in inputs if x not in taken]
        taken.update(inputs)
    return taken


#: Functions whose relative error equals the absolute error of their argument.
_EXPONENTIAL = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Softplus)


class PlainArithmetic:
    """Builder of sums and products without reordering, so that rounding stays as written."""

    def __init__(self, exprs: ExprGraph) -> None:
        self._exprs = exprs
        self.half = exprs.constant(0.5)

    def add(self, *terms: Expr) -> Expr:
        """Sum of expressions."""
        kept = [x for x in terms if constant_value(x) != 0.0]
        if len(kept) < 2:
            return kept[0] if kept else self._exprs.zero
        return self._exprs.node(scalar.add, kept)

    def multiply(self, left: Expr, right: Expr) -> Expr:
        """Product of expressions; zero times anything is zero."""
        if constant_value(left) == 0.0 or constant_value(right) == 0.0:
            return self._exprs.zero
        if constant_value(left) == 1.0 or constant_value(right) == 1.0:
            return right if constant_value(left) == 1.0 else left
        return self._exprs.node(scalar.mul, (left, right))

    def subtract(self, left: Expr, right: Expr) -> Expr:
        """Difference of expressions."""
        return left if constant_value(right) == 0.0 else self._exprs.node(scalar.sub, (left, right))

    def sizes(self, *terms: Expr) -> Expr:
        """Sum of absolute values."""
        kept = [x for x in terms if constant_value(x) != 0.0]
        return self._exprs.node(changes.sizes, kept) if kept else self._exprs.zero

    def ratio(self, part: Expr, whole: Expr) -> Expr:
        """|part / whole|, or 0 where the quotient is undefined."""
        return (
            part if constant_value(part) == 0.0 else self._exprs.node(changes.ratio, (part, whole))
        )


@dataclass(frozen=True, eq=False)
class Difference:
    """An expression at both ends of a move, with rounding errors in machine epsilons."""

    before: Expr
    after: Expr
    step: Expr
    error: Expr
    doubt: Expr


class Differences:
    """Cache of the differences of expressions in a move, based on the differences of arguments.

    Expressions keep their form: mathematically equal expressions need not give equal floats.
    """

    def __init__(self, exprs: ExprGraph, arguments: Sequence[Difference]) -> None:
        self.plain = PlainArithmetic(exprs)
        self._exprs = exprs
        self._known: dict[Expr, Difference] = {}
        self._arguments = arguments

    def of(self, expr: Expr) -> Difference:
        """Difference of an expression."""
        if expr not in self._known:
            self._known[expr] = self._computed(expr)
        return self._known[expr]

    def _computed(self, expr: Expr) -> Difference:
        zero = self._exprs.zero
        if expr.is_data:
            exact = isinstance(expr, Constant | Data) or expr.dtype.kind in "biu"
            return Difference(expr, expr, zero, zero if exact else self.plain.sizes(expr), zero)
        if isinstance(expr, Argument):
            return self._arguments[expr.number]
        assert isinstance(expr, Apply)
        parts = [self.of(x) for x in expr.inputs]
        before = self._exprs.node(expr.op, [x.before for x in parts])
        after = self._exprs.node(expr.op, [x.after for x in parts])
        if expr.dtype.kind == "b":
            return Difference(before, after, zero, zero, zero)
        if isinstance(expr.op, scalar.Switch):
            return self._choice(before, after, *parts)
        if isinstance(expr.op, scalar.Add):
            return self._sum(before, after, parts)
        if isinstance(expr.op, scalar.Mul):
            return reduce(self._times, parts)
        if isinstance(expr.op, scalar.Sqr):
            return self._times(parts[0], parts[0])
        if type(expr.op) in CHANGES:
            return self._in_one(expr.op, before, after, parts[0])
        return self._subtracted(expr, before, after, parts)

    def _sum(self, before: Expr, after: Expr, parts: Sequence[Difference]) -> Difference:
        plain = self.plain
        steps, values = [x.step for x in parts], [x.before for x in parts]
        step = plain.add(*steps)
        error = plain.sizes(*values, *(x.error for x in parts))
        doubt = plain.sizes(*steps, *(x.doubt for x in parts))
        return Difference(before, after, step, error, doubt)

    def _times(self, left: Difference, right: Difference) -> Difference:
        if left.step is self._exprs.zero:
            left, right = right, left
        plain, node = self.plain, self._exprs.node
        before = plain.multiply(left.before, right.before)
        error = node(changes.product_error, (left.before, left.error, right.before, right.error))
        if right.step is self._exprs.zero:
            step = plain.multiply(left.step, right.before)
            spoilt = plain.multiply(right.error, left.step)
            doubt = plain.sizes(step, plain.multiply(left.doubt, right.before), spoilt)
            return Difference(before, plain.multiply(left.after, right.before), step, error, doubt)
        pair = left, right
        step = node(changes.product_change, [f for x in pair for f in (x.before, x.after, x.step)])
        doubt = node(
            changes.product_doubt,
            [f for x in pair for f in (plain.add(x.before, x.after), x.step, x.error, x.doubt)],
        )
        return Difference(before, plain.multiply(left.after, right.after), step, error, doubt)

    def _in_one(self, op: ScalarOp, before: Expr, after: Expr, x: Difference) -> Difference:
        """Difference of a function that has a special operation for it."""
        node = self._exprs.node
        step = node(CHANGES[type(op)], (x.before, x.after, x.step))
        sensitivity = self._sensitivity(op, x)
        slope = self._slope(op, before, x)
        doubt = node(changes.change_doubt, (step, x.step, x.doubt, sensitivity, slope))
        if isinstance(op, scalar.Log | scalar.Log1p):
            error = self.plain.sizes(before, sensitivity)
        else:
            error = node(changes.relative_error, (before, sensitivity))
        return Difference(before, after, step, error, doubt)

    def _slope(self, op: ScalarOp, before: Expr, x: Difference) -> Expr:
        """Slope of a function before the move, or an upper bound of it."""
        one = self._exprs.one
        if isinstance(op, scalar.Exp):
            return before
        if isinstance(op, scalar_math.Softplus):
            return one
        inner = x.before if isinstance(op, scalar.Log) else self.plain.add(one, x.before)
        return self.plain.ratio(one, inner)

    def _sensitivity(self, op: ScalarOp, x: Difference) -> Expr:
        """Relative error of a function's slope, from the error of its argument."""
        if isinstance(op, _EXPONENTIAL):
            return x.error
        if isinstance(op, scalar.Log1p):
            return self.plain.ratio(x.error, self.plain.add(self._exprs.one, x.before))
        return self.plain.ratio(x.error, x.before)

    def _choice(
        self, before: Expr, after: Expr, condition: Difference, yes: Difference, no: Difference
    ) -> Difference:
        plain = self.plain

        def chosen(condition: Expr, left: Expr, right: Expr) -> Expr:
            return self._exprs.node(scalar.switch, (condition, left, right))

        here = condition.before
        step, doubt = chosen(here, yes.step, no.step), chosen(here, yes.doubt, no.doubt)
        error = chosen(here, yes.error, no.error)
        if here is not condition.after:
            # Different branches before and after the move: their values are subtracted.
            stays = self._exprs.node(scalar.eq, (here, condition.after))
            step = chosen(stays, step, plain.subtract(after, before))
            doubt = chosen(stays, doubt, plain.sizes(before, after, yes.error, no.error))
        return Difference(before, after, step, error, doubt)

    def _subtracted(
        self, expr: Apply, before: Expr, after: Expr, parts: Sequence[Difference]
    ) -> Difference:
        plain, node = self.plain, self._exprs.node
        sensitivity = plain.add(*(self._sensitivity(expr.op, x) for x in parts))
        error = node(changes.relative_error, (before, sensitivity))
        doubt = plain.sizes(error, node(changes.relative_error, (after, sensitivity)))
        return Difference(before, after, plain.subtract(after, before), error, doubt)


def partial_derivatives(function: RowFunction, orders: Sequence[int]) -> list[Expr]:
    """Partial derivatives of f of the given orders; second ones for all a <= b.

    Order 0 is f itself.
    """
    slopes, numbers = PartialDerivatives(function.exprs), range(len(function.arguments))
    return [
        slopes.of(function.root, *index)
        for order in orders
        for index in combinations_with_replacement(numbers, order)
    ]


def remainder_difference(function: RowFunction, order: int) -> tuple[Expr, Expr]:
    """Difference r(u') - r(u) of f less its Taylor polynomial around û, and its rounding error.

    Both are functions of 3m arguments: û, u - û and u' - û, m of each. The polynomial has an order
    of 0 to 2.
    """
    exprs, m = function.exprs, len(function.arguments)
    plain, slopes = PlainArithmetic(exprs), PartialDerivatives(exprs)
    moves = [
        _moved_argument(plain, *(exprs.argument(part * m + k) for part in range(3)))
        for k in range(m)
    ]
    differences = Differences(exprs, [move.difference for move in moves])
    # Polynomial summands of this order have no remainder, and are left out of the difference.
    parts = [x for x in sum_parts(function.root) if not polynomial_degree(x) <= order]
    known = [differences.of(x) for x in parts]
    terms = [
        plain.multiply(slope, _product_change(plain, [moves[a] for a in index]))
        for k in range(1, order + 1)
        for index in combinations_with_replacement(range(m), k)
        for slope in sum_parts(add_exprs(exprs, *(slopes.of(x, *index) for x in parts)))
    ]
    steps = [x.step for x in known]
    step = plain.subtract(plain.add(*steps), plain.add(*terms))
    return step, plain.sizes(*steps, *terms, *(x.doubt for x in known))


@dataclass(frozen=True, eq=False)
class _MovedArgument:
    """An argument in a move: its difference, and the midpoint of its ends relative to û."""

    difference: Difference
    middle: Expr


def _moved_argument(
    plain: PlainArithmetic, centre: Expr, here: Expr, there: Expr
) -> _MovedArgument:
    before, after = plain.add(centre, here), plain.add(centre, there)
    step = plain.subtract(there, here)
    error, doubt = plain.sizes(centre, here, there), plain.sizes(step)
    middle = plain.multiply(plain.half, plain.add(here, there))
    return _MovedArgument(Difference(before, after, step, error, doubt), middle)


def _product_change(plain: PlainArithmetic, moves: Sequence[_MovedArgument]) -> Expr:
    """Change of an argument, of half its square or of a product of two, relative to û."""
    one, *others = moves
    if not others:
        return one.difference.step
    (other,) = others
    change = plain.multiply(one.difference.step, other.middle)
    if one is other:
        return change
    return plain.add(change, plain.multiply(other.difference.step, one.middle))


def polynomial_degree(expr: Expr) -> float:
    """Degree of a polynomial in the arguments; infinity for any other expression."""
    if expr.is_data:
        return 0
    if isinstance(expr, Argument):
        return 1
    if is_a(expr, scalar.Add):
        return max(map(polynomial_degree, expr.inputs))
    if is_a(expr, scalar.Mul):
        return sum(map(polynomial_degree, expr.inputs))
    return 2 * polynomial_degree(expr.inputs[0]) if is_a(expr, scalar.Sqr) else float("inf")
