"""Moves without rows, along directions that no row depends on: slices.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, function


class Slices(NamedTuple):
    """Along which directions a position is moved without rows, and how often: ``mh_slices``."""

    #: The directions, as long as the steps that slices are found by, shape (n, d).
    steps: np.ndarray
    #: First entry of each that is not zero, and the one behind the last, int64, shape (n, 2).
    ends: np.ndarray
    #: Moves after each update.
    moves: int


NO_SLICES = Slices(np.empty((0, 0)), np.empty((0, 2), np.int64), 0)


def sweep_without_rows(
    position: np.ndarray, slices: Slices, prior: Any, context: np.ndarray, rng: np.random.Generator
) -> None:
    """Move a position along directions that no row depends on, outside of a chain.

    `prior` is the log-density (``mh_log_prior``). Where the moves are no multiple of the
    directions, the first of them is drawn, so that all have an equal share.
    """
    function("mh_sweep_without_rows")(
        position, position.size, slices, prior, context, GeneratorRecord(rng)
    )
