"""Iterations over elements leave posteriors as they are, against quadrature and enumeration."""

from functools import cache
from itertools import combinations

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import expit, log_expit

from helpers.tiers import fast
from law.statistical.budget import VERY_FAR
from pymc_minibatch_mh import FactorizedMH, ScalableSubsamplingMH, TunaMH, TunaPaperMH, sample
from pymc_minibatch_mh.bounds import part_tables
from pymc_minibatch_mh.reference import arrow_search as grouped

GROUPS, ROWS = 4, 6
#: With fewer, rare excursions of effects make standard errors of second moments too small.
DRAWS = 200_000
#: Batches of successive draws of both chains, each far longer than draws are correlated.
BATCHES = 200
_RNG = np.random.default_rng(20_261_126)
GROUP = np.repeat(np.arange(GROUPS), ROWS)
OUTCOME = (_RNG.random(GROUP.size) < expit(0.5 + _RNG.normal(size=GROUPS))[GROUP]).astype(np.int64)


def groups(spelling):
    """Return a model of a few groups: mu, tau and effects that are normal, or have heavy tails."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        if spelling == "two scales":
            tau = pm.Deterministic("tau", pm.math.exp(pm.Normal("s", 0.0, 0.7, shape=2).sum()))
        else:
            tau = pm.HalfNormal("tau", 1.0)
        if spelling == "non-centred":
            z = pm.Normal("z", 0.0, 1.0, shape=GROUPS)
            effect = pm.Deterministic("effect", mu + tau * z)
        elif spelling == "heavy tails":
            effect = pm.StudentT("effect", nu=5.0, mu=mu, sigma=tau, shape=GROUPS)
        else:
            effect = pm.Normal("effect", mu, tau, shape=GROUPS)
        pm.Bernoulli("y", logit_p=effect[GROUP], observed=OUTCOME)
    return model


@cache
def by_quadrature(spelling):
    """Return means and standard deviations of mu, log tau and the effects."""
    shares = (np.arange(800) + 0.5) / 800
    z = (stats.t(5.0) if spelling == "heavy tails" else stats.norm).ppf(shares)
    mu, log_tau = np.linspace(-4.5, 4.5, 73), np.linspace(-12.0, 2.5, 146)
    effect = mu[:, None, None] + np.exp(log_tau)[:, None] * z
    ones = np.bincount(GROUP, OUTCOME)
    value = [np.exp(k * log_expit(effect) + (ROWS - k) * log_expit(-effect)) for k in ones]
    whole = [one.mean(axis=2) for one in value]
    weight = np.prod(whole, axis=0) * stats.norm.pdf(mu)[:, None]
    if spelling == "two scales":
        weight *= stats.norm.pdf(log_tau, 0.0, 0.7 * np.sqrt(2.0))
    else:
        weight *= stats.halfnorm.pdf(np.exp(log_tau)) * np.exp(log_tau)
    weight /= weight.sum()
    found = {"mu": moments(weight, np.broadcast_to(mu[:, None], weight.shape))}
    found["log tau"] = moments(weight, np.broadcast_to(log_tau, weight.shape))
    for g in range(GROUPS):
        first, second = ((value[g] * effect**k).mean(axis=2) / whole[g] for k in (1, 2))
        mean = (weight * first).sum()
        found[f"effect {g}"] = mean, np.sqrt((weight * second).sum() - mean**2)
    return found


def moments(weight, values):
    mean = (weight * values).sum()
    return mean, np.sqrt((weight * (values - mean) ** 2).sum())


def drawn(step, draws):
    """Return draws of mu, log tau and the effects, shape (chains, draws) each."""
    trace = sample(
        step, draws, tune=1_000, chains=2, cores=2, random_seed=3, progressbar=False,
        compute_convergence_checks=False, quiet=True,
    ).posterior  # fmt: skip
    found = {"mu": trace["mu"].values, "log tau": np.log(trace["tau"].values)}
    return found | {f"effect {g}": trace["effect"].values[:, :, g] for g in range(GROUPS)}


def off_by(draws, mean, sd):
    """Return the errors of mean and variance of draws, in standard errors by means of batches."""
    values = ((draws - mean) / sd).reshape(BATCHES, -1)
    return [
        (x.mean() - y) / (x.mean(axis=1).std(ddof=1) / np.sqrt(BATCHES))
        for x, y in ((values, 0.0), (values**2, 1.0))
    ]


METHODS = {
    "TunaMH": (TunaMH, {}, "centred"),
    "paper, delayed": (TunaPaperMH, {"delayed_acceptance": True}, "non-centred"),
    "MH-SS": (ScalableSubsamplingMH, {}, "non-centred"),
    "factorized": (FactorizedMH, {}, "centred"),
    "heavy tails": (TunaMH, {}, "heavy tails"),
    "two scales": (TunaMH, {}, "two scales"),
}


@pytest.mark.parametrize("name", fast(METHODS, ("TunaMH",)))
def test_posterior_of_a_few_groups(name):
    method, settings, spelling = METHODS[name]
    with groups(spelling):
        step = method(blocks=True, observed=["y"], full_pass_above=np.inf, **settings)
    assert step.plan.elements is not None
    assert step.exactness.startswith("exact given valid bounds")
    found, exact = drawn(step, DRAWS), by_quadrature(spelling)
    errors = {key: off_by(found[key], *exact[key]) for key in exact}
    assert max(abs(x) for pair in errors.values() for x in pair) < VERY_FAR, errors


#: Standard deviation of effects beside an intercept and a slope, and the slope's covariate.
SPREAD, X = 0.8, _RNG.normal(size=GROUP.size)


def by_grid():
    """Return means and standard deviations of intercept, slope and effects."""
    z = np.linspace(-6.0 * SPREAD, 6.0 * SPREAD, 61)
    prior = stats.norm.pdf(z, 0.0, SPREAD) * (z[1] - z[0])
    b = np.linspace(-4.0, 4.0, 61)
    line = b[:, None, None] + b[:, None] * X
    chance = log_expit((2 * OUTCOME - 1) * (line[..., None, :] + z[:, None]))
    value = [np.exp(chance[..., g == GROUP].sum(axis=-1)) * prior for g in range(GROUPS)]
    whole = [one.sum(axis=2) for one in value]
    weight = np.prod(whole, axis=0) * np.multiply.outer(*2 * [stats.norm.pdf(b)])
    weight /= weight.sum()
    found = [moments(weight, np.broadcast_to(x, weight.shape)) for x in (b[:, None], b)]
    for own, all_of_it in zip(value, whole, strict=True):
        first, second = ((weight * (own * z**k).sum(axis=2) / all_of_it).sum() for k in (1, 2))
        found.append((first, np.sqrt(second - first**2)))
    return found


def regression(radius):
    """Return a step on intercept, slope and effects, with a radius in standard deviations.

    The rows are few for an intercept and a slope, which often propose rows of groups that are read
    in full.
    """
    with pytest.MonkeyPatch.context() as changed, pm.Model():
        changed.setattr(part_tables, "ELEMENT_RADIUS", radius)
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        effect = pm.Normal("effect", 0.0, SPREAD, shape=GROUPS)
        pm.Bernoulli("y", logit_p=b[0] + b[1] * X + effect[GROUP], observed=OUTCOME)
        return TunaMH(blocks=True, observed=["y"], full_pass_above=np.inf)


def test_rows_that_are_read_in_full_are_not_drawn_as_well():
    """All groups are beyond their radii at all times: each test reads every row once."""
    step = regression(1e-9)
    step.setup_chain(np.random.default_rng(3), 0, 0)
    step.chain.place(step.plan.reference.centre.copy(), np.empty(0))
    # The first iteration starts at the centre, where bounds hold.
    step.chain.advance(1)
    counts = step.chain.advance(2_000).counts
    assert counts["n_candidates"].sum() > 100.0
    np.testing.assert_array_equal(counts["n_obs"], GROUP.size * counts["n_looks"])


@pytest.mark.slow
def test_posterior_where_groups_are_often_read_in_full():
    """Radii of one standard deviation have every third group read in full at each move."""
    step = regression(1.0)
    trace = sample(
        step, DRAWS, tune=1_000, chains=2, cores=2, random_seed=3, progressbar=False,
        compute_convergence_checks=False, quiet=True,
    )  # fmt: skip
    assert trace.sample_stats.n_groups_in_full.mean() > 1.0
    drawn = np.concatenate([trace.posterior[k].values for k in ("b", "effect")], axis=2)
    errors = [off_by(drawn[:, :, k], *exact) for k, exact in enumerate(by_grid())]
    assert np.abs(errors).max() < VERY_FAR, errors


def off_the_closed_form(step, mean, covariance, names):
    """Return the errors of first and second moments, in coordinates in which they are white."""
    trace = sample(
        step, DRAWS, tune=500, chains=2, random_seed=5, progressbar=False, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip
    assert trace.sample_stats.n_obs.mean() < 1.0
    draws = [trace.posterior[k].values.reshape(2, DRAWS, -1) for k in names]
    white = (np.concatenate(draws, axis=2) - mean) @ np.linalg.inv(np.linalg.cholesky(covariance)).T
    errors = [x for k in range(mean.size) for x in off_by(white[:, :, k], 0.0, 1.0)]
    pairs = combinations(range(mean.size), 2)
    errors += [off_by(white[:, :, k] * white[:, :, j], 0.0, 1.0)[0] for k, j in pairs]
    return np.array(errors)


@pytest.mark.parametrize("correlation", fast([grouped.SLOW, 0.0], [grouped.SLOW]))
def test_posterior_of_crossed_gaussian_rows(monkeypatch, correlation):
    """No third derivative: priors, expansions and cells alone decide, and the law is known.

    At no least correlation of factors, their elements move along directions as well.
    """
    monkeypatch.setattr(grouped, "SLOW", correlation)
    rng, n, sizes = np.random.default_rng(4), 1_000, (6, 4)
    ids = [rng.integers(0, size, n) for size in sizes]
    # Groups of very different x: effects respond to the slope, and their prior resists.
    x = rng.normal(size=n) + 2.0 * (ids[0] - 2.5)
    effects = [rng.normal(size=size)[k] for k, size in zip(ids, sizes, strict=True)]
    y = 0.3 * x + 3.0 * rng.normal(size=n) + sum(effects)
    with pm.Model():
        b = pm.Normal("b", 0.0, 1.0)
        u, v = pm.Normal("u", 0.0, 0.8, shape=sizes[0]), pm.Normal("v", 0.0, 0.5, shape=sizes[1])
        pm.Normal("y", b * x + u[ids[0]] + v[ids[1]], 3.0, observed=y)
        step = TunaMH(blocks=True)
    assert (len(step.plan.elements.along) > 3) == (correlation == 0.0)
    design = np.column_stack([x, *(np.eye(size)[k] for k, size in zip(ids, sizes, strict=True))])
    prior = np.repeat([1.0, 0.8, 0.5], [1, *sizes]) ** -2.0
    covariance = np.linalg.inv(design.T @ design / 9.0 + np.diag(prior))
    errors = off_the_closed_form(step, covariance @ design.T @ y / 9.0, covariance, ("b", "u", "v"))
    assert np.abs(errors).max() < VERY_FAR, errors


# Its prior compiles for longest of all.
@pytest.mark.slow
def test_posterior_of_correlated_gaussian_effects():
    """Intercepts and slopes that the prior couples, around a location that rows do not read.

    Beside them rows read a level that is theirs as well.
    """
    rng, n, size = np.random.default_rng(6), 60, 5
    g, x = rng.integers(0, size, n), rng.normal(size=n)
    own = np.array([[1.0, 0.8], [0.8, 1.2]])
    y = 0.5 * rng.normal(size=size)[g] + 2.0 * rng.normal(size=n)
    with pm.Model():
        mu, level = pm.Normal("mu", 0.0, 1.0, shape=2), pm.Normal("level", 0.0, 1.0)
        effect = pm.MvNormal("effect", mu, own, shape=(size, 2))
        pm.Normal("y", level + effect[g, 0] + effect[g, 1] * x, 2.0, observed=y)
        step = TunaMH(blocks=True, observed=["y"])
    group = np.eye(size)[g]
    read = np.stack([group, group * x[:, None]], axis=2).reshape(n, -1)
    design = np.concatenate([np.ones((n, 1)), np.zeros((n, 2)), read], axis=1)
    around = np.concatenate([np.zeros((2, 1)), np.eye(2)], axis=1)
    away = np.concatenate([-np.tile(around, (size, 1)), np.eye(2 * size)], axis=1)
    prior = away.T @ np.kron(np.eye(size), np.linalg.inv(own)) @ away
    prior[:3, :3] += np.eye(3)
    covariance = np.linalg.inv(design.T @ design / 4.0 + prior)
    errors = off_the_closed_form(
        step, covariance @ design.T @ y / 4.0, covariance, ("level", "mu", "effect")
    )
    assert np.abs(errors).max() < VERY_FAR, errors


def contests(rows):
    """Return three teams, which of them play in each row, and who is at home there."""
    rng = np.random.default_rng(9)
    home = rng.integers(0, 3, rows)
    return home, (home + rng.integers(1, 3, rows)) % 3, rng


@pytest.mark.slow
def test_posterior_of_gaussian_contests():
    """Rows read two of the same effects, beside those of another factor and a slope."""
    (home, away, rng), size = contests(60), 4
    ground, x = rng.integers(0, size, home.size), rng.normal(size=home.size)
    y = 0.5 * x + 2.0 * rng.normal(size=home.size)
    with pm.Model():
        b, skill = pm.Normal("b", 0.0, 1.0), pm.Normal("skill", 0.0, 0.7, shape=3)
        effect = pm.Normal("effect", 0.0, 0.8, shape=size)
        pm.Normal("y", b * x + skill[home] - skill[away] + effect[ground], 2.0, observed=y)
        step = TunaMH(blocks=True, observed=["y"])
    teams = np.eye(3)
    design = np.column_stack([x, teams[home] - teams[away], np.eye(size)[ground]])
    prior = np.repeat([1.0, 0.7, 0.8], [1, 3, size]) ** -2.0
    covariance = np.linalg.inv(design.T @ design / 4.0 + np.diag(prior))
    mean = covariance @ design.T @ y / 4.0
    errors = off_the_closed_form(step, mean, covariance, ("b", "skill", "effect"))
    assert np.abs(errors).max() < VERY_FAR, errors


@pytest.mark.slow
@pytest.mark.parametrize("radius", [part_tables.ELEMENT_RADIUS, 1.5])
def test_posterior_of_contests(monkeypatch, radius):
    """At radii of a standard deviation and a half, matches of a team are often all read."""
    monkeypatch.setattr(part_tables, "ELEMENT_RADIUS", radius)
    home, away, rng = contests(24)
    won = (rng.random(home.size) < expit(np.array([0.8, 0.0, -0.8])[home])).astype(np.int64)
    with pm.Model():
        skill = pm.Normal("skill", 0.0, 1.0, shape=3)
        pm.Bernoulli("y", logit_p=skill[home] - skill[away], observed=won)
        step = TunaMH(blocks=True, observed=["y"], full_pass_above=np.inf)
    z = np.meshgrid(*3 * [np.linspace(-6.0, 6.0, 81)], indexing="ij")
    gaps = [z[h] - z[a] for h, a in zip(home, away, strict=True)]
    density = sum(log_expit((2 * k - 1) * gap) for k, gap in zip(won, gaps, strict=True))
    weight = np.exp(density - 0.5 * sum(one**2 for one in z))
    trace = sample(
        step, DRAWS, tune=1_000, chains=2, cores=2, random_seed=3, progressbar=False,
        compute_convergence_checks=False, quiet=True,
    )  # fmt: skip
    assert (trace.sample_stats.n_groups_in_full.mean() > 0.3) == (radius < 2.0)
    draws, weight = trace.posterior["skill"].values, weight / weight.sum()
    errors = [off_by(draws[:, :, k], *moments(weight, z[k])) for k in range(3)]
    assert np.abs(errors).max() < VERY_FAR, errors
