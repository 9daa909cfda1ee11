"""Logarithms of sums of exponentials of which some may be zero.

A summand that may be -inf is split into its finite part and the condition that it is taken.
"""

from collections.abc import Sequence
from functools import reduce
from math import inf

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.expressions.arithmetic import (
    add_exprs,
    as_number,
    core_and_factor,
    equality_sides,
    multiply_exprs,
    simplify_logic,
    softplus_expr,
    subtract_exprs,
)
from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Constant,
    Data,
    Expr,
    ExprGraph,
    Lookup,
    without_value,
)
from pymc_minibatch_mh.expressions.patterns import (
    cached_rule,
    constant_value,
    is_a,
    is_finite,
    is_positive,
    n_exprs,
    product_factors,
    scaled_core,
    sum_parts,
)
from pymc_minibatch_mh.expressions.state_sums import loop_over_states
from pymc_minibatch_mh.functions.log_add_exp import log_add_exp

#: An expression without its infinite branches, and the condition that none of them is taken.
_FinitePart = tuple[Expr, Expr]


def log_of_sum(exprs: ExprGraph, logs: Sequence[Expr]) -> Expr:
    """Logarithm of Σ exp(x), where each x may be -inf."""
    parted = [_split_infinite(exprs, x, -inf) for x in logs]
    loop = loop_over_states(exprs, *zip(*parted, strict=True)) if parted else None
    if loop is not None:
        possible = simplify_logic(exprs, scalar.or_, [condition for _, condition in parted])
        return switch_expr(exprs, possible, loop, exprs.constant(-inf))
    total, possible = reduce(lambda one, other: _log_add_exp(exprs, one, other), parted)
    return switch_expr(exprs, possible, total, exprs.constant(-inf))


def _log_add_exp(exprs: ExprGraph, one: _FinitePart, other: _FinitePart) -> _FinitePart:
    """Logarithm of exp(x) + exp(y) as x + softplus(y - x) where both are finite."""
    (left, has_left), (right, has_right) = one, other
    total = switch_expr(exprs, has_right, _log_add_finite(exprs, left, right), left)
    possible = simplify_logic(exprs, scalar.or_, (has_left, has_right))
    return switch_expr(exprs, has_left, total, right), possible


def _log_add_finite(exprs: ExprGraph, left: Expr, right: Expr) -> Expr:
    if left.is_data and right.is_data:
        return exprs.node(log_add_exp, (exprs.real(left), exprs.real(right)))
    # The left operand occurs twice in the result: it must not underflow to -inf or lose digits.
    left, right = sorted((left, right), key=lambda x: _unfit_to_subtract(exprs, x))
    return add_exprs(exprs, left, softplus_expr(exprs, subtract_exprs(exprs, right, left)))


def _unfit_to_subtract(exprs: ExprGraph, x: Expr) -> tuple[bool, bool, bool, int]:
    grows = any(is_a(scaled_core(exprs, part)[0], scalar.Exp) for part in sum_parts(x))
    return x.is_data, not is_finite(x), grows, n_exprs(x)


@cached_rule
def _split_infinite(exprs: ExprGraph, expr: Expr, infinity: float) -> _FinitePart:
    """Sum without infinite branches of switches, and the condition that none is taken."""
    parts = [_split_summand(exprs, part, infinity) for part in _all_summands(exprs, expr)]
    possible = simplify_logic(exprs, scalar.and_, [condition for _, condition in parts])
    # A sum without infinite branches is left unchanged.
    finite = expr if constant_value(possible) else add_exprs(exprs, *(part for part, _ in parts))
    return finite, possible


def _split_summand(exprs: ExprGraph, expr: Expr, infinity: float) -> _FinitePart:
    if is_a(expr, scalar.Switch):
        return _split_choice(exprs, expr, infinity)
    if is_a(expr, scalar.Mul):
        return _split_product(exprs, expr, infinity)
    if isinstance(expr, Constant) or _may_be_infinite(expr):
        return expr, exprs.node(scalar.neq, (expr, exprs.constant(infinity)))
    return expr, exprs.constant(True)


