"""Passes over all rows: chunked, on all cores, in bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.data.stored import BLOCK_ROWS, StoredRows, consecutive
from pymc_minibatch_mh.expansion.heavy import Changes, Largest
from pymc_minibatch_mh.expansion.parallel import chunks_of, on_all_cores
from pymc_minibatch_mh.kernels.bound_tables import NO_ROWS
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moments import merge_moments
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.row_sums import (
    add_bend,
    add_derivatives,
    bend_of_prior,
    largest_ratio,
    moments_of_move,
    row_values,
)
from pymc_minibatch_mh.model.compiled.form_rows import StoredFormRows
from pymc_minibatch_mh.model.compiled.graph_prior import GraphPrior
from pymc_minibatch_mh.model.compiled.graphs import PlacedRows
from pymc_minibatch_mh.model.compiled.scalar_prior import ScalarPrior

#: The position, the new one and the centre of the expansion.
Move = tuple[np.ndarray, np.ndarray, np.ndarray]
#: c_i of some rows, M of a move, and β.
Bound = tuple[np.ndarray, float, float]
#: Rows that one task sums; fixed, so that sums do not depend on the number of cores.
CHUNK = 65_536


@dataclass(frozen=True)
class Derivatives:
    """Value, gradient and Hessian of a log-density; the Hessian is empty unless asked for."""

    value: float
    gradient: np.ndarray
    hessian: np.ndarray

    @property
    def has_hessian(self) -> bool:
        """Whether the Hessian was asked for."""
        return self.hessian.size > 0


@dataclass(frozen=True)
class MoveMoments:
    """Moments over rows of the differences that one move makes."""

    variance: float
    skewness: float
    third_absolute: float


def _merged(one: tuple, other: tuple) -> tuple:
    """Merge n, mean, central sums of order 2 and 3 and Σ|d|³ of two sets of rows."""
    if not other[0]:
        return one
    return (*merge_moments(*one[:4], *other[:4]), one[4] + other[4])


def _moments(n: int, mean: float, second: float, third: float, absolute: float) -> MoveMoments:
    variance = second / max(n - 1, 1)
    scale = variance**1.5 or 1.0
    return MoveMoments(variance, third / n / scale, absolute / n / scale)


class Passes:
    """Full passes over the rows of a split model.

    Parameters
    ----------
    rows
        The model's compiled rows, where they lie.
    prior
        The prior part.
    source
        The rows themselves.
    """

    def __init__(
        self, rows: PlacedRows, prior: ScalarPrior | GraphPrior, source: ArrayRows
    ) -> None:
        self._rows = rows
        self._prior = prior
        self._source = source
        self.space = RowSpace(source.term_starts, rows.context)
        self.n_rows = source.n_rows

    @property
    def cheap_hessian(self) -> bool:
        """Whether a pass with Hessian reads each row once, whatever the number of coordinates."""
        return self._rows.cheap_hessian

    @property
    def logs(self) -> np.ndarray:
        """Coordinates that are logarithms of what may be zero; none."""
        return np.empty(0, dtype=np.int64)

    @cached_property
    def row_derivatives(self) -> Callable:
        """Compiled value, gradient and Hessian of rows (``DERIVATIVES``)."""
        return self._rows.row_derivatives()

    @cached_property
    def _bend(self) -> Callable | None:
        return self._rows.bend()

    @cached_property
    def log_prior(self) -> Callable:
        """Compiled log-density of the prior part (``LOGP``)."""
        return self._prior.compiled()

    @contextmanager
    def reading(self, rows: np.ndarray) -> Iterator[tuple[RowSpace, np.ndarray]]:
        """Hold some rows in memory: yield where they lie, and their numbers there."""
        if not isinstance(self._source, StoredRows):
            yield self.space, rows
        else:
            assert isinstance(self._rows, StoredFormRows)
            # What was read and placed lives as long as this frame.
            read = self._source.read(consecutive(rows))
            placed = self._rows.on(read)
            yield RowSpace(read.term_starts, placed.context), np.arange(rows.size)

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood of `rows`, by default of all."""
        address = address_of(self.row_derivatives)
        shape = (theta.size, theta.size) if hessian else (0, 0)

        def chunk_sums(some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            sums, products = np.zeros(1 + theta.size), np.zeros(shape)
            with self.reading(some) as place:
                add_derivatives(address, theta, *place, sums, products)
            return sums, products

        sums, products = np.zeros(1 + theta.size), np.zeros(shape)
        for own_sums, own_products in on_all_cores(chunk_sums, self._chunks(rows)):
            sums += own_sums
            products += own_products
        return Derivatives(float(sums[0]), sums[1:], 0.5 * (products + products.T))

    def values(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of every row, shape (N,)."""
        address = address_of(self.row_derivatives)

        def chunk_values(some: np.ndarray) -> np.ndarray:
            out = np.empty(len(some))
            with self.reading(np.asarray(some)) as place:
                row_values(address, theta, *place, out)
            return out

        return np.concatenate(list(on_all_cores(chunk_values, self._chunks(None))))

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part."""
        return Derivatives(*self._prior.derivatives(theta, self._source.others, hessian=hessian))

    def bend(self, theta: np.ndarray, factor: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """Return by how much the average gradient of rows over N(θ, L Lᵀ) differs from that at θ.

        Parameters
        ----------
        theta : ndarray, shape (d,)
            θ.
        factor : ndarray, shape (d, d)
            L, lower triangular.
        rows
            Row numbers, by default all.
        """
        if self._bend is None:
            return self._averaged_bend(theta, factor, rows)
        address = address_of(self._bend)

        def chunk_bend(some: np.ndarray) -> np.ndarray:
            out = np.zeros(theta.size)
            with self.reading(some) as place:
                add_bend(address, theta, factor, *place, out)
            return out

        return np.sum(list(on_all_cores(chunk_bend, self._chunks(rows))), axis=0)

    def _averaged_bend(
        self, theta: np.ndarray, factor: np.ndarray, rows: np.ndarray | None
    ) -> np.ndarray:
        def gradient(place: np.ndarray) -> np.ndarray:
            return self.likelihood(place, hessian=False, rows=rows).gradient

        middle = gradient(theta)
        # Points at one standard deviation either way average a quadratic gradient exactly.
        pairs = [0.5 * (gradient(theta + c) + gradient(theta - c)) - middle for c in factor.T]
        return np.sum(pairs, axis=0)

    def bend_of_prior(self, theta: np.ndarray, factor: np.ndarray) -> np.ndarray:
        """Return the same of the prior part, times Lᵀ."""
        out = np.empty(theta.size)
        bend_of_prior(address_of(self.log_prior), theta, factor, self.space.context, out)
        return out

    def moves(
        self,
        evaluate: Callable,
        moves: Sequence[tuple[np.ndarray, np.ndarray]],
        centre: np.ndarray,
        left_out: np.ndarray = NO_ROWS,
        largest: Largest | None = None,
    ) -> list[MoveMoments]:
        """Return moments over rows of the differences that each of some moves makes.

        Parameters
        ----------
        evaluate
            Compiled differences (``EVALUATE``).
        moves
            The position and the new one of each.
        centre
            The centre of the expansion.
        left_out
            Rows that do not count, in order.
        largest
            Where the rows that change most are to be collected.
        """
        address = address_of(evaluate)

        def of_chunk(rows: np.ndarray) -> tuple[list[tuple], Changes | None]:
            inside = slice(*np.searchsorted(left_out, (rows[0], rows[-1] + 1)))
            rows = np.delete(rows, left_out[inside] - rows[0])
            found = np.empty((len(moves), rows.size))
            with self.reading(rows) as place:
                moments = [
                    moments_of_move(address, (*ends, centre), *place, differences)
                    for ends, differences in zip(moves, found, strict=True)
                ]
            return moments, None if largest is None else largest.of_chunk(rows, found)

        totals = [(0, 0.0, 0.0, 0.0, 0.0)] * len(moves)
        for moments, changes in on_all_cores(of_chunk, self._chunks(None)):
            totals = [_merged(*pair) for pair in zip(totals, moments, strict=True)]
            if largest is not None and changes is not None:
                largest.add(changes)
        return [_moments(*total) for total in totals]

    def differences(
        self,
        evaluate: Callable,
        moves: Sequence[tuple[np.ndarray, np.ndarray]],
        centre: np.ndarray,
        rows: np.ndarray,
    ) -> np.ndarray:
        """Return the differences of a few rows, in order, in each move: shape (moves, rows)."""
        found = np.empty((len(moves), rows.size))
        address = address_of(evaluate)
        with self.reading(rows) as place:
            for ends, differences in zip(moves, found, strict=True):
                moments_of_move(address, (*ends, centre), *place, differences)
        return found

    def change(self, evaluate: Callable, move: Move) -> float:
        """Return by how much the remainders of all rows change in a move.

        Parameters
        ----------
        evaluate
            Compiled differences (``EVALUATE``).
        move
            The position, the new one and the centre of the expansion.
        """
        address = address_of(evaluate)

        def of_chunk(rows: np.ndarray) -> float:
            differences = np.empty(rows.size)
            with self.reading(rows) as place:
                moments_of_move(address, move, *place, differences)
            return float(differences.sum())

        return sum(on_all_cores(of_chunk, self._chunks(None)))

    def largest_ratio_of_some(
        self, evaluate: Callable, move: Move, rows: np.ndarray, bound: Bound
    ) -> tuple[float, int]:
        """Return the largest |dU_i| / (c_i M) over some rows in a move, and the row that has it.

        Parameters
        ----------
        evaluate, move
            As in :meth:`change`.
        rows : ndarray of int64
        bound
            Their c_i, M of the move, and β.
        """
        with self.reading(rows) as place:
            ratio, found = largest_ratio(address_of(evaluate), move, *place, *bound)
        return ratio, int(rows[found])

    def largest_ratio(
        self,
        evaluate: Callable,
        move: Move,
        c: np.ndarray,
        m: float,
        inverse_temperature: float,
    ) -> tuple[float, int]:
        """Return the largest |dU_i| / (c_i M) over all rows in a move, and the row that has it.

        Parameters
        ----------
        evaluate
            Compiled differences (``EVALUATE``).
        move
            The position, the new one and the centre of the expansion.
        c : ndarray of float32, shape (N,)
        m
            M of the move.
        inverse_temperature
            β.
        """
        address = address_of(evaluate)

        def chunk_ratio(rows: np.ndarray) -> tuple[float, int]:
            return largest_ratio(address, move, self.space, rows, c, m, inverse_temperature)

        return max(on_all_cores(chunk_ratio, self._chunks(None)))

    def _chunks(self, rows: np.ndarray | None) -> list[Any]:
        if rows is not None:
            return np.array_split(rows, max(1, len(rows) // CHUNK))
        return chunks_of(self.n_rows, CHUNK if self._source.in_memory else BLOCK_ROWS)
