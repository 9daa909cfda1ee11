"""Scalar operations in the form that bounds are tightest for: one rule per operation."""

from collections.abc import Callable, Sequence
from functools import reduce
from math import log

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.likelihood.arithmetic import (
    add,
    divide,
    exp,
    multiply,
    negative,
    reciprocal,
    root,
    softplus,
    square,
    subtract,
)
from pymc_minibatch_mh.likelihood.cells import Cell, Cells, Constant, Length, LoweringError
from pymc_minibatch_mh.likelihood.composite import log_add_exp, log_erfc
from pymc_minibatch_mh.likelihood.logic import CHOICES, as_number, equated, outside_the_reals
from pymc_minibatch_mh.likelihood.patterns import (
    factors_of,
    is_a,
    is_finite,
    is_positive,
    number,
    scaled_core,
    summands,
)


def apply(cells: Cells, op: ScalarOp, *operands: Cell) -> Cell:
    """Return ``op(*operands)`` in a form that bounds can be tight for.

    Raises
    ------
    LoweringError
        If it takes the parameters out of the real numbers, such as by rounding them, or depends on
        how many rows there are.
    """
    if any(isinstance(cell, Length) for cell in operands):
        if isinstance(op, scalar.Cast):
            return operands[0]
        raise LoweringError(op, "computes with the number of rows")
    if all(cell.is_data for cell in operands):
        return cells.node(op, operands)
    known = outside_the_reals(cells, op, operands)
    if known is not None:
        return known
    if not isinstance(op, CHOICES):
        operands = tuple(as_number(cells, cell) for cell in operands)
    rule = _RULES.get(type(op))
    return cells.node(op, operands) if rule is None else rule(cells, *operands)


def logarithm(cells: Cells, x: Cell) -> Cell:
    """Return a logarithm, of products with exponentials term by term."""
    if x.is_data:
        return cells.node(scalar.log, (cells.real(x),))
    if is_a(x, scalar.Exp):
        return x.inputs[0]
    if is_a(x, scalar_math.Sigmoid):
        inner = negative(cells, x.inputs[0])
        return negative(cells, softplus(cells, inner))
    if is_a(x, scalar_math.Erfc):
        return cells.node(log_erfc, x.inputs)
    if is_a(x, scalar.Mul):
        return _log_of_product(cells, x)
    if is_a(x, scalar.Reciprocal):
        return negative(cells, logarithm(cells, x.inputs[0]))
    if is_a(x, scalar.Add) and all(is_a(part, scalar.Exp) for part in x.inputs):
        return log_of_sum(cells, [part.inputs[0] for part in x.inputs])
    if is_a(x, scalar.Add) and len(x.inputs) == 2 and number(x.inputs[1]) == 1.0:
        return log1p(cells, x.inputs[0])
    return cells.node(scalar.log, (x,))


def _log_of_product(cells: Cells, x: Cell) -> Cell:
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


def _log_add_exp(cells: Cells, left: Cell, right: Cell) -> Cell:
    """Return log(exp(left) + exp(right)) as left + softplus(right - left), -inf allowed."""
    for this, other in ((left, right), (right, left)):
        if _is_impossible(this):
            return other
        choice = next((part for part in summands(this) if _may_be_impossible(part)), None)
        if choice is not None and not this.is_data:
            rest = [part for part in summands(this) if part is not choice]
            condition, *branches = choice.inputs
            outcomes = [
                other if _is_impossible(x) else _log_add_exp(cells, add(cells, x, *rest), other)
                for x in branches
            ]
            return apply(cells, scalar.switch, condition, *outcomes)
    if left.is_data and right.is_data:
        return cells.node(log_add_exp, (cells.real(left), cells.real(right)))
    if left.is_data:
        # -inf in some rows would leave -inf + inf, the other way round it leaves zero.
        left, right = right, left
    return add(cells, left, softplus(cells, subtract(cells, right, left)))


def _is_impossible(cell: Cell) -> bool:
    return isinstance(cell, Constant) and bool(np.isneginf(cell.value))


def _may_be_impossible(cell: Cell) -> bool:
    """Whether data decide if a summand is -inf."""
    chosen = is_a(cell, scalar.Switch) and cell.inputs[0].is_data
    return chosen and any(map(_is_impossible, cell.inputs[1:]))


def log1p(cells: Cells, x: Cell) -> Cell:
    """Return log(1 + x), of what completes a probability or an exponential."""
    if is_a(x, scalar.Exp):
        return softplus(cells, x.inputs[0])
    core, factor = scaled_core(cells, x)
    if is_a(core, scalar_math.Sigmoid) and number(factor) == -1.0:
        return negative(cells, softplus(cells, core.inputs[0]))
    if is_a(core, scalar_math.Erfc) and number(factor) == -0.5:
        inner = negative(cells, core.inputs[0])
        return add(cells, cells.constant(log(0.5)), cells.node(log_erfc, (inner,)))
    return cells.node(scalar.log1p, (x,))


def power(cells: Cells, base: Cell, exponent: Cell) -> Cell:
    """Return a power, through the exponential function where the exponent is not data."""
    if exponent.is_data:
        known = number(exponent)
        simple = {0.0: cells.one, 1.0: base}.get(known) if known is not None else None
        if simple is not None:
            return simple
        if known == 2.0:
            return square(cells, base)
        if known == -1.0:
            return reciprocal(cells, base)
        if is_a(base, scalar.Exp):
            return exp(cells, multiply(cells, exponent, base.inputs[0]))
        return cells.node(scalar.pow, (base, exponent))
    return exp(cells, multiply(cells, exponent, logarithm(cells, base)))


def switch(cells: Cells, condition: Cell, left: Cell, right: Cell) -> Cell:
    """Return a choice, unless it is none."""
    known = number(condition)
    if known is not None:
        return left if known else right
    if left is right or _is_limit(cells, condition, left, right):
        return right
    return cells.node(scalar.switch, (condition, as_number(cells, left), as_number(cells, right)))


def _is_limit(cells: Cells, condition: Cell, left: Cell, right: Cell) -> bool:
    """Whether this is zero where x = y, and a multiple of x - y elsewhere."""
    pair = equated(condition)
    if pair is None or number(left) != 0.0:
        return False
    difference = subtract(cells, *pair)
    others = [factor for factor in factors_of(right) if factor is not difference]
    return len(others) < len(factors_of(right)) and all(x.is_data or is_finite(x) for x in others)


def sign(cells: Cells, x: Cell) -> Cell:
    """Return the sign, where it is known."""
    return cells.one if is_positive(x) else cells.node(scalar.sign, (x,))


_RULES: dict[type, Callable[..., Cell]] = {
    scalar.Add: add,
    scalar.Mul: multiply,
    scalar.Neg: negative,
    scalar.Sub: subtract,
    scalar.TrueDiv: divide,
    scalar.Reciprocal: reciprocal,
    scalar.Exp: exp,
    scalar.Exp2: lambda cells, x: exp(cells, multiply(cells, cells.constant(log(2.0)), x)),
    scalar.Log: logarithm,
    scalar.Log2: lambda cells, x: divide(cells, logarithm(cells, x), cells.constant(log(2.0))),
    scalar.Log10: lambda cells, x: divide(cells, logarithm(cells, x), cells.constant(log(10.0))),
    scalar.Log1p: log1p,
    scalar.Sqr: square,
    scalar.Sqrt: root,
    scalar.Pow: power,
    scalar.Switch: switch,
    scalar.Second: lambda cells, _like, x: x,
    scalar.Sign: sign,
    scalar.Identity: lambda cells, x: x,
}
