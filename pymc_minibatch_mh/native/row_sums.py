"""Sums over many rows, for full-data evaluations; row numbers are int64."""

import numpy as np

from pymc_minibatch_mh.native.forms import RowSpace
from pymc_minibatch_mh.native.library import FunctionAt, dtype_of, function

#: Position, proposal and centre of the expansion.
Ends = tuple[np.ndarray, np.ndarray, np.ndarray]


def add_derivatives(
    space: RowSpace, theta: np.ndarray, drawn: np.ndarray, sums: np.ndarray, hessian: np.ndarray
) -> None:
    """Add values and gradients, shape (1 + d,), and Hessians of some rows.

    `drawn` are row numbers over all terms; an empty Hessian is not computed.
    """
    asked = int(hessian.size > 0)
    function("mh_add_derivatives")(space, theta, drawn, drawn.size, asked, sums, hessian)


def row_values(space: RowSpace, theta: np.ndarray, drawn: np.ndarray, out: np.ndarray) -> None:
    """Write the value of each row."""
    function("mh_row_values")(space, theta, drawn, drawn.size, out)


def add_skewness(
    space: RowSpace, theta: np.ndarray, factor: np.ndarray, drawn: np.ndarray, out: np.ndarray
) -> None:
    """Add averages of third derivatives of some rows over N(theta, L Lᵀ) to `out`, shape (d,)."""
    function("mh_add_skewness")(space, theta, factor, drawn, drawn.size, out)


def skewness_of_prior(
    prior: FunctionAt, theta: np.ndarray, factor: np.ndarray, context: np.ndarray, out: np.ndarray
) -> None:
    """Write the average tilt of a prior part over N(theta, L Lᵀ) along L's columns.

    It is Lᵀ times the third-order correction of the gradient, shape (d,).
    """
    function("mh_skewness_of_prior")(prior, context, theta, factor, theta.size, out)


def differences_of(
    space: RowSpace, ends: Ends, drawn: np.ndarray, differences: np.ndarray, scales: np.ndarray
) -> None:
    """Write differences of some rows in a move, and units of their rounding errors.

    The rows of a term are consecutive.
    """
    function("mh_differences_of")(space, *ends, drawn, drawn.size, differences, scales)


def moments_of_move(
    space: RowSpace, ends: Ends, drawn: np.ndarray, differences: np.ndarray
) -> tuple[int, float, float, float, float]:
    """Write differences; the result is n, mean, Σ(d - mean)^2 and ^3, Σ|d|^3."""
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
