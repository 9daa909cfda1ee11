"""Observations as functions of a few linear predictors: layout for the kernels, and compilation."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.compiled.differences import (
    partial_derivatives,
    remainder_difference,
    undefined_operation,
)
from pymc_minibatch_mh.compiled.hessian_differences import (
    MAX_THIRDS,
    count_operations,
    thirds_by_differences,
)
from pymc_minibatch_mh.compiled.scalar_functions import (
    compiled_rowwise,
    data_leaves,
    make_composite,
)
from pymc_minibatch_mh.compiled.state_rows import StateFunctions
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.data.arrays import STORED_TYPES
from pymc_minibatch_mh.expressions.graph import Apply, Data, Expr, Gather, LoweringError, Monomial
from pymc_minibatch_mh.expressions.kinks import kinks_of
from pymc_minibatch_mh.native import library
from pymc_minibatch_mh.native.forms import (
    CHOICE,
    PRODUCT,
    RUN,
    Leaf,
    Piece,
    PlacedForms,
    RowSpace,
    Term,
)
from pymc_minibatch_mh.native.library import FunctionAt, LaidOut
from pymc_minibatch_mh.structure.predictors import LinearForm
from pymc_minibatch_mh.structure.row_function import (
    MAX_ARGUMENTS,
    RowData,
    RowFunction,
    with_rows,
    without_rows,
)

#: Maximum number of operations in a function with kinks and derivatives: 4,000 of a drift
#: diffusion did not compile in 15 minutes, and in one minute as a graph.
MAX_OPERATIONS = 3_000
#: Number of rows per block when data expressions are computed.
ROWS_PER_BLOCK = 65_536


#: Cache of precomputed data expressions of linear predictors, by row function.
_computed: WeakKeyDictionary[RowFunction, dict[Expr, np.ndarray]] = WeakKeyDictionary()


class DataLeaves:
    """Locations in memory of the data expressions that a term reads."""

    def __init__(self, function: RowFunction) -> None:
        self._function = function
        self._computed = _computed.setdefault(function, {})

    @property
    def arrays(self) -> list[np.ndarray]:
        """Arrays that contain the data expressions."""
        return [*(column.values for column in self._function.columns), *self._computed.values()]

    def of(self, expr: Expr) -> Leaf:
        """Location of a data expression; it is computed for all rows unless it is a data array."""
        expr = self._without_cast(expr)
        if isinstance(expr, Data):
            return _make_leaf(self._function.columns[expr.column], expr.entry, expr.column)
        self.compute_together([expr])
        return _make_leaf(Column("computed", self._computed[expr], 0), (), expr)

    def compute_again(self, rows: slice) -> None:
        """Recompute all computed data expressions for some rows."""
        data = RowData(self._function, rows)
        for expr, values in self._computed.items():
            values[rows] = data.value(expr)

    def compute_together(self, exprs: Sequence[Expr]) -> None:
        """Compute data expressions for all rows, those that are not columns, by blocks of rows."""
        n_rows = self._function.n_rows
        new = {self._without_cast(expr): None for expr in exprs}
        new = {x: None for x in new if not isinstance(x, Data) and x not in self._computed}
        for expr in new:
            dtype = np.float64 if expr.dtype.kind == "f" else np.int64
            self._computed[expr] = np.empty(n_rows, dtype)
        for first in range(0, n_rows if new else 0, ROWS_PER_BLOCK):
            rows = slice(first, min(first + ROWS_PER_BLOCK, n_rows))
            data = RowData(self._function, rows)
            for expr in new:
                self._computed[expr][rows] = data.value(expr)

    def _without_cast(self, expr: Expr) -> Expr:
        """Data expression without a cast to its stored type or to float64."""
        if not (isinstance(expr, Apply) and isinstance(expr.op, scalar.Cast)):
            return expr
        inner = self._without_cast(expr.inputs[0])
        if not isinstance(inner, Data):
            return expr
        same = self._function.columns[inner.column].values.dtype, np.dtype(np.float64)
        return inner if expr.dtype in same else expr


def _make_leaf(column: Column, entry: tuple[int, ...], array: Hashable) -> Leaf:
    start, stride, *inner = map(int, column.address)
    offset = sum(k * step for k, step in zip(entry, inner, strict=True))
    return Leaf(start + offset, stride, STORED_TYPES.index(column.values.dtype), array)


def form_pieces(form: LinearForm, leaves: DataLeaves) -> list[Piece]:
    """Pieces of a linear predictor: runs of consecutive entries, products, indexed coordinates."""
    pieces: list[Piece] = []
    for term in form.terms:
        piece = _make_piece(term, leaves)
        longer = _extend_run(pieces[-1], piece) if pieces else None
        pieces[-1 if longer else len(pieces) :] = [longer or piece]
    return pieces


def _make_piece(term: Monomial, leaves: DataLeaves) -> Piece:
    factors = tuple(leaves.of(expr) for expr in term.monomial)
    place = term.place
    if isinstance(place, Gather):
        chosen = (leaves.of(place.index), *factors)
        step, choices = place.step, place.size
        return Piece(CHOICE, term.factor, chosen, place.first, step=step, choices=choices)
    return Piece(RUN if len(factors) == 1 else PRODUCT, term.factor, factors, place)


def _extend_run(run: Piece, piece: Piece) -> Piece | None:
    """Run of entries extended by a piece; None if the piece does not follow it in memory."""
    if not run.kind == piece.kind == RUN:
        return None
    (first,), (leaf,) = run.leaves, piece.leaves
    stride = run.entry_stride if run.count > 1 else leaf.address - first.address
    follows = leaf == first._replace(address=first.address + run.count * stride)
    if not follows or piece.first != run.first + run.count or piece.factor != run.factor:
        return None
    return run._replace(count=run.count + 1, entry_stride=stride)


class TermLayout:
    """Record of a term for the C library: linear predictors, and data that its function reads."""

    def __init__(
        self, forms: Sequence[LinearForm], leaves: DataLeaves, taken: Sequence[Expr]
    ) -> None:
        self._pieces: list[Piece] = []
        self._places, self._ends, self._chosen = list[int](), list[int](), list[int]()
        for a, form in enumerate(forms):
            self._add_pieces(a, form_pieces(form, leaves))
        leaves.compute_together(taken)
        #: Record of the term; the addresses of its row functions are added later.
        self.term = Term(
            tuple(leaves.of(expr) for expr in taken),
            tuple(self._pieces),
            *(np.array(x, dtype=np.int64) for x in (self._places, self._ends, self._chosen)),
        )
        # The term refers to arrays by address, so they need a reference here.
        self._kept = leaves.arrays

    def _add_pieces(self, argument: int, pieces: Sequence[Piece]) -> None:
        first = len(self._places)
        fixed = [x for x in pieces if x.kind != CHOICE]
        places = sorted({x.first + k for x in fixed for k in range(x.count)})
        self._places += places
        self._ends.append(len(self._places))
        column = {place: first + k for k, place in enumerate(places)}
        written: set[int] = set()
        for piece in _split_runs(fixed):
            own = range(piece.first, piece.first + piece.count)
            adds = not written.isdisjoint(own)
            self._pieces.append(piece._replace(column=column[piece.first], adds=adds))
            written.update(own)
        for piece in pieces:
            if piece.kind == CHOICE:
                self._pieces.append(piece._replace(column=len(self._chosen)))
                self._chosen.append(argument)


def _split_runs(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield pieces; split a run into single products if it repeats coordinates of earlier ones."""
    written: set[int] = set()
    for piece in pieces:
        own = set(range(piece.first, piece.first + piece.count))
        if written.isdisjoint(own) or piece.kind == PRODUCT:
            yield piece
        else:
            (leaf,) = piece.leaves
            for k in range(piece.count):
                moved = leaf._replace(address=leaf.address + k * piece.entry_stride)
                yield Piece(PRODUCT, piece.factor, (moved,), piece.first + k)
        written |= own


