"""Logarithms of sums of exponentials in an expression: of softmax, and of mixtures.

Simplification writes log(exp(x) + exp(y)) as x + softplus(y - x), of more exponentials one within
the other. Here they are brought together again: their joint bounds do not grow with their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.expressions.arithmetic import add
from pymc_minibatch_mh.expressions.graph import Argument, Expr, ExprGraph
from pymc_minibatch_mh.expressions.patterns import factors_of, is_a, reachable, summands

#: Exponentials beyond which a logarithm of their sum stays one of two.
MOST_EXPONENTIALS = 256

#: A product of data, and a sum of such products.
Product = tuple[Expr, ...]
Weights = tuple[Product, ...]


@dataclass(frozen=True)
class Linear:
    """A sum of arguments, by number, times data, plus data."""

    weights: dict[int, Weights]
    offset: Weights


@dataclass(frozen=True)
class LogSum:
    """Data times log Σ_k exp(l_k), every l_k a linear function; `core` is it as it is written."""

    core: Expr
    factor: Weights
    terms: tuple[Linear, ...]


@dataclass(frozen=True)
class Parts:
    """The summands of a log-likelihood but for linear ones.

    A mixture is the exponents of one more log of a sum, with all other summands in each, where what
    was taken out of the sum cancels again; of one softplus there are two. Others are left where
    there is no mixture.
    """

    log_sums: tuple[LogSum, ...]
    mixture: tuple[Expr, ...]
    others: tuple[Expr, ...]


def parts_of(exprs: ExprGraph, root: Expr) -> Parts:
    """Return the parts of a sum."""
    known: dict[Expr, tuple[Linear, ...] | None] = {}
    factors: dict[Expr, list[Product]] = {}
    others: list[Expr] = []
    for part in summands(root):
        spread = [(data, core) for data, core in _spread(exprs, part) if linear((core,)) is None]
        for _, core in spread:
            if core not in known:
                known[core] = _linear_terms(core)
        if any(known[core] is None for _, core in spread):
            # A sum that is written as one may cancel within, which its own parts would not.
            others.append(part)
            continue
        for data, core in spread:
            factors.setdefault(core, []).append(data)
    found = [LogSum(core, tuple(factor), known[core] or ()) for core, factor in factors.items()]
    mixture = _mixture(exprs, others)
    return Parts(tuple(found), mixture, () if mixture else tuple(others))


def _spread(exprs: ExprGraph, expr: Expr, data: Product = ()) -> list[tuple[Product, Expr]]:
    """Return an expression as a sum of products of data with expressions that are no such sums.

    A choice by data is the sum of both values, each times zero or one.
    """
    if expr.is_data:
        return []
    if is_a(expr, scalar.Add):
        return [pair for x in expr.inputs for pair in _spread(exprs, x, data)]
    if is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
        condition, yes, no = expr.inputs
        here = exprs.node(scalar.switch, (condition, exprs.one, exprs.zero))
        spread = _spread(exprs, yes, (*data, here))
        elsewhere = exprs.node(scalar.switch, (condition, exprs.zero, exprs.one))
        return spread + _spread(exprs, no, (*data, elsewhere))
    own, core = _split(expr)
    if core is None or core is expr:
        return [(data, expr)]
    return _spread(exprs, core, (*data, *own))


def _mixture(exprs: ExprGraph, others: Sequence[Expr]) -> tuple[Expr, ...]:
    for part in others:
        raised = exponents(part) if is_a(part, scalar_math.Softplus) else None
        if raised is not None:
            common = [x for x in others if x is not part]
            return tuple(add(exprs, *common, *terms) for terms in raised)
    return ()


def arguments_at_once(exprs: ExprGraph, root: Expr) -> int:
    """Return on how many arguments a part of a log-likelihood depends, at most.

    Logarithms of sums of exponentials of linear functions count as none: their bounds are joint.
    """
    parts = [parts_of(exprs, branch) for branch in branches(root)]
    joint = [x for part in parts for x in (*part.others, *part.mixture)]
    return max((sum(isinstance(y, Argument) for y in reachable(x)) for x in joint), default=0)


def branches(root: Expr) -> Iterator[Expr]:
    """Yield the expressions that data choose from."""
    waiting = [root]
    while waiting:
        expr = waiting.pop()
        if is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
            waiting += expr.inputs[1:]
        else:
            yield expr


def exponents(expr: Expr) -> list[tuple[Expr, ...]] | None:
    """Return the exponents, each as summands, of a sum with log softplus(x); None of too many."""
    raised: list[tuple[Expr, ...]] = [()]
    for part in summands(expr.inputs[0]):
        inner = exponents(part) if is_a(part, scalar_math.Softplus) else [(part,)]
        if inner is None or len(raised) * len(inner) >= MOST_EXPONENTIALS:
            return None
        raised = [(*left, *right) for left in raised for right in inner]
    return [(), *raised]


def linear(parts: Sequence[Expr]) -> Linear | None:
    """Return a sum as a linear function of the arguments, None if it is not written as one."""
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
            data, core = _split(expr)
            if core is None or core is expr:
                return None
            waiting.append((core, (*factors, *data)))
    return Linear({a: tuple(w) for a, w in weights.items()}, tuple(offset))


def _linear_terms(core: Expr) -> tuple[Linear, ...] | None:
    found = exponents(core) if is_a(core, scalar_math.Softplus) else None
    terms = [linear(parts) for parts in found or ()]
    kept = tuple(term for term in terms if term is not None)
    return kept if found and len(kept) == len(terms) else None


def _split(expr: Expr) -> tuple[Product, Expr | None]:
    """Return the data in a product, and the one factor that is not data, if it is one."""
    factors = factors_of(expr)
    others = [x for x in factors if not x.is_data]
    return tuple(x for x in factors if x.is_data), others[0] if len(others) == 1 else None
