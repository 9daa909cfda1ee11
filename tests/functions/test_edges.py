"""Functions and their derivatives as rows compute them, up to the edges of the numbers."""

from collections.abc import Callable
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from pytensor.graph.traversal import toposort
from pytensor.scalar import basic as scalar

from functions.cases import CASES, OTHERS, Case
from pymc_minibatch_mh.compiled.differences import PartialDerivatives
from pymc_minibatch_mh.compiled.scalar_functions import compiled_rowwise, make_composite
from pymc_minibatch_mh.expressions.graph import ExprGraph
from pymc_minibatch_mh.expressions.rules import apply_operation
from pymc_minibatch_mh.functions.base import value_and_slopes
from pymc_minibatch_mh.functions.interval import CANCELLATION, Interval

ORDER, PRECISION = 3, 2e-10
LARGEST, TINY = np.finfo(float).max, np.finfo(float).tiny
#: Powers of ten, the edges of float64, of exp and of sinh, and where kernels change their formula.
SIZES = np.unique([
    *10.0 ** np.array([-310, -300, -200, -160, -103, -77, -50, -20, -16, -10, -8, -5, -3, -2, -1]),
    *10.0 ** np.array([4, 5, 8, 10, 16, 20, 50, 77, 100, 103, 150, 154, 155, 200, 300]),
    *(5e-324, TINY, 0.3, 0.5, np.log(2), 0.9, 1 - 2**-53, 1.0, 1 + 2**-52, 1.1, 1.5, 1.6, 2.0, 2.3),
    *(2.4, 3.0, 4.9, 5.1, 7.0, 10.0, 18.5, 20.5, 26.0, 27.5, 29.9, 30.1, 33.5, 36.9, 37.1, 40.0),
    *(100.0, 300.0, 354.5, 355.5, 709.0, 709.78, 709.79, 720.5, 744.9, 745.2, 746.0, 1e3, LARGEST),
])  # fmt: skip
GRID = np.concatenate([-SIZES[::-1], [0.0], SIZES])


def compiled(case: Case):
    """Return the function and its derivatives up to the third, as those of rows are compiled."""
    exprs = ExprGraph()
    data = [exprs.constant(number) for number in case.data]
    root = apply_operation(exprs, case.op, exprs.argument(0), *data)
    slopes = PartialDerivatives(exprs)
    outputs = [slopes.of(root, *[0] * order) for order in range(ORDER + 1)]
    return compiled_rowwise(make_composite(outputs, 1, []))


@cache
def exact(case: Case, x: float) -> list[mp.mpf]:
    """Return the function and its derivatives up to the third; none at a pole."""
    with mp.workdps(80):
        try:
            return [+value for value in case.exact(mp.mpf(float(x)))[: ORDER + 1]]
        except ZeroDivisionError:
            return []


def is_off(x: float, found: float, expected: mp.mpf) -> bool:
    if abs(expected) > LARGEST:
        return found != np.inf * float(mp.sign(expected))
    # Where a derivative turns, terms of size one cancel; in the tails nothing may.
    slack = 4.0 * CANCELLATION if abs(x) <= 1.0 else 10.0 * TINY
    return not abs(found - expected) <= PRECISION * abs(expected) + slack


def points_of(case: Case) -> np.ndarray:
    low, high = case.domain
    reach = np.inf if case.enclose else case.reach
    inside = (low < GRID) & (high > GRID) & (abs(GRID) <= reach)
    return GRID[inside & ((GRID != 0.0) | (0.0 not in case.turns))]


@pytest.mark.parametrize("case", [*CASES, *OTHERS], ids=str)
def test_derivatives_hold_up_to_the_edges_of_the_numbers(case):
    points = points_of(case)
    found = np.empty((points.size, ORDER + 1))
    compiled(case)(points.copy(), found, points.size)
    off = [
        f"order {order} at {x!r}: {value!r} in the place of {mp.nstr(expected, 17)}"
        for x, values in zip(map(float, points), found.tolist(), strict=True)
        for order, (value, expected) in enumerate(zip(values, exact(case, x), strict=False))
        if is_off(x, value, expected)
    ]
    assert not off, "\n".join(off)


def kernel_of(case: Case) -> Callable | None:
    """Return the kernel that is the derivative of any order, where there is one."""
    if case.data:
        return None
    _, (slope, *_) = value_and_slopes(case.op, [scalar.float64("x")])
    made = [node for node in toposort([slope]) if not isinstance(node.op, scalar.Mul)]
    if len(made) != 1 or not getattr(made[0].op, "has_order", False):
        return None
    op, first = made[0].op, int(made[0].inputs[0].data)
    return lambda order, x: op.kernel(order - 1 + first, x)


@pytest.mark.parametrize("case", [case for case in (*CASES, *OTHERS) if kernel_of(case)], ids=str)
def test_kernels_of_all_orders_are_exact(case):
    kernel = kernel_of(case)
    off = [
        f"order {order} at {x!r}: {value!r} in the place of {mp.nstr(expected, 17)}"
        for x in map(float, points_of(case))
        for order, expected in enumerate(exact(case, x)[1:], start=1)
        if is_off(x, value := kernel(order, x), expected)
    ]
    assert not off, "\n".join(off)


def is_held(low: float, high: float, value: mp.mpf) -> bool:
    """Whether an enclosure holds a value, of which an overflow is the largest number."""
    return low <= max(value, -LARGEST) and min(value, LARGEST) <= high


@pytest.mark.parametrize("case", CASES, ids=str)
def test_enclosures_hold_up_to_the_edges_of_the_numbers(case):
    points = points_of(case)
    values = [exact(case, float(x)) for x in points]
    pairs = [(k, k) for k in range(points.size)] + [(k, k + 1) for k in range(points.size - 1)]
    low, high = np.array(pairs).T
    found = case.enclose(Interval(points[low], points[high]), ORDER)
    assert not any(np.isnan([e.lo, e.hi]).any() for e in found)
    missed = [
        f"order {order} at {points[k]!r}: {mp.nstr(values[k][order], 17)} in {[lo, hi]}"
        for order, enclosure in enumerate(found)
        for lo, hi, pair in zip(enclosure.lo, enclosure.hi, pairs, strict=True)
        for k in pair
        if values[k] and not is_held(lo, hi, values[k][order])
    ]
    assert not missed, "\n".join(missed)