_layouts: WeakKeyDictionary[RowFunction, tuple[TermLayout, LaidOut]] = WeakKeyDictionary()


def evaluate_predictors(
    function: RowFunction,
    rows: np.ndarray,
    centre: np.ndarray,
    factor: np.ndarray,
    *,
    directions: bool,
) -> PlacedForms:
    """Evaluate the linear predictors of some rows, numbered within their term.

    `factor` is zero above its diagonal; `directions` requests the whitened predictors.
    """
    if function not in _layouts:
        layout = TermLayout(function.arguments, DataLeaves(function), ())
        _layouts[function] = layout, LaidOut("mh_term", layout.term)
    _, term = _layouts[function]
    m = len(function.arguments)
    values, sizes, norms = (np.empty((rows.size, m)) for _ in range(3))
    whitened = np.empty((rows.size if directions else 0, m, centre.size))
    room = values, sizes, norms, whitened if directions else None
    library.function("mh_place_forms")(term, rows, rows.size, centre, factor, centre.size, *room)
    return PlacedForms(values, sizes, norms, whitened)


def _require_compilable(function: RowFunction, slopes: Sequence[Expr]) -> None:
    """Raise LoweringError for long series with branches, if data are in memory as graphs need."""
    if function.is_stored or not kinks_of(function.exprs, function.root):
        return
    count = count_operations(slopes)
    if count > MAX_OPERATIONS:
        raise LoweringError(
            function.root.op if isinstance(function.root, Apply) else function.root,
            f"and its derivatives are {count:,} operations on numbers, which compile for minutes",
        )


