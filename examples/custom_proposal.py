"""A move of one's own: independent draws from a Student-t distribution around the centre.

Where a posterior has heavier tails than its Gaussian approximation, draws from that approximation
seldom reach them, and a chain that is there cannot leave. Draws from a Student-t distribution with
few degrees of freedom do both. The move returns the ratio of its densities, and the test of the
step does the rest, so that the draws are as exact as the step is.

    python examples/custom_proposal.py
"""

from typing import Any

import arviz as az
import numpy as np
import pymc as pm
from numpy.typing import NDArray

from pymc_minibatch_mh import CustomProposal, TunaMH, sample

Vector = NDArray[np.float64]
#: Degrees of freedom, and width in posterior standard deviations, before warm-up.
DEGREES, WIDTH = 6.0, 1.0


def student(
    position: Vector, new: Vector, rng: Any, state: Vector, metric: Any, rows: Any
) -> float:
    """Propose θ' = θ̂ + s L t with t from a multivariate Student-t distribution."""
    size, scale = position.size, state[0]
    stretch = np.sqrt(DEGREES / rng.chisquare(DEGREES))
    white = np.empty(size)
    for i in range(size):
        white[i] = scale * stretch * rng.standard_normal()
    here, there = 0.0, 0.0
    for i in range(size):
        # |L⁻¹(θ - θ̂)|² of the position; the proposal is drawn in these coordinates.
        own = 0.0
        for j in range(i + 1):
            own += metric.whitener[i, j] * (position[j] - metric.centre[j])
        here += (own / scale) ** 2
        there += (white[i] / scale) ** 2
        new[i] = metric.centre[i]
        for j in range(i + 1):
            new[i] += metric.factor[i, j] * white[j]
    # log q(θ) - log q(θ'): the normalising constants cancel.
    log_ratio: float = np.log1p(there / DEGREES) - np.log1p(here / DEGREES)
    return 0.5 * (DEGREES + size) * log_ratio


def widen(state: Vector, acceptance: float) -> None:
    """Widen the distribution while nearly everything is accepted, in warm-up."""
    state[0] = min(max(state[0] * np.exp(acceptance - 0.8), 0.7), 1.5)


def regression(rows: int = 200_000) -> pm.Model:
    """Write a regression with Student-t noise, as any PyMC user would."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1.0, 1.0, rows)
    y = 0.3 + 0.8 * x + 0.5 * rng.standard_t(4.0, rows)
    with pm.Model() as model:
        level, slope = pm.Normal("level", 0.0, 2.0), pm.Normal("slope", 0.0, 2.0)
        scale = pm.HalfNormal("scale", 2.0)
        pm.StudentT("y", nu=4.0, mu=level + slope * x, sigma=scale, observed=y)
    return model


def main() -> None:
    """Sample with the move, and with the moves that a step takes by itself."""
    with regression():
        for proposal in (CustomProposal(student, state=[WIDTH], adapt=widen), "auto"):
            step = TunaMH(proposal=proposal)
            trace = sample(step, 20_000, chains=4, random_seed=1)
            print(step.program.sampler.key["its proposal"])
            print(az.summary(trace)[["mean", "sd", "ess_bulk", "r_hat"]])


if __name__ == "__main__":
    main()
