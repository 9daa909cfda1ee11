"""Patterns in expressions: parts of sums and products, and known signs."""

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from typing import Any, cast

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Apply,
    Constant,
    Expr,
    ExprGraph,
    Monomial,
    coordinates_at,
    without_value,
)
from pymc_minibatch_mh.functions.log_any import LogAny
from pymc_minibatch_mh.functions.log_erfc import LogErfc
from pymc_minibatch_mh.functions.log_i0e import LogI0e
from pymc_minibatch_mh.functions.log_softplus import LogSoftplus
from pymc_minibatch_mh.functions.logistic import quick_softplus


class LogBetweenTails(scalar.Switch):
    """Operation log(erfc(y) - erfc(x)), x > y, with an accurate formula on each side of 0."""


log_between_tails = LogBetweenTails()
#: Log-ratio of a normal probability to erfc, log 1/2; and its allowed rounding error.
LOG_HALF, _ROUNDED = math.log(0.5), 1e-12
_POSITIVE = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Erfc, scalar_math.Softplus)
_POSITIVE_OF_POSITIVE = (scalar.Mul, scalar.Reciprocal, scalar.Sqrt, scalar.Sqr)
# fmt: off
_SMOOTH = (
    *_POSITIVE, LogAny, LogErfc, LogI0e, LogSoftplus, scalar.Log, scalar.Log1p,
    scalar.Reciprocal, scalar.Sqrt, scalar.Sqr,
)
_FINITE_OF_FINITE = (
    *_POSITIVE, LogAny, LogErfc, LogI0e, LogSoftplus, scalar.Add, scalar.Mul, scalar.Sqr,
    scalar.Abs, scalar.Maximum, scalar.Minimum,
)
# fmt: on


def is_a(expr: Expr, *ops: type) -> bool:
    """Whether an expression is the result of one of the given operations."""
    return isinstance(expr, Apply) and _are_of(cast(Hashable, type(expr.op)), ops)


@cache
def _are_of(op: Hashable, ops: tuple[type, ...]) -> bool:
    # Abstract classes, as PyTensor's operations are, answer slowly.
    return issubclass(cast(type, op), ops)


def constant_value(expr: Expr) -> float | None:
    """Value of a constant expression; None for any other expression."""
    return float(expr.value) if isinstance(expr, Constant) else None


def with_quick_choices(exprs: ExprGraph, expr: Expr) -> Expr:
    """Expression in which f(x) or f(y), chosen by data, is f of the choice: one call, not two.

    Its logarithms of 1 + exp(x) have no branches.
    """
    if not isinstance(expr, Apply) or expr.is_data:
        return expr
    inputs = [with_quick_choices(exprs, x) for x in expr.inputs]
    if is_a(expr, scalar.Switch) and inputs[0].is_data:
        return _joined_choice(exprs, *inputs)
    is_softplus = isinstance(expr.op, scalar_math.Softplus)
    return exprs.node(quick_softplus if is_softplus else expr.op, inputs)


def _joined_choice(exprs: ExprGraph, condition: Expr, yes: Expr, no: Expr) -> Expr:
    """Choice between two expressions, made as far inside of both as they are alike."""
    if isinstance(yes, Apply) and isinstance(no, Apply) and yes.op == no.op:
        pairs = list(zip(yes.inputs, no.inputs, strict=False))
        differ = sum(x is not y for x, y in pairs) + abs(len(yes.inputs) - len(no.inputs))
        if differ == 1 and not isinstance(yes.op, scalar.Switch):
            joined = [x if x is y else _joined_choice(exprs, condition, x, y) for x, y in pairs]
            return exprs.node(yes.op, joined)
    return exprs.node(scalar.switch, (condition, yes, no))


def sum_parts(expr: Expr) -> tuple[Expr, ...]:
    """Summands of a sum; for any other expression, itself alone."""
    return expr.inputs if is_a(expr, scalar.Add) else (expr,)


def product_factors(expr: Expr) -> tuple[Expr, ...]:
    """Factors of a product that is not data, or the expression itself."""
    return expr.inputs if is_a(expr, scalar.Mul) and not expr.is_data else (expr,)


def without_reciprocals(factors: Sequence[Expr]) -> list[Expr]:
    """Factors without pairs of x and 1/x, for positive x."""
    for factor in factors:
        if is_a(factor, scalar.Reciprocal):
            x = factor.inputs[0]
            if x in factors and is_positive(x):
                return without_reciprocals(without_value(without_value(factors, factor), x))
    return list(factors)


