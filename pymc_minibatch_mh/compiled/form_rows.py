"""Rows that are functions of a few linear forms: laid out for the kernels, and compiled."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.compiled.scalars import compiled_rowwise, composite_of, leaves_of
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.data.arrays import STORED
from pymc_minibatch_mh.kernels import forms as slot
from pymc_minibatch_mh.kernels.forms import PlacedForms, place_forms
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.rowwise import bend_rows, derive_rows, evaluate_rows
from pymc_minibatch_mh.likelihood.differences import (
    derivatives,
    remainder_difference,
    undefined_operation,
)
from pymc_minibatch_mh.likelihood.exprs import Apply, Data, Expr, Gather, LoweringError, Monomial
from pymc_minibatch_mh.likelihood.function import (
    MOST_ARGUMENTS,
    LinearForm,
    RowData,
    RowFunction,
    with_rows,
    without_rows,
)

#: Rows whose computed data are made at a time.
CHUNK = 65_536


@dataclass(frozen=True)
class Leaf:
    """One number of each row: address of row 0, bytes from row to row, type, and in which array."""

    address: int
    stride: int
    kind: int
    array: Hashable


@dataclass(frozen=True)
class Piece:
    """Coefficients of one form: see the kinds in :mod:`pymc_minibatch_mh.kernels.forms`."""

    #: RUN, PRODUCT or CHOICE.
    kind: int
    #: Factor of the product of the leaves.
    factor: float
    #: The leaves; the first of a choice chooses.
    leaves: tuple[Leaf, ...]
    #: First coordinate.
    place: int
    #: Number of coordinates of a run, and bytes between its numbers.
    count: int = 1
    entry_stride: int = 0
    #: Step and number of the coordinates that are chosen from.
    choice: tuple[int, int] = (0, 0)


#: Data of a term that forms cannot compute themselves, computed once for all.
_computed: WeakKeyDictionary[RowFunction, dict[Expr, np.ndarray]] = WeakKeyDictionary()


class Leaves:
    """The data expressions of a term, as numbers in memory."""

    def __init__(self, function: RowFunction) -> None:
        self._function = function
        self._computed = _computed.setdefault(function, {})

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays that leaves lie in."""
        return [*(column.values for column in self._function.columns), *self._computed.values()]

    def of(self, expr: Expr) -> Leaf:
        """Return where a data expression lies, computed for all rows if the data do not hold it."""
        expr = self._without_cast(expr)
        if isinstance(expr, Data):
            return _leaf(self._function.columns[expr.column], expr.entry, expr.column)
        if expr not in self._computed:
            self._computed[expr] = self._compute(expr)
        return _leaf(Column("computed", self._computed[expr], 0), (), expr)

    def compute_again(self, rows: slice) -> None:
        """Compute the derived data of some rows anew."""
        for expr, values in self._computed.items():
            values[rows] = RowData(self._function, rows).value(expr)

    def _without_cast(self, expr: Expr) -> Expr:
        """Return data that are cast to the type that they are stored in, or read in, themselves."""
        if not (isinstance(expr, Apply) and isinstance(expr.op, scalar.Cast)):
            return expr
        inner = self._without_cast(expr.inputs[0])
        if not isinstance(inner, Data):
            return expr
        same = self._function.columns[inner.column].values.dtype, np.dtype(np.float64)
        return inner if expr.dtype in same else expr

    def _compute(self, expr: Expr) -> np.ndarray:
        n_rows = self._function.n_rows
        out = np.empty(n_rows, dtype=np.float64 if expr.dtype.kind == "f" else np.int64)
        for first in range(0, n_rows, CHUNK):
            rows = slice(first, min(first + CHUNK, n_rows))
            out[rows] = RowData(self._function, rows).value(expr)
        return out


def _leaf(column: Column, entry: tuple[int, ...], array: Hashable) -> Leaf:
    start, stride, *inner = map(int, column.address)
    offset = sum(k * step for k, step in zip(entry, inner, strict=True))
    return Leaf(start + offset, stride, STORED.index(column.values.dtype), array)


def pieces_of(form: LinearForm, leaves: Leaves) -> list[Piece]:
    """Return a form as runs, products and choices."""
    pieces: list[Piece] = []
    for term in form.terms:
        piece = _piece(term, leaves)
        longer = _joined(pieces[-1], piece) if pieces else None
        if longer is None:
            pieces.append(piece)
        else:
            pieces[-1] = longer
    return pieces