class FormRows:
    """Row functions of all terms, compiled on demand; LoweringError if they lack derivatives.

    Functions with kinks of more than `MAX_OPERATIONS` operations are left to graphs of arrays.
    """

    def __init__(self, functions: Sequence[RowFunction], size: int) -> None:
        self.functions = functions
        self.size = size
        self._states = [
            StateFunctions(function, split) if (split := function.states) else None
            for function in functions
        ]
        pairs = list(zip(functions, self._states, strict=True))
        #: Data expressions that each function reads.
        self.leaves = [s.leaves if s else data_leaves([f.root]) for f, s in pairs]
        self._slopes = [() if s else partial_derivatives(f, (0, 1, 2)) for f, s in pairs]
        for function, slopes in zip(functions, self._slopes, strict=True):
            _require_compilable(function, slopes)
        self._compiled: dict[tuple[str, int], list[FunctionAt]] = {}

    def at(self, source: ArrayRows) -> "PlacedFormRows | StoredFormRows":
        """Observations with the addresses of their data in this process."""
        if not source.in_memory:
            return StoredFormRows(self, source)
        return PlacedFormRows(self, source)

    def slope_exprs(self, k: int) -> Sequence[Expr]:
        """Value, gradient and Hessian of a term as expressions."""
        return self._slopes[k] or partial_derivatives(self.functions[k], (0, 1, 2))

    def differences(self, taylor_order: int) -> list[FunctionAt]:
        """Compile changes of Taylor remainders, with rounding errors (``mh_row_function``)."""
        return self._compile(
            ("difference", taylor_order),
            lambda k: self._of_exprs(k, remainder_difference(self.functions[k], taylor_order), 3),
            lambda states: states.difference(taylor_order),
        )

    def slopes(self) -> list[FunctionAt]:
        """Compile value, gradient and Hessian in the arguments (``mh_row_function``)."""
        return self._compile(
            ("slopes", 2), lambda k: self._of_exprs(k, self._slopes[k]), StateFunctions.slopes
        )

    def thirds(self) -> list[FunctionAt]:
        """Compile third derivatives in the arguments; LoweringError if there are none.

        Those of more than `MAX_THIRDS` operations, which would compile for minutes, become
        differences of Hessians.
        """
        return self._compile(("thirds", 3), self._thirds_of, StateFunctions.thirds)

    def values(self) -> list[FunctionAt]:
        """Compile the log-likelihood alone (``mh_row_function``)."""
        return self._compile(
            ("values", 0),
            lambda k: self._of_exprs(k, (self.functions[k].root,)),
            StateFunctions.values,
        )

    def _thirds_of(self, k: int) -> FunctionAt:
        """Third derivatives of a term."""
        thirds, n_arguments = partial_derivatives(self.functions[k], (3,)), self._n_arguments(k)
        if n_arguments == 1 or count_operations(thirds) <= MAX_THIRDS:
            return self._of_exprs(k, thirds)
        return thirds_by_differences(self.slopes()[k], n_arguments, len(self.leaves[k]))

    def functions_of(self, order: int | None, derivatives: bool, skewness: bool) -> list[dict]:
        """Compile the requested functions of each term; keys are names of fields in a ``Term``."""
        roles: dict[str, list[FunctionAt]] = {}
        if order is not None:
            roles["difference"] = self.differences(order)
        if derivatives:
            roles["slopes"] = self.slopes()
        if skewness:
            roles["thirds"] = self.thirds()
        numbers = range(len(self.functions))
        return [{role: functions[k] for role, functions in roles.items()} for k in numbers]

    @cached_property
    def has_bend(self) -> bool:
        """Whether third derivatives exist, of few enough linear predictors to average them."""
        if any(len(f.arguments) > MAX_ARGUMENTS for f in self.functions):
            return False
        try:
            self.thirds()
        except LoweringError:
            return False
        return True

    def _compile(
        self,
        role: tuple[str, int],
        of_term: Callable[[int], FunctionAt],
        over_states: Callable[[StateFunctions], FunctionAt],
    ) -> list[FunctionAt]:
        """Functions of all terms in a role, by their expressions or by loops over states."""
        if role not in self._compiled:
            self._compiled[role] = [
                over_states(states) if states else of_term(k)
                for k, states in enumerate(self._states)
            ]
        return self._compiled[role]

    def _of_exprs(self, k: int, exprs: Sequence[Expr], times: int = 1) -> FunctionAt:
        """Compile expressions of a term, functions of `times` vectors of its arguments."""
        n_arguments = times * self._n_arguments(k)
        return compiled_rowwise(make_composite(exprs, n_arguments, self.leaves[k]))

    def _n_arguments(self, k: int) -> int:
        return len(self.functions[k].arguments)


