"""Choices by each person's coefficients: draws beside importance sampling of PyMC's density."""

import numpy as np
import pytest

from helpers.models import GROUPED
from law.statistical.budget import VERY_FAR
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.diagnostics.forecast import effective_draws

DRAWS, WEIGHTED, FREEDOM = 40_000, 20_000, 12.0


def drawn(model):
    """Return the factorization, and positions of a chain that moves each coefficient alone."""
    step = TunaMH(model=model, blocks=True, rng=5)
    step.step(model.initial_point())
    step.chain.advance(1_499)
    step.stop_tuning()
    return step.target.factorization, step.chain.advance(DRAWS).positions


def weighted(model, parts, mean, root, rng):
    """Return positions from Student's t around the draws, and their normalised weights."""
    size = len(mean)
    noise = rng.standard_normal((WEIGHTED, size))
    noise /= np.sqrt(rng.chisquare(FREEDOM, (WEIGHTED, 1)) / FREEDOM)
    positions = mean + noise @ root.T
    density, logs = model.compile_logp(), np.empty(WEIGHTED)
    for k, value in enumerate(parts.values(positions)):
        point = {b.name: value[b.start : b.stop].reshape(b.shape) for b in parts.blocks}
        logs[k] = density(point) + parts.log_jacobian(positions[k])
    logs += 0.5 * (FREEDOM + size) * np.log1p((noise**2).sum(axis=1) / FREEDOM)
    weights = np.exp(logs - logs.max())
    return positions, weights / weights.sum()


@pytest.mark.slow
def test_draws_of_choices_are_those_of_the_density():
    model = GROUPED["choices"]()
    parts, draws = drawn(model)
    root = np.linalg.cholesky(np.cov(draws.T))
    positions, weights = weighted(model, parts, draws.mean(axis=0), root, np.random.default_rng(2))
    effective = 1.0 / (weights**2).sum()
    assert effective > 2_000.0
    for power in (1, 2):
        own, others = (x.copy() for x in (draws, positions))
        if power == 2:
            own, others = ((x - draws.mean(axis=0)) ** 2 for x in (draws, positions))
        ess = effective_draws(own[None])
        assert ess.min() > 2_000.0
        mean = weights @ others
        variance = (weights[:, None] ** 2 * (others - mean) ** 2).sum(axis=0)
        error = np.sqrt(variance + own.var(axis=0) / ess)
        far = np.abs(own.mean(axis=0) - mean) / error
        assert far.max() < VERY_FAR, (power, far)
