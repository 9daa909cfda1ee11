"""What is compiled of a row's log-likelihood: its derivatives and its change in a move."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.model.row.arithmetic import add
from pymc_minibatch_mh.model.row.cells import Argument, Cell
from pymc_minibatch_mh.model.row.differences import Difference, Differences
from pymc_minibatch_mh.model.row.function import RowFunction
from pymc_minibatch_mh.model.row.patterns import is_a, summands
from pymc_minibatch_mh.model.row.plain import Plain
from pymc_minibatch_mh.model.row.slopes import Slopes


def derivatives(function: RowFunction, orders: Sequence[int]) -> list[Cell]:
    """Return the partial derivatives of f of some orders, each in the order of its indices.

    Parameters
    ----------
    function
        A row function f of m arguments.
    orders
        0 is f itself; 1 has m derivatives, 2 those of a <= b, 3 those of a <= b <= c.
    """
    slopes, numbers = Slopes(function.cells), range(len(function.arguments))
    return [
        slopes.of(function.root, *index)
        for order in orders
        for index in combinations_with_replacement(numbers, order)
    ]


def remainder_difference(function: RowFunction, order: int) -> tuple[Cell, Cell]:
    """Return r(u') - r(u) of a row, r = f less its Taylor polynomial around û, and its doubt.

    Both are in 3m arguments: û, u - û and u' - û, m of each. The doubt is the rounding error that
    the difference may have, in units of the machine precision.

    Parameters
    ----------
    function
        A row function f of m arguments.
    order
        Order of the Taylor polynomial, 0 to 2.
    """
    cells, m = function.cells, len(function.arguments)
    plain, slopes = Plain(cells), Slopes(cells)
    moves = [
        _moved_argument(plain, *(cells.argument(part * m + k) for part in range(3)))
        for k in range(m)
    ]
    differences = Differences(cells, [move.difference for move in moves])
    # Summands that are polynomials of this order have no remainder, and need not cancel.
    parts = [x for x in summands(function.root) if not degree(x) <= order]
    known = [differences.of(x) for x in parts]
    terms = [
        plain.multiply(slope, _change_of_product(plain, [moves[k] for k in index]))
        for index in _indices(m, order)
        for slope in summands(add(cells, *(slopes.of(x, *index) for x in parts)))
    ]
    steps = [x.step for x in known]
    step = plain.subtract(plain.add(*steps), plain.add(*terms))
    return step, plain.sizes(*steps, *terms, *(x.doubt for x in known))


@dataclass(frozen=True, eq=False)
class _MovedArgument:
    """An argument in a move: as a difference, and where it lies in the middle, from û on."""

    difference: Difference
    middle: Cell


def _moved_argument(plain: Plain, centre: Cell, here: Cell, there: Cell) -> _MovedArgument:
    before, after = plain.add(centre, here), plain.add(centre, there)
    step = plain.subtract(there, here)
    error, doubt = plain.sizes(centre, here, there), plain.sizes(step)
    middle = plain.multiply(plain.half, plain.add(here, there))
    return _MovedArgument(Difference(before, after, step, error, doubt), middle)


def _change_of_product(plain: Plain, moves: Sequence[_MovedArgument]) -> Cell:
    """Return how much an argument, half of its square or a product of two changes, from û on."""
    one, *others = moves
    if not others:
        return one.difference.step
    (other,) = others
    change = plain.multiply(one.difference.step, other.middle)
    if one is other:
        return change
    return plain.add(change, plain.multiply(other.difference.step, one.middle))


def _indices(m: int, order: int) -> list[tuple[int, ...]]:
    """Return the indices of all derivatives from the first to an order."""
    return [x for k in range(1, order + 1) for x in combinations_with_replacement(range(m), k)]


def degree(cell: Cell) -> float:
    """Return the degree of a polynomial in the arguments, infinity for what is none."""
    if cell.is_data:
        return 0
    if isinstance(cell, Argument):
        return 1
    if is_a(cell, scalar.Add):
        return max(map(degree, cell.inputs))
    if is_a(cell, scalar.Mul):
        return sum(map(degree, cell.inputs))
    return 2 * degree(cell.inputs[0]) if is_a(cell, scalar.Sqr) else float("inf")
