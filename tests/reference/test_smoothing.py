"""A centre between mode and mean, and one without curvature."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from helpers.grouped import target_of
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.errors import ModeError
from pymc_minibatch_mh.reference import full_data
from pymc_minibatch_mh.reference.density import Density
from pymc_minibatch_mh.reference.few_rows import has_kinks_between_lines
from pymc_minibatch_mh.reference.marginal import mode_near_mean
from pymc_minibatch_mh.reference.mode import find_centre, find_mode
from pymc_minibatch_mh.reference.smoothing import find_smoothed
from reference.formulas import derivatives, logistic_passes, quadratic

N, SIZE = 600, 5
NAMES = [f"b[{k}]" for k in range(SIZE)]
RNG = np.random.default_rng(33)
X = np.column_stack([np.ones(N), RNG.normal(size=(N, SIZE - 1))])
# Rare events: the posterior of the intercept is skewed.
y = RNG.random(N) < expit(X @ [-3.0, 0.8, -0.5, 0.4, 0.3])


@pytest.fixture(scope="module")
def skewed():
    passes = logistic_passes(X, y, np.full(SIZE, 0.1))
    return passes, find_mode(Density(passes, NAMES, 1.0), np.zeros(SIZE), np.random.default_rng(0))


def mean_by_importance(passes, mode):
    """Return the posterior mean, in standard deviations from the mode."""
    factor = np.linalg.inv(np.linalg.cholesky(mode.precision)).T
    noise = np.random.default_rng(1).standard_normal((8_000, SIZE))
    noise = np.concatenate([noise, -noise])
    eta = X @ (mode.position[:, None] + factor @ noise.T)
    values = -np.logaddexp(0.0, np.where(y, -1.0, 1.0)[:, None] * eta).sum(axis=0)
    theta = mode.position + noise @ factor.T
    values -= 0.05 * (theta**2).sum(axis=1)
    weights = np.exp(values + 0.5 * (noise**2).sum(axis=1) - values.max())
    return (weights[:, None] * noise).sum(axis=0) / weights.sum()


def in_deviations(mode, position):
    return np.linalg.cholesky(mode.precision).T @ (position - mode.position)


def test_the_centre_moves_most_of_the_way_to_the_mean(skewed):
    passes, mode = skewed
    mean = mean_by_importance(passes, mode)
    assert np.linalg.norm(mean) > 0.2
    moved = in_deviations(
        mode, mode_near_mean(passes, mode, 1.0, np.random.default_rng(2)).position
    )
    assert np.linalg.norm(moved - mean) < 0.35 * np.linalg.norm(mean)


def test_a_wide_prior_tilts_as_a_narrow_one_does(monkeypatch):
    """By gradients, of which there is one for each coordinate and not for each pair."""
    with pm.Model() as model:
        tau = pm.Gamma("tau", 3.0, 2.0)
        effect = pm.StudentT("effect", nu=5.0, mu=0.3, sigma=tau, shape=4)
        pm.Normal("y", effect[np.arange(1_200) % 4], 1.0, observed=np.zeros(1_200))
    target = target_of(model)
    theta, factor = 0.3 * RNG.standard_normal(5), 0.01 * RNG.standard_normal((5, 5))
    expected = target.full_data.skewness_of_prior(theta, factor)
    monkeypatch.setattr(full_data, "MAX_ENTRIES", 4)
    found = target.full_data.skewness_of_prior(theta, factor)
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())


class Kinked:
    """A median regression, whose Hessian is zero wherever there is one."""

    def __init__(self, n_rows=2_000):
        rng = np.random.default_rng(3)
        self.n_rows, self.cheap_hessian, self.logs = n_rows, False, np.arange(0)
        self.X = np.column_stack([np.ones(n_rows), rng.uniform(-1, 1, n_rows)])
        self.y = self.X @ [0.4, 0.8] + rng.laplace(size=n_rows)

    def likelihood(self, theta, *, hessian, rows=None):
        chosen = slice(None) if rows is None else rows
        gap = self.y[chosen] - self.X[chosen] @ theta
        gradient = np.sign(gap) @ self.X[chosen]
        return derivatives(-np.abs(gap).sum(), gradient, np.zeros((2, 2)), hessian=hessian)

    def prior(self, theta, *, hessian):
        return quadratic(np.zeros(2), 0.04 * np.eye(2), theta, hessian=hessian)


def test_scores_give_a_kinked_posterior_its_scale():
    passes = Kinked()
    with pytest.raises(ModeError):
        find_mode(Density(passes, ["a", "b"], 1.0), np.zeros(2), np.random.default_rng(0))
    found = find_centre(Density(passes, ["a", "b"], 1.0), np.zeros(2), np.random.default_rng(0))
    truth = passes.X.T @ passes.X
    np.testing.assert_allclose(found.precision, truth, rtol=0.3, atol=0.15 * passes.n_rows)
    assert np.abs(found.position - [0.4, 0.8]).max() < 0.2


def test_rows_that_all_pull_one_way_have_no_scale():
    passes = Kinked()
    passes.y = passes.y + 1e6
    passes.prior = lambda theta, *, hessian: quadratic(
        np.zeros(2), np.zeros((2, 2)), theta, hessian=hessian
    )
    passes.X = np.column_stack([np.ones(passes.n_rows), np.zeros(passes.n_rows)])
    with pytest.raises(ModeError, match=r"^'a', 'b': no scale was found.*proper, informative"):
        find_centre(Density(passes, ["a", "b"], 1.0), np.zeros(2), np.random.default_rng(0))


def test_kinks_in_many_coordinates_are_refused_at_once():
    names = [f"effect[{k}]" for k in range(200)]
    with pytest.raises(
        ModeError, match=r"^'effect\[0\]'.*an average along each of 200 coordinates"
    ):
        find_smoothed(Density(Kinked(), names, 1.0), np.zeros(200), np.random.default_rng(0))


def test_a_scale_of_effects_with_kinked_observations_is_at_its_marginal_mode():
    """The joint mode is at a scale of 0."""
    rng = np.random.default_rng(5)
    group, truth = rng.integers(0, 40, 8_000), 0.5 * rng.standard_normal(40)
    median = truth[group]
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 2.0)
        effect = pm.Normal("effect", pm.Normal("mu", 0.0, 2.0), tau, shape=40)
        pm.Laplace("y", effect[group], 1.0, observed=median + rng.laplace(size=8_000))
    target = target_of(model)
    mode = target.mode(np.zeros(42), rng)
    scale = target.factorization.coordinate_names.index("tau_log__")
    assert mode.marginal == (scale,)
    assert np.exp(mode.position[scale]) == pytest.approx(truth.std(ddof=1), rel=0.15)
    deviation = np.linalg.inv(mode.precision)[scale, scale] ** 0.5
    assert deviation == pytest.approx(1.0 / np.sqrt(2.0 * 39.0), rel=0.2)


def quantile_of_groups(response, groups):
    pm.AsymmetricLaplace(
        "y", q=0.9, mu=pm.Normal("z", shape=groups)[response.group], b=1.0, observed=response.y
    )


def elastic_of_groups(response, groups):
    """Declare kinks between curves."""
    rest = response.y - pm.Normal("z", shape=groups)[response.group]
    pm.Potential("y", -(pm.math.abs(rest) + rest**2).sum())


def quantile_of_one(response, groups):
    pm.AsymmetricLaplace("y", q=0.9, mu=pm.Normal("z"), b=1.0, observed=response.y)


class Response:
    def __init__(self, groups):
        self.group = np.arange(5 * groups) % groups
        self.y = np.random.default_rng(3).normal(size=5 * groups)


@pytest.mark.parametrize(
    ("declare", "expected"),
    [(quantile_of_groups, True), (elastic_of_groups, False), (quantile_of_one, False)],
)
def test_lines_between_kinks_are_told_from_curves(declare, expected):
    with pm.Model() as model:
        declare(Response(200), 200)
    assert has_kinks_between_lines(target_of(model)) is expected


def test_many_effects_of_kinked_observations_are_refused_at_once():
    """No search finds a centre, which took half a minute: by groups, one at a time, together."""
    with pm.Model() as model:
        quantile_of_groups(Response(200), 200)
    with pytest.raises(
        ModeError, match=r"^'y', 'z': observations have kinks.*up to 150\. Use fewer"
    ):
        TunaMH(model=model)
