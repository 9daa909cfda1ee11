"""Products of coordinates in observations: the factors of each coordinate."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise

from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Apply,
    Constant,
    CoordinateIndex,
    Expr,
    Gather,
    coordinates_at,
    without_value,
)
from pymc_minibatch_mh.expressions.patterns import affines_in, is_a, is_positive
from pymc_minibatch_mh.functions.base import numpy_function
from pymc_minibatch_mh.structure.row_function import LoweredRow

#: Maximum number of indexed entries with a factor each; every entry becomes an expression.
MAX_ENTRIES = 25


@dataclass(frozen=True)
class PositionFactor:
    """A function of the position without data: nested tuples of operations and operands."""

    expression: tuple
    positive: bool

    @property
    def places(self) -> frozenset[int]:
        """Coordinates that the function depends on."""
        return frozenset(_factor_coordinates(self.expression))

    @property
    def divides(self) -> bool:
        """Whether it is a reciprocal such as exp(-x), as of a noise scale under residuals."""
        kind, *parts = self.expression
        if kind != "apply" or not isinstance(parts[0], scalar.Exp):
            return kind == "apply" and isinstance(parts[0], scalar.Reciprocal)
        inner = parts[1]
        return inner[0] == "linear" and all(k < 0.0 for k, _ in inner[1])

    def renumbered(self, new: np.ndarray) -> "PositionFactor":
        """The same function where coordinate k of the position has the number new[k]."""
        return replace(self, expression=_renumbered_factor(self.expression, new))

    def at(self, position: Any) -> Any:
        """Value at a position: a graph of shape (d,), or an array of shape (d, ...)."""
        return _evaluate_factor(self.expression, position)


FactorCounts = Counter[PositionFactor]


def _evaluate_factor(expression: tuple, position: Any) -> Any:
    kind, *parts = expression
    if kind == "number":
        return np.float64(parts[0])
    if kind == "linear":
        terms, offset = parts
        summed = [position[place] if k == 1.0 else k * position[place] for k, place in terms]
        known = [] if offset[1:] == (0.0,) else [_evaluate_factor(offset, position)]
        return reduce(add, [*summed, *known])
    op, *operands = parts
    function = Elemwise(op) if isinstance(position, Variable) else numpy_function(op)
    return function(*(_evaluate_factor(x, position) for x in operands))


def _renumbered_factor(expression: tuple, new: np.ndarray) -> tuple:
    kind, *parts = expression
    if kind == "number":
        return expression
    if kind == "linear":
        terms, offset = parts
        return kind, tuple((k, int(new[coordinate])) for k, coordinate in terms), offset
    op, *operands = parts
    return kind, op, *(_renumbered_factor(x, new) for x in operands)


def _factor_coordinates(expression: tuple) -> set[int]:
    kind, *parts = expression
    if kind == "number":
        return set()
    if kind == "linear":
        return {place for _, place in parts[0]}
    return set().union(*map(_factor_coordinates, parts[1:]))


def as_factor(expr: Expr, entry: int | None = None) -> PositionFactor | None:
    """Expression as a function of the position or an indexed entry; None if it is neither."""
    expression = _factor_expression(expr, entry)
    return None if expression is None else PositionFactor(expression, is_positive(expr))


def _factor_expression(expr: Expr, entry: int | None) -> tuple | None:
    if isinstance(expr, Constant):
        return "number", float(expr.value)
    if isinstance(expr, Affine):
        offset = _factor_expression(expr.offset, entry)
        places = [_entry_coordinate(t.place, entry) for t in expr.terms]
        if offset is None or None in places or any(t.monomial for t in expr.terms):
            return None
        factors = (t.factor for t in expr.terms)
        return "linear", tuple(zip(factors, places, strict=True)), offset
    if not isinstance(expr, Apply):
        return None
    inputs = [_factor_expression(x, entry) for x in expr.inputs]
    return None if None in inputs else ("apply", expr.op, *inputs)


def _entry_coordinate(place: CoordinateIndex, entry: int | None) -> int | None:
    if not isinstance(place, Gather):
        return place
    return None if entry is None else place.first + place.step * entry


def _known_factors(exprs: Iterable[Expr], entry: int | None = None) -> list[PositionFactor]:
    """Factors that are functions of the position alone; factors with data are left out."""
    return [known for expr in exprs if (known := as_factor(expr, entry)) is not None]


@dataclass(frozen=True)
class Occurrence:
    """One occurrence of a coordinate in the log-likelihood of a term, with its multipliers.

    `chosen` are multipliers that the same data index; `beside` are coordinates of other multipliers
    that differ between rows; `outside` multiply a function of the coordinate (a bounded variable).
    """

    term: str
    data: frozenset[Expr] = frozenset()
    factors: tuple[PositionFactor, ...] = ()
    chosen: tuple[Expr, ...] = ()
    beside: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()

    @property
    def by_itself(self) -> bool:
        """Whether the coordinate occurs without a multiplier that is linear in coordinates."""
        return not any(factor.expression[0] == "linear" for factor in self.factors)

    @property
    def counted(self) -> FactorCounts:
        """Multiplicity of each factor."""
        return Counter(self.factors)


#: Coordinates that occur in the same way: a single one, or all coordinates under one index.
Column = range


def find_occurrences(rows: Iterable[LoweredRow]) -> dict[Column, set[Occurrence]]:
    """Distinct occurrences of each single or indexed coordinate in the observations."""
    found: defaultdict[Column, set[Occurrence]] = defaultdict(set)
    for row in rows:
        waiting = [(row.root, Occurrence(row.term.name))]
        seen = set(waiting)
        while waiting:
            expr, way = waiting.pop()
            if isinstance(expr, Affine):
                for column, there in _term_occurrences(expr, way):
                    found[column].add(there)
                continue
            for after in _operand_occurrences(expr, way):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
    return found


def _term_occurrences(expr: Affine, way: Occurrence) -> Iterator[tuple[Column, Occurrence]]:
    for term in expr.terms:
        places = coordinates_at(term.place)
        here = replace(way, data=way.data.union(*map(_data_factors, term.monomial)), chosen=())
        if isinstance(term.place, Gather) and way.chosen:
            for entry, place in enumerate(places):
                factors = (*way.factors, *_known_factors(way.chosen, entry))
                yield range(place, place + 1), replace(here, factors=factors)
        else:
            yield places, here


def _operand_occurrences(expr: Expr, way: Occurrence) -> list[tuple[Expr, Occurrence]]:
    if expr.is_data:
        return []
    if is_a(expr, scalar.Add):
        return [(x, way) for x in expr.inputs]
    if is_a(expr, scalar.Mul):
        return _product_occurrences(expr, way)
    there = Occurrence(way.term, outside=way.outside | _outside_factors(expr, way.factors))
    return [(x, there) for x in expr.inputs]


def _product_occurrences(expr: Expr, way: Occurrence) -> list[tuple[Expr, Occurrence]]:
    data = way.data.union(*(_data_factors(x) for x in expr.inputs if x.is_data))
    others = [x for x in expr.inputs if not x.is_data]
    linear = [x for x in others if isinstance(x, Affine) or is_a(x, scalar.Add)]
    chosen: set[Expr] = set()
    after: list[tuple[Expr, Occurrence]] = []
    for x in linear:
        rest = without_value(others, x)
        unknown = [y for y in rest if not as_factor(y)]
        if isinstance(x, Affine) and any(isinstance(y, Affine) for y in unknown):
            # In a product of affine factors, only the factor indexed by data is recorded.
            continue
        with_it = [y for y in unknown if _function_index(y) in _common_index(x)]
        chosen.update(with_it)
        beside = way.beside | _first_coordinates([y for y in unknown if y not in with_it])
        factors = (*way.factors, *_known_factors(rest))
        after.append((x, Occurrence(way.term, data, factors, tuple(with_it), beside)))
    for x in others:
        if x not in linear and x not in chosen and not (linear and as_factor(x)):
            outside = _outside_factors(x, [*way.factors, *_known_factors(without_value(others, x))])
            after.append((x, Occurrence(way.term, outside=outside)))
    return after


def _outside_factors(expr: Expr, factors: Sequence[PositionFactor]) -> frozenset[int]:
    """Coordinates of the factors that multiply `expr`; empty unless it has a single coordinate."""
    forms = affines_in(expr)
    if len(forms) != 1 or len(forms[0].terms) != 1:
        return frozenset()
    return frozenset[int]().union(*(x.places for x in factors if not x.divides))


def _common_index(expr: Expr) -> set[tuple[Expr, int]]:
    """Index and size that all terms of a sum share; empty if they differ or sizes are large."""
    places = [term.place for term in expr.terms] if isinstance(expr, Affine) else []
    found = {(p.index, p.size) for p in places if isinstance(p, Gather)}
    everywhere = all(isinstance(p, Gather) and p.size <= MAX_ENTRIES for p in places)
    return found if everywhere and len(found) == 1 else set()


def _function_index(expr: Expr) -> tuple[Expr, int] | None:
    """Index and size shared by all indexed coordinates of an expression; None if they differ."""
    found = [_common_index(x) for x in affines_in(expr)]
    alike = bool(found) and all(len(x) == 1 and x == found[0] for x in found)
    return next(iter(found[0])) if alike and as_factor(expr, 0) is not None else None


def _first_coordinates(chosen: Sequence[Expr]) -> frozenset[int]:
    terms = [term for expr in chosen for x in affines_in(expr) for term in x.terms]
    return frozenset(coordinates_at(term.place)[0] for term in terms)


def _data_factors(expr: Expr) -> set[Expr]:
    """Factors of a product of data, without constants."""
    if isinstance(expr, Constant):
        return set()
    if is_a(expr, scalar.Mul):
        return set().union(*map(_data_factors, expr.inputs))
    return {expr}
