"""The log-likelihood of a row as a function of a few affine arguments.

Every log-likelihood that subsampling pays for depends on the position through a handful of
linear forms u_1..u_m, such as η_i = x_i β + a[g_i] and log σ: l_i(θ) = f(u_i(θ); data_i). They are
found symbolically. Forms that differ by a constant or a factor count once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from weakref import WeakKeyDictionary

import numpy as np
from pytensor.graph.basic import Variable

import pymc_minibatch_mh.expressions.indexing
import pymc_minibatch_mh.expressions.linalg  # noqa: F401 - both register rules
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.data.arrays import read_entries
from pymc_minibatch_mh.data.source import consecutive, read_columns
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.arithmetic import add, multiply
from pymc_minibatch_mh.expressions.graph import (
    Affine,
    Apply,
    Constant,
    Data,
    Expr,
    ExprGraph,
    Gather,
    Lookup,
    LoweringError,
    Monomial,
    intersection,
    without,
)
from pymc_minibatch_mh.expressions.log_sums import arguments_at_once
from pymc_minibatch_mh.expressions.lower import Tensor, constants, filled, lower
from pymc_minibatch_mh.expressions.patterns import coefficients_of
from pymc_minibatch_mh.functions.base import numpy_of, operation_name
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.independence import Likelihood

#: Arguments of one summand beyond which its derivatives are too many to be bounded one by one.
MOST_ARGUMENTS = 10
#: Arguments of a row beyond which its second derivatives are too many to be compiled.
MOST_IN_ALL = 24
#: Rounding errors of a combination of forms, relative to the forms.
ROUNDED = 1e-14
WAY_ON = "Use BarkerMinibatchMH() or PenaltyMH(), which need no bounds, or pass bounds=Bounds(...)."


@dataclass(frozen=True)
class LinearForm:
    """One argument u_a: a linear form of the position whose coefficients are data."""

    terms: tuple[Monomial, ...]

    @property
    def is_global(self) -> bool:
        """Whether the form is the same for all rows."""
        return all(not t.monomial and isinstance(t.place, int) for t in self.terms)


@dataclass(frozen=True, eq=False)
class RowFunction:
    """The log-likelihood f(u_1..u_m; data) of one row of a likelihood term.

    `root` is f, an expression of :class:`Argument` and of :class:`Data`, which number the columns.
    """

    name: str
    n_rows: int
    columns: tuple[Column, ...]
    root: Expr
    arguments: tuple[LinearForm, ...]
    exprs: ExprGraph

    @property
    def is_stored(self) -> bool:
        """Whether its data have to be read before they are in memory."""
        return any(not isinstance(column.values, np.ndarray) for column in self.columns)


@dataclass(frozen=True, eq=False)
class LoweredRow:
    """The log-likelihood of one row of a term, in coordinates of the position and data."""

    term: Likelihood
    exprs: ExprGraph
    root: Expr

    @cached_property
    def arguments(self) -> "_Arguments":
        """The linear forms that it depends on."""
        return _Arguments(self.exprs, self.root)


#: Lowered rows of a factorization, once for all.
_lowered: WeakKeyDictionary[Factorization, list[LoweredRow]] = WeakKeyDictionary()


def lowered_rows(factorization: Factorization) -> list[LoweredRow]:
    """Return a row of every likelihood term of a model, taken apart."""
    if factorization.discrete_in_rows:
        raise BoundsError(
            f"{factorization.terms[0].name!r} depends on the discrete variable "
            f"{factorization.discrete_in_rows[0]!r} of another step, and each of its values would "
            f"need its own bounds. {WAY_ON}"
        )
    if factorization not in _lowered:
        _lowered[factorization] = [
            _lowered_row(term, factorization) for term in factorization.terms
        ]
    return _lowered[factorization]


def _lowered_row(term: Likelihood, factorization: Factorization) -> LoweredRow:
    exprs = ExprGraph()
    exprs.logs = frozenset(factorization.boundary)
    try:
        (root,) = np.ravel(lower(exprs, term.logp, _leaves(exprs, term, factorization)))
    except LoweringError as error:
        raise BoundsError(
            f"{term.name!r} goes through {operation_name(error.op)}, which {error.why}, so no "
            f"bound can be derived for it. {WAY_ON}"
        ) from error
    for kind in dict.fromkeys(type(one) for one in factorization.maps):
        root = kind.rewritten(exprs, root)
    return LoweredRow(term, exprs, root)


def row_functions(factorization: Factorization) -> list[RowFunction]:
    """Return f and its arguments for every likelihood term of a model."""
    return [_row_function(row) for row in lowered_rows(factorization)]


def _row_function(row: LoweredRow) -> RowFunction:
    term, arguments = row.term, row.arguments
    root = arguments.rebuilt(row.root)
    columns = tuple(column for column, _ in term.batches)
    _require_few(row.exprs, term.name, root, len(arguments.forms))
    return RowFunction(term.name, term.n_rows, columns, root, arguments.forms, row.exprs)


def _require_few(exprs: ExprGraph, name: str, root: Expr, n_arguments: int) -> None:
    """Refuse a row whose derivatives are too many."""
    at_once = arguments_at_once(exprs, root) if n_arguments > MOST_ARGUMENTS else 0
    if at_once > MOST_ARGUMENTS:
        raise BoundsError(
            f"{name!r} depends on {n_arguments} different linear combinations of the parameters "
            f"in each row, {at_once} of them in one term that is not a sum; bounds are derived "
            f"for up to {MOST_ARGUMENTS} at once, and for more in softmax. {WAY_ON}"
        )
    if n_arguments > MOST_IN_ALL:
        raise BoundsError(
            f"{name!r} depends on {n_arguments} different linear combinations of the parameters "
            f"in each row, whose second derivatives are compiled for up to {MOST_IN_ALL}. {WAY_ON}"
        )


def _leaves(
    exprs: ExprGraph, term: Likelihood, factorization: Factorization
) -> dict[Variable, Tensor]:
    position = [exprs.coordinate(k) for k in range(factorization.size)]
    leaves = {
        factorization.position: np.array(position, dtype=object),
        term.length: constants(exprs, np.int64(1)),
    }
    for number, (column, batch) in enumerate(term.batches):
        entry = partial(exprs.data, number, dtype=np.dtype(batch.type.dtype))
        leaves[batch] = filled(column.row_shape, entry)[np.newaxis]
    return leaves


class _Arguments:
    """The linear forms that an expression consumes, expressed by as few of them as possible."""

    def __init__(self, exprs: ExprGraph, root: Expr) -> None:
        self._exprs = exprs
        self._scaled = {affine: _form_of(affine) for affine in _consumed(root)}
        self.forms, self._weights = _basis([form for form, _, _ in self._scaled.values()])
        self._known: dict[Expr, Expr] = {}

    def rebuilt(self, expr: Expr) -> Expr:
        """Return `expr` as a function of arguments and data."""
        if expr.is_data:
            return expr
        if expr not in self._known:
            if isinstance(expr, Affine):
                self._known[expr] = self._argument(expr)
            else:
                # Not simplified again: an argument hides that it is affine.
                operands = [self.rebuilt(operand) for operand in expr.inputs]
                self._known[expr] = self._exprs.node(expr.op, operands)  # type: ignore[attr-defined]
                if expr in self._exprs.checks:
                    self._exprs.checks.add(self._known[expr])
        return self._known[expr]

    def _argument(self, affine: Affine) -> Expr:
        form, factor, common = self._scaled[affine]
        scale: Expr = self._exprs.constant(factor)
        for expr in common:
            scale = self._exprs.times(scale, expr)
        parts = [
            multiply(self._exprs, scale, self._exprs.constant(weight), self._exprs.argument(k))
            for k, weight in enumerate(self._weights[form])
            if weight != 0.0
        ]
        return add(self._exprs, *parts, affine.offset)


def _consumed(root: Expr) -> list[Affine]:
    found: dict[Expr, None] = {}
    waiting = [root]
    while waiting:
        expr = waiting.pop()
        if expr not in found and not expr.is_data:
            found[expr] = None
            waiting += reversed(expr.inputs)
    return [expr for expr in found if isinstance(expr, Affine)]


def _form_of(affine: Affine) -> tuple[LinearForm, float, tuple[Expr, ...]]:
    """Return the linear form of an affine expression, and the number and data that multiply it."""
    common = reduce(intersection, (t.monomial for t in affine.terms))
    factor = affine.terms[0].factor
    rests = [reduce(without, common, list(t.monomial)) for t in affine.terms]
    pairs = zip(affine.terms, rests, strict=True)
    terms = tuple(Monomial(t.factor / factor, tuple(rest), t.place) for t, rest in pairs)
    return LinearForm(terms), factor, common


def _basis(
    forms: Sequence[LinearForm],
) -> tuple[tuple[LinearForm, ...], dict[LinearForm, np.ndarray]]:
    """Choose independent forms, short ones first, and express all forms by them."""
    rows = dict(zip(forms, coefficients_of([form.terms for form in forms]), strict=True))
    chosen: list[LinearForm] = []
    weights: dict[LinearForm, dict[LinearForm, float]] = {}
    for form in sorted(rows, key=lambda form: len(form.terms)):
        found = _combination(np.array([rows[f] for f in chosen]), rows[form]) if chosen else None
        if found is None:
            chosen.append(form)
            weights[form] = {form: 1.0}
        else:
            weights[form] = dict(zip(chosen, found, strict=False))
    basis = tuple(form for form in rows if form in chosen)
    return basis, {
        form: np.array([weights[form].get(part, 0.0) for part in basis]) for form in rows
    }


def _combination(basis: np.ndarray, row: np.ndarray) -> np.ndarray | None:
    """Return the weights that make up `row`, or None if it is independent of the basis."""
    weights = np.linalg.lstsq(basis.T, row, rcond=None)[0]
    # Sums and differences of forms have simple weights; rounding must not make up others.
    simple = np.round(weights * 720720.0) / 720720.0
    if np.array_equal(simple @ basis, row):
        return simple
    weights = np.where(np.abs(weights) > ROUNDED * np.abs(weights).max(), weights, 0.0)
    # Entry by entry: a coefficient that is tiny beside others can belong to a large coordinate.
    error = np.abs(weights @ basis - row)
    return weights if (error <= ROUNDED * (np.abs(weights) @ np.abs(basis))).all() else None


def terms_of(functions: Sequence[RowFunction]) -> list[Monomial]:
    """Return the terms of all linear forms that rows depend on."""
    return [term for f in functions for form in f.arguments for term in form.terms]


def read(function: RowFunction, rows: np.ndarray) -> tuple[RowFunction, np.ndarray]:
    """Return a term with some rows in memory, and their numbers there.

    Where its data are in memory already, that is the term itself.
    """
    if not function.is_stored:
        return function, rows
    columns = read_columns(function.columns, consecutive(rows))
    return replace(function, n_rows=rows.size, columns=columns), np.arange(rows.size)


def with_rows(function: RowFunction, read: ArrayRows) -> RowFunction:
    """Return a term of rows that were read, in the place of those that it had."""
    return replace(function, n_rows=read.n_rows, columns=read.columns)


def without_rows(function: RowFunction) -> RowFunction:
    """Return a term without its rows, as a function of any row."""
    return replace(function, n_rows=0, columns=())


class RowData:
    """Values of data expressions for some rows of one likelihood term, by their numbers."""

    def __init__(self, function: RowFunction, rows: slice | np.ndarray) -> None:
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        #: The term with the rows in memory, and their numbers there, int64.
        self.function, self.rows = read(function, rows)
        self._known: dict[Expr, np.ndarray] = {}

    def value(self, expr: Expr) -> np.ndarray:
        """Return a data expression, shape (rows,) or ()."""
        if expr not in self._known:
            with np.errstate(all="ignore"):
                self._known[expr] = self._value(expr)
        return self._known[expr]

    def part(self, chosen: np.ndarray) -> "RowData":
        """Return some of the rows, by their places among these."""
        return RowData(self.function, self.rows.take(chosen))

    def where(self, condition: Expr) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of rows for which a data expression holds, and those of the others."""
        holds = np.broadcast_to(self.value(condition), self.rows.shape).astype(bool)
        return np.flatnonzero(holds), np.flatnonzero(~holds)

    def coefficients(self, form: LinearForm, size: int) -> np.ndarray:
        """Return the matrix of a linear form, shape (rows, d), or (1, d) for a global one."""
        count = 1 if form.is_global else self.rows.size
        matrix = np.zeros((count, size))
        for term in form.terms:
            factor = np.asarray(term.factor)
            for expr in term.monomial:
                factor = factor * self.value(expr)
            if isinstance(term.place, Gather):
                index = np.asarray(self.value(term.place.index), dtype=np.int64)
                wrapped = np.where(index < 0, index + term.place.size, index)
                places = np.broadcast_to(term.place.first + term.place.step * wrapped, count)
                matrix[np.arange(count), places] += factor
            else:
                matrix[:, term.place] += factor
        return matrix

    def _value(self, expr: Expr) -> np.ndarray:
        if isinstance(expr, Constant):
            return np.asarray(expr.value)
        if isinstance(expr, Data):
            column = self.function.columns[expr.column]
            return read_entries(column, self.rows, expr.entry).astype(expr.dtype, copy=False)
        if isinstance(expr, Lookup):
            return expr.table[np.asarray(self.value(expr.index), dtype=np.int64)]
        if isinstance(expr, Apply):
            return np.asarray(numpy_of(expr.op)(*(self.value(x) for x in expr.inputs)))
        raise TypeError(f"{type(expr).__name__} is not data")
