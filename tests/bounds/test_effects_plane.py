"""Draws of two effects of a group: their distribution functions by splines, and refusals."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.interpolate import CubicSpline, RectBivariateSpline

from compiled.test_group_rows import position_near
from helpers.group_families import integral_in_the_plane, made
from helpers.small_groups import target_of
from pymc_minibatch_mh.bounds.effects import draw_and_count, effect_values
from pymc_minibatch_mh.errors import BoundsError

N, G, DRAWS = 70, 9, 400


def probabilities(plane, draws):
    """Values of the distribution functions of x_1, and of x_2 given x_1, shape (n, 2)."""
    x, points = plane.x, np.linalg.solve(plane.spread, (draws - plane.mean).T).T
    inside = np.exp(plane.heights - plane.heights.max())
    sums = CubicSpline(x, inside.sum(axis=1)).antiderivative()
    first = sums(points[:, 0]) / sums(x[-1])
    surface = RectBivariateSpline(x, x, plane.heights)
    second = []
    for one, two in points:
        heights = surface(one, x)[0]
        given = CubicSpline(x, np.exp(heights - heights.max())).antiderivative()
        second.append(given(two) / given(x[-1]))
    return np.stack([first, second], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("name", ["two scales", "correlated", "correlated products"])
def test_draws_have_the_law_of_each_group(name, tight):
    """Wide effects are as the data; narrow ones as the law."""
    family, d, y, model, target = made(name, N, G)
    position, values = position_near(target, model, 1 + tight, 0.3 + 0.5 * tight)
    rngs = [np.random.default_rng(3)] * DRAWS
    draws, trials = draw_and_count(target, np.tile(position, (DRAWS, 1)), rngs)
    assert trials < 1.45 * DRAWS * (G - 1)
    found = np.concatenate([
        probabilities(
            integral_in_the_plane(family, d, y, values, np.flatnonzero(d.group == g)), draws[:, g]
        )
        for g in range(G)
    ])  # fmt: skip
    for column in found.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(found.T)[0, 1]) < 4.0 / np.sqrt(len(found))


def skewed(level):
    """Counts whose slopes fall as their levels rise, far from the nodes."""
    rng = np.random.default_rng(8)
    group, x = np.repeat(np.arange(6), 3), np.tile([-2.0, -2.5, -3.0], 6)
    with pm.Model() as model:
        a, b = (pm.Normal(k, 0.0, pm.HalfNormal(f"s{k}"), shape=6) for k in "ab")
        line = pm.Normal("m") + a[group] + b[group] * x
        pm.Poisson("y", pm.math.exp(line), observed=rng.poisson(level, 18))
    return target_of(model)


@pytest.mark.parametrize("level", [0.0, 3.0, 1e5])
def test_planes_bound_skewed_densities(level):
    """Exactness is checked at each proposal: a density above its bound is an error."""
    target, rng = skewed(level), np.random.default_rng(1)
    trials = 0
    for position in ([0.0, 1.0, 1.0], [-2.0, 4.0, 0.5], [1.0, 0.3, 3.0], [5.0, 2.0, 2.0]):
        drawn, count = draw_and_count(target, np.tile(position, (50, 1)), [rng] * 50)
        assert np.isfinite(drawn).all()
        trials += count
    assert trials < 4 * 50 * 6 * 6.0


def test_values_are_those_of_the_variables_of_the_model():
    _, _, _, model, target = made("two scales", N, G)
    position, values = position_near(target, model)
    z = np.random.default_rng(2).standard_normal((1, G, 2))
    found = effect_values(target, position[None], z)
    np.testing.assert_allclose(found["z"], 0.8 * z[:, :, 0])
    wanted = 2.0 * values["m"][1] + 0.3 + values["tau"][1] * z[:, :, 1]
    np.testing.assert_allclose(found["a"], wanted, rtol=1e-12)
    family, _, _, model, target = made("correlated", N, G)
    position, values = position_near(target, model)
    wanted = family.location(values) + z @ family.factor(values).T
    np.testing.assert_allclose(effect_values(target, position[None], z)["a"], wanted, rtol=1e-12)


def test_rows_that_are_not_log_concave_are_refused():
    group, x = np.repeat(np.arange(6), 3), np.tile([-1.0, 0.0, 1.0], 6)
    with pm.Model() as model:
        a, b = (pm.Normal(k, 0.0, pm.HalfNormal(f"s{k}"), shape=6) for k in "ab")
        pm.StudentT("y", nu=4, mu=a[group] + b[group] * x, sigma=1.0, observed=x)
    with pytest.raises(BoundsError, match=r"'a and b' cannot be drawn exactly.*effects=False"):
        draw_and_count(target_of(model), np.ones((1, 2)), [np.random.default_rng(1)])
