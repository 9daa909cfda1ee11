"""Passes over all rows: chunked, on all cores, in bounded memory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_minibatch_mh.data import ArrayRows
from pymc_minibatch_mh.kernels.first_class import address_of
from pymc_minibatch_mh.kernels.moments import merge_moments
from pymc_minibatch_mh.kernels.passes import add_derivatives, largest_ratio, move_moments
from pymc_minibatch_mh.kernels.reading import RowSpace
from pymc_minibatch_mh.likelihood.compile import Functions
from pymc_minibatch_mh.surrogate.parallel import Consecutive, on_all_cores

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


class Passes:
    """Full passes over the rows of a split model.

    Parameters
    ----------
    functions
        The model's compiled functions.
    source
        Its rows.
    size
        Number of dimensions d.
    """

    def __init__(self, functions: Functions, source: ArrayRows, size: int) -> None:
        self._functions = functions
        self._size = size
        self.space = RowSpace(source.term_starts, source.context)
        self.n_rows = source.n_rows

    @cached_property
    def _row_derivatives(self) -> Callable:
        return self._functions.row_derivatives()

    @cached_property
    def _prior_derivatives(self) -> Callable:
        return self._functions.prior_derivatives()

    def likelihood(
        self, theta: np.ndarray, *, hessian: bool, rows: np.ndarray | None = None
    ) -> Derivatives:
        """Return derivatives of the summed log-likelihood of `rows`, by default of all."""
        return self._derivatives(self._row_derivatives, theta, hessian, self._chunks(rows))

    def prior(self, theta: np.ndarray, *, hessian: bool) -> Derivatives:
        """Return derivatives of the prior part."""
        return self._derivatives(
            self._prior_derivatives, theta, hessian, [np.zeros(1, dtype=np.int64)]
        )

    def move(
        self, evaluate: Callable, theta: np.ndarray, new: np.ndarray, centre: np.ndarray
    ) -> MoveMoments:
        """Return moments over all rows of the differences that one move makes."""
        address = address_of(evaluate)

        def chunk_moments(rows: np.ndarray) -> tuple[float, ...]:
            return move_moments(address, theta, new, centre, self.space, rows)

        n, mean, second, third, absolute = 0, 0.0, 0.0, 0.0, 0.0
        for m, own_mean, own_second, own_third, own_absolute in on_all_cores(
            chunk_moments, self._chunks(None)
        ):
            n, mean, second, third = merge_moments(
                n, mean, second, third, m, own_mean, own_second, own_third
            )
            absolute += own_absolute
        variance = second / max(n - 1, 1)
        scale = variance**1.5 or 1.0
        return MoveMoments(variance, third / n / scale, absolute / n / scale)

    def largest_ratio(
        self,
        evaluate: Callable,
        move: tuple[np.ndarray, np.ndarray, np.ndarray],
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
            return largest_ratio(address, *move, self.space, rows, c, m, inverse_temperature)

        return max(on_all_cores(chunk_ratio, self._chunks(None)))

    def _derivatives(
        self, function: Callable, theta: np.ndarray, hessian: bool, chunks: list[np.ndarray]
    ) -> Derivatives:
        directions = np.eye(self._size) if hessian else np.empty((0, self._size))
        address = address_of(function)

        def chunk_sums(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            out, products = np.zeros(1 + self._size), np.zeros_like(directions)
            add_derivatives(address, theta, self.space, rows, directions, out, products)
            return out, products

        out, products = np.zeros(1 + self._size), np.zeros_like(directions)
        for own_out, own_products in on_all_cores(chunk_sums, chunks):
            out += own_out
            products += own_products
        symmetric = 0.5 * (products + products.T) if hessian else products
        return Derivatives(float(out[0]), out[1:], symmetric)

    def _chunks(self, rows: np.ndarray | None) -> list[Any]:
        if rows is not None:
            return np.array_split(rows, max(1, len(rows) // CHUNK))
        starts = range(0, self.n_rows, CHUNK)
        return [Consecutive(first, min(first + CHUNK, self.n_rows)) for first in starts]
