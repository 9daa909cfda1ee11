"""The estimate of the bias agrees with that of a chain whose stationary law is enumerated."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import norm, t

from pymc_minibatch_mh.diagnostics.bias import as_normal, bias_of, errors_of

STATES = np.arange(-4, 5)
LOG_DENSITY = -0.16 * STATES**2 - 0.08 * STATES
STEPS = np.array([-2, -1, 1, 2])
CHAINS, DRAWS = 200, 500
#: Relative error that the part of Poisson's equation beyond the moment itself may make.
BEYOND = 0.15


def metropolis(here, there):
    return np.minimum(1.0, np.exp(LOG_DENSITY[there] - LOG_DENSITY[here]))


def reluctant_upwards(here, there):
    return metropolis(here, there) * np.where(there > here, 0.88, 1.0)


def wary_of_the_tails(here, there):
    return metropolis(here, there) * np.where(
        np.abs(STATES[there]) > np.abs(STATES[here]), 0.72, 1.0
    )


def lazy(here, there):
    """Reversible, but neither Metropolis' test nor Barker's."""
    return 0.5 * metropolis(here, there)


def transition(accept):
    size = STATES.size
    matrix = np.zeros((size, size))
    for here in range(size):
        for step in STEPS:
            if 0 <= here + step < size:
                matrix[here, here + step] = accept(here, here + step) / STEPS.size
        matrix[here, here] = 1.0 - matrix[here].sum()
    return matrix


def stationary(matrix):
    values, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmax(np.real(values))])
    return law / law.sum()


def true_bias(accept):
    """Return the bias of the mean and half that of the variance, relative to the biased law."""
    moments = []
    for law in (stationary(transition(accept)), np.exp(LOG_DENSITY) / np.exp(LOG_DENSITY).sum()):
        mean = law @ STATES
        moments.append((mean, law @ (STATES - mean) ** 2))
    (mean, variance), (exact_mean, exact_variance) = moments
    return (mean - exact_mean) / np.sqrt(variance), (variance - exact_variance) / (2.0 * variance)


def simulated(accept, updates_per_draw, rng):
    """Return draws as places among the states, shape (chain, draw)."""
    cumulative = np.cumsum(transition(accept), axis=1)
    place = rng.choice(STATES.size, size=CHAINS, p=stationary(transition(accept)))
    draws = []
    for _ in range(DRAWS):
        for _ in range(updates_per_draw):
            place = (rng.random(CHAINS)[:, None] > cumulative[place]).sum(axis=1)
        draws.append(place)
    return np.array(draws).T


def measured(accept, places, rng):
    here = places.ravel()
    there = here + rng.choice(STEPS, size=here.size)
    inside = (there >= 0) & (there < STATES.size)
    there = np.clip(there, 0, STATES.size - 1)
    there_and_back = [
        np.where(inside, accept(*ends), 0.0) for ends in ((here, there), (there, here))
    ]
    pairs = {
        "position": STATES[here].astype(float)[:, None],
        "proposal": STATES[there].astype(float)[:, None],
        **dict(zip(("acceptance", "acceptance_back"), there_and_back, strict=True)),
        **dict.fromkeys(("acceptance_mcse", "acceptance_back_mcse"), np.zeros(here.size)),
        "log_ratio": np.where(inside, LOG_DENSITY[there] - LOG_DENSITY[here], -np.inf),
    }
    return xr.Dataset(
        {name: (("pair", "dimension")[: x.ndim], x) for name, x in pairs.items()},
        {"dimension": ["state"]},
    )


def estimate(accept, k, told=None, errors=errors_of):
    rng = np.random.default_rng(90 + k)
    places = simulated(accept, k, rng)
    draws, pairs = STATES[places][..., None].astype(float), measured(accept, places, rng)
    return bias_of(draws, pairs.assign(errors(pairs)), 0, k if told is None else told)


def worst_gap(found, truth):
    """Return how far estimates are off, in what they may be off."""
    allowed = 3.0 * found["bias_mcse"].to_numpy()[:, 0] + BEYOND * np.abs(truth)
    return np.max(np.abs(found["bias"].to_numpy()[:, 0] - truth) / allowed)


@pytest.mark.parametrize("accept", [reluctant_upwards, wary_of_the_tails])
@pytest.mark.parametrize("k", [1, 4])
def test_estimates_are_those_of_the_enumerated_chain(accept, k):
    found, truth = estimate(accept, k), np.array(true_bias(accept))
    assert np.abs(truth).max() > 0.1
    assert found["bias_mcse"].max() < 0.02
    assert worst_gap(found, truth) < 1.0
    assert (found["bias_bound"] >= np.abs(found["bias"])).all()
    assert np.abs(found["drift"]).max() < 4.0


@pytest.mark.parametrize("accept", [metropolis, lazy])
def test_a_reversible_test_has_no_bias_whatever_it_accepts(accept):
    found = estimate(accept, 1)
    np.testing.assert_allclose(found["bias"], 0.0, atol=1e-12)
    np.testing.assert_allclose(found["bias_bound"], 0.0, atol=1e-12)


def test_draws_of_another_law_drift():
    rng = np.random.default_rng(95)
    places = rng.choice(STATES.size, size=(CHAINS, DRAWS))
    draws = STATES[places][..., None].astype(float)
    pairs = measured(metropolis, places, rng)
    found = bias_of(draws, pairs.assign(errors_of(pairs)), 0, 1)
    assert np.abs(found["drift"]).max() > 10.0


def test_few_effective_pairs_drift_by_chance_as_students_t_tells():
    for freedom in (2.0, 9.0, 1e6):
        quantiles = t.ppf([0.0005, 0.3, 0.9995], freedom)
        np.testing.assert_allclose(as_normal(quantiles, freedom), norm.ppf([0.0005, 0.3, 0.9995]))
    assert np.isfinite(as_normal(np.array([-1e9, 1e9]), 200.0)).all()
