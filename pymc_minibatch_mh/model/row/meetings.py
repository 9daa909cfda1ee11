"""How rows meet the coordinates of the position: times which data, times which parameters."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise

from pymc_minibatch_mh.model.row.cells import Affine, Apply, Cell, Constant, Gather, Place
from pymc_minibatch_mh.model.row.function import LoweredRow
from pymc_minibatch_mh.model.row.patterns import is_a, is_positive, reachable

#: Entries that are scaled each by one of its own, at most: each becomes an expression of its own.
MOST_ENTRIES = 25


@dataclass(frozen=True)
class Factor:
    """A function of the position without data, which is the same in the cells of all terms.

    Parameters
    ----------
    expression
        The operation and its operands, as nested tuples.
    positive
        Whether it is positive at every position.
    places
        Coordinates that it depends on.
    """

    expression: tuple
    positive: bool
    places: frozenset[int]

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear form of coordinates."""
        return self.expression[0] == "linear"

    @property
    def divides(self) -> bool:
        """Whether it is a reciprocal, such as exp(-x): what rows are divided by is their noise."""
        kind, *parts = self.expression
        if kind != "apply" or not isinstance(parts[0], scalar.Exp):
            return kind == "apply" and isinstance(parts[0], scalar.Reciprocal)
        inner = parts[1]
        return inner[0] == "linear" and all(k < 0.0 for k, _ in inner[1])

    def graph(self, position: Variable) -> Variable:
        """Return the function as a graph."""
        return _graph(self.expression, position)


@dataclass(frozen=True)
class Meeting:
    """One way in which rows meet a coordinate.

    Parameters
    ----------
    data
        The term and its data that the coordinate is multiplied by, without numbers.
    factors
        What else it is multiplied by.
    beside
        Coordinates of what else multiplies it and is no such function: entries that data choose.
    outside
        Coordinates of what multiplies a function of it, as of a variable that is bounded.
    """

    data: Hashable
    factors: tuple[Factor, ...]
    beside: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()

    @property
    def by_itself(self) -> bool:
        """Whether no other coordinate multiplies it as it is."""
        return not any(factor.is_linear for factor in self.factors)

    @property
    def counted(self) -> Counter[Factor]:
        """How often each factor is there."""
        return Counter(self.factors)


#: First coordinate, step and number of those that are met in one way, chosen by data or not.
Column = tuple[int, int, int]


def meetings(row: LoweredRow) -> dict[Column, set[Meeting]]:
    """Return all ways in which a row meets coordinates."""
    return _Walk(row).found


class _Times(NamedTuple):
    """What a sum is multiplied by.

    Parameters
    ----------
    data
        Data.
    factors
        Functions of the position.
    chosen
        Functions of entries that the same data choose as those of the sum.
    beside, outside
        Coordinates of all else, and of what a function of the sum is multiplied by.
    """

    data: frozenset[Cell] = frozenset()
    factors: tuple[Factor, ...] = ()
    chosen: tuple[Cell, ...] = ()
    beside: frozenset[int] = frozenset()
    outside: frozenset[int] = frozenset()


class _Walk:
    """A walk down an expression that knows what each sum is multiplied by."""

    def __init__(self, row: LoweredRow) -> None:
        self.found: defaultdict[Column, set[Meeting]] = defaultdict(set)
        self._term = row.term.name
        waiting = [(row.root, _Times())]
        seen = set(waiting)
        while waiting:
            here = waiting.pop()
            for after in self._inside(*here):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)

    def _inside(self, cell: Cell, times: _Times) -> list[tuple[Cell, _Times]]:
        if cell.is_data:
            return []
        if isinstance(cell, Affine):
            self._meet(cell, times)
            return []
        if is_a(cell, scalar.Add):
            return [(x, times) for x in cell.inputs]
        if is_a(cell, scalar.Mul):
            return self._of_product(cell, times)
        outside = times.outside | _outside(cell, times.factors)
        return [(x, _Times(outside=outside)) for x in cell.inputs]

    def _of_product(self, cell: Cell, times: _Times) -> list[tuple[Cell, _Times]]:
        known = [x for x in cell.inputs if x.is_data]
        others = [x for x in cell.inputs if not x.is_data]
        data = times.data.union(*map(_leaves, known))
        linear = [x for x in others if isinstance(x, Affine) or is_a(x, scalar.Add)]
        chosen: set[Cell] = set()
        after: list[tuple[Cell, _Times]] = []
        for x in linear:
            rest = others.copy()
            rest.remove(x)
            if isinstance(x, Affine) and any(isinstance(y, Affine) and not factor(y) for y in rest):
                # A slope of what data choose: the other of the two is met, times this one.
                continue
            more = tuple(y for y in map(factor, rest) if y is not None)
            with_it = [y for y in rest if not factor(y) and _index_of(y) in _indices(x)]
            chosen.update(with_it)
            beside = _read_in([y for y in rest if not factor(y) and y not in with_it])
            factors = (*times.factors, *more)
            after.append((x, _Times(data, factors, tuple(with_it), times.beside | beside)))
        walked = [x for x in others if x not in linear and x not in chosen]
        for x in walked:
            if not (linear and factor(x)):
                known_ones = [*times.factors, *filter(None, map(factor, others))]
                after.append((x, _Times(outside=_outside(x, known_ones))))
        return after

    def _meet(self, cell: Affine, times: _Times) -> None:
        for term in cell.terms:
            place = term.place
            all_data = self._term, times.data.union(*map(_leaves, term.monomial))
            if not isinstance(place, Gather):
                columns = [((place, 1, 1), times.factors)]
            elif not times.chosen:
                columns = [((place.first, place.step, place.size), times.factors)]
            else:
                columns = [
                    ((place.first + place.step * k, 1, 1), times.factors + _entry(times.chosen, k))
                    for k in range(place.size)
                ]
            for column, factors in columns:
                self.found[column].add(Meeting(all_data, factors, times.beside, times.outside))


