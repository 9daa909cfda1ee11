"""Sums over many rows, for full-data evaluations; row numbers are int64."""

import numpy as np

from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import Status, dtype_of, function

#: Position, proposal and centre of the expansion.
Ends = tuple[np.ndarray, np.ndarray, np.ndarray]


def differences_of(
    space: RowSpace, ends: Ends, drawn: np.ndarray, differences: np.ndarray, scales: np.ndarray
) -> None:
    """Write differences of some rows in a proposal, and units of their rounding errors.

    The rows of a term have to be consecutive. OSError if stored rows cannot be fetched.
    """
    arguments = space, *ends, drawn, drawn.size, differences, scales
    if function("mh_differences_of")(*arguments) == Status.NO_ROWS:
        raise OSError("stored observations could not be fetched")


def moments_of_move(
    space: RowSpace, ends: Ends, drawn: np.ndarray, differences: np.ndarray
) -> tuple[int, float, float, float, float]:
    """Write differences d; the result is n, mean, Σ(d - mean)², Σ(d - mean)³ and Σ|d|³."""
    moments, absolute = np.zeros(1, dtype_of("mh_moments")), np.zeros(1)
    function("mh_moments_of_move")(space, *ends, drawn, drawn.size, differences, moments, absolute)
    n, mean, second, third = moments[0].item()
    return n, mean, second, third, float(absolute[0])


def largest_of(
    differences: np.ndarray, scales: np.ndarray, c: np.ndarray, m: float, beta: float
) -> tuple[float, int]:
    """Largest |dU_i| / (c_i M) of some rows, and its index among them."""
    place, bounds = np.zeros(1, dtype=np.int64), np.asarray(c, dtype=np.float64)
    count = differences.size
    ratio = function("mh_largest_of")(differences, scales, bounds, count, m, beta, place)
    return float(ratio), int(place[0])
