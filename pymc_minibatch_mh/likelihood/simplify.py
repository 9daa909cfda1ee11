"""Scalar operations in the form that bounds are tightest for: one rule per operation."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import inf, log

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.functions.base import sum_of
from pymc_minibatch_mh.functions.log_add_exp import log_add_exp
from pymc_minibatch_mh.functions.log_any import LogAny, log_any
from pymc_minibatch_mh.functions.log_erfc import LogErfc, log_erfc
from pymc_minibatch_mh.functions.log_softplus import log_softplus
from pymc_minibatch_mh.likelihood.arithmetic import (
    CHOICES,
    add,
    as_number,
    divide,
    equated,
    exp,
    multiply,
    negative,
    outside_the_reals,
    reciprocal,
    sigmoid,
    softplus,
    square,
    subtract,
)
from pymc_minibatch_mh.likelihood.cells import Affine, Apply, Cell, Cells, Constant, Length, require
from pymc_minibatch_mh.likelihood.patterns import (
    factors_of,
    is_a,
    is_finite,
    is_nonnegative,
    is_positive,
    is_probability,
    n_cells,
    number,
    scaled_core,
    summands,
)

ORDERS = (scalar.LT, scalar.LE, scalar.GT, scalar.GE)


def rest_of_share(cells: Cells, part: Cell, whole: Cell) -> Cell | None:
    """Return whole - part, if part/whole is a share x/(x + y) of two positive quantities."""
    if not is_a(whole, scalar.Add) or not is_positive(part):
        return None
    rest = subtract(cells, whole, part)
    # Shares of three have one sum in common, which stays recognisable.
    return rest if is_positive(rest) and not is_a(rest, scalar.Add) else None


def between(cells: Cells, x: Cell) -> Cell:
    """Return σ(a) - σ(b), a > b, as σ(a) σ(-b) (1 - exp(b - a)), and any other cell as it is.

    In the product nothing cancels; but the shares of all categories add up to one as differences.
    """
    if not is_a(x, scalar.Add) or len(x.inputs) != 2:
        return x
    (left, factor), (right, opposite) = (scaled_core(cells, part) for part in x.inputs)
    if number(factor) == -1.0:
        left, factor, right, opposite = right, opposite, left, factor
    shares = is_a(left, scalar_math.Sigmoid) and is_a(right, scalar_math.Sigmoid)
    if not shares or (number(factor), number(opposite)) != (1.0, -1.0):
        return x
    gap = subtract(cells, left.inputs[0], right.inputs[0])
    if not is_positive(gap):
        return x
    below = sigmoid(cells, negative(cells, right.inputs[0]))
    return multiply(cells, left, below, exp(cells, _log_of_rest(cells, gap)))


def _log_of_rest(cells: Cells, size: Cell) -> Cell:
    """Return log(1 - exp(-x)) of a positive x, of an exponential by its own exponent."""
    if is_a(size, scalar.Exp):
        return cells.node(log_any, size.inputs)
    return cells.node(scalar_math.log1mexp, (negative(cells, size),))


def order(cells: Cells, op: ScalarOp, left: Cell, right: Cell) -> Cell:
    """Return a comparison, or its answer where that is the same at every position and row."""
    if isinstance(op, scalar.LT | scalar.LE):
        small, large, strict = left, right, isinstance(op, scalar.LT)
    else:
        small, large, strict = right, left, isinstance(op, scalar.GT)
    small, large = between(cells, small), between(cells, large)
    if _is_at_most(small, large, strict=strict):
        return cells.constant(True)
    if _is_at_most(large, small, strict=not strict):
        return cells.constant(False)
    return cells.node(op, (left, right))


def _is_at_most(left: Cell, right: Cell, *, strict: bool) -> bool:
    if number(left) == 0.0:
        return is_positive(right) if strict else is_nonnegative(right)
    return number(right) == 1.0 and not strict and is_probability(left)


def apply(cells: Cells, op: ScalarOp, *operands: Cell) -> Cell:
    """Return ``op(*operands)`` in a form that bounds can be tight for.

    Raises
    ------
    LoweringError
        If it takes the parameters out of the real numbers, or computes with the number of rows.
    """
    if any(isinstance(cell, Length) for cell in operands):
        require(isinstance(op, scalar.Cast), op, "computes with the number of rows")
        return operands[0]
    if all(cell.is_data for cell in operands):
        return operands[1] if isinstance(op, scalar.Second) else cells.node(op, operands)
    if isinstance(op, ORDERS):
        return order(cells, op, *operands)
    known = outside_the_reals(cells, op, operands)
    if known is not None:
        return known
    if not isinstance(op, CHOICES):
        operands = tuple(as_number(cells, cell) for cell in operands)
    rule = _RULES.get(type(op))
    return cells.node(op, operands) if rule is None else rule(cells, *operands)


def quotient(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return a quotient, x/(x + y) of positive quantities as a logistic function."""
    rest = rest_of_share(cells, left, right)
    if rest is None:
        return divide(cells, left, right)
    return sigmoid(cells, subtract(cells, logarithm(cells, left), logarithm(cells, rest)))


