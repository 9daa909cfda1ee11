"""Linear forms and leaves of a row function, laid out for the kernels."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.data import Column
from pymc_minibatch_mh.data.arrays import STORED
from pymc_minibatch_mh.kernels import forms as slot
from pymc_minibatch_mh.kernels.forms import PlacedForms, place_forms
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.likelihood.exprs import Apply, Data, Expr, Gather, Monomial
from pymc_minibatch_mh.likelihood.function import LinearForm, RowData, RowFunction

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
