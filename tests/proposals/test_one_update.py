"""One update by skewed and by heavy-tailed proposals, from exact draws of a posterior."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import log_expit
from scipy.stats import cauchy, chisquare, norm

from helpers.ends import GROUPS, NOISE, background_beside_groups, background_data
from law.statistical.budget import FAR, LEVEL
from proposals.proposing import CENTRE, FACTOR, gaussian, proposed, proposed_for
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.native.library import LaidOut
from pymc_minibatch_mh.proposals import mixture
from pymc_minibatch_mh.proposals.mixture import MixtureNumbers, TailedNumbers

ROWS, EVENTS = 1_000, 4
GRID = np.linspace(-40.0, 4_000.0, 2_000_001)
WALK = MixtureNumbers(0.7, np.array([1.0, 0.0]), np.array([0.0]))


def rare_events():
    """Return a logistic regression with an intercept and one event, and its log posterior."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 5.0)
        pm.Bernoulli("y", logit_p=a + np.zeros(ROWS), observed=np.arange(ROWS) < 1)
    rows = GRID - ROWS * np.logaddexp(0.0, GRID)
    return model, rows + norm.logpdf(GRID, 0.0, 5.0)


def separated():
    """Return a regression on rare rows, all of them events, and its log posterior."""
    rare = np.arange(ROWS) < EVENTS
    with pm.Model() as model:
        line = pm.Cauchy("b", 0.0, 2.5) * rare
        pm.Bernoulli("y", logit_p=line, observed=rare | (np.arange(ROWS) % 2 == 0))
    return model, EVENTS * log_expit(GRID) + cauchy.logpdf(GRID, 0.0, 2.5)


@pytest.mark.parametrize("define", [rare_events, separated])
def test_one_update_leaves_the_posterior_as_it_is(define, monkeypatch):
    # So that half of the updates try it.
    monkeypatch.setattr(mixture, "TAIL_WEIGHT", 0.5)
    model, logs = define()
    with model:
        step = TunaMH()
    assert (step.plan.skew_map is None) == (define is separated)
    assert list(step.plan.heavy_tails) == ["b"] * (define is separated)
    below = np.cumsum(np.exp(logs - logs.max()))
    below /= below[-1]
    rng = np.random.default_rng(5)
    chain, moved = Chain(step.program, rng, adapting=False), np.empty(20_000)
    for k, start in enumerate(np.interp(rng.random(moved.size), below, GRID)):
        chain.place(np.array([start]), chain.others)
        moved[k] = chain.advance(1).positions[0, 0]
    shares = np.linspace(0.0, 1.0, 21)
    edges = np.interp(shares[1:-1], below, GRID)
    counts = np.bincount(np.searchsorted(edges, moved), minlength=20)
    assert chain.state.n_accepted > 0.3 * moved.size
    assert chisquare(counts).pvalue > LEVEL


def drawn_from(grid, logs, rng, count):
    below = np.cumsum(np.exp(logs - logs.max()))
    return np.interp(rng.random(count), below / below[-1], grid), below / below[-1]


@pytest.mark.slow
def test_one_update_given_scales_leaves_a_truncated_coordinate_as_it_is():
    model, means = background_beside_groups()
    with model:
        step = TunaMH()
    parts, tables = step.target.factorization, step.plan.scale_conditional
    names = parts.coordinate_names
    assert [names[k] for k in tables.truncated.places] == ["u_log__"]
    rng, count = np.random.default_rng(9), 8_000
    rates, y = background_data(ROWS, 0.02)
    u = np.linspace(1e-6, 0.5, 5_001)
    log_u = (y[:, None] * np.log(u + rates[:, None])).sum(axis=0) - ROWS * u - 0.5 * u**2
    log_tau, error = np.linspace(-9.0, 2.0, 5_001), NOISE**2 * GROUPS / ROWS
    tau = np.exp(log_tau)
    own = norm.logpdf(means, 0.0, np.sqrt(tau[:, None] ** 2 + error)).sum(axis=1)
    starts, below = zip(
        drawn_from(u, log_u, rng, count),
        drawn_from(log_tau, own - 0.5 * tau**2 + log_tau, rng, count),
        strict=True,
    )
    shrunk = np.exp(2.0 * starts[1]) / (np.exp(2.0 * starts[1]) + error)
    effects = shrunk[:, None] * means
    effects += np.sqrt(shrunk * error)[:, None] * rng.standard_normal((count, GROUPS))
    order = [names.index(name) for name in ("u_log__", "tau_log__")]
    places = np.empty((count, len(names)))
    places[:, order] = np.column_stack(starts)
    places[:, np.setdiff1d(range(len(names)), order)] = effects
    chain, moved = Chain(step.program, rng, adapting=False), np.empty_like(places)
    for k, place in enumerate(places):
        chain.place(place, chain.others)
        moved[k] = chain.advance(1).positions[0]
    assert chain.state.n_accepted > 0.3 * count
    for column, grid, masses in zip(order, (u, log_tau), below, strict=True):
        edges = np.interp(np.linspace(0.0, 1.0, 17)[1:-1], masses, grid)
        counts = np.bincount(np.searchsorted(edges, moved[:, column]), minlength=16)
        assert chisquare(counts).pvalue > LEVEL


