"""Sequential tests on growing batches: looks.c, and what Python asks of it."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, dtype_of, function
from pymc_minibatch_mh.native.posterior import Reference


class BatchTest(NamedTuple):
    """A test on growing batches: ``mh_batch_test``."""

    LAYOUT, decide = "mh_batch_test", "mh_decide_by_batches"  # type: ignore[misc]

    #: Its functions, and κ in the predicted variance V = κ M² of a move.
    sample_size: str
    decide_batch: str
    kappa: float
    settings: LaidOut


def batch_test(record: Any) -> BatchTest:
    """Return a test by its settings, whose class names the functions."""
    laid_out = LaidOut(record.LAYOUT, record)
    return BatchTest(record.sample_size, record.decide_batch, record.kappa, laid_out)


def _merged(moments: tuple, name: str, *others: Any) -> tuple[int, float, float, float]:
    merged = np.array([moments], dtype_of("mh_moments"))
    function(name)(merged, *others)
    return merged[0].item()


def merge_moments(
    n: int,
    mean: float,
    second: float,
    third: float,
    m: int,
    other_mean: float,
    other_second: float,
    other_third: float,
) -> tuple[int, float, float, float]:
    """Merge two sets of n, mean, Σ(x - mean)² and Σ(x - mean)³."""
    other = np.array([(m, other_mean, other_second, other_third)], dtype_of("mh_moments"))
    return _merged((n, mean, second, third), "mh_merge_moments", other)


def add_moments(
    n: int, mean: float, second: float, third: float, values: np.ndarray, count: int
) -> tuple[int, float, float, float]:
    """Merge the first `count` of `values` into n, mean and central sums of order 2 and 3."""
    return _merged((n, mean, second, third), "mh_add_moments", values, count)


def unit_noise(reference: Reference, position: np.ndarray, new: np.ndarray) -> float:
    """Return the predicted variance V of two positions for κ = 1."""
    noise = np.empty(1)
    function("mh_unit_noise")(reference, position, new, noise)
    return float(noise[0])


def full_passes_of(
    test: BatchTest,
    reference: Reference,
    moves: np.ndarray,
    total: int,
    limit: float,
    rng: np.random.Generator,
) -> int:
    """Return how many of some moves a test would read all rows for.

    Batches are simulated: of normal noise with the predicted variance, around the log ratio that a
    move has under the Gaussian approximation. `moves` are whitened ends, shape (moves, 2, d); looks
    at `limit` rows or more, of the `total` that are drawn from, read all.
    """
    passes = np.empty(1, np.int64)
    limits = len(moves), moves, total, limit
    function("mh_full_passes_of")(test, reference, *limits, GeneratorRecord(rng), passes)
    return int(passes[0])
