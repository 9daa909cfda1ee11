"""Slice sampling along null-space directions of the likelihood: slices.c."""

from typing import NamedTuple

import numpy as np


class Slices(NamedTuple):
    """Directions of slice proposals without observations, and their number: ``mh_slices``."""

    #: Directions with the length of the slices' steps, shape (n, d).
    steps: np.ndarray
    #: First nonzero entry of each direction, and the end after the last one, int64, shape (n, 2).
    ends: np.ndarray
    #: Proposals after each update.
    moves: int


NO_SLICES = Slices(np.empty((0, 0)), np.empty((0, 2), np.int64), 0)
