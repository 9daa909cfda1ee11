"""The log-likelihood of one row as an expression of scalars, of which equal ones are one object.

An expression is *data* (it does not depend on the position), *affine* in the position, or neither.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from pytensor.scalar import basic as scalar
from pytensor.scalar.basic import ScalarOp

from pymc_minibatch_mh.functions.base import (
    are_close,
    numpy_of,
    operation_name,
    output_type,
    sum_of,
)

REAL, INTEGER = np.dtype(np.float64), np.dtype(np.int64)


class LoweringError(Exception):
    """An operation that cannot be taken apart, and why."""

    def __init__(self, op: object, why: str = "cannot be computed row by row") -> None:
        self.op = op
        self.why = why
        super().__init__(f"{operation_name(op)} {why}")


def require(holds: bool, op: object, why: str = "cannot be computed row by row") -> None:
    """Raise the error of an operation that cannot be taken apart, unless a condition holds."""
    if not holds:
        raise LoweringError(op, why)


class Expr:
    """A scalar that has one value per row, or one for all rows."""

    #: Whether the expression is free of the position.
    is_data: bool = True
    #: The type that the expression is computed in.
    dtype: np.dtype = REAL
    #: Expressions that this one is computed from.
    inputs: tuple["Expr", ...] = ()


@dataclass(frozen=True, eq=False)
class Constant(Expr):
    """A number."""

    value: Any
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Data(Expr):
    """One entry of each row of a data array; rows are read in float64, int64 or bool."""

    column: int
    entry: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Lookup(Expr):
    """An entry of a constant vector, chosen by data."""

    table: np.ndarray
    index: Expr
    inputs: tuple[Expr, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class Gather:
    """A coordinate that data choose: ``first`` plus ``step`` times the value of ``index``."""

    first: int
    step: int
    size: int
    index: Expr


Place = int | Gather


def places_of(place: Place) -> range:
    """Return the coordinates that a place stands for."""
    if isinstance(place, Gather):
        return range(place.first, place.first + place.step * place.size, place.step)
    return range(place, place + 1)


@dataclass(frozen=True)
class Monomial:
    """A number times data expressions times a coordinate of the position."""

    factor: float
    monomial: tuple[Expr, ...]
    place: Place


@dataclass(frozen=True, eq=False)
class Affine(Expr):
    """A sum of terms, plus data."""

    terms: tuple[Monomial, ...]
    offset: Expr
    is_data = False


@dataclass(frozen=True, eq=False)
class Argument(Expr):
    """One of the linear forms that the log-likelihood of a row depends on."""

    number: int
    is_data = False


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A scalar operation on expressions."""

    op: ScalarOp
    inputs: tuple[Expr, ...]

    @cached_property
    def is_data(self) -> bool:  # type: ignore[override]
        """Whether all operands are."""
        return all(expr.is_data for expr in self.inputs)

    @cached_property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The type that PyTensor gives the result."""
        return output_type(self.op, *(expr.dtype for expr in self.inputs))


def without[T](values: Iterable[T], one: T) -> list[T]:
    """Return values without one of them; if it is there twice, it stays once."""
    rest = list(values)
    rest.remove(one)
    return rest


def intersection[T](left: Sequence[T], right: Sequence[T]) -> tuple[T, ...]:
    """Return the common values of two multisets."""
    return tuple((Counter(left) & Counter(right)).elements())


def _is_infinite(offset: Expr) -> bool:
    """Whether this is a number that parameters do not change, as beside cutpoints."""
    return isinstance(offset, Constant) and bool(np.isinf(offset.value))


class ExprGraph:
    """Makes expressions, each once.

    :meth:`node` computes in the types of its operands, as the model does. The other arithmetic
    brings together what the model keeps apart, and is done with real numbers: where the model has
    ``(theta * a) * b``, the product of two columns of int8 must not overflow.
    """

    def __init__(self) -> None:
        self._known: dict[tuple, Expr] = {}
        # In order of their making, so that the same model gives the same sums in every process.
        self._serial: dict[Expr, int] = {}
        #: Coordinates that stand for their logarithms until a map has rewritten the row.
        self.logs: frozenset[int] = frozenset()
        #: Results of rules, by rule and operands.
        self.results: dict[tuple, Any] = {}
        #: Logarithms of a share of several and of the others, by shares.
        self.shares: dict[Expr, tuple[Expr, tuple[Expr, ...]]] = {}
        #: Conditions that are parameter checks.
        self.checks: set[Expr] = set()
        #: Expressions, each with the numbers in it, by what it is but for these.
        self._alike: dict[tuple, tuple[list[np.ndarray], list[Any]]] = {}
        #: Cholesky factors of matrices that are known to be products of them.
        self.factors: dict[tuple[Expr, ...], np.ndarray] = {}
        self.zero = self.constant(0.0)
        self.one = self.constant(1.0)
        self.minus_one = self.constant(-1.0)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out results of rules, which they compute again."""
        return {**self.__dict__, "results": {}}

    def constant(self, value: Any) -> Constant:
        """Return a number as an expression."""
        value = np.asarray(value)[()]
        key = (Constant, value.dtype.str, value.tobytes())
        return self._once(key, lambda: Constant(value, value.dtype))

    def data(self, column: int, entry: tuple[int, ...], dtype: np.dtype = REAL) -> Data:
        """Return an entry of the rows of data array number `column`."""
        return self._once((Data, column, entry), lambda: Data(column, entry, dtype))

    def lookup(self, table: np.ndarray, index: Expr) -> Lookup:
        """Return the entry of `table` that `index` chooses."""
        key = (Lookup, table.dtype.str, table.tobytes(), index)
        return self._once(key, lambda: Lookup(table, index, (index,), table.dtype))

    def argument(self, number: int) -> Argument:
        """Return an argument of the log-likelihood."""
        return self._once((Argument, number), lambda: Argument(number))

    def node(self, op: ScalarOp, operands: Sequence[Expr]) -> Expr:
        """Return an operation as it stands; constants are folded."""
        operands = tuple(operands)
        numbers = [expr.value for expr in operands if isinstance(expr, Constant)]
        if len(numbers) == len(operands):
            with np.errstate(all="ignore"):
                return self.constant(numpy_of(op)(*numbers))
        return self._once((Apply, op, *operands), lambda: Apply(op, operands))

    def knows(self, op: ScalarOp, operands: Sequence[Expr]) -> bool:
        """Whether an operation was made before."""
        return (Apply, op, *operands) in self._known

    def real(self, expr: Expr) -> Expr:
        """Return data as real numbers."""
        return expr if expr.dtype == REAL else self.node(scalar.convert_to_float64, (expr,))

    def coordinate(self, place: Place) -> Affine:
        """Return a coordinate of the position."""
        return self.affine((Monomial(1.0, (), place),), self.zero)

    def linear(self, affine: Affine) -> Affine:
        """Return an affine expression without its offset."""
        return self.affine(affine.terms, self.zero)

    def scaled(self, affine: Affine, factor: Expr) -> Expr:
        """Return an affine expression times data."""
        number, others = self.as_product(factor)
        scaled = (
            Monomial(number * t.factor, self.ordered((*t.monomial, *others)), t.place)
            for t in affine.terms
        )
        terms = tuple(term for term in scaled if term.factor != 0.0)
        offset = self.times(affine.offset, factor)
        return self.affine(terms, offset) if terms and not _is_infinite(offset) else offset

    def primitive(self, affine: Affine) -> tuple[Affine, Expr]:
        """Return an affine expression without the data that all of it is times, and these data.

        Its first term has the factor one. Expressions that are equal but for rounding are the same.
        """
        summands = self._summands(affine.offset)
        monomials = [*(t.monomial for t in affine.terms), *(others for _, others in summands)]
        common = reduce(intersection, monomials) if all(monomials) else ()
        number = affine.terms[0].factor
        # Coordinates that stand for their logarithms are multiplied by nothing.
        if any(k in self.logs for t in affine.terms for k in places_of(t.place)):
            common, number = (), 1.0

        def rest(monomial: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(reduce(without, common, [*monomial]))

        terms = [Monomial(t.factor / number, rest(t.monomial), t.place) for t in affine.terms]
        data = [(k / number, rest(others)) for k, others in summands]
        offset = self.plus([self.product(k, others) for k, others in data])
        shape = (*((t.monomial, t.place) for t in terms), *(others for _, others in data))
        numbers = [*(t.factor for t in terms), *(k for k, _ in data)]
        core = self.affine(terms, offset) if common or number != 1.0 else affine
        return self.first_like(core, shape, numbers), self.product(number, common)

    def product(self, number: float, others: Sequence[Expr]) -> Expr:
        """Return a number times data."""
        product: Expr = self.constant(number)
        for other in others:
            product = self.times(product, other)
        return product

    def first_like[E: Expr](self, expr: E, shape: tuple, numbers: Sequence[float]) -> E:
        """Return the first expression of a shape whose numbers are the same but for rounding."""
        values, known = self._alike.setdefault(shape, ([], []))
        array = np.array(numbers, dtype=np.float64)
        if known:
            close = are_close(np.array(values), array).all(axis=-1)
            if close.any():
                return known[int(np.argmax(close))]
        values.append(array)
        known.append(expr)
        return expr

    def _summands(self, data: Expr) -> list[tuple[float, tuple[Expr, ...]]]:
        """Return the summands of data, each as a number times other factors."""
        # Sums in a small type can overflow there.
        is_sum = isinstance(data, Apply) and isinstance(data.op, scalar.Add) and data.dtype == REAL
        return [
            self.as_product(x) for x in (data.inputs if is_sum else (data,)) if x is not self.zero
        ]

    def as_product(self, data: Expr) -> tuple[float, tuple[Expr, ...]]:
        """Return the number in a product of data, and its other factors."""
        if isinstance(data, Constant):
            return float(data.value), ()
        # Products in a small type can overflow there.
        if not (isinstance(data, Apply) and isinstance(data.op, scalar.Mul) and data.dtype == REAL):
            return 1.0, (data,)
        number = 1.0
        others: tuple[Expr, ...] = ()
        for part in data.inputs:
            own, rest = self.as_product(part)
            number, others = number * own, (*others, *rest)
        return number, others

    def total(self, affines: Sequence[Affine], offsets: Sequence[Expr]) -> Expr:
        """Return a sum of affine expressions and data."""
        factors: dict[tuple[tuple[Expr, ...], Place], list[float]] = {}
        for term in (t for affine in affines for t in affine.terms):
            factors.setdefault((term.monomial, term.place), []).append(term.factor)
        sums = {key: sum_of(numbers) for key, numbers in factors.items()}
        terms = tuple(Monomial(factor, *key) for key, factor in sums.items() if factor != 0.0)
        offset = self.plus([*(a.offset for a in affines), *offsets])
        return self.affine(terms, offset) if terms and not _is_infinite(offset) else offset

    def times(self, left: Expr, right: Expr) -> Expr:
        """Return a product of data, as one number times other factors."""
        (number, others), (more, rest) = self.as_product(left), self.as_product(right)
        number, others = number * more, self.ordered((*others, *rest))
        if number == 0.0:
            return self.zero
        if not others:
            return self.constant(number)
        factors = others if number == 1.0 else (self.constant(number), *others)
        return factors[0] if len(factors) == 1 else self.node(scalar.mul, self._in_reals(factors))

    def plus(self, exprs: Sequence[Expr]) -> Expr:
        """Return a sum of data."""
        kept = [expr for expr in exprs if expr is not self.zero]
        if not kept:
            return self.zero
        return kept[0] if len(kept) == 1 else self.node(scalar.add, self._in_reals(kept))

    def _in_reals(self, exprs: Sequence[Expr]) -> Sequence[Expr]:
        has_reals = any(expr.dtype == REAL for expr in exprs)
        return exprs if has_reals else [self.real(exprs[0]), *exprs[1:]]

    def affine(self, terms: Sequence[Monomial], offset: Expr) -> Affine:
        """Return a sum of terms, plus data."""
        ordered = tuple(sorted(terms, key=self._order_of_term))
        return self._once((Affine, ordered, offset), lambda: Affine(ordered, offset))

    def ordered(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        """Return expressions in the order in which they were made."""
        return tuple(sorted(exprs, key=self._serial.__getitem__))

    def _order_of_term(self, term: Monomial) -> tuple:
        place = term.place
        if isinstance(place, Gather):
            where = (place.first, 1 + self._serial[place.index])
        else:
            where = (place, 0)
        return (*where, tuple(self._serial[expr] for expr in term.monomial))

    def _once(self, key: tuple, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            expr = self._known[key] = make()
            self._serial[expr] = len(self._serial)
        return self._known[key]
