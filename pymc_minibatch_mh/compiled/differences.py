"""Derivatives of an observation's log-likelihood, and its change in a proposal.

The rounding of two large values can exceed their difference f(u') - f(u), if counts are large or
observations are many. So differences are propagated through the expression: they are summed over
sums, follow the product rule, and use special functions for exponentials and logarithms. Each
difference has a bound of its rounding error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
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
from pymc_minibatch_mh.expressions.patterns import (
    constant_value,
    evaluate_exprs,
    is_a,
    operands_first,
    sum_parts,
)
from pymc_minibatch_mh.expressions.rules import apply_operation
from pymc_minibatch_mh.functions import changes
from pymc_minibatch_mh.functions.base import CHANGES, value_and_slopes
from pymc_minibatch_mh.structure.row_function import RowData, RowFunction

_STEPS = (
    scalar.LogicalComparison, scalar.AND, scalar.OR, scalar.XOR, scalar.Invert, scalar.Sign,
)  # fmt: skip

#: Operations in a derivative that are simplified; all others are kept as PyTensor writes them.
_ARITHMETIC = (
    scalar.Add, scalar.Sub, scalar.Mul, scalar.TrueDiv, scalar.Neg, scalar.Reciprocal, scalar.Sqr,
    scalar.Exp, scalar.Log, scalar.Second, scalar.Identity,
)  # fmt: skip


class PartialDerivatives:
    """Cache of partial derivatives of expressions with respect to arguments."""

    def __init__(self, exprs: ExprGraph) -> None:
        self._exprs = exprs
        self._first_derivative = cache(self._derivative_by_rules)
        self._arguments_of = cache(self._collect_arguments)
        self._operand_slopes = cache(partial(_operand_slopes, exprs))

    def of(self, expr: Expr, *numbers: int) -> Expr:
        """Partial derivative with respect to the given arguments, one for each order."""
        for argument in numbers:
            expr = self._first_derivative(expr, argument)
        return expr

    def _derivative_by_rules(self, expr: Expr, argument: int) -> Expr:
        exprs = self._exprs
        if argument not in self._arguments_of(expr):
            return exprs.zero
        if isinstance(expr, Argument):
            return exprs.one
        assert isinstance(expr, Apply)
        op, inputs = expr.op, expr.inputs
        if isinstance(op, _STEPS):
            return exprs.zero
        if isinstance(op, scalar.Switch):
            branches = [self._first_derivative(x, argument) for x in inputs[1:]]
            return apply_operation(exprs, op, inputs[0], *branches)
        inner = [self._first_derivative(x, argument) for x in inputs]
        moving = [k for k, x in enumerate(inner) if x is not exprs.zero]
        if isinstance(op, scalar.Add):
            return add_exprs(exprs, *(inner[k] for k in moving))
        if isinstance(op, scalar.Mul):
            others = ([*inputs[:k], *inputs[k + 1 :]] for k in moving)
            parts = zip(moving, others, strict=True)
            return add_exprs(exprs, *(multiply_exprs(exprs, inner[k], *rest) for k, rest in parts))
        if not moving:
            return exprs.zero
        outer = self._operand_slopes(expr, tuple(moving))
        return add_exprs(exprs, *(multiply_exprs(exprs, outer[k], inner[k]) for k in moving))

    def _collect_arguments(self, expr: Expr) -> frozenset[int]:
        if isinstance(expr, Argument):
            return frozenset([expr.number])
        return frozenset().union(*map(self._arguments_of, () if expr.is_data else expr.inputs))


def _operand_slopes(exprs: ExprGraph, expr: Apply, places: Sequence[int]) -> dict[int, Expr]:
    operands = [scalar.get_scalar_type(x.dtype.name)() for x in expr.inputs]
    try:
        value, slopes = value_and_slopes(expr.op, operands)
    except (MethodNotDefined, NotImplementedError) as error:
        raise LoweringError(expr.op, "has no derivative") from error
    known = dict(zip([*operands, value], [*expr.inputs, expr], strict=True))
    return {k: _to_expr(exprs, expr.op, known, slopes[k]) for k in places}


def _to_expr(exprs: ExprGraph, op: ScalarOp, given: dict[Variable, Expr], slope: Variable) -> Expr:
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
        if isinstance(node.op, _ARITHMETIC):
            known[node.outputs[0]] = apply_operation(exprs, node.op, *operands)
        else:
            known[node.outputs[0]] = exprs.node(node.op, operands)
    return expr_of(slope)


def undefined_operation(function: RowFunction, row: int, position: np.ndarray) -> ScalarOp | None:
    """First operation in an observation without finite derivatives up to order 2; None if none."""
    data, slopes = RowData(function, np.array([row])), PartialDerivatives(function.exprs)
    forms = [data.coefficients(form, position.size) @ position for form in function.arguments]
    known: dict[Expr, Any] = {}

    def value_of(root: Expr) -> Any:
        order = list(operands_first([root], known))
        known.update({x: np.ravel(data.value(x))[0] for x in order if x.is_data})
        known.update({x: forms[x.number][0] for x in order if isinstance(x, Argument)})
        evaluate_exprs([x for x in order if not x.is_data], known)
        return known[root]

    def is_defined(expr: Expr) -> bool:
        numbers = range(len(function.arguments))
        orders = (combinations_with_replacement(numbers, order) for order in range(3))
        found = [value_of(slopes.of(expr, *index)) for order in orders for index in order]
        return bool(np.isfinite(found).all())

    with np.errstate(all="ignore"):
        value_of(function.root)
        taken = _evaluated_expressions(function.root, known)
        for x in operands_first([function.root]):
            if x in taken and isinstance(x, Apply) and not x.is_data and not is_defined(x):
                return x.op
    return None


def _evaluated_expressions(root: Expr, known: Mapping[Expr, Any]) -> set[Expr]:
    """Subexpressions that determine the value of `root`; of a switch, only the selected branch."""
    taken, waiting = {root}, [root]
    while waiting:
        expr = waiting.pop()
        inputs = expr.inputs
        if is_a(expr, scalar.Switch):
            inputs = (inputs[1 if known[inputs[0]] else 2],)
        waiting += [x for x in inputs if x not in taken]
        taken.update(inputs)
    return taken


#: Functions whose relative error is at most the absolute error of their argument.
_EXPONENTIAL = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Softplus)


class PlainArithmetic:
    """Builder of sums and products in the written order, so that their rounding is known."""

    def __init__(self, exprs: ExprGraph) -> None:
        self._exprs = exprs
        self.half, self.part = exprs.constant(0.5), exprs.constant(1.0 / 24.0)

    def add(self, *terms: Expr) -> Expr:
        """Sum of expressions."""
        kept = [x for x in terms if constant_value(x) != 0.0]
        if len(kept) < 2:
            return kept[0] if kept else self._exprs.zero
        return self._exprs.node(scalar.add, kept)

    def multiply(self, left: Expr, right: Expr) -> Expr:
        """Product of expressions; zero times anything is zero."""
        values = constant_value(left), constant_value(right)
        if 0.0 in values:
            return self._exprs.zero
        if 1.0 in values:
            return right if values[0] == 1.0 else left
        return self._exprs.node(scalar.mul, (left, right))

    def subtract(self, left: Expr, right: Expr) -> Expr:
        """Difference of expressions."""
        return left if constant_value(right) == 0.0 else self._exprs.node(scalar.sub, (left, right))

    def sizes(self, *terms: Expr) -> Expr:
        """Sum of the absolute values of `terms`."""
        kept = [x for x in terms if constant_value(x) != 0.0]
        return self._exprs.node(changes.sizes, kept) if kept else self._exprs.zero

    def absolute_ratio(self, part: Expr, whole: Expr) -> Expr:
        """Absolute quotient |part / whole|; 0 where it is undefined."""
        known = constant_value(part) == 0.0
        return part if known else self._exprs.node(changes.ratio, (part, whole))


@dataclass(frozen=True, eq=False)
class Difference:
    """Values before and after a proposal, the change, and rounding errors of value and change."""

    before: Expr
    after: Expr
    step: Expr
    error: Expr
    doubt: Expr


class Differences:
    """Differences of expressions without simplification, which could change rounding errors."""

    def __init__(self, exprs: ExprGraph, arguments: Sequence[Difference]) -> None:
        self.plain = PlainArithmetic(exprs)
        self._exprs = exprs
        self._arguments = arguments
        #: Cached function: expression -> its difference.
        self.of = cache(self._difference_by_rules)

    def _difference_by_rules(self, expr: Expr) -> Difference:
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
            return self._of_choice(before, after, *parts)
        if isinstance(expr.op, scalar.Add):
            return self._of_sum(before, after, parts)
        if isinstance(expr.op, scalar.Mul):
            return reduce(self._of_product, parts)
        if isinstance(expr.op, scalar.Sqr):
            return self._of_product(parts[0], parts[0])
        if type(expr.op) in CHANGES:
            return self._in_one(expr.op, before, after, parts[0])
        return self._subtracted_difference(expr, before, after, parts)

    def _of_sum(self, before: Expr, after: Expr, parts: Sequence[Difference]) -> Difference:
        plain = self.plain
        steps, values = [x.step for x in parts], [x.before for x in parts]
        step = plain.add(*steps)
        error = plain.sizes(*values, *(x.error for x in parts))
        doubt = plain.sizes(*steps, *(x.doubt for x in parts))
        return Difference(before, after, step, error, doubt)

    def _of_product(self, left: Difference, right: Difference) -> Difference:
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
        """Difference of a function such as exp, by its operation in `CHANGES`: no cancellation."""
        node = self._exprs.node
        step = node(CHANGES[type(op)], (x.before, x.after, x.step))
        sensitivity = self._relative_slope_error(op, x)
        slope = self._slope_or_bound(op, before, x)
        doubt = node(changes.change_doubt, (step, x.step, x.doubt, sensitivity, slope))
        if isinstance(op, scalar.Log | scalar.Log1p):
            error = self.plain.sizes(before, sensitivity)
        else:
            error = node(changes.relative_error, (before, sensitivity))
        return Difference(before, after, step, error, doubt)

    def _slope_or_bound(self, op: ScalarOp, before: Expr, x: Difference) -> Expr:
        """Derivative of a function before the proposal, or an upper bound of it."""
        one = self._exprs.one
        if isinstance(op, scalar.Exp):
            return before
        if isinstance(op, scalar_math.Softplus):
            return one
        inner = x.before if isinstance(op, scalar.Log) else self.plain.add(one, x.before)
        return self.plain.absolute_ratio(one, inner)

    def _relative_slope_error(self, op: ScalarOp, x: Difference) -> Expr:
        """Relative rounding error of a function's derivative, from the error of its argument."""
        if isinstance(op, _EXPONENTIAL):
            return x.error
        if isinstance(op, scalar.Log1p):
            return self.plain.absolute_ratio(x.error, self.plain.add(self._exprs.one, x.before))
        return self.plain.absolute_ratio(x.error, x.before)

    def _of_choice(
        self, before: Expr, after: Expr, condition: Difference, yes: Difference, no: Difference
    ) -> Difference:
        plain = self.plain

        def choose_side(condition: Expr, left: Expr, right: Expr) -> Expr:
            return self._exprs.node(scalar.switch, (condition, left, right))

        here = condition.before
        step, doubt = choose_side(here, yes.step, no.step), choose_side(here, yes.doubt, no.doubt)
        error = choose_side(here, yes.error, no.error)
        if here is not condition.after:
            # If the proposal changes the branch, the values of both branches are subtracted.
            stays = self._exprs.node(scalar.eq, (here, condition.after))
            step = choose_side(stays, step, plain.subtract(after, before))
            doubt = choose_side(stays, doubt, plain.sizes(before, after, yes.error, no.error))
        return Difference(before, after, step, error, doubt)

    def _subtracted_difference(
        self, expr: Apply, before: Expr, after: Expr, parts: Sequence[Difference]
    ) -> Difference:
        plain, node = self.plain, self._exprs.node
        sensitivity = plain.add(*(self._relative_slope_error(expr.op, x) for x in parts))
        error = node(changes.relative_error, (before, sensitivity))
        doubt = plain.sizes(error, node(changes.relative_error, (after, sensitivity)))
        return Difference(before, after, plain.subtract(after, before), error, doubt)


