"""Patterns in cells: parts of sums and products, and known signs.

Shares of a sum of coordinates, as t_j / S with S = t_1 + .. + t_K, which S itself multiplies.

Shares that are added up, multiplied by data or chosen by data stay one linear form over S, so that
in the end S cancels. It does so only where something is multiplied by it: a total of S/S stays as
it is until then, for in what data choose from all choices should be of one kind.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import wraps

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.likelihood.cells import Affine, Apply, Cell, Cells, Constant, Gather, Place
from pymc_minibatch_mh.likelihood.operations import LogAny, LogErfc, LogSoftplus

_POSITIVE = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Erfc, scalar_math.Softplus)
_POSITIVE_OF_POSITIVE = (scalar.Mul, scalar.Reciprocal, scalar.Sqrt, scalar.Sqr)
_SMOOTH = (
    *_POSITIVE,
    LogAny,
    LogErfc,
    LogSoftplus,
    scalar.Log,
    scalar.Log1p,
    scalar.Reciprocal,
    scalar.Sqrt,
    scalar.Sqr,
)
_FINITE_OF_FINITE = (
    *_POSITIVE,
    LogAny,
    LogErfc,
    LogSoftplus,
    scalar.Add,
    scalar.Mul,
    scalar.Sqr,
    scalar.Abs,
    scalar.Maximum,
    scalar.Minimum,
)


def is_a(cell: Cell, *ops: type) -> bool:
    """Whether a cell is the result of one of some operations."""
    return isinstance(cell, Apply) and isinstance(cell.op, ops)


def number(cell: Cell) -> float | None:
    """Return the value of a constant."""
    return float(cell.value) if isinstance(cell, Constant) else None


def summands(cell: Cell) -> tuple[Cell, ...]:
    """Return the parts of a sum, or the cell itself."""
    return cell.inputs if is_a(cell, scalar.Add) else (cell,)


def factors_of(cell: Cell) -> tuple[Cell, ...]:
    """Return the factors of a product that is not data, or the cell itself."""
    return cell.inputs if is_a(cell, scalar.Mul) and not cell.is_data else (cell,)


def without(factors: Sequence[Cell], one: Cell) -> list[Cell]:
    """Return factors without one of them; if it is there twice, it stays once."""
    rest = list(factors)
    rest.remove(one)
    return rest


def without_reciprocals(factors: Sequence[Cell]) -> list[Cell]:
    """Return factors without pairs of x and 1/x, of a positive x."""
    for factor in factors:
        if is_a(factor, scalar.Reciprocal):
            x = factor.inputs[0]
            if x in factors and is_positive(x):
                return without_reciprocals(without(without(factors, factor), x))
    return list(factors)


def scaled_core(cells: Cells, cell: Cell) -> tuple[Cell, Cell]:
    """Return what is not data in a product, and the data."""
    if not is_a(cell, scalar.Mul) or not cell.inputs[0].is_data:
        return cell, cells.one
    data, *others = cell.inputs
    return others[0] if len(others) == 1 else cells.node(scalar.mul, others), data


def reachable(cell: Cell) -> Iterator[Cell]:
    """Yield a cell and what it is computed from, each once; of data only where they are used."""
    seen = {cell}
    waiting = [cell]
    while waiting:
        here = waiting.pop()
        yield here
        new = dict.fromkeys(x for x in here.inputs if x not in seen) if not here.is_data else ()
        seen.update(new)
        waiting += new


def n_cells(cell: Cell) -> int:
    """Return of how many cells an expression consists, of which data count once."""
    return sum(1 for _ in reachable(cell))


def is_finite(cell: Cell, positive: Collection[int] = ()) -> bool:
    """Whether a cell is finite at every position, whatever the data; false if that is unknown.

    Parameters
    ----------
    cell
        The cell.
    positive
        Coordinates that are positive at every position.
    """
    return all(_keeps_finite(x, positive) for x in reachable(cell))


def _keeps_finite(cell: Cell, positive: Collection[int] = ()) -> bool:
    if isinstance(cell, Constant):
        return bool(np.isfinite(cell.value))
    if cell.is_data:
        return cell.dtype.kind in "biu"
    if isinstance(cell, Affine):
        return _keeps_finite(cell.offset)
    if is_a(cell, scalar.Log):
        x = cell.inputs[0]
        # A sum with a positive number is positive, even where its other parts underflow.
        at_least = any((number(part) or 0.0) > 0.0 for part in summands(x)) and is_positive(x)
        return at_least or _coordinate(x) in positive
    if is_a(cell, scalar.Log1p):
        return is_nonnegative(cell.inputs[0])
    return is_a(cell, *_FINITE_OF_FINITE)


def _coordinate(cell: Cell) -> int | None:
    """Return which coordinate a cell is, if it is one."""
    if not isinstance(cell, Affine) or len(cell.terms) > 1 or number(cell.offset) != 0.0:
        return None
    (term,) = cell.terms
    plain = term.factor == 1.0 and not term.monomial and isinstance(term.place, int)
    return term.place if plain else None  # type: ignore[return-value]


def varies(*terms: Cell) -> bool:
    """Whether a sum is known to change with the position in every row.

    It is equal to a number on a set without volume then, as a function with a power series.
    """
    return _some_term_varies(terms, {})


def _some_term_varies(terms: Sequence[Cell], known: dict[Cell, bool]) -> bool:
    coordinates = [_coordinates(term) for term in terms]
    return any(
        own.isdisjoint(set().union(*coordinates[:k], *coordinates[k + 1 :]))
        and _varies(terms[k], known)
        for k, own in enumerate(coordinates)
    )


def _varies(cell: Cell, known: dict[Cell, bool]) -> bool:
    if cell not in known:
        if isinstance(cell, Affine):
            known[cell] = any(not term.monomial for term in cell.terms)
        elif is_a(cell, scalar.Add):
            known[cell] = _some_term_varies(cell.inputs, known)
        elif is_a(cell, scalar.Mul):
            nowhere_null = all(_is_nowhere_null(x, known) for x in cell.inputs)
            known[cell] = nowhere_null and _some_term_varies(cell.inputs, known)
        else:
            known[cell] = is_a(cell, *_SMOOTH) and _varies(cell.inputs[0], known)
    return known[cell]


def _is_nowhere_null(cell: Cell, known: dict[Cell, bool]) -> bool:
    """Whether there is no row in which a cell is zero at all positions."""
    return is_positive(cell) or _varies(cell, known) or number(cell) not in (None, 0.0)


def _coordinates(cell: Cell) -> set[int]:
    affines = [x for x in reachable(cell) if isinstance(x, Affine)]
    return {k for affine in affines for term in affine.terms for k in _places(term.place)}


def _places(place: Place) -> range:
    if isinstance(place, Gather):
        return range(place.first, place.first + place.step * place.size, place.step)
    return range(place, place + 1)


def is_positive(cell: Cell) -> bool:
    """Whether a cell is positive at every position and in every row."""
    if isinstance(cell, Constant):
        return bool(cell.value > 0)
    if is_a(cell, scalar.Add):
        known = [is_positive(part) for part in cell.inputs]
        return any(known) and all(
            positive or is_nonnegative(part)
            for part, positive in zip(cell.inputs, known, strict=True)
        )
    if is_a(cell, *_POSITIVE_OF_POSITIVE):
        return all(map(is_positive, cell.inputs))
    if is_a(cell, scalar.Switch):
        return all(map(is_positive, cell.inputs[1:]))
    return is_a(cell, *_POSITIVE)


def is_probability(cell: Cell) -> bool:
    """Whether a cell lies between zero and one at every position and in every row."""
    value = number(cell)
    if value is not None:
        return 0.0 <= value <= 1.0
    if is_a(cell, scalar.Mul):
        return all(map(is_probability, cell.inputs))
    if is_a(cell, scalar.Switch):
        return all(map(is_probability, cell.inputs[1:]))
    if is_a(cell, scalar.Exp):
        return is_a(cell.inputs[0], scalar_math.Log1mexp, LogAny)
    return is_a(cell, scalar_math.Sigmoid)


def is_nonnegative(cell: Cell) -> bool:
    """Whether a cell is never negative: sums and products of squares, numbers and the like."""
    value = number(cell)
    if value is not None:
        return value >= 0.0
    if is_a(cell, scalar.Add, scalar.Mul):
        return all(is_nonnegative(part) for part in cell.inputs)
    return is_a(cell, scalar.Sqr, scalar.Abs) or is_positive(cell)


def remembered(rule: Callable[..., Cell]) -> Callable[..., Cell]:
    """Have a rule applied once to the same operands.

    Nested logarithms of sums would otherwise take time exponential in their depth.
    """

    @wraps(rule)
    def once(cells: Cells, *operands: Cell) -> Cell:
        key = (rule, *operands)
        if key not in cells.results:
            cells.results[key] = rule(cells, *operands)
        return cells.results[key]

    return once


def worth_joining(left: Cell, right: Cell, total: Cell) -> bool:
    """Whether exponentials of two cells are better one of their sum."""
    # A new combination of parameters that all rows share would be one argument more.
    if total.is_data or not (isinstance(left, Affine) and isinstance(right, Affine)):
        return True
    if not isinstance(total, Affine):
        return False
    shared = [a for a in (left, right) if all(not t.monomial for t in a.terms)]
    return not shared or len(total.terms) <= max(len(left.terms), len(right.terms))


def part_of_sum(cells: Cells, cell: Cell) -> tuple[Cell, float] | None:
    """Return the sum S and k, of a cell that is k S."""
    if not isinstance(cell, Affine) or number(cell.offset) != 0.0:
        return None
    first = cell.terms[0]
    if any(t.factor != first.factor or t.monomial for t in cell.terms):
        return None
    places = tuple(sorted(t.place for t in cell.terms if isinstance(t.place, int)))
    if len(places) < len(cell.terms) or places not in cells.sums:
        return None
    total = cells.scaled(cell, cells.constant(1.0 / first.factor))
    return total, first.factor


def divided_by(cells: Cells, cell: Cell) -> Cell | None:
    """Return 1/S if it is a factor of a product."""
    for part in factors_of(cell):
        if is_a(part, scalar.Reciprocal) and part_of_sum(cells, part.inputs[0]) is not None:
            return part
    return None


def cancelled(cells: Cells, factors: Sequence[Cell]) -> list[Cell]:
    """Return factors without pairs of k S and 1/S, of which k is left."""
    if not cells.sums:
        return list(factors)
    for divisor in factors:
        if not is_a(divisor, scalar.Reciprocal):
            continue
        known = part_of_sum(cells, divisor.inputs[0])
        for factor in factors if known is not None else ():
            found = part_of_sum(cells, factor)
            if known is not None and found is not None and found[0] is known[0]:
                rest = without(without(factors, divisor), factor)
                return cancelled(cells, [*rest, cells.constant(found[1] / known[1])])
    return list(factors)


def multiplied(cells: Cells, factors: Sequence[Cell]) -> list[list[Cell]] | None:
    """Return the products of a sum's parts, if another factor is S and one is divided by it."""
    if not cells.sums:
        return None
    totals = [x for x in factors if part_of_sum(cells, x) is not None]
    for one in factors if totals else ():
        if is_a(one, scalar.Add) and any(divided_by(cells, x) for x in summands(one)):
            rest = without(factors, one)
            return [[*rest, part] for part in summands(one)]
    return None


