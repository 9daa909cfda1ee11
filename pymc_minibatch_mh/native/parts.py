"""Separable bounds: the largest change of an observation, by the coordinates that it depends on.

The formulas are in parts.c; candidates.c samples observations by them.
"""

from typing import NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import function


class Parts(NamedTuple):
    """Look-ups of all rows, by which their ceilings are found: ``mh_parts`` has the shapes."""

    border: np.ndarray
    weights: np.ndarray
    is_signed: int
    elements: np.ndarray
    first: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    running: np.ndarray
    cubes: np.ndarray
    border_cubes: float
    thresholds: np.ndarray
    aliases: np.ndarray
    border_radius: float
    radii: np.ndarray

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


def ceilings_of(parts: Parts, ends: Ends) -> np.ndarray:
    """Separable bound of each observation in a move."""
    out = np.empty(parts.n_rows)
    function("mh_ceilings_of")(parts, ends, out)
    return out


def fill_running(starts: np.ndarray, values: np.ndarray, totals: np.ndarray) -> None:
    """Replace the values of each effect's rows by cumulative sums, and write their totals."""
    function("mh_fill_running")(starts.size - 1, starts, values, totals)
