"""Log-sums over many states as loops: log Σ_k exp(o_k + Σ_j w_kj φ_j), with few features φ.

Exponents are split into data times functions of the parameters. Functions with equal coefficients
in all states leave the sum, and those with proportional coefficients are one feature: a binomial
number k of animals with a Poisson distribution has k (η - Σ_t softplus(u_t)) for any number of
visits t. So a term is compiled once, whatever the number of states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.expressions.arithmetic import add_exprs, multiply_exprs
from pymc_minibatch_mh.expressions.graph import REAL, Argument, Constant, Expr, ExprGraph
from pymc_minibatch_mh.expressions.patterns import (
    affines_in,
    cached_rule,
    constant_value,
    is_a,
    operands_first,
    scaled_core,
    subexpressions,
)
from pymc_minibatch_mh.functions.base import are_close
from pymc_minibatch_mh.functions.log_sum_exp import LogSumExp, log_sum_exp

#: Minimum number of states of a loop; maximum number of features.
MIN_STATES, MAX_FEATURES = 8, 64
#: Number of predictors from which on a choice of two states is a loop, if each summand of its log
#: odds has at most so many.
MANY, PREDICTORS_OF_A_PART = 4, 2
#: Exponent of the first of two states.
NOTHING = Constant(0.0, REAL)


@dataclass(frozen=True, eq=False)
class StateSum:
    """Data times log Σ_k exp(o_k + Σ_j w_kj φ_j).

    `weights` w has shape (states, features); `offsets` are data, -inf where a state is impossible.
    """

    factor: Expr
    features: tuple[Expr, ...]
    weights: np.ndarray
    offsets: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class StateSums:
    """Log-likelihood as log-sums over states, and the rest of it."""

    sums: tuple[StateSum, ...]
    rest: Expr

    @property
    def functions(self) -> tuple[Expr, ...]:
        """The rest, and the features of all sums: what is compiled."""
        return (self.rest, *(x for states in self.sums for x in states.features))


def loop_over_states(
    exprs: ExprGraph, exponents: Sequence[Expr], possible: Sequence[Expr]
) -> Expr | None:
    """Log-sum of many exponents of few linear predictors; None if it is not worth a loop."""
    if len(exponents) < MIN_STATES or not all(x.is_data for x in possible):
        return None
    bases = {
        exprs.primitive_part(exprs.without_offset(affine))[0]
        for exponent in exponents
        for affine in affines_in(exponent)
    }
    if not bases or 2 * len(bases) > len(exponents):
        return None
    never = exprs.constant(-inf)
    pairs = zip(exponents, possible, strict=True)
    return exprs.node(
        log_sum_exp,
        [x if constant_value(c) else exprs.node(scalar.switch, (c, x, never)) for x, c in pairs],
    )


@cached_rule
def split_states(exprs: ExprGraph, root: Expr) -> StateSums | None:
    """Log-sums over states in a log-likelihood; None if it has none, or is not linear in them."""
    sums, rest = list[StateSum](), root
    while any(map(_exponents, subexpressions(rest))):
        factors: dict[Expr, list[Expr]] = {}
        for data, core in _linear_terms(exprs, rest):
            factors.setdefault(core, []).append(data)
        loops = [x for x in factors if _exponents(x)]
        made_sums = [_sum_of_states(exprs, exprs.plus(factors[x]), x) for x in loops]
        if not loops or any(x is None for x in made_sums):
            return None
        common = {}
        for loop, (states, outside) in zip(loops, made_sums, strict=True):  # type: ignore[misc]
            sums.append(states)
            common[loop] = outside
        rest = _replaced(exprs, rest, common)
    split = StateSums(tuple(sums), rest)
    few = len(split.functions) <= MAX_FEATURES
    nested = any(_exponents(x) for f in split.functions for x in subexpressions(f))
    return split if sums and few and not nested else None


def _exponents(expr: Expr) -> tuple[Expr, ...]:
    """Exponents of a log-sum over states; none for any other expression, and for small choices.

    A softplus is a sum over two states. It is a loop if many predictors enter by sums of functions
    of few: then its derivatives follow from few numbers.
    """
    if is_a(expr, LogSumExp):
        return expr.inputs
    if not is_a(expr, scalar_math.Softplus) or not is_a(expr.inputs[0], scalar.Add):
        return ()
    parts = [
        {x for x in subexpressions(part) if isinstance(x, Argument)}
        for part in expr.inputs[0].inputs
    ]
    apart = max(map(len, parts)) <= PREDICTORS_OF_A_PART
    return (NOTHING, expr.inputs[0]) if apart and len(set().union(*parts)) >= MANY else ()


def _replaced(exprs: ExprGraph, root: Expr, replacements: dict[Expr, Expr]) -> Expr:
    """Expression with some of its parts replaced."""
    replacements = dict(replacements)
    for expr in operands_first([root], replacements):
        if expr.is_data or not expr.inputs:
            replacements[expr] = expr
        else:
            replacements[expr] = exprs.node(expr.op, [replacements[x] for x in expr.inputs])  # type: ignore[attr-defined]
    return replacements[root]


def _sum_of_states(exprs: ExprGraph, factor: Expr, loop: Expr) -> tuple[StateSum, Expr] | None:
    """A log-sum without what all exponents have in common, and that."""
    table: dict[tuple[Expr, Expr], np.ndarray] = {}
    possible = list[Expr]()
    exponents = _exponents(loop)
    for k, exponent in enumerate(exponents):
        condition: Expr = exprs.constant(True)
        if is_a(exponent, scalar.Switch) and constant_value(exponent.inputs[2]) == -inf:
            condition, exponent, _ = exponent.inputs
        possible.append(condition)
        for data, core in _linear_terms(exprs, exponent):
            for number, monomial in _summands_of_data(exprs, data):
                column = table.setdefault((core, monomial), np.zeros(len(exponents)))
                column[k] += number
    common = [
        multiply_exprs(exprs, exprs.constant(column[0]), monomial, core)
        for (core, monomial), column in table.items()
        if np.ptp(column) == 0.0 and (core, monomial) != (exprs.one, exprs.one)
    ]
    moving = {key: column for key, column in table.items() if np.ptp(column) > 0.0}
    features = [(key, column) for key, column in moving.items() if not key[0].is_data]
    weights, made = _merged_features(exprs, features)
    offsets = [
        _offset(exprs, {key[1]: c[k] for key, c in table.items() if key[0].is_data
                        and (key in moving or key[1] is exprs.one)}, condition)
        for k, condition in enumerate(possible)
    ]  # fmt: skip
    return StateSum(factor, made, weights, tuple(offsets)), add_exprs(exprs, *common)


def _offset(exprs: ExprGraph, numbers: dict[Expr, float], condition: Expr) -> Expr:
    total = exprs.plus([exprs.times(exprs.constant(x), data) for data, x in numbers.items()])
    if constant_value(condition):
        return total
    return exprs.node(scalar.switch, (condition, total, exprs.constant(-inf)))


def _merged_features(
    exprs: ExprGraph, columns: Sequence[tuple[tuple[Expr, Expr], np.ndarray]]
) -> tuple[np.ndarray, tuple[Expr, ...]]:
    """Weights and functions, where functions with proportional weights are added up."""
    groups: list[tuple[np.ndarray, list[Expr]]] = []
    for (core, monomial), column in columns:
        size = column[np.argmax(np.abs(column))]
        shape = column / size
        part = multiply_exprs(exprs, exprs.constant(size), monomial, core)
        alike = [parts for other, parts in groups if are_close(shape, other).all()]
        if alike:
            alike[0].append(part)
        else:
            groups.append((shape, [part]))
    weights = np.array([shape for shape, _ in groups]).T
    return np.ascontiguousarray(weights), tuple(add_exprs(exprs, *parts) for _, parts in groups)


def _linear_terms(exprs: ExprGraph, expr: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Summands of an expression, each as data times a function; data is times 1."""
    if expr.is_data:
        yield exprs.real(expr), exprs.one
    elif is_a(expr, scalar.Add):
        for x in expr.inputs:
            yield from _linear_terms(exprs, x)
    elif is_a(expr, scalar.Switch) and expr.inputs[0].is_data:
        yield from _terms_of_choice(exprs, *expr.inputs)
    else:
        core, factor = scaled_core(exprs, expr)
        if core is expr:
            yield exprs.one, expr
        else:
            for data, inner in _linear_terms(exprs, core):
                yield exprs.times(exprs.real(factor), data), inner


