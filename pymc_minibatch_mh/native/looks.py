"""Sequential tests on growing minibatches: looks.c, and its functions for Python."""

from typing import Any, NamedTuple

import numpy as np

from pymc_minibatch_mh.native.library import GeneratorRecord, LaidOut, dtype_of, function
from pymc_minibatch_mh.native.posterior import Reference


class BatchTest(NamedTuple):
    """A sequential test on growing minibatches: ``mh_batch_test``."""

    LAYOUT, decide = "mh_batch_test", "mh_decide_by_batches"  # type: ignore[misc]

    #: Names of its C functions, and κ in the predicted variance V = κ M² of a proposal.
    sample_size: str
    decide_batch: str
    kappa: float
    settings: LaidOut


def batch_test(record: Any) -> BatchTest:
    """Test with a record of settings, whose class names the C record and its functions."""
    laid_out = LaidOut(record.LAYOUT, record)
    return BatchTest(record.sample_size, record.decide_batch, record.kappa, laid_out)


def rows_of_penalty(noise: float, total: int, least: int = 100) -> int:
    """Size of a batch of the penalty test, for a variance `noise` of N times a row's change."""
    return int(function("mh_rows_of_penalty")(float(noise), total, least))


def merge_moments(moments: tuple, others: tuple) -> tuple[int, float, float, float]:
    """n, mean, Σ(x - mean)² and Σ(x - mean)³ of two samples, merged."""
    merged, other = np.array([moments, others], dtype_of("mh_moments"))[:, None]
    function("mh_merge_moments")(merged, other)
    return merged[0].item()


def moments_of(values: np.ndarray) -> tuple[int, float, float, float]:
    """n, mean, Σ(x - mean)² and Σ(x - mean)³ of some values x."""
    moments = np.zeros(1, dtype_of("mh_moments"))
    function("mh_add_moments")(moments, values, values.size)
    return moments[0].item()


def unit_noise(reference: Reference, position: np.ndarray, new: np.ndarray) -> float:
    """Predicted variance V of a proposal between two positions, for κ = 1."""
    noise = np.empty(1)
    function("mh_unit_noise")(reference, position, new, noise)
    return float(noise[0])


def full_passes_of(
    test: BatchTest,
    reference: Reference,
    moves: np.ndarray,
    limits: tuple[int, float],
    rng: np.random.Generator,
) -> int:
    """Simulated number of `moves`, whitened ends (n, 2, d), that need a full-data evaluation."""
    passes, inputs = np.empty(1, np.int64), (len(moves), moves, *limits, GeneratorRecord(rng))
    function("mh_full_passes_of")(test, reference, *inputs, passes)
    return int(passes[0])
