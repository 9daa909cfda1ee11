"""How rows meet the coordinates of the position: times which data, times which parameters."""

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar import basic as scalar
from pytensor.tensor.elemwise import Elemwise

from pymc_minibatch_mh.model.row.cells import Affine, Apply, Cell, Constant, Gather
from pymc_minibatch_mh.model.row.function import LoweredRow
from pymc_minibatch_mh.model.row.patterns import is_a, is_positive


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
    """

    data: Hashable
    factors: tuple[Factor, ...]

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


class _Walk:
    """A walk down an expression that knows what each sum is multiplied by."""

    def __init__(self, row: LoweredRow) -> None:
        self.found: defaultdict[Column, set[Meeting]] = defaultdict(set)
        self._term = row.term.name
        nothing: tuple[frozenset[Cell], tuple[Factor, ...]] = frozenset(), ()
        waiting = [(row.root, *nothing)]
        seen = set(waiting)
        while waiting:
            here = waiting.pop()
            for after in self._inside(*here):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)

    def _inside(self, cell: Cell, data: frozenset[Cell], factors: tuple[Factor, ...]) -> list:
        if cell.is_data:
            return []
        if isinstance(cell, Affine):
            self._meet(cell, data, factors)
            return []
        if is_a(cell, scalar.Add):
            return [(x, data, factors) for x in cell.inputs]
        if is_a(cell, scalar.Mul):
            return self._of_product(cell, data, factors)
        return [(x, frozenset(), ()) for x in cell.inputs]

    def _of_product(self, cell: Cell, data: frozenset[Cell], factors: tuple[Factor, ...]) -> list:
        known = [x for x in cell.inputs if x.is_data]
        others = [x for x in cell.inputs if not x.is_data]
        data = data.union(*map(_leaves, known))
        linear = [x for x in others if isinstance(x, Affine) or is_a(x, scalar.Add)]
        after: list = []
        for x in linear:
            rest = others.copy()
            rest.remove(x)
            if isinstance(x, Affine) and any(isinstance(y, Affine) and not factor(y) for y in rest):
                # A slope of what data choose: the other of the two is met, times this one.
                continue
            more = tuple(y for y in map(factor, rest) if y is not None)
            after.append((x, data, (*factors, *more)))
        walked = [x for x in others if x not in linear and not (linear and factor(x))]
        return [*after, *((x, frozenset(), ()) for x in walked)]

    def _meet(self, cell: Affine, data: frozenset[Cell], factors: tuple[Factor, ...]) -> None:
        for term in cell.terms:
            place = term.place
            if isinstance(place, Gather):
                column = place.first, place.step, place.size
            else:
                column = place, 1, 1
            all_data = self._term, data.union(*map(_leaves, term.monomial))
            self.found[column].add(Meeting(all_data, factors))


def _leaves(cell: Cell) -> set[Cell]:
    """Return the factors of a product of data but its numbers."""
    if isinstance(cell, Constant):
        return set()
    if is_a(cell, scalar.Mul):
        return set().union(*map(_leaves, cell.inputs))
    return {cell}


def factor(cell: Cell) -> Factor | None:
    """Return a cell as a function of the position, None if it depends on data."""
    expression = _expression(cell)
    if expression is None:
        return None
    return Factor(expression, is_positive(cell), frozenset(_places(expression)))


def _expression(cell: Cell) -> tuple | None:
    if isinstance(cell, Constant):
        return "number", float(cell.value)
    if isinstance(cell, Affine):
        offset = _expression(cell.offset)
        if offset is None or any(t.monomial or isinstance(t.place, Gather) for t in cell.terms):
            return None
        return "linear", tuple((t.factor, t.place) for t in cell.terms), offset
    if not isinstance(cell, Apply):
        return None
    inputs = [_expression(x) for x in cell.inputs]
    return None if None in inputs else ("apply", cell.op, *inputs)


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