def logarithm(cells: Cells, x: Cell) -> Cell:
    """Return a logarithm, of products with exponentials term by term."""
    if x.is_data:
        return cells.node(scalar.log, (cells.real(x),))
    if isinstance(x, Affine) and all(t.place in cells.logs for t in x.terms):
        return x
    rule = _LOG_OF.get(type(x.op)) if isinstance(x, Apply) else None
    if rule is not None:
        return rule(cells, *x.inputs)
    if is_a(x, scalar.Switch):
        return _in_branches(cells, logarithm, x)
    if is_a(x, scalar.Mul):
        return _log_of_product(cells, x)
    if is_a(x, scalar.Add) and all(is_a(part, scalar.Exp) for part in x.inputs):
        return log_of_sum(cells, [part.inputs[0] for part in x.inputs])
    if is_a(x, scalar.Add) and len(x.inputs) == 2 and number(x.inputs[1]) == 1.0:
        return log1p(cells, x.inputs[0])
    tail = _log_of_tail(cells, x, 0.0)
    if tail is not None:
        return tail
    share = between(cells, x)
    return cells.node(scalar.log, (x,)) if share is x else logarithm(cells, share)


_LOG_OF: dict[type, Callable[[Cells, Cell], Cell]] = {
    scalar.Exp: lambda cells, x: x,
    scalar.Reciprocal: lambda cells, x: negative(cells, logarithm(cells, x)),
    scalar.Sqrt: lambda cells, x: multiply(cells, cells.constant(0.5), logarithm(cells, x)),
    scalar_math.Sigmoid: lambda cells, x: negative(cells, softplus(cells, negative(cells, x))),
    scalar_math.Softplus: lambda cells, x: cells.node(log_softplus, (x,)),
    scalar_math.Erfc: lambda cells, x: cells.node(log_erfc, (x,)),
    scalar_math.Erfcx: lambda cells, x: add(cells, cells.node(log_erfc, (x,)), square(cells, x)),
}


def _log_of_tail(cells: Cells, x: Cell, more: float) -> Cell | None:
    """Return log(x + more) where that is a multiple of 1 + erf(z) or of 1 - erf(z), else None."""
    part, *rest = summands(x)
    numbers = [value for c in rest if (value := number(c)) is not None]
    whole = sum_of((more, *numbers)) if len(numbers) == len(rest) else 0.0
    core, factor = scaled_core(cells, part)
    share = number(factor)
    if not is_a(core, scalar_math.Erf) or share is None or abs(share) != whole:
        return None
    inner = core.inputs[0] if share < 0.0 else negative(cells, core.inputs[0])
    return add(cells, cells.constant(log(whole)), cells.node(log_erfc, (inner,)))


def _in_branches(cells: Cells, rule: Callable[..., Cell], choice: Cell) -> Cell:
    """Return a function of a choice as a choice between its values."""
    condition, *branches = choice.inputs
    return apply(cells, scalar.switch, condition, *(rule(cells, x) for x in branches))


def _log_of_product(cells: Cells, x: Cell) -> Cell:
    core, factor = scaled_core(cells, x)
    value = number(factor)
    if is_a(core, scalar.Expm1) and value is not None and value < 0.0:
        size = logarithm(cells, cells.constant(-value))
        return add(cells, log1mexp(cells, core.inputs[0]), size)
    # Only one factor may be of unknown sign, or log|a| + log|b| would replace a NaN by a number.
    positive = [part for part in x.inputs if is_positive(part)]
    rest = [part for part in x.inputs if not is_positive(part)]
    if not positive or (len(rest) > 1 and not all(part.is_data for part in rest)):
        return cells.node(scalar.log, (x,))
    groups = [*positive, multiply(cells, *rest)] if rest else positive
    return add(cells, *(logarithm(cells, part) for part in groups))


def log_of_sum(cells: Cells, logs: Sequence[Cell]) -> Cell:
    """Return log Σ exp(x), any of which may be -inf."""
    return reduce(lambda left, right: _log_add_exp(cells, left, right), logs)


def hindrances(cells: Cells, x: Cell) -> tuple[bool, bool]:
    """Return what speaks against subtracting a cell: that it may be -inf, that it is data."""
    unknown = x.is_data and not isinstance(x, Constant)
    return unknown or may_be_impossible(cells, x), x.is_data


