"""Rows that are functions of a few linear forms, compiled."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from pymc_minibatch_mh.compiled.layout import Layout, Leaves
from pymc_minibatch_mh.compiled.scalars import compiled_rowwise, composite_of, leaves_of
from pymc_minibatch_mh.data import ArrayRows, Column
from pymc_minibatch_mh.kernels import forms as slot
from pymc_minibatch_mh.kernels.handle import address_of
from pymc_minibatch_mh.kernels.rowwise import bend_rows, derive_rows, evaluate_rows
from pymc_minibatch_mh.likelihood.differences import derivatives, remainder_difference
from pymc_minibatch_mh.likelihood.exprs import Expr, LoweringError
from pymc_minibatch_mh.likelihood.function import (
    MOST_ARGUMENTS,
    RowFunction,
    with_rows,
    without_rows,
)


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
