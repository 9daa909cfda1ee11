"""Whitened directions along which no row changes: what bounds take a move without."""

import numpy as np

from pymc_minibatch_mh.expansion.target import Target
from pymc_minibatch_mh.kernels.bound_tables import NO_DIRECTIONS
from pymc_minibatch_mh.kernels.surrogate import Surrogate

#: Directions that moves are measured without, at most: leaving one out takes time at every update.
MOST_LEFT_OUT = 32


def whitened_directions(
    target: Target, surrogate: Surrogate, most: int = MOST_LEFT_OUT
) -> np.ndarray:
    """Return the directions along which no row changes, whitened and orthonormal, shape (n, d).

    The bounds of a row hold by inner products with whitened forms, which are orthogonal to them.
    There are none where there would be more than `most`.
    """
    directions = target.compiled.unread
    if not 0 < len(directions) <= most:
        return NO_DIRECTIONS
    basis, _ = np.linalg.qr((directions @ surrogate.whitener.T).T)
    return np.ascontiguousarray(basis.T)