def _split_choice(exprs: ExprGraph, choice: Expr, infinity: float) -> _FinitePart:
    condition, *branches = choice.inputs
    if condition.dtype.kind != "b":
        # The bitwise inverse of a nonzero number may be nonzero, so numbers become conditions
        # first.
        condition = exprs.node(scalar.neq, (condition, exprs.zero))
    (yes, has_yes), (no, has_no) = (_split_infinite(exprs, x, infinity) for x in branches)
    if constant_value(has_yes) and constant_value(has_no):
        return choice, has_yes
    if has_yes is has_no:
        return switch_expr(exprs, condition, yes, no), has_yes
    fails = simplify_logic(exprs, scalar.invert, (condition,))
    taken = [
        simplify_logic(exprs, scalar.and_, pair) for pair in ((condition, has_yes), (fails, has_no))
    ]
    possible = simplify_logic(exprs, scalar.or_, taken)
    if constant_value(has_yes) == 0.0 or constant_value(has_no) == 0.0:
        return (no if constant_value(has_yes) == 0.0 else yes), possible
    return switch_expr(exprs, condition, yes, no), possible


def _split_product(exprs: ExprGraph, product: Expr, infinity: float) -> _FinitePart:
    """Product without infinite branches if signs are known, and the condition that none is used."""
    for core in product.inputs:
        rest = without_value(product.inputs, core)
        negative_ones = [x for x in rest if (constant_value(x) or 0.0) < 0.0]
        known = all(x in negative_ones or is_positive(x) for x in rest)
        if known and (is_a(core, scalar.Switch) or product.is_data):
            sign = -1.0 if len(negative_ones) % 2 else 1.0
            part, possible = _split_infinite(exprs, core, sign * infinity)
            if constant_value(possible) != 1.0:
                return multiply_exprs(exprs, part, *rest), possible
    return product, exprs.constant(True)


def _may_be_infinite(expr: Expr) -> bool:
    """Whether data on a logarithmic scale may have infinite entries."""
    if isinstance(expr, Lookup):
        return bool(np.isinf(expr.table).any())
    reals = isinstance(expr, Data) and expr.dtype.kind == "f"
    return reals or (expr.is_data and is_a(expr, scalar.Log))


def _all_summands(exprs: ExprGraph, total: Expr) -> list[Expr]:
    """Summands of a sum, including data summands and summands of nested sums."""
    if isinstance(total, Affine):
        return [exprs.without_offset(total), *_all_summands(exprs, total.offset)]
    if not is_a(total, scalar.Add):
        return [total]
    return [x for part in total.inputs for x in _all_summands(exprs, part)]


def switch_expr(exprs: ExprGraph, condition: Expr, left: Expr, right: Expr) -> Expr:
    """Switch, or one of its branches if the condition is constant or makes no difference."""
    known = constant_value(condition)
    if known is not None:
        return left if known else right
    if left is right or _is_limit(exprs, condition, left, right):
        return right
    left, right = as_number(exprs, left), as_number(exprs, right)
    if not condition.is_data and constant_value(subtract_exprs(exprs, left, right)) == 0.0:
        return min(left, right, key=n_exprs)
    return exprs.node(scalar.switch, (condition, left, right))


def _is_limit(exprs: ExprGraph, condition: Expr, left: Expr, right: Expr) -> bool:
    """Whether a switch is redundant: 0 at x = y, and otherwise a multiple of x - y."""
    pair = equality_sides(condition)
    if pair is None or constant_value(left) != 0.0:
        return False
    difference, _ = core_and_factor(exprs, subtract_exprs(exprs, *pair))
    others = [x for x in product_factors(right) if core_and_factor(exprs, x)[0] is not difference]
    return len(others) < len(product_factors(right)) and all(
        x.is_data or is_finite(x) for x in others
    )