def _piece(term: Monomial, leaves: Leaves) -> Piece:
    factors = tuple(leaves.of(expr) for expr in term.monomial)
    place = term.place
    if isinstance(place, Gather):
        chosen = (leaves.of(place.index), *factors)
        return Piece(slot.CHOICE, term.factor, chosen, place.first, choice=(place.step, place.size))
    return Piece(slot.RUN if len(factors) == 1 else slot.PRODUCT, term.factor, factors, place)


def _joined(run: Piece, piece: Piece) -> Piece | None:
    """Return a run with one more number, if the number is the next one of it."""
    if not run.kind == piece.kind == slot.RUN:
        return None
    (first,), (leaf,) = run.leaves, piece.leaves
    stride = run.entry_stride if run.count > 1 else leaf.address - first.address
    follows = leaf == replace(first, address=first.address + run.count * stride)
    if not follows or piece.place != run.place + run.count or piece.factor != run.factor:
        return None
    return Piece(slot.RUN, run.factor, run.leaves, run.place, run.count + 1, stride)


class Layout:
    """A term's forms and leaves as one part of the context.

    `taken` are the data expressions that the row function takes itself, in their order.
    """

    def __init__(self, forms: Sequence[LinearForm], leaves: Leaves, taken: Sequence[Expr]) -> None:
        self._leaves: list[Leaf] = [leaves.of(expr) for expr in taken]
        self._n_taken = len(self._leaves)
        self._factors: list[float] = []
        self._pieces: list[tuple[int, ...]] = []
        self._places: list[int] = []
        self._ends: list[int] = []
        self._chosen: list[int] = []
        for a, form in enumerate(forms):
            self._add(a, pieces_of(form, leaves))
        # Arrays that the context refers to by address have to be kept.
        self._factors_there = np.array(self._factors)
        self._kept = leaves.arrays

    def _add(self, argument: int, pieces: Sequence[Piece]) -> None:
        first = len(self._places)
        fixed = [x for x in pieces if x.kind != slot.CHOICE]
        places = sorted({x.place + k for x in fixed for k in range(x.count)})
        self._places += places
        self._ends.append(len(self._places))
        column = {place: first + k for k, place in enumerate(places)}
        written: set[int] = set()
        for piece in _one_by_one(fixed):
            own = range(piece.place, piece.place + piece.count)
            self._append(piece, column[piece.place], adds=not written.isdisjoint(own))
            written.update(own)
        for piece in pieces:
            if piece.kind == slot.CHOICE:
                self._append(piece, len(self._chosen), adds=False)
                self._chosen.append(argument)

    def _append(self, piece: Piece, where: int, *, adds: bool) -> None:
        record = {
            slot.KIND: piece.kind,
            slot.WHERE: where,
            slot.COUNT: piece.count,
            slot.ADDS: int(adds),
            slot.FACTOR: len(self._factors),
            slot.FIRST_LEAF: len(self._leaves),
            slot.LEAVES_USED: len(piece.leaves),
            slot.ENTRY_STRIDE: piece.entry_stride,
            slot.FIRST_PLACE: piece.place,
            slot.PLACE_STEP: piece.choice[0],
            slot.PLACES: piece.choice[1],
        }
        self._factors.append(piece.factor)
        self._leaves += piece.leaves
        self._pieces.append(tuple(record[k] for k in range(slot.PIECE_SIZE)))

    def context(self, start: int) -> list[int]:
        """Return the part of the context that begins at `start`, without row functions."""
        lists = {
            slot.LEAVES: [
                x for leaf in self._leaves for x in (leaf.address, leaf.stride, leaf.kind)
            ],
            slot.PIECES: [x for piece in self._pieces for x in piece],
            slot.FIXED_PLACES: self._places,
            slot.FIXED_ENDS: self._ends,
            slot.CHOSEN_ARGUMENTS: self._chosen,
        }
        head = dict.fromkeys(range(slot.N_SLOTS), 0) | {
            slot.N_ARGUMENTS: len(self._ends),
            slot.N_LEAVES: self._n_taken,
            slot.N_FIXED: len(self._places),
            slot.N_CHOSEN: len(self._chosen),
            slot.N_PIECES: len(self._pieces),
            slot.READ_ROWS: address_of(slot.read_rows),
            slot.FACTORS: self._factors_there.ctypes.data,
        }
        body: list[int] = []
        for name, numbers in lists.items():
            head[name] = start + slot.N_SLOTS + len(body)
            body += numbers
        return [head[k] for k in range(slot.N_SLOTS)] + body


