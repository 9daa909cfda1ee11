"""Patterns in cells: parts of sums and products, and known signs."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from pymc_minibatch_mh.functions.log_any import LogAny
from pymc_minibatch_mh.functions.log_erfc import LogErfc
from pymc_minibatch_mh.functions.log_softplus import LogSoftplus
from pymc_minibatch_mh.likelihood.cells import (
    Affine,
    Apply,
    Cell,
    Cells,
    Constant,
    Term,
    places_of,
)

_POSITIVE = (scalar.Exp, scalar_math.Sigmoid, scalar_math.Erfc, scalar_math.Softplus)
_POSITIVE_OF_POSITIVE = (scalar.Mul, scalar.Reciprocal, scalar.Sqrt, scalar.Sqr)
# fmt: off
_SMOOTH = (
    *_POSITIVE, LogAny, LogErfc, LogSoftplus, scalar.Log, scalar.Log1p, scalar.Reciprocal,
    scalar.Sqrt, scalar.Sqr,
)
_FINITE_OF_FINITE = (
    *_POSITIVE, LogAny, LogErfc, LogSoftplus, scalar.Add, scalar.Mul, scalar.Sqr, scalar.Abs,
    scalar.Maximum, scalar.Minimum,
)
# fmt: on


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


def is_finite(cell: Cell) -> bool:
    """Whether a cell is finite at every position, whatever the data; false if that is unknown."""
    return all(_keeps_finite(x) for x in reachable(cell))


def _keeps_finite(cell: Cell) -> bool:
    if isinstance(cell, Constant):
        return bool(np.isfinite(cell.value))
    if cell.is_data:
        return cell.dtype.kind in "biu"
    if isinstance(cell, Affine):
        return _keeps_finite(cell.offset)
    if is_a(cell, scalar.Log):
        x = cell.inputs[0]
        # A sum with a positive number is positive, even where its other parts underflow.
        return any((number(part) or 0.0) > 0.0 for part in summands(x)) and is_positive(x)
    if is_a(cell, scalar.Log1p):
        return is_nonnegative(cell.inputs[0])
    return is_a(cell, *_FINITE_OF_FINITE)


def coefficients_of(forms: Sequence[tuple[Term, ...]]) -> np.ndarray:
    """Return the numbers in linear forms, by form and by the data and coordinate they multiply."""
    keys = dict.fromkeys((t.monomial, t.place) for form in forms for t in form)
    columns = {key: k for k, key in enumerate(keys)}
    matrix = np.zeros((len(forms), len(columns)))
    for row, form in zip(matrix, forms, strict=True):
        for term in form:
            row[columns[term.monomial, term.place]] += term.factor
    return matrix


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
    return {k for affine in affines for term in affine.terms for k in places_of(term.place)}


def is_positive(cell: Cell) -> bool:
    """Whether a cell is positive at every position and in every row."""
    if isinstance(cell, Constant):
        return bool(cell.value > 0)
    if is_a(cell, scalar.Add):
        return any(map(is_positive, cell.inputs)) and all(map(is_nonnegative, cell.inputs))
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
