"""A product of two shares: a posterior along a curved ridge, by quadrature in two dimensions."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import TunaMH

ROWS, EVENTS = 1_000, 300
POINTS, UPDATES = 2_000, 10


def exact_draws(rng, size):
    """Draw p and q, uniform a priori, from the posterior of events with probability p q."""
    # The density of u = p q is the likelihood times |log u|, and p = u^v with v uniform given u.
    u = np.linspace(0.15, 0.45, 300_001)
    density = EVENTS * np.log(u) + (ROWS - EVENTS) * np.log1p(-u) + np.log(-np.log(u))
    weights = np.exp(density - density.max())
    u = rng.choice(u, size, p=weights / weights.sum())
    p = u ** rng.random(size)
    return np.column_stack([p, u / p])


@pytest.mark.slow
def test_updates_leave_the_posterior_of_a_product_of_shares_as_it_is():
    rng = np.random.default_rng(17)
    with pm.Model() as model:
        p, q = pm.Beta("p", 1.0, 1.0), pm.Beta("q", 1.0, 1.0)
        pm.Bernoulli("y", p * q, observed=np.arange(ROWS) < EVENTS)
    step = TunaMH(model=model)
    step.setup_chain(rng, 0, POINTS)
    before = exact_draws(rng, POINTS)
    after = np.empty_like(before)
    for k, shares in enumerate(before):
        logits = np.log(shares / (1.0 - shares))
        step.chain.place(step.target.factorization.positions(logits), step.chain.others)
        step.chain.advance(UPDATES)
        logits = step.target.factorization.values(step.chain.position)
        after[k] = 1.0 / (1.0 + np.exp(-logits))
    assert np.mean(np.any(after != before, axis=1)) > 0.8
    for moment in (lambda x: x, lambda x: x**2, np.log, lambda x: x[:, :1] * x[:, 1:]):
        change = moment(after) - moment(before)
        error = change.std(axis=0) / np.sqrt(POINTS)
        assert (np.abs(change.mean(axis=0)) < 4.5 * error).all()
    # As wide as the posterior is: a chain of some thousands has a tenth of these draws.
    np.testing.assert_allclose(before.std(axis=0), 0.2, atol=0.01)