def scaled_core(exprs: ExprGraph, expr: Expr) -> tuple[Expr, Expr]:
    """Product of the factors that are not data, and the data factor, 1 if there is none."""
    if not is_a(expr, scalar.Mul) or not expr.inputs[0].is_data:
        return expr, exprs.one
    data, *others = expr.inputs
    return others[0] if len(others) == 1 else exprs.node(scalar.mul, others), data


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """Distinct subexpressions of an expression, each before its operands, down to data."""
    return operands_last([expr], lambda x: x.is_data)


def affines_in(expr: Expr) -> list[Affine]:
    """Affine subexpressions of an expression."""
    return [x for x in subexpressions(expr) if isinstance(x, Affine)]


def operands_last(outputs: Sequence[Expr], is_leaf: Callable[[Expr], bool]) -> Iterator[Expr]:
    """Distinct expressions, each before its operands, down to leaves."""
    done: set[Expr] = set()
    waiting = list(reversed(outputs))
    while waiting:
        expr = waiting.pop()
        if expr not in done:
            done.add(expr)
            yield expr
            waiting += () if is_leaf(expr) else reversed(expr.inputs)


def operands_first(outputs: Sequence[Expr], known: Collection[Expr] = ()) -> Iterator[Expr]:
    """Yield distinct subexpressions, operands first, except `known` ones and their operands."""
    done = set(known)
    waiting = list(reversed(outputs))
    while waiting:
        expr = waiting[-1]
        ahead = [x for x in expr.inputs if x not in done]
        if ahead:
            waiting += reversed(ahead)
            continue
        waiting.pop()
        if expr not in done:
            done.add(expr)
            yield expr


def with_leaves(exprs: ExprGraph, root: Expr, leaves: Mapping[Any, Expr]) -> Expr:
    """Expression with some subexpressions replaced, without further simplification."""
    rebuilt: dict[Expr, Expr] = dict(leaves)
    for expr in operands_first([root], leaves):
        rebuilt[expr] = expr
        if isinstance(expr, Apply) and not expr.is_data:
            rebuilt[expr] = exprs.node(expr.op, [rebuilt[x] for x in expr.inputs])
            if expr in exprs.checks:
                exprs.checks.add(rebuilt[expr])
            if expr in exprs.kinks:
                exprs.kinks[rebuilt[expr]] = exprs.kinks[expr]
    return rebuilt[root]


def evaluate_exprs(order: Iterable[Expr], known: dict[Expr, Any]) -> None:
    """Evaluate expressions, sorted with operands first, and add their values to `known`."""
    for expr in order:
        if isinstance(expr, Constant):
            known[expr] = np.asarray(expr.value)[()]
        elif isinstance(expr, Apply):
            known[expr] = expr.numpy(*[known[x] for x in expr.inputs])


def n_exprs(expr: Expr) -> int:
    """Number of distinct subexpressions; data expressions count as one each."""
    return sum(1 for _ in subexpressions(expr))


def is_finite(expr: Expr) -> bool:
    """Whether an expression is provably finite at every position, whatever the data."""
    return all(_keeps_finite(x) for x in subexpressions(expr))


def _keeps_finite(expr: Expr) -> bool:
    if isinstance(expr, Constant):
        return bool(np.isfinite(expr.value))
    if expr.is_data:
        return expr.dtype.kind in "biu"
    if isinstance(expr, Affine):
        return _keeps_finite(expr.offset)
    if is_a(expr, scalar.Log):
        x = expr.inputs[0]
        # A positive sum with a positive constant stays positive if its other parts underflow.
        return any((constant_value(part) or 0.0) > 0.0 for part in sum_parts(x)) and is_positive(x)
    if is_a(expr, scalar.Log1p):
        return is_nonnegative(expr.inputs[0])
    return is_a(expr, *_FINITE_OF_FINITE)


def predictor_coefficients(forms: Sequence[tuple[Monomial, ...]]) -> np.ndarray:
    """Coefficient matrix: a row per linear predictor, a column per data factor and coordinate."""
    keys = dict.fromkeys((t.monomial, t.place) for form in forms for t in form)
    columns = {key: k for k, key in enumerate(keys)}
    matrix = np.zeros((len(forms), len(columns)))
    for row, form in zip(matrix, forms, strict=True):
        for term in form:
            row[columns[term.monomial, term.place]] += term.factor
    return matrix


def provably_varies(*terms: Expr) -> bool:
    """Whether a sum provably changes with the position in every observation.

    As an analytic function it then equals any number only on a set of measure zero.
    """
    return _some_term_varies(terms, {})


