"""Separable bounds: the largest change of an observation, by the coordinates that it depends on.

The formulas are in parts.c; candidates.c samples observations by them.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import record_of


class Parts(record_of("mh_parts")):  # type: ignore[misc]
    """Look-ups of all rows, by which their ceilings are found: ``mh_parts`` has the shapes."""

    @property
    def n_rows(self) -> int:
        """Number of observations N."""
        return self.border.size

    @property
    def n_factors(self) -> int:
        """Number of factors and choices F."""
        return self.first.size - 1


class Ends(NamedTuple):
    """Both ends of a move: effects, shape (L,), and ‖w‖, ‖w'‖ and ‖w' - w‖: ``mh_part_ends``."""

    here: np.ndarray
    there: np.ndarray
    border: tuple[float, float, float]
