"""Kinks of the prior part, as of a Laplace prior: where they are, and averages over them.

At a kink the log-density has no Hessian, and its mode may lie on it. Averaged along a coordinate
over an interval about as wide as the posterior, it has one. Any centre and scale leave a test
exact; good ones make it fast.
"""

from collections.abc import Callable

import numpy as np

from pymc_minibatch_mh.surrogate.passes import Derivatives

#: Jump of a gradient, in posterior standard deviations, below which a kink does not count.
LEAST_JUMP = 0.01
#: How often the interval around a jump is halved until it is taken for one.
HALVINGS = 30


def kinked(
    prior: Callable[..., Derivatives], position: np.ndarray, deviations: np.ndarray
) -> list[int]:
    """Return the coordinates along which the prior part has a kink near a position.

    Parameters
    ----------
    prior
        Derivatives of the prior part.
    position : ndarray, shape (d,)
    deviations : ndarray, shape (d,)
        How far to look along each coordinate.
    """

    def slope_along(k: int) -> Callable[[float], float]:
        def slope(x: float) -> float:
            there = position.copy()
            there[k] = x
            return float(prior(there, hessian=False).gradient[k])

        return slope

    return [
        k
        for k, deviation in enumerate(deviations)
        if _jumps(slope_along(k), position[k], deviation, LEAST_JUMP / deviation)
    ]


def _jumps(slope: Callable[[float], float], middle: float, reach: float, least: float) -> bool:
    low, high = middle - reach, middle + reach
    below, above = slope(low), slope(high)
    changes = []
    for _ in range(HALVINGS):
        changes.append(abs(above - below))
        if not least < changes[-1] < np.inf:
            return False
        middle = 0.5 * (low + high)
        between = slope(middle)
        if abs(between - below) > abs(above - between):
            high, above = middle, between
        else:
            low, below = middle, between
    # Of a smooth slope, however steep, the change would vanish with the interval.
    return changes[-1] > 0.5 * changes[HALVINGS // 2]


def averaged(
    prior: Callable[..., Derivatives], widths: tuple[tuple[int, float], ...]
) -> Callable[..., Derivatives]:
    """Return derivatives of the prior part, those along some coordinates averaged along them.

    The mean of a derivative over an interval is a difference of what it is the derivative of, so
    that no quadrature blurs it. The value stays that of the prior itself.

    Parameters
    ----------
    prior
        Derivatives of the prior part.
    widths
        Coordinate and half the width of its interval.
    """

    def over_kinks(position: np.ndarray, *, hessian: bool) -> Derivatives:
        here = prior(position, hessian=hessian)
        gradient, curvature = here.gradient.copy(), here.hessian.copy()
        inside = [k for k, _ in widths]
        columns = []
        for k, width in widths:
            shift = np.zeros(position.size)
            shift[k] = width
            up, down = (prior(position + s, hessian=False) for s in (shift, -shift))
            gradient[k] = (up.value - down.value) / (2.0 * width)
            columns.append((up.gradient - down.gradient) / (2.0 * width))
        if hessian:
            rows = np.array(columns)
            curvature[inside, :], curvature[:, inside] = rows, rows.T
            block = rows[:, inside]
            curvature[np.ix_(inside, inside)] = 0.5 * (block + block.T)
        return Derivatives(here.value, gradient, curvature)

    return over_kinks
