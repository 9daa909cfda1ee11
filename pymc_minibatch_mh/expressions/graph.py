"""Expression graph of one observation's log-likelihood, in which equal expressions are one object.

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
    double_function,
    numpy_function,
    operation_name,
    rounded_sum,
    scalar_output_type,
)

REAL, INTEGER = np.dtype(np.float64), np.dtype(np.int64)


class LoweringError(Exception):
    """Error about an operation that cannot be lowered to expressions, with the reason."""

    def __init__(self, op: object, why: str = "cannot be computed row by row") -> None:
        self.op = op
        self.why = why
        super().__init__(f"{operation_name(op)} {why}")


def require_lowerable(holds: bool, op: object, why: str = "cannot be computed row by row") -> None:
    """Raise LoweringError for an operation unless a condition holds."""
    if not holds:
        raise LoweringError(op, why)


class Expr:
    """A scalar with one value per observation, or one for all observations."""

    #: Whether the expression does not depend on the position.
    is_data: bool = True
    #: Type in which the value is computed.
    dtype: np.dtype = REAL
    #: Operands of the expression.
    inputs: tuple["Expr", ...] = ()


@dataclass(frozen=True, eq=False)
class Constant(Expr):
    """A constant number."""

    value: Any
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Data(Expr):
    """An entry of each row of a data array, of type float64, int64 or bool."""

    column: int
    entry: tuple[int, ...]
    dtype: np.dtype


@dataclass(frozen=True, eq=False)
class Lookup(Expr):
    """An entry of a constant vector, indexed by data."""

    table: np.ndarray
    index: Expr
    inputs: tuple[Expr, ...]
    dtype: np.dtype


@dataclass(frozen=True)
class Gather:
    """A coordinate indexed by data: ``first`` plus ``step`` times the value of ``index``."""

    first: int
    step: int
    size: int
    index: Expr


CoordinateIndex = int | Gather


def coordinates_at(place: CoordinateIndex) -> range:
    """All coordinates that an index (fixed or read from data) can select."""
    if isinstance(place, Gather):
        return range(place.first, place.first + place.step * place.size, place.step)
    return range(place, place + 1)


@dataclass(frozen=True)
class Monomial:
    """Product of a number, data expressions and a coordinate of the position."""

    factor: float
    monomial: tuple[Expr, ...]
    place: CoordinateIndex


@dataclass(frozen=True, eq=False)
class Affine(Expr):
    """Sum of monomials plus a data offset."""

    terms: tuple[Monomial, ...]
    offset: Expr
    is_data = False


@dataclass(frozen=True, eq=False)
class Argument(Expr):
    """One of the linear predictors that the log-likelihood of an observation depends on."""

    number: int
    is_data = False


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A scalar operation on expressions."""

    op: ScalarOp
    inputs: tuple[Expr, ...]

    @cached_property
    def is_data(self) -> bool:  # type: ignore[override]
        """Whether all operands are data."""
        return all(expr.is_data for expr in self.inputs)

    @cached_property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """Result type of PyTensor's operation."""
        return scalar_output_type(self.op, *(expr.dtype for expr in self.inputs))

    @cached_property
    def numpy(self) -> Callable[..., Any]:
        """The operation on values of the operands, which have their types."""
        is_double = all(expr.dtype == REAL for expr in (self, *self.inputs))
        return double_function(self.op) if is_double else numpy_function(self.op)


def without_value[T](values: Iterable[T], one: T) -> list[T]:
    """Values without the first occurrence of `one`."""
    rest = list(values)
    rest.remove(one)
    return rest


def common_values[T](left: Sequence[T], right: Sequence[T]) -> tuple[T, ...]:
    """Common values of two multisets."""
    return tuple((Counter(left) & Counter(right)).elements())


def _is_infinite(offset: Expr) -> bool:
    return isinstance(offset, Constant) and bool(np.isinf(offset.value))