def _terms_of_choice(
    exprs: ExprGraph, condition: Expr, yes: Expr, no: Expr
) -> Iterator[tuple[Expr, Expr]]:
    holds = _truth(condition)
    if holds is not None:
        yield from _linear_terms(exprs, yes if holds else no)
        return
    for data, core in _linear_terms(exprs, yes):
        yield exprs.node(scalar.switch, (condition, data, exprs.zero)), core
    for data, core in _linear_terms(exprs, no):
        yield exprs.node(scalar.switch, (condition, exprs.zero, data)), core


def _truth(condition: Expr) -> bool | None:
    """Whether a condition on data holds in all rows or in none; None if it depends on them."""
    if is_a(condition, scalar.AND, scalar.OR):
        truths, decisive = [_truth(x) for x in condition.inputs], is_a(condition, scalar.OR)
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive
    return bool(condition.value) if isinstance(condition, Constant) else None


def _summands_of_data(exprs: ExprGraph, data: Expr) -> Iterator[tuple[float, Expr]]:
    """Summands of data, each as a number times other data, in real numbers."""
    if isinstance(data, Constant):
        yield float(data.value), exprs.one
    elif data.dtype.itemsize < 8:
        # Sums in small types are not split, because they may overflow.
        yield 1.0, exprs.real(data)
    elif is_a(data, scalar.Add):
        for x in data.inputs:
            yield from _summands_of_data(exprs, x)
    elif is_a(data, scalar.Sub):
        yield from _summands_of_data(exprs, data.inputs[0])
        for number, rest in _summands_of_data(exprs, data.inputs[1]):
            yield -number, rest
    elif is_a(data, scalar.Cast):
        yield from _summands_of_data(exprs, data.inputs[0])
    elif is_a(data, scalar.Switch) and _truth(data.inputs[0]) is not None:
        yield from _summands_of_data(exprs, data.inputs[1 if _truth(data.inputs[0]) else 2])
    else:
        yield from _summands_of_product(exprs, data)


def _summands_of_product(exprs: ExprGraph, data: Expr) -> Iterator[tuple[float, Expr]]:
    number, others = exprs.as_product(data)
    if others == (data,):
        yield 1.0, exprs.real(data)
        return
    # One factor that is a sum is multiplied out: (k - y) x has a part in k that rows share.
    first, *rest = sorted(others, key=lambda x: not is_a(x, scalar.Add, scalar.Sub, scalar.Cast))
    for inner, part in _summands_of_data(exprs, first):
        product = exprs.times(part, exprs.product(1.0, rest)) if rest else part
        yield number * inner, product
