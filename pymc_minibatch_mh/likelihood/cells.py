"""The log-likelihood of one row as an expression of scalars.

Tensors are taken apart into cells, so that whoever studies the function of a row, as the bounds
do, needs a rule per scalar operation and none per tensor operation. Equal cells are one object.
A cell is *data* (it does not depend on the position), *affine* in the position, or neither.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp
from scipy import special


@dataclass(frozen=True, eq=False)
class Cell:
    """A scalar that has one value per row, or one for all rows."""

    @property
    def is_data(self) -> bool:
        """Whether the cell is free of the position."""
        return True

    @property
    def inputs(self) -> tuple["Cell", ...]:
        """Cells that this one is computed from."""
        return ()


@dataclass(frozen=True, eq=False)
class Constant(Cell):
    """A number."""

    value: Any


@dataclass(frozen=True, eq=False)
class Data(Cell):
    """One entry of each row of a data array."""

    column: int
    entry: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RowNumber(Cell):
    """The number of the row itself, as in ``x[arange(N), k]``."""


@dataclass(frozen=True, eq=False)
class Length(Cell):
    """The number of rows, which shapes are made of."""


@dataclass(frozen=True, eq=False)
class Lookup(Cell):
    """An entry of a constant vector, chosen by data."""

    table: np.ndarray
    index: Cell

    @property
    def inputs(self) -> tuple[Cell, ...]:
        """The index."""
        return (self.index,)


@dataclass(frozen=True)
class Gather:
    """A coordinate that data choose: ``first`` plus the value of ``index``."""

    first: int
    size: int
    index: Cell


Place = int | Gather


@dataclass(frozen=True)
class Term:
    """A number times data cells times a coordinate of the position."""

    factor: float
    monomial: tuple[Cell, ...]
    place: Place


@dataclass(frozen=True, eq=False)
class Affine(Cell):
    """A sum of terms, plus data."""

    terms: tuple[Term, ...]
    offset: Cell

    @property
    def is_data(self) -> bool:
        """Always false."""
        return False


@dataclass(frozen=True, eq=False)
class Argument(Cell):
    """One of the linear forms that the log-likelihood of a row depends on."""

    number: int

    @property
    def is_data(self) -> bool:
        """Always false."""
        return False


@dataclass(frozen=True, eq=False)
class Apply(Cell):
    """A scalar operation on cells."""

    op: ScalarOp
    operands: tuple[Cell, ...]

    @cached_property
    def _is_data(self) -> bool:
        return all(cell.is_data for cell in self.operands)

    @property
    def is_data(self) -> bool:
        """Whether all operands are."""
        return self._is_data

    @property
    def inputs(self) -> tuple[Cell, ...]:
        """The operands."""
        return self.operands


class Cells:
    """Makes cells, each once."""

    def __init__(self) -> None:
        self._known: dict[tuple, Cell] = {}
        # In order of their making, so that the same model gives the same sums in every process.
        self._serial: dict[Cell, int] = {}
        self.zero = self.constant(0.0)
        self.one = self.constant(1.0)
        self.minus_one = self.constant(-1.0)

    def constant(self, value: Any) -> Constant:
        """Return a number as a cell."""
        value = np.asarray(value)[()]
        key = (Constant, value.dtype.str, value.tobytes())
        return self._once(key, lambda: Constant(value))

    def data(self, column: int, entry: tuple[int, ...]) -> Data:
        """Return an entry of the rows of data array number `column`."""
        return self._once((Data, column, entry), lambda: Data(column, entry))

    def row_number(self) -> RowNumber:
        """Return the number of the row."""
        return self._once((RowNumber,), RowNumber)

    def length(self) -> Length:
        """Return the number of rows."""
        return self._once((Length,), Length)

    def lookup(self, table: np.ndarray, index: Cell) -> Lookup:
        """Return the entry of `table` that `index` chooses."""
        key = (Lookup, table.dtype.str, table.tobytes(), index)
        return self._once(key, lambda: Lookup(table, index))

    def argument(self, number: int) -> Argument:
        """Return an argument of the log-likelihood."""
        return self._once((Argument, number), lambda: Argument(number))

    def node(self, op: ScalarOp, operands: Sequence[Cell]) -> Cell:
        """Return an operation as it stands; constants are folded."""
        operands = tuple(operands)
        if all(isinstance(cell, Constant) for cell in operands):
            return self.constant(numpy_of(op)(*(cell.value for cell in operands)))
        return self._once((Apply, op, *operands), lambda: Apply(op, operands))

    def coordinate(self, place: Place) -> Affine:
        """Return a coordinate of the position."""
        return self._affine((Term(1.0, (), place),), self.zero)

    def scaled(self, affine: Affine, factor: Cell) -> Cell:
        """Return an affine cell times data."""
        if isinstance(factor, Constant):
            number = float(factor.value)
            if number == 0.0:
                return self.zero
            if number == 1.0:
                return affine
            terms = tuple(Term(number * t.factor, t.monomial, t.place) for t in affine.terms)
        else:
            terms = tuple(
                Term(t.factor, self.ordered((*t.monomial, factor)), t.place) for t in affine.terms
            )
        return self._affine(terms, self.times(affine.offset, factor))

    def total(self, affines: Sequence[Affine], offsets: Sequence[Cell]) -> Cell:
        """Return a sum of affine cells and data."""
        merged: dict[tuple, Term] = {}
        for term in (t for affine in affines for t in affine.terms):
            key = (term.monomial, term.place)
            known = merged.get(key)
            factor = term.factor + (known.factor if known else 0.0)
            merged[key] = Term(factor, term.monomial, term.place)
        terms = tuple(term for term in merged.values() if term.factor != 0.0)
        offset = self.plus([*(a.offset for a in affines), *offsets])
        return self._affine(terms, offset) if terms else offset

    def times(self, left: Cell, right: Cell) -> Cell:
        """Return a product of data."""
        if left is self.one or right is self.zero:
            return right
        if right is self.one or left is self.zero:
            return left
        return self.node(scalar.mul, (left, right))

    def plus(self, cells: Sequence[Cell]) -> Cell:
        """Return a sum of data."""
        kept = [cell for cell in cells if cell is not self.zero]
        if not kept:
            return self.zero
        return kept[0] if len(kept) == 1 else self.node(scalar.add, kept)

    def _affine(self, terms: tuple[Term, ...], offset: Cell) -> Affine:
        ordered = tuple(sorted(terms, key=self._order_of_term))
        return self._once((Affine, ordered, offset), lambda: Affine(ordered, offset))

    def ordered(self, cells: Sequence[Cell]) -> tuple[Cell, ...]:
        """Return cells in the order in which they were made."""
        return tuple(sorted(cells, key=self._serial.__getitem__))

    def _order_of_term(self, term: Term) -> tuple:
        place = term.place
        if isinstance(place, Gather):
            where = (place.first, 1 + self._serial[place.index])
        else:
            where = (place, 0)
        return (*where, tuple(self._serial[cell] for cell in term.monomial))

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            cell = self._known[key] = make()
            self._serial[cell] = len(self._serial)
        return self._known[key]


def numpy_of(op: ScalarOp) -> Callable[..., np.ndarray]:
    """Return the NumPy or SciPy function of a scalar operation on data."""
    if isinstance(op, scalar.Cast):
        return lambda x: np.asarray(x).astype(op.o_type.dtype)
    if isinstance(op, scalar.Second):
        return lambda x, y: np.broadcast_arrays(x, y)[1]
    if isinstance(op, scalar.Add | scalar.Mul):
        plain = np.add if isinstance(op, scalar.Add) else np.multiply
        return lambda *values: _fold(plain, values)
    if isinstance(op, scalar.Reciprocal):
        # np.reciprocal of integers is an integer.
        return lambda x: 1.0 / np.asarray(x, dtype=float)
    if op.nfunc_spec is not None:
        *path, name = op.nfunc_spec[0].split(".")
        return getattr(special if path[:1] == ["scipy"] else np, name)
    return np.vectorize(op.impl)


def _fold(plain: np.ufunc, values: tuple) -> np.ndarray:
    result = values[0]
    for value in values[1:]:
        result = plain(result, value)
    return result