class _Rows:
    """Base class of observations as functions of linear predictors."""

    cheap_hessian, without_second = True, ""
    #: Mean number of evaluations of a row function in an observation.
    evaluations = 1.0

    def __init__(self, rows: FormRows, source: ArrayRows) -> None:
        self._rows = rows
        self._source = source
        #: Address of the values outside of the position, which only the prior part reads.
        self.context = np.array(source.others_address, dtype=np.int64)

    @property
    def has_skewness(self) -> bool:
        """Whether third derivatives can be averaged over the posterior."""
        return self._rows.has_bend

    def describe_undefined(self, term: int, row: int, position: np.ndarray) -> str:
        """Description of a row without finite derivatives, and the operation that lacks them."""
        function = self._rows.functions[term]
        operation = undefined_operation(function, row, position)
        through = "" if operation is None else f", through {operation}"
        return f"in row {row} of {function.name!r}{through}"


class PlacedFormRows(_Rows):
    """Observations in memory, evaluated as compiled for `rows`; `functions` may hold other data."""

    def __init__(
        self, rows: FormRows, source: ArrayRows, functions: Sequence[RowFunction] | None = None
    ) -> None:
        super().__init__(rows, source)
        self._leaves = [DataLeaves(function) for function in functions or rows.functions]
        forms = [function.arguments for function in rows.functions]
        self._layouts = list(map(TermLayout, forms, self._leaves, rows.leaves))
        self._terms: dict[tuple[int | None, bool, bool], LaidOut] = {}

    def space(
        self, order: int | None = None, *, derivatives: bool = False, skewness: bool = False
    ) -> RowSpace:
        """Addresses of data and compiled functions: differences of an `order`, and derivatives."""
        asked = order, derivatives, skewness
        if asked not in self._terms:
            functions = self._rows.functions_of(order, derivatives, skewness)
            pairs = zip(self._layouts, functions, strict=True)
            terms = [layout.term._replace(**own) for layout, own in pairs]
            self._terms[asked] = LaidOut("mh_term", terms)
        return RowSpace(self._rows.size, self._source.term_starts, self.context, self._terms[asked])

    def on_block(self, block: ArrayRows) -> Self:
        """The object itself, because its observations are already in memory."""
        return self

    def write(self, places: slice, columns: Sequence[Column]) -> None:
        """Write rows into buffer slots, and recompute their derived data."""
        for room, column in zip(self._source.columns, columns, strict=True):
            room.values[places] = column.values
        for leaves in self._leaves:
            leaves.compute_again(places)


class StoredFormRows(_Rows):
    """Observations in storage, which are evaluated after a block of them was read."""

    def __reduce__(self) -> tuple:
        """Pickle without compiled functions; other processes compile them for their rows."""
        functions = [without_rows(function) for function in self._rows.functions]
        return _functions_without_rows, (functions, self._rows.size)

    def space(
        self, order: int | None = None, *, derivatives: bool = False, skewness: bool = False
    ) -> RowSpace:
        """Compile functions as :meth:`PlacedFormRows.space`; return a record without data."""
        self._rows.functions_of(order, derivatives, skewness)
        return RowSpace(self._rows.size, self._source.term_starts, self.context, None)

    def on_block(self, read: ArrayRows) -> PlacedFormRows:
        """Observations of a block that was read into memory."""
        functions = [with_rows(function, read) for function in self._rows.functions]
        return PlacedFormRows(self._rows, read, functions)

    def room_for(self, count: int, others: np.ndarray) -> PlacedFormRows:
        """Buffer for `count` rows; `others`: values of variables outside of the position."""
        kinds = [(c.name, (count, *c.row_shape), c.values.dtype) for c in self._source.columns]
        room = [Column(name, np.zeros(shape, dtype), 0) for name, shape, dtype in kinds]
        return self.on_block(ArrayRows(room, [count], others=others))


def _functions_without_rows(functions: Sequence[RowFunction], size: int) -> StoredFormRows:
    return StoredFormRows(FormRows(functions, size), ArrayRows((), [0]))
