"""Barker's test as its authors programmed it, which ends earlier than the paper says.

Both of their programmes (``code/simulator.ssc`` of DanielTakeshi/New_MH_Test and ``MHTest.scala``
of BIDData/BIDMach, on GitHub) decide at once where the mean of a batch lies more than five standard
errors from zero, however noisy the batch is. Far from the posterior most batches do.

References
----------
Seita, Pan, Chen, Canny (2017), "An efficient minibatch acceptance test for Metropolis-Hastings",
UAI, doi:10.48550/arXiv.1610.06848.
"""

import math
from typing import Any

from papers.runner import Array
from pymc_minibatch_mh import CustomTestMH
from pymc_minibatch_mh.steps.barker import correction_table

#: Standard errors from zero at which a batch decides at once, and rows of the first batch.
EARLY, BATCH = 5.0, 100
#: Names of the test, and of algorithm 1 of the paper.
PROGRAMMED, WRITTEN = "Barker, as programmed", "Barker, as written"


def sample_size(noise: float, n: int, total: int, numbers: Array) -> int:
    """Read as many rows more as the first batch has."""
    return int(min(n + int(numbers[0]), total))


def decide_batch(
    log_ratio: float,
    variance: float,
    skewness: float,
    n: int,
    total: int,
    uniform: float,
    numbers: Array,
) -> tuple[float, float, float]:
    """Decide early, by a batch of little noise, or read on; `numbers` are those of the step."""
    sigma, size = numbers[1], (len(numbers) - 2) // 2
    if n >= total or abs(log_ratio) > EARLY * math.sqrt(variance):
        accepted = 1.0 if log_ratio > 0.0 else 0.0
        return accepted, accepted, 0.0
    if variance >= sigma**2:
        return -1.0, 0.0, 0.0
    spread, probability = math.sqrt(2.0 * (sigma**2 - variance)), 0.0
    for k in range(size):
        atom, mass = numbers[2 + k], numbers[2 + size + k]
        probability += 0.5 * mass * math.erfc(-(log_ratio + atom) / spread)
    probability = min(probability, 1.0)
    return (1.0 if uniform < probability else 0.0), probability, 0.0


def early_barker(sigma: float = 1.0, **settings: Any) -> CustomTestMH:
    """Return the test as it was programmed, with the settings that every step has."""
    table = correction_table(sigma)
    numbers = [float(BATCH), sigma, *table.atoms, *table.masses]
    controls = "noise of a batch, unless its mean is five standard errors from zero"
    return CustomTestMH(sample_size, decide_batch, controls=controls, numbers=numbers, **settings)
