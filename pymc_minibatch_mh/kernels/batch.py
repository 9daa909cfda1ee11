"""What a user's own move is handed besides positions: the shape of the posterior, and some rows."""

from typing import NamedTuple

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange, draw_more, reserve
from pymc_minibatch_mh.kernels.first_class import function_at
from pymc_minibatch_mh.kernels.handle import record_type
from pymc_minibatch_mh.kernels.posterior import RowSpace
from pymc_minibatch_mh.kernels.signatures import DERIVATIVES, GENERATOR, VECTOR


class Metric(NamedTuple):
    """The shape of the posterior, frozen while a chain runs.

    Parameters
    ----------
    centre : ndarray, shape (d,)
        θ̂, about its mean.
    factor : ndarray, shape (d, d)
        L, lower triangular, with L Lᵀ about its covariance.
    whitener : ndarray, shape (d, d)
        L⁻¹.
    """

    centre: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray


class Batch(NamedTuple):
    """Rows that were drawn before a move looks at any position, for both of its directions.

    Parameters
    ----------
    drawn : ndarray of int64, shape (b,)
        Their numbers through all terms.
    scale
        β N/b, what sums over them are multiplied by; 0 without rows.
    derivatives
        Address of the rows' derivatives (``DERIVATIVES``).
    space : RowSpace
    """

    drawn: np.ndarray
    scale: float
    derivatives: int
    space: RowSpace


def _example() -> tuple[Metric, Batch]:
    one, numbers = np.empty(1), np.empty(1, np.int64)
    matrix = np.empty((1, 1))
    return Metric(one, matrix, matrix), Batch(numbers, 1.0, 0, RowSpace(numbers, numbers))


_METRIC, _BATCH = map(record_type, _example())

#: (position, new, generator, state, metric, rows) -> log q(θ|θ') - log q(θ'|θ). Writes `new`.
MOVE_SIGNATURE = types.float64(VECTOR, VECTOR, GENERATOR, VECTOR, _METRIC, _BATCH)
MOVE = types.FunctionType(MOVE_SIGNATURE)


@compiled()
def draw_batch(rng, size, derivatives, posterior):
    """Return a batch of rows, drawn evenly and without replacement."""
    space = posterior.space
    total = space.term_starts[-1]
    if 2 * size >= total:
        drawn = np.arange(total)
    else:
        drawn, table = reserve(np.empty(0, np.int64), np.empty(0, np.int64), 0, size)
        draw_more(rng, total, drawn, table, 0, size)
        drawn = drawn[:size]
    beta = posterior.surrogate.inverse_temperature
    scale = beta * total / drawn.size if drawn.size > 0 else 0.0
    return Batch(drawn, scale, derivatives, space)


@compiled()
def rows_gradient(rows, position, out):
    """Estimate the gradient of the log-likelihood from a batch; for a move of your own.

    Parameters
    ----------
    rows : Batch
        What the move was handed.
    position : ndarray, shape (d,)
    out : ndarray, shape (d,)
        Overwritten with β N/b Σ ∇ℓ_i, unconstrained scale; zero without rows.

    Returns
    -------
    float
        β N/b Σ ℓ_i.
    """
    numbers, ends = (
        np.empty(rows.drawn.size, np.int64),
        np.empty(rows.space.term_starts.size - 1, np.int64),
    )
    arrange(rows.drawn, 0, rows.drawn.size, rows.space.term_starts, numbers, ends)
    sums = np.zeros(1 + position.size)
    derivatives = function_at(rows.derivatives, DERIVATIVES)
    if rows.drawn.size > 0:
        derivatives(position, numbers, ends, rows.space.context, sums, np.empty((0, 0)))
    for j in range(position.size):
        out[j] = rows.scale * sums[1 + j]
    return rows.scale * sums[0]
