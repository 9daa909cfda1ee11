"""The cheap part of the log-density and how large the remainders of a move are."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled


class Surrogate(NamedTuple):
    """Control variates around a centre, frozen while a chain runs.

    Parameters
    ----------
    centre : ndarray, shape (d,)
        Where the expansion is made.
    factor : ndarray, shape (d, d)
        L with L Lᵀ = A⁻¹, A the posterior precision at the centre.
    whitener : ndarray, shape (d, d)
        L⁻¹, so that |L⁻¹ δ| is the distance in posterior standard deviations.
    gradient : ndarray, shape (d,)
        Sum of the gradients of all rows at the centre; zero at order 0.
    hessian : ndarray, shape (d, d)
        Sum of their Hessians; zero below order 2.
    order
        Order of the expansion.
    inverse_temperature
        β, which multiplies the log-likelihood only.
    spread
        κ in the predicted variance κ M(θ, θ')² of β N times the difference of one row.
    first
        First coordinate that is moved; those before it belong to other steps.
    """

    centre: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    order: int
    inverse_temperature: float
    spread: float
    first: int = 0


def pack(surrogate):
    """Return the surrogate as three arrays, which reach a kernel in a third of the time."""
    return (
        np.ascontiguousarray(np.stack([surrogate.centre, surrogate.gradient])),
        np.ascontiguousarray(np.stack([surrogate.factor, surrogate.whitener, surrogate.hessian])),
        np.array(
            [surrogate.order, surrogate.inverse_temperature, surrogate.spread, surrogate.first]
        ),
    )


@compiled()
def unpack(vectors, matrices, scalars):
    """Return the surrogate behind the arrays of :func:`pack`."""
    return Surrogate(
        vectors[0],
        matrices[0],
        matrices[1],
        vectors[1],
        matrices[2],
        int(scalars[0]),
        scalars[1],
        scalars[2],
        int(scalars[3]),
    )


@compiled()
def expansion_change(surrogate, position, new):
    """Return β [T(new) - T(position)] without the cancellation of two large values."""
    total = 0.0
    for i in range(position.size):
        curved = surrogate.gradient[i]
        for j in range(position.size):
            middle = 0.5 * ((position[j] - surrogate.centre[j]) + (new[j] - surrogate.centre[j]))
            curved += surrogate.hessian[i, j] * middle
        total += curved * (new[i] - position[i])
    return surrogate.inverse_temperature * total


@compiled()
def whitened_norm(whitener, position, origin):
    """Return the distance from `origin` in posterior standard deviations."""
    total = 0.0
    for i in range(position.size):
        cell = 0.0
        for j in range(i + 1):
            cell += whitener[i, j] * (position[j] - origin[j])
        total += cell * cell
    return np.sqrt(total)


@compiled()
def remainder_size(surrogate, position, new):
    """Return M(θ, θ'), symmetric, which the remainders of a move scale with.

    |r_i(θ') - r_i(θ)| <= c_i M for some c_i that do not depend on the move: the smaller of the
    bound through the centre and the bound along the path.
    """
    step = whitened_norm(surrogate.whitener, new, position)
    if surrogate.order == 0:
        return step
    here = whitened_norm(surrogate.whitener, position, surrogate.centre)
    there = whitened_norm(surrogate.whitener, new, surrogate.centre)
    if surrogate.order == 1:
        return min(0.5 * (here**2 + there**2), 0.5 * step * (here + there))
    return min((here**3 + there**3) / 6.0, 0.25 * step * (here**2 + there**2))
