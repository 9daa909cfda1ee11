"""Shares and differences of probabilities, and which orders hold at every position."""

from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.model.row.arithmetic import exp, multiply, negative, sigmoid, subtract
from pymc_minibatch_mh.model.row.cells import Cell, Cells
from pymc_minibatch_mh.model.row.operations import log_any
from pymc_minibatch_mh.model.row.patterns import (
    is_a,
    is_nonnegative,
    is_positive,
    is_probability,
    number,
    scaled_core,
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

    Nothing cancels in the product. But the shares of all categories add up to one as differences
    only, so that this waits until a logarithm is taken.
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
