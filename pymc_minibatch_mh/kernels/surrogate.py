"""Control variates: the cheap part of the log-density, and where the posterior lies."""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.scratch import scratch
from pymc_minibatch_mh.kernels.vectors import inner_by


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
    first
        First coordinate that is moved; those before it belong to other steps.
    relative
        β over the one that bounds and the predicted noise of rows were found at, which both are
        proportional to at order 0; 1 except where a schedule of temperatures is on its way.
    """

    centre: np.ndarray
    factor: np.ndarray
    whitener: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    order: int
    inverse_temperature: float
    first: int = 0
    relative: float = 1.0


@compiled(inlined=True)
def expansion_change(surrogate, position, new):
    """Return β [T(new) - T(position)] without the cancellation of two large values."""
    middle, step = scratch(position.size, np.float64), scratch(position.size, np.float64)
    total = 0.0
    for j in range(position.size):
        middle[j] = 0.5 * ((position[j] - surrogate.centre[j]) + (new[j] - surrogate.centre[j]))
        step[j] = new[j] - position[j]
        total += surrogate.gradient[j] * step[j]
    total += inner_by(surrogate.hessian, step, middle)
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
