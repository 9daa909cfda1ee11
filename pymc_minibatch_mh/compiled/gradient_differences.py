"""Hessians by central differences of gradients, of functions without second derivatives."""

from collections.abc import Callable

import numpy as np

#: Half-width of a difference, relative to a coordinate whose size is at least 1.
STEP = 1e-4
#: Maximum half-width in standard deviations, as the curvature tells them, within which a
#: log-density is almost a quadratic function.
MAX_DEVIATION = 0.01


def hessian_by_differences(
    gradient: Callable[[np.ndarray], np.ndarray], position: np.ndarray
) -> np.ndarray:
    """Hessian of a log-density at a position, shape (d, d), from 2 d to 4 d gradients."""

    def column(k: int, step: float) -> np.ndarray:
        above, below = position.copy(), position.copy()
        above[k] += step
        below[k] -= step
        return (gradient(above) - gradient(below)) / (above[k] - below[k])

    columns = []
    for k, coordinate in enumerate(position):
        step = STEP * max(1.0, abs(coordinate))
        derivative = column(k, step)
        is_long = step * np.sqrt(abs(derivative[k])) > MAX_DEVIATION
        # An infinite slope stays what it is: no shorter step tells its curvature.
        if is_long and np.isfinite(derivative[k]):
            derivative = column(k, MAX_DEVIATION / np.sqrt(abs(derivative[k])))
        columns.append(derivative)
    products = np.reshape(columns, (position.size, position.size))
    return 0.5 * (products + products.T)
