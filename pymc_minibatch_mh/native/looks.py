"""Sequential tests on growing batches: looks.c, and its functions for Python."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, dtype_of, function
from pymc_minibatch_mh.native.posterior import Reference


class BatchTest(NamedTuple):
    """A test on growing batches: ``mh_batch_test``."""

    LAYOUT, decide = "mh_batch_test", "mh_decide_by_batches"  # type: ignore[misc]

    #: Its functions, and κ in the predicted variance V = κ M² of a proposal.
    sample_size: str
    decide_batch: str
    kappa: float
    settings: LaidOut


def batch_test(record: Any) -> BatchTest:
    """Test of a settings record, whose class names the functions."""
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
    """Merged n, mean, Σ(x - mean)² and Σ(x - mean)³ of two samples."""
    other = np.array([(m, other_mean, other_second, other_third)], dtype_of("mh_moments"))
    return _merged((n, mean, second, third), "mh_merge_moments", other)


def add_moments(
    n: int, mean: float, second: float, third: float, values: np.ndarray, count: int
) -> tuple[int, float, float, float]:
    """n, mean and central sums of order 2 and 3, merged with the first `count` of `values`."""
    return _merged((n, mean, second, third), "mh_add_moments", values, count)


def unit_noise(reference: Reference, position: np.ndarray, new: np.ndarray) -> float:
    """Predicted variance V of two positions for κ = 1."""
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
    """Number of proposals for which a test would evaluate the full data.

    Batches are simulated with normal noise of the predicted variance, around the log ratio under
    the Gaussian approximation. `moves` are whitened ends, shape (moves, 2, d); looks at `limit`
    rows or more, of `total` rows without the influential ones, evaluate the full data.
    """
    passes = np.empty(1, np.int64)
    limits = len(moves), moves, total, limit
    function("mh_full_passes_of")(test, reference, *limits, GeneratorRecord(rng), passes)
    return int(passes[0])
