"""Normal distribution of effects given their scales, with a marginal distribution of the scales.

Scales φ = φ₀ + A z, and the rest x = m(z) + W(z)⁻¹ w: see scale_conditional.c.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import LaidOut, function


class ScaleConditional(NamedTuple):
    """Tables of the distribution: ``mh_scale_conditional`` has the shapes.

    They only affect acceptance rates, never exactness.
    """

    scales: np.ndarray
    rest: np.ndarray
    middle: np.ndarray
    spread: np.ndarray
    narrow: np.ndarray
    first_normal: float
    normal_gap: float
    points: np.ndarray
    slopes: np.ndarray
    first_knot: float
    knot_gap: float
    mean: np.ndarray
    whitener: np.ndarray
    means: np.ndarray
    whiteners: np.ndarray

    @property
    def n_normal_knots(self) -> int:
        """Number of knots of u."""
        return self.points.shape[1]

    @property
    def n_knots(self) -> int:
        """Number of knots of z."""
        return self.means.shape[1]


def whiten_given_scales(
    tables: ScaleConditional | LaidOut, position: np.ndarray, white: np.ndarray
) -> float:
    """Write the coordinates u and w of a position to `white`, shape (d,).

    The result is log |∂(u, w)/∂θ| up to a constant: the density of the position is that of a
    standard normal vector at (u, w) times this volume.
    """
    log_volume = np.empty(1)
    function("mh_whiten_given_scales")(tables, position, white, log_volume)
    return float(log_volume[0])


def place_given_scales(
    tables: ScaleConditional | LaidOut, white: np.ndarray, position: np.ndarray
) -> float:
    """Write the position of (u, w); the result is that of :func:`whiten_given_scales` there."""
    log_volume = np.empty(1)
    function("mh_place_given_scales")(tables, white, position, log_volume)
    return float(log_volume[0])