def _some_term_varies(terms: Sequence[Expr], known: dict[Expr, bool]) -> bool:
    coordinates = [
        {k for x in affines_in(expr) for term in x.terms for k in coordinates_at(term.place)}
        for expr in terms
    ]
    return any(
        own.isdisjoint(set().union(*coordinates[:k], *coordinates[k + 1 :]))
        and _expr_varies(terms[k], known)
        for k, own in enumerate(coordinates)
    )


def _expr_varies(expr: Expr, known: dict[Expr, bool]) -> bool:
    if expr not in known:
        if isinstance(expr, Affine):
            known[expr] = any(not term.monomial for term in expr.terms)
        elif is_a(expr, scalar.Add):
            known[expr] = _some_term_varies(expr.inputs, known)
        elif is_a(expr, scalar.Mul):
            # The product varies only if no factor is zero at all positions for some observation.
            nonzero = (
                is_positive(x) or _expr_varies(x, known) or constant_value(x) not in (None, 0.0)
                for x in expr.inputs
            )
            known[expr] = all(nonzero) and _some_term_varies(expr.inputs, known)
        else:
            known[expr] = is_a(expr, *_SMOOTH) and _expr_varies(expr.inputs[0], known)
    return known[expr]


def is_positive(expr: Expr) -> bool:
    """Whether an expression is positive at every position and observation."""
    if isinstance(expr, Constant):
        return bool(expr.value > 0)
    if is_a(expr, scalar.Add):
        return any(map(is_positive, expr.inputs)) and all(map(is_nonnegative, expr.inputs))
    if is_a(expr, *_POSITIVE_OF_POSITIVE):
        return all(map(is_positive, expr.inputs))
    if is_a(expr, scalar.Pow):
        return is_positive(expr.inputs[0])
    if is_a(expr, scalar.Switch):
        return all(map(is_positive, expr.inputs[1:]))
    return is_a(expr, *_POSITIVE)


def is_probability(expr: Expr) -> bool:
    """Whether an expression lies between zero and one at every position and observation."""
    value = constant_value(expr)
    if value is not None:
        return 0.0 <= value <= 1.0
    if is_a(expr, scalar.Mul):
        return all(map(is_probability, expr.inputs))
    if is_a(expr, scalar.Switch):
        return all(map(is_probability, expr.inputs[1:]))
    if is_a(expr, scalar.Exp):
        inner = expr.inputs[0]
        return is_a(inner, scalar_math.Log1mexp, LogAny) or _is_log_of_normal_probability(inner)
    return is_a(expr, scalar_math.Sigmoid)


def _is_log_of_normal_probability(expr: Expr) -> bool:
    """Whether this is log(k erfc(u)) or log(k (erfc(y) - erfc(x))) with k at most 1/2."""
    others, size = split_numbers(sum_parts(expr))
    tails = [is_a(x, LogErfc, LogBetweenTails) for x in others]
    return tails == [True] and size <= LOG_HALF + _ROUNDED


def split_numbers(parts: Sequence[Expr]) -> tuple[list[Expr], float]:
    """Summands that are not constants, and the sum of the constants."""
    others = [part for part in parts if constant_value(part) is None]
    return others, sum(constant_value(part) or 0.0 for part in parts)


def is_nonnegative(expr: Expr) -> bool:
    """Whether an expression is provably nonnegative: sums and products of squares, numbers, etc."""
    value = constant_value(expr)
    if value is not None:
        return value >= 0.0
    if is_a(expr, scalar.Add, scalar.Mul):
        return all(is_nonnegative(part) for part in expr.inputs)
    return is_a(expr, scalar.Sqr, scalar.Abs) or is_positive(expr)


def cached_rule[T](rule: Callable[..., T]) -> Callable[..., T]:
    """Cache a rule's results by operands, because nested log-sums would take exponential time."""

    @wraps(rule)
    def apply_once(exprs: ExprGraph, *operands: Any) -> T:
        key = (rule, *operands)
        if key not in exprs.results:
            exprs.results[key] = rule(exprs, *operands)
        return exprs.results[key]

    return apply_once


def should_merge_exponentials(left: Expr, right: Expr, total: Expr) -> bool:
    """Whether exp(left) exp(right) should become exp(total), where total = left + right."""
    # Merging must not add a linear predictor: a new combination of global parameters.
    if total.is_data or not (isinstance(left, Affine) and isinstance(right, Affine)):
        return True
    if not isinstance(total, Affine):
        return False
    shared = [a for a in (left, right) if all(not t.monomial for t in a.terms)]
    return not shared or len(total.terms) <= max(len(left.terms), len(right.terms))


def is_impossible(expr: Expr) -> bool:
    """Whether an expression is the constant -inf, the logarithm of a zero density."""
    return isinstance(expr, Constant) and bool(np.isneginf(expr.value))
