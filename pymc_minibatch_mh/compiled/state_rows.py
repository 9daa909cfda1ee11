"""Row functions with log-sums over states: compiled features, and the loop of the library."""

from collections.abc import Sequence
from itertools import combinations_with_replacement, count
from typing import NamedTuple

import numpy as np
from pytensor.scalar import basic as scalar

from pymc_minibatch_mh.compiled.differences import PartialDerivatives
from pymc_minibatch_mh.compiled.hessian_differences import (
    MAX_THIRDS,
    count_operations,
    thirds_by_differences,
)
from pymc_minibatch_mh.compiled.scalar_functions import (
    compiled_rowwise,
    data_leaves,
    looped_by_library,
    make_composite,
)
from pymc_minibatch_mh.expressions.graph import REAL, Constant, Expr
from pymc_minibatch_mh.expressions.patterns import constant_value, is_a, operands_last
from pymc_minibatch_mh.expressions.state_sums import StateSum, StateSums
from pymc_minibatch_mh.native.library import FunctionAt, LaidOut
from pymc_minibatch_mh.structure.row_function import RowFunction


class States(NamedTuple):
    """Log-sum over states: ``mh_states``."""

    n_states: int
    n_features: int
    first: int
    weights: np.ndarray
    numbers: np.ndarray
    leaves: np.ndarray


class StateRows(NamedTuple):
    """Rows with log-sums over states: ``mh_state_rows``."""

    n_arguments: int
    n_taken: int
    n_read: int
    n_functions: int
    order: int
    sums: tuple[States, ...]
    values: FunctionAt | None = None
    slopes: FunctionAt | None = None
    thirds: FunctionAt | None = None
    slope_places: np.ndarray = np.empty(0, np.int64)
    third_places: np.ndarray = np.empty(0, np.int64)


def states_record(split: StateSums, n_arguments: int, leaves: Sequence[Expr] = ()) -> StateRows:
    """Record of log-sums, without compiled functions; without `leaves`, numbers are data."""
    positions = {expr: k for k, expr in enumerate(leaves)}
    firsts = np.cumsum([1, *(len(states.features) for states in split.sums)])
    sums = tuple(
        States(
            len(states.offsets),
            len(states.features),
            int(first),
            states.weights,
            np.array([constant_value(x) or 0.0 for x in numbers_of(states)]),
            np.array([positions.get(x, -1) for x in numbers_of(states)], dtype=np.int64),
        )
        for states, first in zip(split.sums, firsts, strict=False)
    )
    n_read = len(_data_in(split.functions)) if leaves else 0
    return StateRows(n_arguments, len(leaves), n_read, len(split.functions), 0, sums)


def numbers_of(states: StateSum) -> tuple[Expr, ...]:
    """Factor and offsets of a log-sum."""
    return (states.factor, *states.offsets)


def state_leaves(split: StateSums) -> list[Expr]:
    """Data that rows read: first what features read, then factors and offsets."""
    read = _data_in(split.functions)
    numbers = dict.fromkeys(x for states in split.sums for x in numbers_of(states))
    return [*read, *(x for x in numbers if not isinstance(x, Constant) and x not in read)]


def _data_in(functions: Sequence[Expr]) -> list[Expr]:
    """Parts of functions that are data, which rows look up, and what these are computed from.

    Derivatives split sums and products of data, and may need their factors alone.
    """
    parts = operands_last(functions, _is_looked_up)
    return list(dict.fromkeys([*filter(_is_looked_up, parts), *data_leaves(functions)]))


def _is_looked_up(expr: Expr) -> bool:
    split = is_a(expr, scalar.Add, scalar.Mul) and expr.dtype == REAL
    return expr.is_data and not split and not isinstance(expr, Constant)


class StateFunctions:
    """Row functions of a term with log-sums over states, each compiled on demand."""

    def __init__(self, function: RowFunction, split: StateSums) -> None:
        self._split = split
        self._m = len(function.arguments)
        self._read = _data_in(split.functions)
        self._slopes = PartialDerivatives(function.exprs)
        #: Data that rows read.
        self.leaves = state_leaves(split)
        self._record = states_record(split, self._m, self.leaves)
        # Functions without derivatives are refused before anything is compiled.
        for expr in split.functions:
            for index in self._indices(0, 1, 2):
                self._slopes.of(expr, *index)

    def values(self) -> FunctionAt:
        """Compile the log-likelihood."""
        return self._looped("mh_values_of_states", values=self._compiled(0)[0])

    def slopes(self) -> FunctionAt:
        """Compile value, gradient and Hessian."""
        slopes, positions = self._compiled(0, 1, 2)
        return self._looped("mh_slopes_of_states", slopes=slopes, slope_places=positions)

    def thirds(self) -> FunctionAt:
        """Compile third derivatives, or differences of Hessians for very long features."""
        indices = self._indices(3)
        exprs = [self._slopes.of(f, *index) for f in self._split.functions for index in indices]
        if count_operations(exprs) > MAX_THIRDS:
            return thirds_by_differences(self.slopes(), self._m, len(self.leaves))
        slopes, positions = self._compiled(0, 1, 2)
        thirds, third_places = self._compiled(3)
        return self._looped(
            "mh_thirds_of_states",
            slopes=slopes, slope_places=positions, thirds=thirds, third_places=third_places,
        )  # fmt: skip

    def difference(self, order: int) -> FunctionAt:
        """Compile changes of Taylor remainders, with rounding errors."""
        values, (slopes, positions) = self._compiled(0)[0], self._compiled(0, 1, 2)
        return self._looped(
            "mh_difference_of_states",
            order=order, values=values, slopes=slopes, slope_places=positions,
        )  # fmt: skip

    def _indices(self, *orders: int) -> list[tuple[int, ...]]:
        numbers = range(self._m)
        return [x for n in orders for x in combinations_with_replacement(numbers, n)]

    def _compiled(self, *orders: int) -> tuple[FunctionAt, np.ndarray]:
        """Derivatives of all functions that are not zero, and their positions; values are first."""
        counter, entries = count(), dict[int, Expr]()
        for expr in self._split.functions:
            for index in self._indices(*orders):
                number, slope = next(counter), self._slopes.of(expr, *index)
                if orders == (0,) or constant_value(slope) != 0.0:
                    entries[number] = slope
        composite = make_composite(list(entries.values()), self._m, self._read)
        return compiled_rowwise(composite), np.array(list(entries), dtype=np.int64)

    def _looped(self, name: str, **roles: object) -> FunctionAt:
        record = LaidOut("mh_state_rows", self._record._replace(**roles))  # type: ignore[arg-type]
        return looped_by_library(name, "mh_room_of_states", record)
