"""Laplace moves and random walks of coordinates that end at zero.

The reciprocal κ of a shape parameter is positive, and its normal approximation may have most of its
mass below zero: two moves in three would be lost. Here κ is drawn from the part above zero, first
of all coordinates, and the others given what was drawn. What that part has of the whole depends on
where a move begins, and is corrected for. The normal approximation is the one that the gradient at
the centre belongs to, whose mean may lie below zero.
"""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh._jit import compiled
from pymc_minibatch_mh.kernels.roles import role_of
from pymc_minibatch_mh.kernels.truncated import log_share_above, normal_above
from pymc_minibatch_mh.kernels.vectors import inner_of_line


class BorderedNumbers(NamedTuple):
    """Numbers of a mixture in a chain, and an order in which coordinates that end are first.

    Parameters
    ----------
    scale, weights, rho
        See :class:`pymc_minibatch_mh.proposals.mixture.MixtureNumbers`.
    order : ndarray of int, shape (d,)
        Coordinates in the order in which they are drawn: those of other steps, those that end at
        zero, the rest.
    n_ends
        How many end at zero.
    factor, whitener : ndarray, shape (d, d)
        Cholesky factor of the covariance in that order, and its inverse.
    tilt : ndarray, shape (d,)
        Mean of the normal approximation, in the coordinates that these whiten.
    """

    scale: float
    weights: np.ndarray
    rho: np.ndarray
    order: np.ndarray
    n_ends: int
    factor: np.ndarray
    whitener: np.ndarray
    tilt: np.ndarray


@compiled(inlined=True)
def drawn_component(weights, rng):
    """Draw the walk, 0, or a Laplace component."""
    left = rng.random() - weights[0]
    component = 0
    while left >= 0.0 and component < weights.size - 1:
        component += 1
        left -= weights[component]
    return component


@role_of(BorderedNumbers, "propose")
@compiled(inlined=True)
def propose_above_zero(numbers, move, posterior, rng):
    """Draw a component, then a move from it: see :func:`roles.propose`."""
    centre, first = posterior.surrogate.centre, posterior.surrogate.first
    order, factor, tilt = numbers.order, numbers.factor, numbers.tilt
    # Both are overwritten once a move is made.
    here, white = move.step, move.there
    component = drawn_component(numbers.weights, rng)
    rho, scale = 1.0, numbers.scale
    if component > 0:
        rho = numbers.rho[component - 1]
        scale = np.sqrt(1.0 - rho * rho)
    log_q = 0.0
    for i in range(order.size):
        here[i] = 0.0
        for j in range(i + 1):
            here[i] += numbers.whitener[i, j] * (move.position[order[j]] - centre[order[j]])
        if i < first:
            white[i] = here[i]
            move.new[order[i]] = move.position[order[i]]
            continue
        mean = tilt[i] + rho * (here[i] - tilt[i])
        before = centre[order[i]] + inner_of_line(factor, i, white, 0, i)
        if i < first + numbers.n_ends:
            low = -(before / factor[i, i] + mean) / scale
            white[i] = mean + scale * normal_above(low, rng)
            back = tilt[i] + rho * (white[i] - tilt[i])
            behind = move.position[order[i]] / factor[i, i] - here[i]
            log_q += log_share_above(low) - log_share_above(-(behind + back) / scale)
        else:
            white[i] = mean + scale * rng.standard_normal()
        if component > 0:
            log_q += 0.5 * ((white[i] - tilt[i]) ** 2 - (here[i] - tilt[i]) ** 2)
        move.new[order[i]] = before + factor[i, i] * white[i]
    return log_q, component


def bordered(record: Any, prepared: Any) -> Any:
    """Return the numbers of a mixture as they are, or with those of coordinates that end at zero.

    Parameters
    ----------
    record : MixtureNumbers
        Numbers of a chain.
    prepared : Prepared
        What the chain runs on.
    """
    target, surrogate = prepared.target, prepared.surrogate
    coordinates = target.split.coordinates
    ends = [] if coordinates is None else sorted(coordinates.ends)
    if not ends:
        return record
    centre, first = surrogate.centre, surrogate.first
    rest = [k for k in range(centre.size) if k >= first and k not in ends]
    order = np.array([*range(first), *ends, *rest], dtype=np.int64)
    covariance = surrogate.factor @ surrogate.factor.T
    factor = np.linalg.cholesky(covariance[np.ix_(order, order)])
    slope = surrogate.inverse_temperature * surrogate.gradient
    if surrogate.order > 0:
        slope = slope + target.passes.prior(centre, hessian=False).gradient
    whitener = np.ascontiguousarray(np.linalg.inv(factor))
    tilt = np.ascontiguousarray(factor.T @ slope[order])
    own: tuple[float, np.ndarray, np.ndarray] = record[:3]
    return BorderedNumbers(*own, order, len(ends), factor, whitener, tilt)