def added(cells: Cells, parts: Sequence[Cell]) -> list[Cell]:
    """Return summands with those that are linear forms over the same S in one."""
    if not cells.sums:
        return list(parts)
    forms: defaultdict[Cell, list[Affine]] = defaultdict(list)
    others: list[Cell] = []
    for part in parts:
        found = _form_over(cells, part)
        if found is None:
            others.append(part)
        else:
            forms[found[1]].append(found[0])
    for divisor, affines in forms.items():
        total = cells.total(affines, [])
        if number(total) != 0.0:
            others.append(cells.node(scalar.mul, cells.ordered([total, divisor])))
    return others


def _form_over(cells: Cells, part: Cell) -> tuple[Affine, Cell] | None:
    divisor = divided_by(cells, part)
    if divisor is None:
        return None
    rest = without(factors_of(part), divisor)
    forms = [x for x in rest if isinstance(x, Affine)]
    data = [x for x in rest if x.is_data]
    if len(forms) != 1 or len(data) + 1 != len(rest):
        return None
    form: Cell = forms[0]
    for factor in data:
        form = cells.scaled(form, factor) if isinstance(form, Affine) else form
    return (form, divisor) if isinstance(form, Affine) else None


def over_one_sum(cells: Cells, choices: Sequence[Cell]) -> tuple[list[Cell], Cell] | None:
    """Return linear forms and 1/S, of cells that are such forms over S, or numbers, or sums."""
    parts = [summands(choice) for choice in choices] if cells.sums else []
    divisors = {divided_by(cells, part) for one in parts for part in one} - {None}
    if len(divisors) != 1:
        return None
    (divisor,) = divisors
    assert divisor is not None
    forms = [[_times_sum(cells, part, divisor) for part in one] for one in parts]
    found = [[x for x in one if x is not None] for one in forms]
    if found != forms:
        return None
    totals = [cells.total([x for x in one if isinstance(x, Affine)], []) for one in found]
    return totals, divisor


def _times_sum(cells: Cells, part: Cell, divisor: Cell) -> Cell | None:
    """Return a number, or a linear form over S, times S."""
    form, value, total = _form_over(cells, part), number(part), divisor.inputs[0]
    if form is not None:
        return form[0]
    if value is None or not isinstance(total, Affine):
        return None
    return cells.scaled(total, cells.constant(value))