def summands_of(cells: Cells, total: Cell) -> list[Cell]:
    """Return the summands of a sum, one by one also those that are data."""
    parts: list[Cell] = []
    for part in summands(total):
        if isinstance(part, Affine):
            parts += [cells.linear(part), *summands(part.offset)]
        else:
            parts += summands(part)
    return parts


def is_impossible(cell: Cell) -> bool:
    """Whether a cell is -inf."""
    return isinstance(cell, Constant) and bool(np.isneginf(cell.value))


def decides(cells: Cells, part: Cell, *, deep: bool) -> bool:
    """Whether a summand is a choice by data of -inf or another value."""
    if not (is_a(part, scalar.Switch) and part.inputs[0].is_data):
        return False
    return any(is_impossible(x) or (deep and may_be_impossible(cells, x)) for x in part.inputs[1:])


def may_be_impossible(cells: Cells, cell: Cell) -> bool:
    """Whether data decide if a sum is -inf."""
    return any(is_impossible(x) or decides(cells, x, deep=True) for x in summands_of(cells, cell))


def _log_add_exp(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return log(exp(left) + exp(right)) as left + softplus(right - left), -inf allowed."""
    both = may_be_impossible(cells, left) and may_be_impossible(cells, right)
    for this, other in ((left, right), (right, left)):
        if is_impossible(this):
            return other
        parts = summands_of(cells, this)
        choice = next((part for part in parts if decides(cells, part, deep=both)), None)
        if choice is not None and not this.is_data:
            rest = [part for part in parts if part is not choice]
            condition, *branches = choice.inputs
            outcomes = [
                other if is_impossible(x) else _log_add_exp(cells, add(cells, x, *rest), other)
                for x in branches
            ]
            return apply(cells, scalar.switch, condition, *outcomes)
    if left.is_data and right.is_data:
        return cells.node(log_add_exp, (cells.real(left), cells.real(right)))
    # The first part comes up twice, and -inf in some rows would leave -inf + inf there.
    left, right = sorted((left, right), key=lambda x: (*hindrances(cells, x), n_cells(x)))
    return add(cells, left, softplus(cells, subtract(cells, right, left)))


def log1p(cells: Cells, x: Cell) -> Cell:
    """Return log(1 + x), of what completes a probability or an exponential."""
    if is_a(x, scalar.Exp):
        return softplus(cells, x.inputs[0])
    core, factor = scaled_core(cells, x)
    if is_a(core, scalar.Switch):
        return _in_branches(cells, lambda _, y: log1p(cells, multiply(cells, factor, y)), core)
    if is_a(core, scalar.Exp) and number(factor) == -1.0:
        return log1mexp(cells, core.inputs[0])
    if is_a(core, scalar_math.Sigmoid) and number(factor) == -1.0:
        return negative(cells, softplus(cells, core.inputs[0]))
    if is_a(core, scalar_math.Erfc) and number(factor) == -0.5:
        inner = negative(cells, core.inputs[0])
        return add(cells, cells.constant(log(0.5)), cells.node(log_erfc, (inner,)))
    tail = _log_of_tail(cells, x, 1.0)
    return cells.node(scalar.log1p, (x,)) if tail is None else tail


def log1mexp(cells: Cells, x: Cell) -> Cell:
    """Return log(1 - exp(x)), of a log-probability as that of the complement."""
    if x.is_data:
        return cells.node(scalar_math.log1mexp, (cells.real(x),))
    if is_a(x, scalar.Switch):
        return _in_branches(cells, log1mexp, x)
    if is_a(x, scalar_math.Log1mexp):
        return x.inputs[0]
    if is_a(x, LogAny):
        return negative(cells, exp(cells, x.inputs[0]))
    core, factor = scaled_core(cells, x)
    if is_a(core, scalar_math.Softplus) and number(factor) == -1.0:
        return negative(cells, softplus(cells, negative(cells, core.inputs[0])))
    if is_a(core, scalar.Exp) and factor is not cells.one:
        size = logarithm(cells, cells.times(factor, cells.minus_one))
        return cells.node(log_any, (add(cells, core.inputs[0], size),))
    tail, *rest = summands(x)
    if is_a(tail, LogErfc) and len(rest) == 1 and _is_log_of_half(rest[0]):
        mirror = negative(cells, tail.inputs[0])
        return add(cells, cells.node(log_erfc, (mirror,)), *rest)
    return cells.node(scalar_math.log1mexp, (x,))


def _is_log_of_half(cell: Cell) -> bool:
    value = number(cell)
    return value is not None and sum_of((value, log(2.0))) == 0.0


def incomplete_gamma(cells: Cells, shape: Cell, x: Cell) -> Cell:
    """Return the probability that a gamma variable exceeds x, with one event that x > 0 is late."""
    if number(shape) == 1.0:
        return exp(cells, negative(cells, x))
    return cells.node(scalar_math.gammaincc, (shape, x))


def incomplete_beta(cells: Cells, a: Cell, b: Cell, x: Cell) -> Cell:
    """Return the distribution function of a beta variable, a power where b is one."""
    if number(b) == 1.0:
        return power(cells, x, a)
    return cells.node(scalar_math.betainc, (a, b, x))


def power(cells: Cells, base: Cell, exponent: Cell) -> Cell:
    """Return a power, through the exponential function where the exponent is not data."""
    if exponent.is_data:
        known = number(exponent)
        if known in (0.0, 1.0):
            return base if known else cells.one
        if known == 2.0:
            return square(cells, base)
        if known == -1.0:
            return reciprocal(cells, base)
        if is_a(base, scalar.Exp):
            return exp(cells, multiply(cells, exponent, base.inputs[0]))
        return cells.node(scalar.pow, (base, exponent))
    return exp(cells, multiply(cells, exponent, logarithm(cells, base)))


def root(cells: Cells, x: Cell) -> Cell:
    """Return a square root, of positive factors one by one."""
    if x.is_data:
        return cells.node(scalar.sqrt, (cells.real(x),))
    if is_a(x, scalar.Exp):
        return exp(cells, multiply(cells, cells.constant(0.5), x.inputs[0]))
    if is_a(x, scalar.Sqr) and is_positive(x.inputs[0]):
        return x.inputs[0]
    if is_a(x, scalar.Reciprocal):
        return reciprocal(cells, root(cells, x.inputs[0]))
    factors = factors_of(x)
    positive = [part for part in factors if is_positive(part)]
    # Two factors may both be negative, and have a root together only.
    rest = [part for part in factors if not is_positive(part)]
    groups = [*positive, multiply(cells, *rest)] if rest else positive
    if len(groups) > 1:
        return multiply(cells, *(root(cells, part) for part in groups))
    return cells.node(scalar.sqrt, (x,))


def switch(cells: Cells, condition: Cell, left: Cell, right: Cell) -> Cell:
    """Return a choice, unless it is none."""
    known = number(condition)
    if known is not None:
        return left if known else right
    if left is right or _is_limit(cells, condition, left, right):
        return right
    left, right = as_number(cells, left), as_number(cells, right)
    if not condition.is_data and number(subtract(cells, left, right)) == 0.0:
        return min(left, right, key=n_cells)
    return cells.node(scalar.switch, (condition, left, right))


def _is_limit(cells: Cells, condition: Cell, left: Cell, right: Cell) -> bool:
    """Whether this is zero where x = y, and a multiple of x - y elsewhere."""
    pair = equated(condition)
    if pair is None or number(left) != 0.0:
        return False
    difference = subtract(cells, *pair)
    others = [factor for factor in factors_of(right) if factor is not difference]
    return len(others) < len(factors_of(right)) and all(x.is_data or is_finite(x) for x in others)


def maximum(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return the larger of two, which minus infinity never is."""
    for one, other in ((left, right), (right, left)):
        if number(one) == -inf:
            return other
    return cells.node(scalar.maximum, (left, right))


_RULES: dict[type, Callable[..., Cell]] = {
    scalar.Add: add,
    scalar.Mul: multiply,
    scalar.Neg: negative,
    scalar.Sub: subtract,
    scalar.TrueDiv: quotient,
    scalar.Reciprocal: reciprocal,
    scalar.Exp: exp,
    scalar.Exp2: lambda cells, x: exp(cells, multiply(cells, cells.constant(log(2.0)), x)),
    scalar.Log: logarithm,
    scalar.Log2: lambda cells, x: divide(cells, logarithm(cells, x), cells.constant(log(2.0))),
    scalar.Log10: lambda cells, x: divide(cells, logarithm(cells, x), cells.constant(log(10.0))),
    scalar.Log1p: log1p,
    scalar_math.Log1mexp: log1mexp,
    scalar_math.GammaIncC: incomplete_gamma,
    scalar_math.BetaInc: incomplete_beta,
    scalar.Sqr: square,
    scalar.Sqrt: root,
    scalar.Pow: power,
    scalar.Switch: switch,
    scalar.Second: lambda cells, _like, x: x,
    scalar.Abs: lambda cells, x: x if is_positive(x) else cells.node(scalar.abs, (x,)),
    scalar.Sign: lambda cells, x: cells.one if is_positive(x) else cells.node(scalar.sign, (x,)),
    scalar.Identity: lambda cells, x: x,
    scalar.Maximum: maximum,
}