def _one_by_one(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield pieces, of runs that meet coordinates that came before each number by itself."""
    written: set[int] = set()
    for piece in pieces:
        own = set(range(piece.place, piece.place + piece.count))
        if written.isdisjoint(own) or piece.kind == slot.PRODUCT:
            yield piece
        else:
            (leaf,) = piece.leaves
            for k in range(piece.count):
                moved = replace(leaf, address=leaf.address + k * piece.entry_stride)
                yield Piece(slot.PRODUCT, piece.factor, (moved,), piece.place + k)
        written |= own


_layouts: WeakKeyDictionary[RowFunction, tuple[Layout, np.ndarray]] = WeakKeyDictionary()


def placed(
    function: RowFunction,
    rows: np.ndarray,
    centre: np.ndarray,
    factor: np.ndarray,
    *,
    directions: bool,
) -> PlacedForms:
    """Place the linear forms of some rows of a term: see :func:`kernels.forms.place_forms`.

    `directions` says whether the whitened forms are wanted.
    """
    if function not in _layouts:
        layout = Layout(function.arguments, Leaves(function), ())
        _layouts[function] = layout, np.array(layout.context(0), dtype=np.int64)
    _, context = _layouts[function]
    m = len(function.arguments)
    values, sizes, norms = (np.empty((rows.size, m)) for _ in range(3))
    whitened = np.empty((rows.size if directions else 0, m, centre.size))
    room = PlacedForms(values, sizes, norms, whitened)
    place_forms(context, 0, rows, centre, factor, room)
    return room


class FormRows:
    """Row functions of all terms, compiled as they are asked for, wherever the rows lie.

    Raises a LoweringError if a function has an operation without second derivatives.
    """

    def __init__(self, functions: Sequence[RowFunction]) -> None:
        self.functions = functions
        #: Data expressions that each function takes.
        self.leaves = [leaves_of([function.root]) for function in functions]
        self._slopes = [derivatives(function, (0, 1, 2)) for function in functions]
        self._compiled: dict[tuple[int, int], list[Callable]] = {}

    def at(self, source: ArrayRows) -> "PlacedFormRows | StoredFormRows":
        """Return the rows where they lie in this process."""
        if not source.in_memory:
            return StoredFormRows(self, source)
        return PlacedFormRows(self, source)

    def differences(self, taylor_order: int) -> list[Callable]:
        """Compile differences of remainders and their rounding errors (``ROWWISE``)."""

        def expressions(k: int) -> Sequence[Expr]:
            return remainder_difference(self.functions[k], taylor_order)

        return self._roles((slot.DIFFERENCE, taylor_order), 3, expressions)

    def slopes(self) -> list[Callable]:
        """Compile value, gradient and Hessian in the arguments (``ROWWISE``)."""
        return self._roles((slot.SLOPES, 2), 1, lambda k: self._slopes[k])

    def thirds(self) -> list[Callable]:
        """Compile third derivatives in the arguments; raise a LoweringError if there are none."""
        return self._roles((slot.THIRD, 3), 1, lambda k: derivatives(self.functions[k], (3,)))

    @cached_property
    def has_bend(self) -> bool:
        """Whether there are third derivatives, and few enough arguments to average them."""
        if any(len(f.arguments) > MOST_ARGUMENTS for f in self.functions):
            return False
        try:
            self.thirds()
        except LoweringError:
            return False
        return True

    def _roles(
        self, role: tuple[int, int], times: int, expressions: Callable[[int], Sequence[Expr]]
    ) -> list[Callable]:
        if role not in self._compiled:
            widths = [times * len(function.arguments) for function in self.functions]
            self._compiled[role] = [
                compiled_rowwise(composite_of(expressions(k), width, self.leaves[k]))
                for k, width in enumerate(widths)
            ]
        return self._compiled[role]


class _Rows:
    """Rows by their linear forms: the functions that their kernels call, by slots of a context."""

    context: np.ndarray
    cheap_hessian = True

    def __init__(self, rows: FormRows) -> None:
        self._rows = rows
        # Addresses are only valid while the functions behind them are referenced.
        self._called: dict[int, Sequence[Callable]] = {}
        self._starts: list[int] = []

    def evaluate(self, taylor_order: int) -> Callable:
        """Compile the differences of remainders (``EVALUATE``)."""
        self._call(slot.DIFFERENCE, self._rows.differences(taylor_order))
        return evaluate_rows

    def row_derivatives(self) -> Callable:
        """Compile value, gradient and Hessian (``DERIVATIVES``)."""
        self._call(slot.SLOPES, self._rows.slopes())
        return derive_rows

    def skewness(self) -> Callable | None:
        """Compile averages of third derivatives (``SKEWNESS``); None where there are none."""
        if not self._rows.has_bend:
            return None
        self._call(slot.THIRD, self._rows.thirds())
        return bend_rows

    def undefined(self, term: int, row: int, position: np.ndarray) -> str:
        """Name a row of a term without finite derivatives, and the operation that has none."""
        function = self._rows.functions[term]
        operation = undefined_operation(function, row, position)
        through = "" if operation is None else f", through {operation}"
        return f"in row {row} of {function.name!r}{through}"

    def _call(self, role: int, functions: Sequence[Callable]) -> None:
        self._called[role] = functions
        for start, function in zip(self._starts, functions, strict=bool(self._starts)):
            self.context[start + role] = address_of(function)


class PlacedFormRows(_Rows):
    """Rows by their linear forms, with all that the kernels need to reach them in memory.

    The row functions are those of `rows`, or `functions` with the data of these rows.
    """

    def __init__(
        self, rows: FormRows, source: ArrayRows, functions: Sequence[RowFunction] | None = None
    ) -> None:
        super().__init__(rows)
        self._source = source
        self._leaves = [Leaves(function) for function in functions or rows.functions]
        self._layouts = [
            Layout(function.arguments, leaves, taken)
            for function, leaves, taken in zip(
                rows.functions, self._leaves, rows.leaves, strict=True
            )
        ]
        numbers: list[int] = []
        first = len(source.others_address) + len(self._layouts)
        for layout in self._layouts:
            self._starts.append(first + len(numbers))
            numbers += layout.context(self._starts[-1])
        #: Addresses and forms: see :mod:`pymc_minibatch_mh.kernels.forms`.
        self.context = np.array([*source.others_address, *self._starts, *numbers], dtype=np.int64)

    def write(self, places: slice, columns: Sequence[Column]) -> None:
        """Put rows into some places, and compute their derived data anew."""
        for room, column in zip(self._source.columns, columns, strict=True):
            room.values[places] = column.values
        for leaves in self._leaves:
            leaves.compute_again(places)


class StoredFormRows(_Rows):
    """Rows by their linear forms whose data are stored: they are placed as they are read."""

    def __init__(self, rows: FormRows, source: ArrayRows) -> None:
        super().__init__(rows)
        self._source = source
        #: Where the other variables lie, which is all that the prior part reads.
        self.context = np.array(source.others_address, dtype=np.int64)

    def __reduce__(self) -> tuple:
        """Keep the functions: another process compiles them for rows that it has read."""
        return _of_no_rows, ([without_rows(function) for function in self._rows.functions],)

    def on(self, read: ArrayRows) -> PlacedFormRows:
        """Return the rows that were read, with every role that was compiled."""
        functions = [with_rows(function, read) for function in self._rows.functions]
        placed = PlacedFormRows(self._rows, read, functions)
        for role, called in self._called.items():
            placed._call(role, called)
        return placed

    def room_for(self, count: int, others: np.ndarray) -> PlacedFormRows:
        """Return room for rows that are written to it, beside values outside of the position."""
        room = [
            Column(c.name, np.zeros((count, *c.row_shape), c.values.dtype), 0)
            for c in self._source.columns
        ]
        return self.on(ArrayRows(room, [count], others=others))


def _of_no_rows(functions: Sequence[RowFunction]) -> StoredFormRows:
    return StoredFormRows(FormRows(functions), ArrayRows((), [0]))
