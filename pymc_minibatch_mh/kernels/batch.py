"""Gradients for moves that drift, estimated from a batch of rows; they need not be exact.

A move that drifts by any function of a position, and counts it in its density both there and back,
is reversible: errors of the gradient cost acceptance and nothing else.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.draw import arrange, draw_more, reserve
from pymc_minibatch_mh.kernels.handle import function_at, record_type
from pymc_minibatch_mh.kernels.posterior import RowSpace, log_prior
from pymc_minibatch_mh.kernels.roles import DERIVATIVES, GENERATOR, VECTOR


class Metric(NamedTuple):
    """Shape of a posterior, frozen in a chain: θ̂, L and L⁻¹, L Lᵀ about the covariance."""

    centre: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray


class Batch(NamedTuple):
    """Rows that were drawn before a move looks at any position, for both of its directions.

    Sums over the rows with the numbers `drawn` are multiplied by `scale`, β N/b, or 0 without rows.
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
        drawn, table = reserve(np.empty(0, np.int64), np.empty(0, np.int64), 0, size, total)
        draw_more(rng, total, drawn, table, 0, size)
        drawn = drawn[:size]
    beta = posterior.reference.inverse_temperature
    scale = beta * total / drawn.size if drawn.size > 0 else 0.0
    return Batch(drawn, scale, derivatives, space)


@compiled()
def rows_gradient(rows, position, out):
    """Estimate the gradient of the log-likelihood from a batch, in a custom proposal.

    Parameters
    ----------
    rows : Batch
        The batch that the proposal received.
    position : ndarray, shape (d,)
    out : ndarray, shape (d,)
        Overwritten with β N/b Σ ∇ℓ_i, unconstrained scale; zero without rows. The value β N/b Σ ℓ_i
        is returned.
    """
    numbers = np.empty(rows.drawn.size, np.int64)
    ends = np.empty(rows.space.term_starts.size - 1, np.int64)
    arrange(rows.drawn, 0, rows.drawn.size, rows.space.term_starts, numbers, ends)
    sums = np.zeros(1 + position.size)
    derivatives = function_at(rows.derivatives, DERIVATIVES)
    if rows.drawn.size > 0:
        derivatives(position, numbers, ends, rows.space.context, sums, np.empty((0, 0)))
    for j in range(position.size):
        out[j] = rows.scale * sums[1 + j]
    return rows.scale * sums[0]


#: Half of the distance that slopes of the prior part are taken over, in posterior standard
#: deviations: the losses by curvature and by rounding are both below 1e-5.
PRIOR_STEP = 1e-3


@compiled(inlined=True)
def gradient_estimate(posterior, rows, position, out):
    """Write an estimate of the gradient of the tempered log-density at θ to `out`.

    Without a batch of rows the likelihood has the gradient of the control variates, β [G + H(θ -
    θ̂)]. Entries of coordinates that are not moved are without the prior part.
    """
    reference, size = posterior.reference, position.size
    if rows.drawn.size > 0:
        rows_gradient(rows, position, out)
    else:
        for i in range(size):
            total = reference.gradient[i]
            for j in range(size):
                total += reference.hessian[i, j] * (position[j] - reference.centre[j])
            out[i] = reference.inverse_temperature * total
    place = np.empty(size)
    for i in range(size):
        place[i] = position[i]
    for i in range(reference.first, size):
        square = 0.0
        for j in range(i + 1):
            square += reference.factor[i, j] * reference.factor[i, j]
        step = PRIOR_STEP * np.sqrt(square)
        place[i] = position[i] + step
        above = log_prior(posterior, place)
        place[i] = position[i] - step
        slope = (above - log_prior(posterior, place)) / (2.0 * step)
        place[i] = position[i]
        # At the end of a support there is no slope, and none is needed.
        if np.isfinite(slope):
            out[i] += slope