def partial_derivatives(function: RowFunction, orders: Sequence[int]) -> list[Expr]:
    """Partial derivatives of f of the given orders (0 is f), one per combination of arguments."""
    slopes, numbers = PartialDerivatives(function.exprs), range(len(function.arguments))
    return [
        slopes.of(function.root, *index)
        for order in orders
        for index in combinations_with_replacement(numbers, order)
    ]


def remainder_difference(function: RowFunction, order: int) -> tuple[Expr, Expr]:
    """Change r(u') - r(u) of f minus its Taylor polynomial around û, and its rounding error.

    Both are functions of 3m arguments: û, u - û and u' - û, m of each. The polynomial has an order
    of 0 to 2, or 3 of one argument.
    """
    exprs, m = function.exprs, len(function.arguments)
    plain, slopes = PlainArithmetic(exprs), PartialDerivatives(exprs)
    ends = [[exprs.argument(part * m + k) for part in range(3)] for k in range(m)]
    moves = [_moved_argument(plain, *three) for three in ends]
    differences = Differences(exprs, [difference for difference, _ in moves])
    # Polynomial summands of at most this order have no remainder, so they are left out.
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


#: An argument in a proposal: its difference, and the midpoint of u and u' relative to û.
_MovedArgument = tuple[Difference, Expr]


def _moved_argument(
    plain: PlainArithmetic, centre: Expr, here: Expr, there: Expr
) -> _MovedArgument:
    before, after = plain.add(centre, here), plain.add(centre, there)
    step = plain.subtract(there, here)
    error, doubt = plain.sizes(centre, here, there), plain.sizes(step)
    middle = plain.multiply(plain.half, plain.add(here, there))
    return Difference(before, after, step, error, doubt), middle


def _product_change(plain: PlainArithmetic, moves: Sequence[_MovedArgument]) -> Expr:
    """Change of u_a, u_a²/2, u_a u_b or u_a³/6 in a proposal, where u is relative to û."""
    (one, middle), *others = moves
    if not others:
        return one.step
    if len(others) == 2:
        square, slope = plain.multiply(middle, middle), plain.multiply(one.step, one.step)
        bent = plain.add(plain.multiply(plain.half, square), plain.multiply(plain.part, slope))
        return plain.multiply(one.step, bent)
    ((other, other_middle),) = others
    change = plain.multiply(one.step, other_middle)
    return change if one is other else plain.add(change, plain.multiply(other.step, middle))


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
