"""A test of one's own: a batch sized for a given noise, and a penalty for what noise is left.

A batch of b rows estimates the log ratio of a move with a variance of about V (1/b - 1/N). This
test reads as many rows as bring that below a limit, and lowers the log ratio by half of the
variance that the batch itself shows, which balances normal noise of known variance (Ceperley,
Dewing 1999, doi:10.1063/1.478034). It is not exact, and says so; the audit measures by how much.

    python examples/custom_test.py
"""

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from pymc_minibatch_mh import CustomTestMH, audit, sample

Vector = NDArray[np.float64]
#: Standard deviation of the log ratio's noise that a batch is sized for.
LARGEST_NOISE = 0.5
#: Rows of the smallest batch.
FEWEST_ROWS = 50.0


def sample_size(noise: float, n: int, total: int, numbers: Vector) -> int:
    """Return the rows of the one batch: a function of the move alone."""
    limit, fewest = numbers[0] ** 2, numbers[1]
    return int(max(np.ceil(1.0 / (1.0 / total + limit / noise)), fewest))


def decide_batch(
    log_ratio: float,
    variance: float,
    skewness: float,
    n: int,
    total: int,
    uniform: float,
    numbers: Vector,
) -> tuple[float, float, float]:
    """Accept with min(1, exp(log ratio - variance/2)); with all rows the variance is 0."""
    probability = np.exp(min(0.0, log_ratio - 0.5 * variance))
    # A rough guess of the error that a variance estimated from n rows leaves.
    error = variance * variance / (4.0 * n)
    return (1.0 if uniform < probability else 0.0), probability, error


def regression(rows: int = 100_000) -> pm.Model:
    """Write a logistic regression, as any PyMC user would."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((rows, 3))
    y = rng.random(rows) < 1.0 / (1.0 + np.exp(-(x @ [0.4, -0.3, 0.2] - 0.5)))
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, 2.0)
        slopes = pm.Normal("slopes", 0.0, 2.0, shape=3)
        pm.Bernoulli("y", logit_p=level + x @ slopes, observed=y.astype(np.int8))
    return model


def main() -> None:
    """Sample with the test, and measure its error with all rows."""
    with regression() as model:
        step = CustomTestMH(
            sample_size,
            decide_batch,
            numbers=[LARGEST_NOISE, FEWEST_ROWS],
            controls="noise of a batch, kept below half a unit of the log ratio",
        )
        trace = sample(step, 5_000, chains=4, random_seed=1)
        found = audit(trace, step, pairs=100, random_seed=1, model=model)
    rows = float(trace["sample_stats"]["n_obs"].mean())
    print(f"{step}\n{rows:.0f} rows an update")
    for check, (verdict, message) in found.to_dataset().to_dataframe().iterrows():
        print(f"{check}: {verdict}. {message}")


if __name__ == "__main__":
    main()