def _outside(cell: Cell, factors: Sequence[Factor]) -> frozenset[int]:
    """Return what multiplies a function of one coordinate; nothing for other functions."""
    forms = [x for x in reachable(cell) if isinstance(x, Affine)]
    if len(forms) != 1 or len(forms[0].terms) != 1:
        return frozenset()
    return frozenset[int]().union(*(x.places for x in factors if not x.divides))


def _indices(cell: Cell) -> set[tuple[Cell, int]]:
    """Return by which data, and from how few, all of a sum is chosen; nothing if not all is."""
    places = [term.place for term in cell.terms] if isinstance(cell, Affine) else []
    found = {(p.index, p.size) for p in places if isinstance(p, Gather)}
    everywhere = all(isinstance(p, Gather) and p.size <= MOST_ENTRIES for p in places)
    return found if everywhere and len(found) == 1 else set()


def _index_of(cell: Cell) -> tuple[Cell, int] | None:
    """Return by which data all is chosen that a function of entries depends on."""
    found = [_indices(x) for x in reachable(cell) if isinstance(x, Affine)]
    alike = bool(found) and all(len(x) == 1 and x == found[0] for x in found)
    return next(iter(found[0])) if alike and factor_of_entry(cell, 0) is not None else None


def _entry(chosen: Sequence[Cell], k: int) -> tuple[Factor, ...]:
    found = (factor_of_entry(cell, k) for cell in chosen)
    return tuple(x for x in found if x is not None)


def _read_in(chosen: Sequence[Cell]) -> frozenset[int]:
    forms = [x for cell in chosen for x in reachable(cell) if isinstance(x, Affine)]
    places = [term.place for form in forms for term in form.terms]
    return frozenset(p.first if isinstance(p, Gather) else p for p in places)


def _leaves(cell: Cell) -> set[Cell]:
    """Return the factors of a product of data but its numbers."""
    if isinstance(cell, Constant):
        return set()
    if is_a(cell, scalar.Mul):
        return set().union(*map(_leaves, cell.inputs))
    return {cell}


def factor(cell: Cell) -> Factor | None:
    """Return a cell as a function of the position, None if it depends on data."""
    return factor_of_entry(cell, None)


def factor_of_entry(cell: Cell, entry: int | None) -> Factor | None:
    """Return a cell where data choose an entry; None if it depends on data otherwise."""
    expression = _expression(cell, entry)
    if expression is None:
        return None
    return Factor(expression, is_positive(cell), frozenset(_places(expression)))


def _expression(cell: Cell, entry: int | None) -> tuple | None:
    if isinstance(cell, Constant):
        return "number", float(cell.value)
    if isinstance(cell, Affine):
        offset = _expression(cell.offset, entry)
        places = [_chosen_place(t.place, entry) for t in cell.terms]
        if offset is None or None in places or any(t.monomial for t in cell.terms):
            return None
        factors = (t.factor for t in cell.terms)
        return "linear", tuple(zip(factors, places, strict=True)), offset
    if not isinstance(cell, Apply):
        return None
    inputs = [_expression(x, entry) for x in cell.inputs]
    return None if None in inputs else ("apply", cell.op, *inputs)


def _chosen_place(place: Place, entry: int | None) -> int | None:
    if not isinstance(place, Gather):
        return place
    return None if entry is None else place.first + place.step * entry


def _places(expression: tuple) -> set[int]:
    kind, *parts = expression
    if kind == "number":
        return set()
    if kind == "linear":
        return {place for _, place in parts[0]}
    return set().union(*map(_places, parts[1:]))


def _graph(expression: tuple, position: Variable) -> Any:
    kind, *parts = expression
    if kind == "number":
        return pt.constant(np.float64(parts[0]))
    if kind == "linear":
        terms, offset = parts
        summed = [position[place] if k == 1.0 else k * position[place] for k, place in terms]
        known = [] if offset[1:] == (0.0,) else [_graph(offset, position)]
        return pt.add(*summed, *known) if len(summed) + len(known) > 1 else summed[0]
    op, *operands = parts
    return Elemwise(op)(*(_graph(x, position) for x in operands))
