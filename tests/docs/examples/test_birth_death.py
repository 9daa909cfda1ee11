"""The move of variable selection: its density, and that it leaves laws with atoms as they are."""

import numpy as np
import pytest
from scipy.stats import binom, norm

import birth_death
from helpers.zoo import drawn as sampled
from law.statistical.budget import FAR, LEVEL
from pymc_minibatch_mh import CustomProposal, TunaMH

STATE = np.array([0.3, 0.8])
#: Chances to be in, and normal laws of the weights that are.
SHARE = np.array([0.7, 0.4, 0.2])
MEAN, SD = np.array([0.5, -0.4, 0.1]), np.array([0.6, 0.5, 0.9])


def log_target(w):
    """Log-density of independent weights, with respect to atoms at 0 and lengths elsewhere."""
    kept = w != 0.0
    normal = -0.5 * ((w - MEAN) / SD) ** 2 - np.log(SD * np.sqrt(2.0 * np.pi))
    return np.where(kept, np.log(SHARE) + normal, np.log(1.0 - SHARE)).sum()


def log_move(here, there):
    """Log-density of a move, written down from its description alone."""
    changed = np.flatnonzero(here != there)
    if changed.size == 0:
        return 0.0
    (j,) = changed
    kept, size = int((here != 0.0).sum()), here.size
    if here[j] == 0.0:
        return np.log(1 / 3 / (size - kept)) + norm(0.0, STATE[1]).logpdf(there[j])
    if there[j] == 0.0:
        return np.log(1 / 3 / kept)
    return np.log(1 / 3 / kept) + norm(here[j], STATE[0]).logpdf(there[j])


def drawn(rng):
    """Draw from the target, given that a feature is in."""
    while True:
        w = np.where(rng.random(3) < SHARE, MEAN + SD * rng.standard_normal(3), 0.0)
        if w.any():
            return w


def test_the_density_ratio_is_that_of_the_moves():
    rng, new, seen = np.random.default_rng(1), np.empty(3), set()
    for _ in range(400):
        w = drawn(rng)
        log_q = birth_death.birth_death(w, new, rng, STATE, None, None)
        seen.add(int((new != 0.0).sum() - (w != 0.0).sum()))
        assert log_q == pytest.approx(log_move(new, w) - log_move(w, new), abs=1e-12)
        assert new.any()
        assert (new != w).sum() <= 1
    assert seen == {-1, 0, 1}


def surprise(factor):
    """Return the least p-value of chances to be in, and of weights, after some updates."""
    rng, count = np.random.default_rng(2), 6_000
    ends, new = np.empty((count, 3)), np.empty(3)
    for k in range(count):
        w = drawn(rng)
        for _ in range(4):
            log_q = factor * birth_death.birth_death(w, new, rng, STATE, None, None)
            if np.log(rng.random()) < log_target(new) - log_target(w) + log_q:
                w = new.copy()
        ends[k] = w
    chances = SHARE / (1.0 - np.prod(1.0 - SHARE))
    values = []
    for j in range(3):
        kept = ends[ends[:, j] != 0.0, j]
        values += [
            binom.cdf(kept.size, count, chances[j]),
            binom.sf(kept.size - 1, count, chances[j]),
            2.0 * norm.sf(abs(kept.mean() - MEAN[j]) / SD[j] * np.sqrt(kept.size)),
        ]
    return min(values)


def test_a_law_with_atoms_is_left_as_it_is():
    assert surprise(1.0) > LEVEL


@pytest.mark.parametrize("factor", [0.0, -1.0])
def test_a_law_is_not_left_without_the_density_ratio(factor):
    assert surprise(factor) < 1e-9


def test_features_that_matter_are_found():
    model = birth_death.selection(5_000)
    move = CustomProposal(birth_death.birth_death, state=[birth_death.UPDATE, birth_death.BIRTH])
    step = TunaMH(model=model, proposal=move)
    trace = sampled(model, step, 8_000, 4_000, random_seed=1)
    shares = (trace.posterior["w"] != 0.0).mean(("chain", "draw")).to_numpy()
    assert (shares[:3] == 1.0).all()
    # λ = 1e-10 costs a feature 23 nats.
    assert shares[3:].max() < 0.05
    mean = trace.posterior["w"].mean(("chain", "draw")).to_numpy()
    assert np.abs(mean[:3] - 0.6).max() < FAR * 0.045
    assert trace.sample_stats["certified"].all()
