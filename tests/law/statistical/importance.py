"""Draws of a step beside PyMC's own density, by importance sampling."""

import numpy as np

from pymc_minibatch_mh import sample

DRAWS, WEIGHTED = 3_000, 3_000


def importance_moments(model, plan, rng):
    """Return mean and standard deviation of value variables, and the effective number of draws."""
    reference, parts = plan.reference, plan.target.factorization
    white = rng.standard_t(7, (WEIGHTED, reference.centre.size))
    positions = reference.centre + white @ reference.factor.T
    density, values = model.compile_logp(), parts.values(positions)
    logs = [
        float(density({b.name: x[b.start : b.stop].reshape(b.shape) for b in parts.blocks}))
        + parts.log_jacobian(position)
        + 4.0 * np.log1p(z**2 / 7.0).sum()
        for x, position, z in zip(values, positions, white, strict=True)
    ]
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    mean = weights @ values
    return mean, np.sqrt(weights @ (values - mean) ** 2), 1.0 / (weights**2).sum()


def assert_draws_follow(model, step):
    """Compare moments of draws with those of the model's density."""
    trace = sample(step, draws=DRAWS, tune=1_500, chains=2, random_seed=4, progressbar=False)
    parts = step.plan.target.factorization
    mean, deviation, effective = importance_moments(model, step.plan, np.random.default_rng(2))
    assert effective > 150.0
    for block, rv in zip(parts.blocks, model.free_RVs, strict=True):
        drawn = trace.posterior[rv.name].to_numpy().reshape(2 * DRAWS, -1)
        if (transform := model.rvs_to_transforms[rv]) is not None:
            drawn = transform.forward(drawn, *rv.owner.inputs).eval()
        place = slice(block.start, block.stop)
        np.testing.assert_allclose(
            drawn.mean(axis=0), mean[place], rtol=0.0, atol=0.25 * deviation[place].max()
        )
        np.testing.assert_allclose(drawn.std(axis=0), deviation[place], rtol=0.2)