class ExprGraph:
    """Factory of expressions; equal expressions are the same object.

    :meth:`node` computes in the types of its operands, as the model does. All other arithmetic
    combines separate parts of the model and uses real numbers: in ``(theta * a) * b`` the product
    of two columns of int8 must not overflow.
    """

    def __init__(self) -> None:
        self._known: dict[tuple, Expr] = {}
        # Creation order, which makes the sums of a model the same in every process.
        self._serial: dict[Expr, int] = {}
        #: Coordinates that stand for their logarithms until a bijection rewrites the observations.
        self.logs: frozenset[int] = frozenset()
        #: Cached results of rules: rule and operands -> result.
        self.results: dict[tuple, Any] = {}
        #: Softmax probability -> its logarithm, and logarithms of the other probabilities.
        self.shares: dict[Expr, tuple[Expr, tuple[Expr, ...]]] = {}
        #: Conditions on parameters, such as σ > 0; where one fails, the density is zero.
        self.checks: set[Expr] = set()
        #: Data that no row has as zero or less, where all rows are in memory.
        self.positive: set[Expr] = set()
        #: Conditions at which a row changes its smooth branch -> whether it is continuous there.
        self.kinks: dict[Expr, bool] = {}
        #: Coefficients and expressions, by the structure of the expression without coefficients.
        self._alike: dict[tuple, tuple[list[np.ndarray], list[Any]]] = {}
        #: Entries of a matrix, row by row -> its Cholesky factor, if known.
        self.factors: dict[tuple[Expr, ...], np.ndarray] = {}
        self.zero = self.constant(0.0)
        self.one = self.constant(1.0)
        self.minus_one = self.constant(-1.0)

    def __getstate__(self) -> dict[str, Any]:
        """State without the cached results of rules."""
        return {**self.__dict__, "results": {}}

    def constant(self, value: Any) -> Constant:
        """Constant expression."""
        value = np.asarray(value)[()]
        key = (Constant, value.dtype.str, value.tobytes())
        return self._get_or_make(key, lambda: Constant(value, value.dtype))

    def data(self, column: int, entry: tuple[int, ...], dtype: np.dtype = REAL) -> Data:
        """Entry of the rows of data array number `column`."""
        return self._get_or_make((Data, column, entry), lambda: Data(column, entry, dtype))

    def lookup(self, table: np.ndarray, index: Expr) -> Lookup:
        """Entry of `table` at `index`."""
        key = (Lookup, table.dtype.str, table.tobytes(), index)
        return self._get_or_make(key, lambda: Lookup(table, index, (index,), table.dtype))

    def argument(self, number: int) -> Argument:
        """Linear predictor with a given number."""
        return self._get_or_make((Argument, number), lambda: Argument(number))

    def node(self, op: ScalarOp, operands: Sequence[Expr]) -> Expr:
        """Operation on expressions, not simplified; a constant if all operands are constants."""
        operands = tuple(operands)
        numbers = [expr.value for expr in operands if isinstance(expr, Constant)]
        if len(numbers) == len(operands):
            with np.errstate(all="ignore"):
                return self.constant(numpy_function(op)(*numbers))
        return self._get_or_make((Apply, op, *operands), lambda: Apply(op, operands))

    def real(self, expr: Expr) -> Expr:
        """Data expression converted to float64."""
        return expr if expr.dtype == REAL else self.node(scalar.convert_to_float64, (expr,))

    def coordinate(self, place: CoordinateIndex) -> Affine:
        """Coordinate of the position."""
        return self.affine((Monomial(1.0, (), place),), self.zero)

    def without_offset(self, affine: Affine) -> Affine:
        """Affine expression without its offset."""
        return self.affine(affine.terms, self.zero)

    def times_data(self, affine: Affine, factor: Expr) -> Expr:
        """Product of an affine expression and data."""
        number, others = self.as_product(factor)
        scaled = (
            Monomial(number * t.factor, self.in_order((*t.monomial, *others)), t.place)
            for t in affine.terms
        )
        terms = tuple(term for term in scaled if term.factor != 0.0)
        offset = self.times(affine.offset, factor)
        return self.affine(terms, offset) if terms and not _is_infinite(offset) else offset

    def primitive_part(self, affine: Affine) -> tuple[Affine, Expr]:
        """Affine expression without its common data factor, and that factor.

        The first monomial has the factor one. Expressions equal up to rounding are one object.
        """
        summands = self._summands_of_data(affine.offset)
        monomials = [*(t.monomial for t in affine.terms), *(others for _, others in summands)]
        common = reduce(common_values, monomials) if all(monomials) else ()
        number = affine.terms[0].factor
        # Keep the factors if a coordinate is the logarithm of a variable: division would change it.
        if any(k in self.logs for t in affine.terms for k in coordinates_at(t.place)):
            common, number = (), 1.0

        def rest_of(monomial: Sequence[Expr]) -> tuple[Expr, ...]:
            return tuple(reduce(without_value, common, [*monomial]))

        terms = [Monomial(t.factor / number, rest_of(t.monomial), t.place) for t in affine.terms]
        data = [(k / number, rest_of(others)) for k, others in summands]
        offset = self.plus([self.product(k, others) for k, others in data])
        shape = (*((t.monomial, t.place) for t in terms), *(others for _, others in data))
        numbers = [*(t.factor for t in terms), *(k for k, _ in data)]
        core = self.affine(terms, offset) if common or number != 1.0 else affine
        return self.first_like(core, shape, numbers), self.product(number, common)

    def product(self, number: float, others: Sequence[Expr]) -> Expr:
        """Product of a number and data."""
        product: Expr = self.constant(number)
        for other in others:
            product = self.times(product, other)
        return product

    def first_like[E: Expr](self, expr: E, shape: tuple, numbers: Sequence[float]) -> E:
        """First known expression of the same structure with coefficients equal up to rounding."""
        values, known = self._alike.setdefault(shape, ([], []))
        array = np.array(numbers, dtype=np.float64)
        if known:
            close = are_close(np.array(values), array).all(axis=-1)
            if close.any():
                return known[int(np.argmax(close))]
        values.append(array)
        known.append(expr)
        return expr

    def _summands_of_data(self, data: Expr) -> list[tuple[float, tuple[Expr, ...]]]:
        """Summands of a data expression, each as (constant factor, other factors)."""
        # Sums in small types are not split, because they may overflow when reordered.
        is_sum = isinstance(data, Apply) and isinstance(data.op, scalar.Add) and data.dtype == REAL
        return [
            self.as_product(x) for x in (data.inputs if is_sum else (data,)) if x is not self.zero
        ]

    def as_product(self, data: Expr) -> tuple[float, tuple[Expr, ...]]:
        """Constant factor and other factors of a product of data."""
        if isinstance(data, Constant):
            return float(data.value), ()
        # Products in small types are not split, because they may overflow when reordered.
        if not (isinstance(data, Apply) and isinstance(data.op, scalar.Mul) and data.dtype == REAL):
            return 1.0, (data,)
        number = 1.0
        others: tuple[Expr, ...] = ()
        for part in data.inputs:
            own, rest = self.as_product(part)
            number, others = number * own, (*others, *rest)
        return number, others

    def total(self, affines: Sequence[Affine], offsets: Sequence[Expr]) -> Expr:
        """Sum of affine expressions and data."""
        factors: dict[tuple[tuple[Expr, ...], CoordinateIndex], list[float]] = {}
        for term in (t for affine in affines for t in affine.terms):
            factors.setdefault((term.monomial, term.place), []).append(term.factor)
        sums = {key: rounded_sum(numbers) for key, numbers in factors.items()}
        terms = tuple(Monomial(factor, *key) for key, factor in sums.items() if factor != 0.0)
        offset = self.plus([*(a.offset for a in affines), *offsets])
        return self.affine(terms, offset) if terms and not _is_infinite(offset) else offset

    def times(self, left: Expr, right: Expr) -> Expr:
        """Product of data, as one number times other factors."""
        (number, others), (more, rest) = self.as_product(left), self.as_product(right)
        number, others = number * more, self.in_order((*others, *rest))
        if number == 0.0:
            return self.zero
        if not others:
            return self.constant(number)
        factors = others if number == 1.0 else (self.constant(number), *others)
        return factors[0] if len(factors) == 1 else self.node(scalar.mul, self._in_reals(factors))

    def plus(self, exprs: Sequence[Expr]) -> Expr:
        """Sum of data expressions."""
        kept = [expr for expr in exprs if expr is not self.zero]
        if not kept:
            return self.zero
        return kept[0] if len(kept) == 1 else self.node(scalar.add, self._in_reals(kept))

    def _in_reals(self, exprs: Sequence[Expr]) -> Sequence[Expr]:
        has_reals = any(expr.dtype == REAL for expr in exprs)
        return exprs if has_reals else [self.real(exprs[0]), *exprs[1:]]

    def affine(self, terms: Sequence[Monomial], offset: Expr) -> Affine:
        """Affine expression: sum of monomials plus data."""
        ordered = tuple(sorted(terms, key=self._order_of_term))
        return self._get_or_make((Affine, ordered, offset), lambda: Affine(ordered, offset))

    def in_order(self, exprs: Sequence[Expr]) -> tuple[Expr, ...]:
        """Expressions in creation order."""
        return tuple(sorted(exprs, key=self._serial.__getitem__))

    def _order_of_term(self, term: Monomial) -> tuple:
        place = term.place
        if isinstance(place, Gather):
            where = (place.first, 1 + self._serial[place.index])
        else:
            where = (place, 0)
        return (*where, tuple(self._serial[expr] for expr in term.monomial))

    def _get_or_make(self, key: tuple, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            expr = self._known[key] = make()
            self._serial[expr] = len(self._serial)
        return self._known[key]
