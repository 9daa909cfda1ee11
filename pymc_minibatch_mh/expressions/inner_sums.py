"""Expressions as compositions: functions of few inputs, some of which are sums of many parts.

A mean Σ_k g_k(u_k), with few linear predictors in each g_k, enters a log-likelihood as one number.
Sums that differ by a sign and by linear predictors, such as S and log α - S, are one input.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.expressions.graph import Argument, Expr, ExprGraph
from pymc_minibatch_mh.expressions.patterns import (
    is_a,
    operands_last,
    product_factors,
    subexpressions,
    sum_parts,
    with_leaves,
)
from pymc_minibatch_mh.functions.log_any import log_any

#: Maximum number of linear predictors in an expression that is not split.
FEW = 4
#: Maximum number of inputs of a function: all its third derivatives are bounded.
MAX_INPUTS = 10


@dataclass(frozen=True, eq=False)
class Composition:
    """Expression as a function `outer`, whose argument a is ``inputs[a]``: a predictor or a sum."""

    expr: Expr
    outer: Expr
    inputs: tuple["Composition | Argument", ...]
    #: The same as an exponential, if it is a product of positive factors.
    exponential: "Composition | None" = None

    @property
    def is_sum(self) -> bool:
        """Whether the function is the sum of its inputs and data."""
        return all(x.is_data or isinstance(x, Argument) for x in sum_parts(self.outer))

    @property
    def is_split(self) -> bool:
        """Whether bounds by parts may be smaller than those of the function of all predictors."""
        inner = any(isinstance(x, Composition) for x in self.inputs)
        return inner or self.exponential is not None

    @property
    def n_joint(self) -> int:
        """Maximum number of inputs of a function that is not a sum, here or in an input."""
        inner = [x.n_joint for x in self.inputs if isinstance(x, Composition)]
        return max([0 if self.is_sum else len(self.inputs), *inner])


def composition_of(exprs: ExprGraph, expr: Expr) -> Composition:
    """Split an expression at its sums of many linear predictors, and these in turn.

    Innermost sums are inputs if they are few, because a function of few inputs is bounded best.
    """
    if len(_arguments_in(expr)) <= FEW:
        return _composed(exprs, expr, ())
    inner = _split_at(exprs, expr, list(_innermost_sums(expr)))
    if len(inner.inputs) <= MAX_INPUTS:
        return inner
    return _split_at(exprs, expr, list(_outermost_sums(expr)))


def _split_at(exprs: ExprGraph, expr: Expr, sums: list[Expr]) -> Composition:
    if not sums and is_a(expr, scalar.Add):
        sums = [x for x in expr.inputs if not x.is_data]
    alike = _in_few_sums(exprs, sums)
    return _composed(exprs, with_leaves(exprs, expr, alike), [x for x in sums if x not in alike])


def _composed(exprs: ExprGraph, expr: Expr, sums: Sequence[Expr]) -> Composition:
    """Function of `sums`, and of the linear predictors outside of them."""
    leaves = operands_last([expr], lambda x: x.is_data or x in sums)
    inputs = [*sums, *(x for x in leaves if isinstance(x, Argument) and x not in sums)]
    numbered = {x: exprs.argument(k) for k, x in enumerate(inputs)}
    split = (x if isinstance(x, Argument) else composition_of(exprs, x) for x in inputs)
    outer = with_leaves(exprs, expr, numbered)
    return Composition(expr, outer, tuple(split), _as_exponential(exprs, expr))


def _as_exponential(exprs: ExprGraph, expr: Expr) -> Composition | None:
    """Product of data and positive factors as data times exp(Σ log factor)."""
    moving = [x for x in product_factors(expr) if not x.is_data]
    if len(moving) < 2 or len(_arguments_in(expr)) < 2:
        return None
    data = [x for x in product_factors(expr) if x.is_data]
    outer = exprs.node(scalar.mul, [exprs.one, *data, exprs.node(scalar.exp, [exprs.argument(0)])])
    total = exprs.node(scalar.add, [_log_of(exprs, x) for x in moving])
    logs = _composed(exprs, total, [x for x in total.inputs if not x.is_data])
    return Composition(expr, outer, (logs,))


def _log_of(exprs: ExprGraph, x: Expr) -> Expr:
    """Logarithm of a positive expression, by functions whose derivatives are enclosed closely."""
    if x.is_data:
        return exprs.node(scalar.log, [x])
    if is_a(x, scalar.Exp):
        return x.inputs[0]
    if is_a(x, scalar.Reciprocal):
        return _negative(exprs, _log_of(exprs, x.inputs[0]))
    if is_a(x, scalar.Mul):
        data = exprs.product(1.0, [y for y in x.inputs if y.is_data])
        moving = [y for y in x.inputs if not y.is_data]
        return exprs.node(scalar.add, [_log_of(exprs, y) for y in (data, *moving)])
    if is_a(x, scalar.Tanh):
        twice = exprs.node(scalar.mul, [exprs.constant(2.0), x.inputs[0]])
        fall = exprs.node(scalar_math.softplus, [_negative(exprs, twice)])
        rise = exprs.node(log_any, [_log_of(exprs, twice)])
        return exprs.node(scalar.add, [rise, _negative(exprs, fall)])
    if is_a(x, scalar.Add) and len(x.inputs) == 2:
        return _log_of_pair(exprs, *x.inputs)
    return exprs.node(scalar.log, [x])


def _log_of_pair(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    """Logarithm of the sum of two positive expressions, or of 1 - exp(-t) with a positive t."""
    if right is exprs.one and is_a(left, scalar.Mul) and left.inputs[0] is exprs.minus_one:
        fall = left.inputs[-1]
        if len(left.inputs) == 2 and is_a(fall, scalar.Exp):
            size = fall.inputs[0]
            factors = [exprs.minus_one, *product_factors(size)]
            return exprs.node(log_any, [_log_of(exprs, exprs.node(scalar.mul, factors))])
    low, high = _log_of(exprs, left), _log_of(exprs, right)
    apart = exprs.node(scalar.add, [low, _negative(exprs, high)])
    return exprs.node(scalar.add, [high, exprs.node(scalar_math.softplus, [apart])])


def _negative(exprs: ExprGraph, x: Expr) -> Expr:
    return exprs.node(scalar.mul, [exprs.minus_one, x])


def _arguments_in(expr: Expr) -> list[Argument]:
    return [x for x in subexpressions(expr) if isinstance(x, Argument)]


def _is_wide(expr: Expr) -> bool:
    return is_a(expr, scalar.Add) and len(_arguments_in(expr)) > FEW


def _innermost_sums(expr: Expr) -> Iterator[Expr]:
    """Sums of more than `FEW` linear predictors without such sums within."""
    for x in subexpressions(expr):
        if x is not expr and _is_wide(x) and not any(map(_is_wide, list(subexpressions(x))[1:])):
            yield x


def _outermost_sums(expr: Expr) -> Iterator[Expr]:
    """Sums of more than `FEW` linear predictors within functions, but not within each other."""
    waiting, done, top = [expr], set[Expr](), {expr}
    while waiting:
        outer = waiting.pop()
        through = outer in top and is_a(outer, scalar.Add, scalar.Switch)
        if not through and _is_wide(outer):
            yield outer
            continue
        for x in outer.inputs:
            if not x.is_data and x not in done:
                done.add(x)
                waiting.append(x)
                top |= {x} if through else set()


def _in_few_sums(exprs: ExprGraph, sums: Sequence[Expr]) -> dict[Expr, Expr]:
    """Sums as plus or minus another one and linear predictors, where that is possible."""
    spread = {total: _coefficients_of_products(exprs, total) for total in sums}
    bases, alike = list[Expr](), dict[Expr, Expr]()
    for total, products in spread.items():
        for base in bases:
            sign = _sign_between(spread[base], products)
            if sign != 0.0:
                alike[total] = _shifted(exprs, base, sign, spread[base], products)
                break
        else:
            bases.append(total)
    return alike


#: Factors of a product: data, and others. Coefficients of the products in a sum.
_Product = tuple[tuple[Expr, ...], tuple[Expr, ...]]
_Products = dict[_Product, float]


def _coefficients_of_products(exprs: ExprGraph, expr: Expr) -> _Products:
    total = defaultdict[_Product, float](float)
    waiting: list[tuple[Expr, float, tuple[Expr, ...]]] = [(expr, 1.0, ())]
    while waiting:
        part, number, data = waiting.pop()
        if is_a(part, scalar.Add) and not part.is_data:
            waiting += [(x, number, data) for x in part.inputs]
            continue
        factors = (part,) if part.is_data else product_factors(part)
        for x in factors:
            if x.is_data:
                coefficient, rest = exprs.as_product(x)
                number, data = number * coefficient, exprs.in_order((*data, *rest))
        others = tuple(x for x in factors if not x.is_data)
        if others and is_a(others[0], scalar.Add, scalar.Mul) and len(others) == 1:
            waiting.append((others[0], number, data))
        else:
            total[data, others] += number
    return total


def _sign_between(left: _Products, right: _Products) -> float:
    """1 or -1 if the second sum is the first one times it plus linear predictors; else 0."""
    keys = [k for k in {*left, *right} if not all(isinstance(x, Argument) for x in k[1])]
    for sign in (1.0, -1.0):
        if all(right.get(k, 0.0) == sign * left.get(k, 0.0) for k in keys):
            return sign
    return 0.0


def _shifted(exprs: ExprGraph, base: Expr, sign: float, left: _Products, right: _Products) -> Expr:
    """Sum `right` as `sign` times the sum `base`, of coefficients `left`, plus the rest."""
    apart = {k: right.get(k, 0.0) - sign * left.get(k, 0.0) for k in {**left, **right}}
    rest = [
        exprs.node(scalar.mul, (exprs.product(number, data), *others))
        for (data, others), number in apart.items()
        if number != 0.0
    ]
    return exprs.node(scalar.add, (exprs.node(scalar.mul, (exprs.constant(sign), base)), *rest))
