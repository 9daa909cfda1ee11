"""Log-likelihood of an observation as a function of a few linear predictors.

Every supported log-likelihood depends on the position through a handful of linear predictors
u_1..u_m, such as η_i = x_i β + a[g_i] and log σ: l_i(θ) = f(u_i(θ); data_i). They are found
symbolically. Predictors that differ by a constant or a factor count once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from weakref import WeakKeyDictionary

import numpy as np

import pymc_minibatch_mh.expressions.indexing
import pymc_minibatch_mh.expressions.linalg  # noqa: F401 - both register rules
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.data.arrays import read_entries
from pymc_minibatch_mh.data.source import consecutive_slice, read_columns
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.graph import (
    Apply,
    Constant,
    Data,
    Expr,
    ExprGraph,
    Gather,
    Lookup,
    LoweringError,
    Monomial,
)
from pymc_minibatch_mh.expressions.inner_sums import MAX_INPUTS, Composition, composition_of
from pymc_minibatch_mh.expressions.kinks import keep_kinks, with_kinks_outside
from pymc_minibatch_mh.expressions.log_sums import has_log_sums, is_softmax, max_joint_arguments
from pymc_minibatch_mh.expressions.lower import Leaves, constant_exprs, fill_array, lower_graph
from pymc_minibatch_mh.expressions.state_sums import StateSums, split_states
from pymc_minibatch_mh.functions.base import numpy_function, operation_name
from pymc_minibatch_mh.model.factorization import Factorization
from pymc_minibatch_mh.model.independence import Likelihood
from pymc_minibatch_mh.structure.predictors import LinearForm, Predictors, indexed_coordinates

#: Maximum number of linear predictors in a summand; more have too many derivatives to bound.
MAX_ARGUMENTS = 10
#: Maximum number of linear predictors of an observation: all second derivatives are compiled.
MAX_TOTAL_ARGUMENTS = 24
USE_UNBOUNDED_SAMPLERS = (
    "Use BarkerMinibatchMH() or PenaltyMH(), which need no bounds, or pass bounds=Bounds(...)."
)


@dataclass(frozen=True, eq=False)
class RowFunction:
    """Log-likelihood f(u_1..u_m; data) of one observation of a term; `root` is f."""

    name: str
    n_rows: int
    columns: tuple[Column, ...]
    root: Expr
    arguments: tuple[LinearForm, ...]
    exprs: ExprGraph

    @cached_property
    def composition(self) -> Composition | None:
        """The function split at its sums of many linear predictors; None if that is of no use."""
        split = composition_of(self.exprs, self.root)
        if not split.is_split or split.n_joint > MAX_INPUTS:
            return None
        # Logarithms of sums of exponentials have closer bounds, by moments.
        by_moments = has_log_sums(self.exprs, self.root)
        return None if by_moments and self.n_joint <= MAX_ARGUMENTS else split

    @property
    def n_joint(self) -> int:
        """Maximum number of linear predictors in a summand that is not a log-sum."""
        return max_joint_arguments(self.exprs, self.root)

    @property
    def is_stored(self) -> bool:
        """Whether its data are in storage rather than in memory."""
        return any(not isinstance(column.values, np.ndarray) for column in self.columns)

    @property
    def states(self) -> StateSums | None:
        """Log-sums over states and the rest of f; None if f has none, or is not linear in them."""
        return split_states(self.exprs, self.root)


@dataclass(frozen=True, eq=False)
class LoweredRow:
    """The log-likelihood of one row of a term, in coordinates of the position and data."""

    term: Likelihood
    exprs: ExprGraph
    root: Expr

    @cached_property
    def arguments(self) -> Predictors:
        """Linear predictors that it depends on."""
        return Predictors(self.exprs, self.root)


#: Cache of the lowered observations of a factorization.
_lowered: WeakKeyDictionary[Factorization, list[LoweredRow]] = WeakKeyDictionary()


def lowered_rows(factorization: Factorization) -> list[LoweredRow]:
    """Observation of every likelihood term of a model, lowered to an expression; cached."""
    if factorization.discrete_in_rows:
        raise BoundsError(
            f"{factorization.terms[0].name!r} depends on the discrete variable "
            f"{factorization.discrete_in_rows[0]!r} of another step, and each of its values would "
            f"need its own bounds. {USE_UNBOUNDED_SAMPLERS}"
        )
    if factorization not in _lowered:
        rows = [_lowered_row(term, factorization) for term in factorization.terms]
        _lowered[factorization] = rows
    return _lowered[factorization]


def _lowered_row(term: Likelihood, factorization: Factorization) -> LoweredRow:
    exprs = ExprGraph()
    exprs.logs = frozenset(factorization.boundary)
    try:
        leaves = _batch_leaves(exprs, term)
        (root,) = np.ravel(lower_graph(exprs, term.logp, factorization.position, leaves))
    except LoweringError as error:
        raise BoundsError(
            f"{term.name!r} goes through {operation_name(error.op)}, which {error.why}, so no "
            f"bound can be derived for it. {USE_UNBOUNDED_SAMPLERS}"
        ) from error
    root = with_kinks_outside(exprs, root)
    for kind in dict.fromkeys(type(one) for one in factorization.maps):
        before, root = root, kind.rewrite_observation(exprs, root)
        keep_kinks(exprs, before, root)
    return LoweredRow(term, exprs, root)


def linear_forms(factorization: Factorization) -> list[LinearForm]:
    """Linear predictors of the observations of all terms."""
    return [form for row in lowered_rows(factorization) for form in row.arguments.forms]


def row_functions(factorization: Factorization) -> list[RowFunction]:
    """Function f and its arguments for every likelihood term of a model."""
    functions = []
    for row in lowered_rows(factorization):
        term, forms, root = row.term, row.arguments.forms, row.arguments.rebuild_expr(row.root)
        columns = tuple(column for column, _ in term.batches)
        functions.append(RowFunction(term.name, term.n_rows, columns, root, forms, row.exprs))
        _require_few(functions[-1])
    return functions


def _require_few(function: RowFunction) -> None:
    name, n_arguments, at_once = function.name, len(function.arguments), 0
    if n_arguments > MAX_ARGUMENTS and function.composition is None:
        at_once = function.n_joint
    if at_once > MAX_ARGUMENTS:
        raise BoundsError(
            f"{name!r} depends on {n_arguments} different linear combinations of the parameters "
            f"in each row, {at_once} of them in one term that is not a sum; bounds are derived "
            f"for up to {MAX_ARGUMENTS} at once, and for more in softmax. {USE_UNBOUNDED_SAMPLERS}"
        )
    if n_arguments > MAX_TOTAL_ARGUMENTS:
        raise BoundsError(
            f"{name!r} depends on {n_arguments} different linear combinations of the parameters "
            f"in each row, whose second derivatives are compiled for up to "
            f"{MAX_TOTAL_ARGUMENTS}. {USE_UNBOUNDED_SAMPLERS}"
        )


def _batch_leaves(exprs: ExprGraph, term: Likelihood) -> Leaves:
    leaves = {term.length: constant_exprs(exprs, np.int64(1))}
    for number, (column, batch) in enumerate(term.batches):
        entry = partial(exprs.data, number, dtype=np.dtype(batch.type.dtype))
        entries = fill_array(column.row_shape, entry)
        entries[_are_zero(column)] = exprs.constant(0.0)
        exprs.positive.update(entries[_are_positive(column)])
        leaves[batch] = entries[np.newaxis]
    return leaves


def _are_zero(column: Column) -> np.ndarray:
    """Entries that are 0 in all rows in memory, such as the utility of a reference alternative.

    As data, they could be -inf, so a softmax with them would be a nest of conditions.
    """
    values = column.values
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f" or not len(column.rows_first):
        return np.zeros(column.row_shape, dtype=bool)
    zero = column.rows_first[0] == 0.0
    return ~column.rows_first.any(axis=0) if zero.any() else zero


def _are_positive(column: Column) -> np.ndarray:
    """Entries that are positive in all rows in memory: their powers have logarithms."""
    if not isinstance(column.values, np.ndarray):
        return np.zeros(column.row_shape, dtype=bool)
    return (column.rows_first > 0).all(axis=0)


def predictor_forms(functions: Sequence[RowFunction]) -> list[LinearForm]:
    """Linear predictors of all terms."""
    return [form for function in functions for form in function.arguments]


def softmax_coefficients(functions: Sequence[RowFunction]) -> set[int]:
    """Indexed coordinates that multiply data of several alternatives in each row of a softmax."""
    softmax = [f for f in functions if is_softmax(f.exprs, f.root)]
    counts = [Counter(k for u in f.arguments for k in indexed_coordinates([u])) for f in softmax]
    return {k for count in counts for k, times in count.items() if times > 1}


def with_rows(function: RowFunction, read: ArrayRows) -> RowFunction:
    """Term with rows in memory instead of its own data."""
    return replace(function, n_rows=read.n_rows, columns=read.columns)


def without_rows(function: RowFunction) -> RowFunction:
    """Term without its data, as a function of any observation."""
    return replace(function, n_rows=0, columns=())


class RowData:
    """Values of data expressions for some rows of one likelihood term, by row number."""

    def __init__(self, function: RowFunction, rows: slice | np.ndarray) -> None:
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop)
        rows = np.ascontiguousarray(rows, dtype=np.int64)
        if function.is_stored:
            columns = read_columns(function.columns, consecutive_slice(rows))
            function = replace(function, n_rows=rows.size, columns=columns)
            rows = np.arange(rows.size)
        #: Term whose data in memory contain these rows, and the row numbers within it, int64.
        self.function, self.rows = function, rows
        self._known: dict[Expr, np.ndarray] = {}

    def value(self, expr: Expr) -> np.ndarray:
        """Value of a data expression, shape (rows,) or ()."""
        if expr not in self._known:
            with np.errstate(all="ignore"):
                self._known[expr] = self._compute_value(expr)
        return self._known[expr]

    def part(self, chosen: np.ndarray) -> "RowData":
        """Data of a subset of these rows; `chosen` are indices into `rows`."""
        return RowData(self.function, self.rows.take(chosen))

    def where(self, condition: Expr) -> tuple[np.ndarray, np.ndarray]:
        """Indices of rows where a data condition holds, and of rows where it does not."""
        holds = np.broadcast_to(self.value(condition), self.rows.shape).astype(bool)
        return np.flatnonzero(holds), np.flatnonzero(~holds)

    def coefficients(self, form: LinearForm, size: int) -> np.ndarray:
        """Matrix of a linear predictor, shape (rows, d), or (1, d) for a global one."""
        count = 1 if form.is_global else self.rows.size
        matrix = np.zeros((count, size))
        for term in form.terms:
            if isinstance(term.place, Gather):
                places = term.place.first + term.place.step * self.index(term.place)
                matrix[np.arange(count), np.broadcast_to(places, count)] += self.weight(term)
            else:
                matrix[:, term.place] += self.weight(term)
        return matrix

    def weight(self, term: Monomial) -> np.ndarray:
        """Coefficient of a coordinate: constant factor times data factors, shape (rows,) or ()."""
        return reduce(np.multiply, map(self.value, term.monomial), np.asarray(term.factor))

    def index(self, place: Gather) -> np.ndarray:
        """Index values of an indexed coordinate, counted from the start, int64."""
        index = np.asarray(self.value(place.index), dtype=np.int64)
        return np.where(index < 0, index + place.size, index)

    def _compute_value(self, expr: Expr) -> np.ndarray:
        if isinstance(expr, Constant):
            return np.asarray(expr.value)
        if isinstance(expr, Data):
            column = self.function.columns[expr.column]
            return read_entries(column, self.rows, expr.entry).astype(expr.dtype, copy=False)
        if isinstance(expr, Lookup):
            return expr.table[np.asarray(self.value(expr.index), dtype=np.int64)]
        if isinstance(expr, Apply):
            return np.asarray(numpy_function(expr.op)(*(self.value(x) for x in expr.inputs)))
        raise TypeError(f"{type(expr).__name__} is not data")
