"""Logarithms of sums of exponentials in an expression, as in softmax and mixtures.

Simplification writes log(exp(x) + exp(y)) as x + softplus(y - x), nested for more exponentials.
This module merges them again: the joint bounds do not grow with the number of exponentials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, subtract_exprs
from pymc_minibatch_mh.expressions.graph import Argument, Expr, ExprGraph, without_value
from pymc_minibatch_mh.expressions.patterns import (
    constant_value,
    is_a,
    product_factors,
    scaled_core,
    subexpressions,
    sum_parts,
)

#: Maximum number of exponentials in a merged logarithm.
MAX_EXPONENTIALS = 256
#: Minimum number of exponentials for bounds by moments: softplus, with two, has exact derivatives.
SEVERAL = 3

#: `Product`: the factors of a product of data; `Weights`: a sum of such products.
Product = tuple[Expr, ...]
Weights = tuple[Product, ...]


@dataclass(frozen=True)
class LinearFunction:
    """Linear function of the linear predictors: predictor number -> weight, plus a data offset."""

    weights: dict[int, Weights]
    offset: Weights


@dataclass(frozen=True)
class LogSum:
    """Data times log Σ_k exp(l_k) with linear l_k; `core` is the unmerged expression."""

    core: Expr
    factor: Weights
    terms: tuple[LinearFunction, ...]


@dataclass(frozen=True)
class NonlinearParts:
    """Nonlinear summands of a log-likelihood.

    `mixture` are the exponents of one more log-sum. All other summands are added to each exponent,
    so that terms outside of the log-sum cancel. `others` are the remaining summands if there is no
    mixture.
    """

    log_sums: tuple[LogSum, ...]
    mixture: tuple[Expr, ...]
    others: tuple[Expr, ...]


def nonlinear_parts(exprs: ExprGraph, root: Expr) -> NonlinearParts:
    """Split the nonlinear summands of a log-likelihood into log-sums and other functions."""
    known: dict[Expr, tuple[LinearFunction, ...] | None] = {}
    factors: dict[Expr, list[Product]] = {}
    others: list[Expr] = []
    for part in sum_parts(root):
        spread = [(x, core) for x, core in _expand_summands(exprs, part) if not as_linear((core,))]
        known |= {core: _linear_terms(core) for _, core in spread if core not in known}
        if any(known[core] is None for _, core in spread):
            # Terms of this part may cancel each other, so it is not split.
            others.append(part)
            continue
        for data, core in spread:
            factors.setdefault(core, []).append(data)
    found = [LogSum(core, tuple(factor), known[core] or ()) for core, factor in factors.items()]
    for part in others:
        raised = log_sum_exponents(part) if is_a(part, scalar_math.Softplus) else None
        if raised is not None:
            common = [x for x in others if x is not part]
            mixture = tuple(add_exprs(exprs, *common, *terms) for terms in raised)
            return NonlinearParts(tuple(found), mixture, ())
    return NonlinearParts(tuple(found), (), tuple(others))


def _expand_summands(
    exprs: ExprGraph, expr: Expr, data: Product = ()
) -> list[tuple[Product, Expr]]:
    """Expression as a sum of data times cores; a switch on data adds each branch times 0 or 1."""
    if expr.is_data:
        return []
    if is_a(expr, scalar.Add):
        return [pair for x in expr.inputs for pair in _expand_summands(exprs, x, data)]
    if is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
        condition, yes, no = expr.inputs
        here = exprs.node(scalar.switch, (condition, exprs.one, exprs.zero))
        spread = _expand_summands(exprs, yes, (*data, here))
        elsewhere = exprs.node(scalar.switch, (condition, exprs.zero, exprs.one))
        return spread + _expand_summands(exprs, no, (*data, elsewhere))
    own, core = _split_data(expr)
    if core is not None and core is not expr:
        return _expand_summands(exprs, core, (*data, *own))
    merged = _merge_subtracted(exprs, expr) if is_a(expr, scalar_math.Softplus) else expr
    return [(data, expr)] if merged is expr else _expand_summands(exprs, merged, data)


def _merge_subtracted(exprs: ExprGraph, expr: Expr) -> Expr:
    """Write softplus(c - softplus(x)) as softplus(c + softplus(x - c)) - softplus(x).

    It stems from a summand 1, as of a reference alternative, that comes last: the nest merges, and
    the rest cancels.
    """
    parts = sum_parts(expr.inputs[0])
    for part in parts:
        core, sign = scaled_core(exprs, part)
        if is_a(core, scalar_math.Softplus) and constant_value(sign) == -1.0:
            rest, x = add_exprs(exprs, *without_value(parts, part)), core.inputs[0]
            inner = exprs.node(scalar_math.softplus, (subtract_exprs(exprs, x, rest),))
            nest = exprs.node(scalar_math.softplus, (add_exprs(exprs, rest, inner),))
            return add_exprs(exprs, nest, part)
    return expr


def max_joint_arguments(exprs: ExprGraph, root: Expr) -> int:
    """Maximum number of linear predictors in a nonlinear summand that is not a log-sum."""
    parts = parts_of_branches(exprs, root)
    joint = [x for part in parts for x in (*part.others, *part.mixture)]
    return max((sum(isinstance(y, Argument) for y in subexpressions(x)) for x in joint), default=0)


def is_softmax(exprs: ExprGraph, root: Expr) -> bool:
    """Whether all nonlinear summands are logarithms of sums, and some of several exponentials."""
    parts = parts_of_branches(exprs, root)
    sizes = [len(log_sum.terms) for part in parts for log_sum in part.log_sums]
    return max(sizes, default=0) >= SEVERAL and not any(p.mixture or p.others for p in parts)


def parts_of_branches(exprs: ExprGraph, root: Expr) -> list[NonlinearParts]:
    """Nonlinear summands of each branch that is selected by data."""
    return [nonlinear_parts(exprs, branch) for branch in choice_branches(root)]


def has_log_sums(exprs: ExprGraph, root: Expr) -> bool:
    """Whether a summand is the logarithm of a sum of several exponentials."""
    parts = parts_of_branches(exprs, root)
    return any(len(s.terms) >= SEVERAL for part in parts for s in part.log_sums)


def choice_branches(root: Expr) -> Iterator[Expr]:
    """Branches of nested switches on data."""
    waiting = [root]
    while waiting:
        expr = waiting.pop()
        if is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
            waiting += expr.inputs[1:]
        else:
            yield expr


def log_sum_exponents(expr: Expr) -> list[tuple[Expr, ...]] | None:
    """Exponents l_k of softplus(x) = log Σ exp(l_k), as lists of summands; None if too many."""
    raised: list[tuple[Expr, ...]] = [()]
    for part in sum_parts(expr.inputs[0]):
        inner = log_sum_exponents(part) if is_a(part, scalar_math.Softplus) else [(part,)]
        if inner is None or len(raised) * len(inner) >= MAX_EXPONENTIALS:
            return None
        raised = [(*left, *right) for left in raised for right in inner]
    return [(), *raised]


def as_linear(parts: Sequence[Expr]) -> LinearFunction | None:
    """Sum of `parts` as a linear function of the linear predictors; None if it is not linear."""
    weights: dict[int, list[Product]] = {}
    offset: list[Product] = []
    waiting: list[tuple[Expr, Product]] = [(part, ()) for part in parts]
    while waiting:
        expr, factors = waiting.pop()
        if expr.is_data:
            offset.append((*factors, expr))
        elif isinstance(expr, Argument):
            weights.setdefault(expr.number, []).append(factors)
        elif is_a(expr, scalar.Add):
            waiting += [(x, factors) for x in expr.inputs]
        else:
            data, core = _split_data(expr)
            if core is None or core is expr:
                return None
            waiting.append((core, (*factors, *data)))
    return LinearFunction({a: tuple(w) for a, w in weights.items()}, tuple(offset))


def _linear_terms(core: Expr) -> tuple[LinearFunction, ...] | None:
    found = log_sum_exponents(core) if is_a(core, scalar_math.Softplus) else None
    terms = [as_linear(parts) for parts in found or ()]
    kept = tuple(term for term in terms if term is not None)
    return kept if found and len(kept) == len(terms) else None


def _split_data(expr: Expr) -> tuple[Product, Expr | None]:
    """Data factors of a product, and its only non-data factor (None if there are several)."""
    factors = product_factors(expr)
    others = [x for x in factors if not x.is_data]
    return tuple(x for x in factors if x.is_data), others[0] if len(others) == 1 else None
