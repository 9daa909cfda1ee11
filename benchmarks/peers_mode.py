"""Newton's method for the mode of a posterior, for the samplers that start from one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

type Array = NDArray[np.float64]
#: Largest gradient at a mode, in posterior standard deviations.
GRADIENT = 1e-3
STEPS, HALVINGS = 50, 20


class NoModeError(ArithmeticError):
    """A density has no mode near the start, as that of a centred hierarchy may not."""


class Mode(NamedTuple):
    """Where a density has a mode, the gradient in posterior standard deviations, and the Hessian.

    The gradient and the Hessian are those of the negative logarithm.
    """

    at: Array
    gradient: float
    hessian: Array


def mode(
    value: Callable[[Array], tuple[float, Array]],
    hessian: Callable[[Array], Array],
    start: Array,
) -> Mode:
    """Return the mode of a density near a start.

    Parameters
    ----------
    value
        Returns the negative logarithm of the density and its gradient.
    hessian
        Returns the matrix of its second derivatives.
    start
        Where to begin, not where a derivative vanishes for no reason.

    Raises
    ------
    NoModeError
        If none is reached: what expands around another point fails without a word.
    """
    at, (height, slope) = start, value(start)
    off = np.inf
    for _ in range(STEPS):
        bend = hessian(at)
        eigenvalues, vectors = np.linalg.eigh(bend)
        # Downhill also where the density is not concave.
        curved = np.maximum(np.abs(eigenvalues), 1e-10 * np.abs(eigenvalues).max())
        along = vectors.T @ slope
        off = float(np.sqrt(np.sum(along**2 / curved)))
        if off < GRADIENT and eigenvalues.min() > 0.0:
            return Mode(at, off, bend)
        step = -vectors @ (along / curved)
        for shorter in 0.5 ** np.arange(HALVINGS):
            there = at + shorter * step
            new_height, new_slope = value(there)
            if new_height <= height + 1e-12 * abs(height):
                break
        at, height, slope = there, new_height, new_slope
    raise NoModeError(f"no mode was found: the gradient is {off:.2g} posterior sds")
