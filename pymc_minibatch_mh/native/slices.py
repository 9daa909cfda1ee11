"""Slice sampling along null-space directions of the likelihood: slices.c."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, function


class Slices(NamedTuple):
    """Directions of slice proposals without observations, and their number: ``mh_slices``."""

    #: Directions with the length of the slices' steps, shape (n, d).
    steps: np.ndarray
    #: First nonzero entry of each direction, and the end after the last one, int64, shape (n, 2).
    ends: np.ndarray
    #: Proposals after each update.
    moves: int


NO_SLICES = Slices(np.empty((0, 0)), np.empty((0, 2), np.int64), 0)


def sweep_without_rows(
    position: np.ndarray, slices: Slices, prior: Any, context: np.ndarray, rng: np.random.Generator
) -> None:
    """Update a position along null-space directions of the likelihood, outside of a chain.

    `prior` is the log-density (``mh_log_prior``). If the number of proposals is no multiple of the
    number of directions, the first direction is random, so that all have an equal share.
    """
    function("mh_sweep_without_rows")(
        position, position.size, slices, prior, context, GeneratorRecord(rng)
    )