def tailed(weight=1.0, size=3, heavy=(1, 2)):
    directions = FACTOR[list(heavy), :size] / np.linalg.norm(FACTOR[list(heavy)], axis=1)[:, None]
    return TailedNumbers(weight, directions, WALK.propose, LaidOut(WALK.LAYOUT, WALK))


def log_density(position, direction):
    """Cauchy's distribution along a whitened direction, and the normal one across."""
    white = np.linalg.solve(FACTOR, position - CENTRE)
    along = direction @ white
    return -0.5 * (white @ white - along**2) - np.log1p(along**2)


@pytest.mark.parametrize("heavy", [0, 1, 2])
def test_density_ratio_is_that_of_the_draws(heavy):
    own, rng = tailed(heavy=(heavy,)), np.random.default_rng(3)
    positions = CENTRE + 3.0 * rng.standard_normal((40, 3))
    new, log_q, components = proposed(positions, own, rng)
    assert (components == -1).all()
    for here, there, found in zip(positions, new, log_q, strict=True):
        expected = log_density(here, own.directions[0]) - log_density(there, own.directions[0])
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_draws_are_normal_across_and_have_heavy_tails_along_a_coordinate():
    count, rng = 10_000, np.random.default_rng(4)
    own = tailed(heavy=(1,))
    new, _, _ = proposed(np.tile(CENTRE, (count, 1)), own, rng)
    standard = (new[:, 1] - CENTRE[1]) / np.linalg.norm(FACTOR[1])
    for quantile in (-6.0, -1.0, 0.0, 1.0, 6.0):
        share = cauchy.cdf(quantile)
        error = np.sqrt(share * (1.0 - share) / count)
        assert abs(np.mean(standard <= quantile) - share) < FAR * error
    white = np.linalg.solve(FACTOR, (new - CENTRE).T)
    across = white - np.outer(own.directions[0], own.directions[0] @ white)
    assert abs(np.sum(across**2) / count - 2.0) < FAR * np.sqrt(4.0 / count)


def test_the_tail_has_its_weight_and_its_directions_have_equal_shares():
    count, rng = 4_000, np.random.default_rng(6)
    _, _, components = proposed(np.tile(CENTRE, (count, 1)), tailed(0.2), rng)
    assert abs(np.mean(components == -1) - 0.2) < FAR * np.sqrt(0.16 / count)
    own = tailed()
    new, log_q, _ = proposed(np.tile(CENTRE, (count, 1)), own, rng)
    expected = log_density(CENTRE, own.directions[0])
    expected -= np.array([log_density(place, own.directions[0]) for place in new])
    first = np.isclose(log_q, expected, rtol=1e-9, atol=1e-9)
    assert abs(np.mean(first) - 0.5) < FAR * np.sqrt(0.25 / count)


def test_coordinates_of_other_steps_stay():
    own, rng = tailed(heavy=(2,)), np.random.default_rng(7)
    directions = np.array([[0.0, *own.directions[0, 1:]]])
    own = own._replace(directions=directions / np.linalg.norm(directions))
    positions = CENTRE + rng.standard_normal((20, 3))
    new, log_q, _ = proposed_for(gaussian(1), positions, own, rng)
    np.testing.assert_array_equal(new[:, 0], positions[:, 0])
    for here, there, found in zip(positions, new, log_q, strict=True):
        expected = log_density(here, own.directions[0]) - log_density(there, own.directions[0])
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)
