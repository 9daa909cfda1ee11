"""Sums, coordinates and expansions of elements against dense linear algebra."""

from functools import partial
from itertools import pairwise

import numpy as np
import pymc as pm
import pytest
from scipy import sparse
from scipy.special import expit

from helpers.grouped import FAST, SUMMED, expanded, target_of
from helpers.models import GROUPED
from helpers.tiers import fast
from pymc_minibatch_mh.reference import arrow_search as grouped
from pymc_minibatch_mh.reference import arrow_sums as element_rows
from pymc_minibatch_mh.reference.arrow_reference import Arrow
from pymc_minibatch_mh.reference.arrow_search import centre_around, find_grouped

# On the worker that bounds the rows of the same models.
pytestmark = pytest.mark.xdist_group("elements")

every = pytest.mark.parametrize("name", fast(GROUPED, FAST))


def _near(found, seed=1, scale=1.0):
    return found.draw(np.random.default_rng(seed), scale)


def _dense(target, position):
    return target.full_data.likelihood(position, hessian=True)


@pytest.mark.parametrize("name", fast(SUMMED, FAST))
def test_sums_are_those_of_all_rows(name, monkeypatch):
    """Rows are read a few hundred at a time, so that several parts are added."""
    monkeypatch.setattr(element_rows, "CHUNK", 300)
    target = target_of(SUMMED[name]())
    position = expanded(name)[1].centre + 0.3
    fixed, places, rows = target.elements.border, target.elements.labels, target.element_rows
    sums, dense = rows.sums(position[fixed], position[places]), _dense(target, position)
    assert sums.value == pytest.approx(dense.value, rel=1e-12)
    size = np.abs(dense.hessian).max()
    pairs = (
        (sums.border, dense.gradient[fixed]),
        (sums.elements, dense.gradient[places]),
        (sums.border_hessian, dense.hessian[np.ix_(fixed, fixed)]),
        (sums.between, dense.hessian[np.ix_(places, fixed)]),
        (sums.hessian_of_elements.toarray(), dense.hessian[np.ix_(places, places)]),
    )
    assert all(np.allclose(one, other, rtol=0, atol=1e-10 * size) for one, other in pairs)


@every
def test_expansion_in_coordinates_is_the_quadratic_of_all_rows(name):
    target, found = expanded(name)
    dense = _dense(target, found.centre)
    scales = found.centre[found.scales]
    for seed in range(3):
        w, e = found.coordinates(_near(found, seed))
        position = found.position(w, e, scales)
        again = found.coordinates(position)
        assert np.allclose(again[0], w)
        assert np.allclose(again[1], e)
        away = position - found.centre
        cells = sparse.csr_array((found.data, found.indices, found.indptr), shape=(e.size, e.size))
        value = found.gw @ w + found.ge @ e + 0.5 * w @ found.Hww @ w + e @ found.Hew @ w
        value += 0.5 * (found.he * e) @ e + 0.5 * e @ (cells @ e)
        exact = dense.gradient @ away + 0.5 * away @ dense.hessian @ away
        assert value == pytest.approx(exact, rel=1e-9, abs=1e-9)


@every
def test_coordinates_whiten_the_posterior_given_scales(name):
    """Border and elements are uncorrelated at the centre's scales, and the border is standard.

    Elements do not follow what rows choose of the border.
    """
    target, found = expanded(name)
    prior = target.full_data.prior(found.centre, hessian=True)
    precision = -_dense(target, found.centre).hessian - prior.hessian
    both = np.concatenate([found.border, found.places])
    precision = precision[np.ix_(both, both)]
    n, size = found.border.size, both.size
    ways = np.zeros((size, size))
    ways[:n, :n], ways[n:, :n] = found.border_factor, found.response
    ways[n:, n:] = np.eye(size - n)
    white = ways.T @ precision @ ways
    covariance = np.linalg.inv(white)
    assert np.allclose(covariance[:n, :n], np.eye(n), atol=1e-4)
    # The lines of Q span all that elements follow.
    assert np.allclose(found.response @ found.read.T @ found.read, found.response, atol=1e-10)
    if not found.chosen.size:
        assert np.allclose(white[n:, :n], 0.0, atol=1e-4 * np.abs(precision).max() ** 0.5)
    assert np.allclose(found.sd, np.sqrt(np.diag(covariance)[n:]), rtol=1e-4)
    chosen = np.diag(np.linalg.inv(precision))[:n][found.chosen]
    assert np.allclose(found.chosen_sd, np.sqrt(chosen), rtol=1e-4)


@every
def test_prior_of_elements_moves_with_the_border_along_their_directions(name):
    target, found = expanded(name)
    scales, e = found.centre[found.scales], np.zeros(found.sd.size)

    def slopes(w):
        place = found.position(w, e, scales)
        return target.full_data.prior(place, hessian=False).gradient[found.places]

    zero = np.zeros(found.border.size)
    prior = target.full_data.prior(found.centre, hessian=True).hessian
    own = prior[np.ix_(found.places, found.places)]
    for j, way in enumerate(1e-4 * np.eye(zero.size)):
        turned = (slopes(way) - slopes(-way)) / 2e-4
        expected = own @ found.prior_direction[:, j]
        assert np.allclose(turned, expected, atol=1e-4 * np.abs(own).max(initial=0.0))
    stiffness = -found.prior_direction.T @ own @ found.prior_direction
    assert np.allclose(found.prior_stiffness.sum(axis=0), stiffness, rtol=1e-4, atol=1e-4)


def arrow_precision(rng, n, sizes):
    """Precision of n common effects and of factors' levels, of which none are coupled in one."""
    size = n + sum(sizes)
    whole = rng.normal(scale=0.2 / np.sqrt(size), size=(size, size))
    whole += whole.T
    for start, stop in pairwise(n + np.cumsum([0, *sizes])):
        whole[start:stop, start:stop] = 0.0
    return whole + np.diag(rng.uniform(1.0, 2.0, size))


def arrow_of(whole, n, sizes):
    within = sparse.csr_array(whole[n:, n:])
    return Arrow(whole[:n, :n], whole[n:, :n], within, int(sizes[0]) if len(sizes) else 0)


@pytest.mark.parametrize("sizes", [(9,), (9, 4), (9, 5, 3)])
def test_arrow_solves_as_the_whole_matrix_does(sizes):
    rng, n = np.random.default_rng(2), 3
    whole = arrow_precision(rng, n, sizes)
    arrow = arrow_of(whole, n, sizes)
    slope = rng.normal(size=len(whole))
    border, elements = arrow.step(slope[:n], slope[n:])
    assert np.allclose(np.concatenate([border, elements]), np.linalg.solve(whole, slope))
    inverse = np.linalg.inv(whole[n:, n:])
    assert np.allclose(arrow.variances, np.diag(inverse))
    assert np.allclose(arrow.response, -inverse @ whole[n:, :n])
    schur = np.linalg.inv(whole)[:n, :n]
    assert np.allclose(arrow.border_factor @ arrow.border_factor.T, schur)


def test_directions_are_those_that_factors_fight_about():
    """Effects of two crossed factors trade their levels, which rows see the sum of."""
    rng, n = np.random.default_rng(15), 20_000
    g, h = rng.integers(0, 40, n), rng.integers(0, 5, n)
    with pm.Model() as model:
        u, v = pm.Normal("u", 0.0, 1.0, shape=40), pm.Normal("v", 0.0, 1.0, shape=5)
        pm.Normal("y", u[g] + v[h], 1.0, observed=rng.normal(size=n))
    target = target_of(model)
    found = find_grouped(target, target.factorization.ravel(model.initial_point()))
    prior = target.full_data.prior(found.centre, hessian=True).hessian
    precision = -_dense(target, found.centre).hessian - prior
    precision = precision[np.ix_(found.places, found.places)]
    (way,) = found.along
    assert way @ precision @ way == pytest.approx(1.0, rel=0.05)
    assert np.ptp(way[:40]) < 0.1 * abs(way[0])
    assert np.ptp(way[40:]) < 0.1 * abs(way[0])
    assert way[0] == pytest.approx(-way[40], rel=0.1)
    bent = target.full_data.likelihood(found.centre, hessian=True).hessian
    bent = bent[np.ix_(found.places, found.places)]
    assert np.allclose(found.rows_hessian.toarray(), bent, atol=1e-8 * np.abs(bent).max())


@pytest.mark.parametrize("name", fast(SUMMED, FAST))
def test_averaged_slopes_are_those_of_the_hessian_nearby(name):
    """A normal distribution changes slopes by half the gradient of tr(H C), C its covariance."""
    require_averaged_slopes(*expanded(name))


def test_rows_without_a_slope_have_no_covariance_with_it():
    """The number of no level is no place from the end: covariances of slopes have few columns."""
    rng, n = np.random.default_rng(16), 1_000
    g, late = rng.integers(0, 6, n), rng.random(n) < 0.5
    with pm.Model() as model:
        a, c = (pm.Normal(name, 0.0, 0.5, shape=6) for name in "ac")
        pm.Poisson("y", pm.math.exp(a[g] + c[g] * late), observed=rng.poisson(1.0, n))
    target = target_of(model)
    start = target.factorization.ravel(model.initial_point())
    require_averaged_slopes(target, find_grouped(target, start))


def require_averaged_slopes(target, found):
    rng, fixed, places = np.random.default_rng(8), found.fixed, found.places
    n, sizes = found.border.size, np.diff(found.starts)
    whole = arrow_precision(rng, n, sizes)
    arrow = arrow_of(whole, n, sizes)
    own = target.element_rows.skewness(found.centre[fixed], found.centre[places], arrow)
    both, read = np.concatenate([fixed, places]), np.r_[: fixed.size, n : len(whole)]
    covariance = np.linalg.inv(whole)[np.ix_(read, read)]

    def bent(k, away):
        position = found.centre.copy()
        position[k] += away
        return 0.5 * (_dense(target, position).hessian[np.ix_(both, both)] * covariance).sum()

    exact = np.array([(bent(k, 1e-4) - bent(k, -1e-4)) / 2e-4 for k in both])
    assert np.allclose(np.concatenate(own), exact, rtol=1e-5, atol=1e-5 * np.abs(exact).max())


@every
def test_prior_beside_its_elements_has_the_slope_of_the_border(name):
    """Elements follow their location, so that the densities around it stay."""
    target, found = expanded(name)
    scales, size = found.centre[found.scales], found.border.size

    def log_prior(w):
        return target.log_prior(found.position(w, -found.prior_direction @ w, scales))

    turned = [(log_prior(w) - log_prior(-w)) / 2e-4 for w in 1e-4 * np.eye(size)]
    assert np.allclose(turned, found.border_slope, rtol=1e-4, atol=1e-4)


def test_few_points_tell_scales_as_the_spread_of_each_effect_does(monkeypatch):
    def spread_of_each(self, arrow):
        return np.sqrt(arrow.variances)[:, None]

    target, found = expanded("logistic")
    monkeypatch.setattr(grouped._Search, "_spread_by", spread_of_each)
    other = find_grouped(target, found.centre)
    off = (other.centre - found.centre)[found.scales] / found.scale_sd
    assert np.abs(off).max() < 0.05
    assert found.scale_sd == pytest.approx(other.scale_sd, rel=0.02)


def lopsided(x):
    return -5.0 * np.abs(x - 0.3) * np.where(x < 0.3, 1.0 / 1.5, 1.5)


KINKS = {
    "laplace": (partial(pm.Laplace, "effect", 0.3, 0.2), lambda x: -np.abs(x - 0.3) / 0.2),
    "narrow": (partial(pm.Laplace, "effect", 0.3, 0.02), lambda x: -np.abs(x - 0.3) / 0.02),
    "lopsided": (partial(pm.AsymmetricLaplace, "effect", 1.5, 0.3, 5.0), lopsided),
}


@pytest.mark.parametrize("name", sorted(KINKS))
def test_effects_whose_prior_has_a_kink_have_mean_and_spread_by_quadrature(name):
    rng, (define, log_prior) = np.random.default_rng(15), KINKS[name]
    sizes = rng.integers(20, 60, 30)
    g = np.repeat(np.arange(30), sizes)
    y = rng.laplace(0.3, 0.2, 30)[g] + rng.normal(size=g.size)
    with pm.Model() as model:
        effect = define(shape=30)
        pm.Normal("y", effect[g], 1.0, observed=y)
    target = target_of(model)
    found = find_grouped(target, target.factorization.ravel(model.initial_point()))
    grid = np.linspace(-4.0, 4.0, 40_001)
    density = log_prior(grid) - 0.5 * sizes[:, None] * grid**2
    density += np.bincount(g, y)[:, None] * grid
    weights = np.exp(density - density.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = weights @ grid
    deviation = np.sqrt((weights * (grid - mean[:, None]) ** 2).sum(axis=1))
    assert np.abs((found.centre[found.places] - mean) / deviation).max() < 0.5
    np.testing.assert_allclose(np.log(found.sd / deviation), 0.0, atol=0.4)


def distributional(rows=40_000, n_groups=400):
    """Return a model with effects of groups in the mean and in the log of the spread."""
    rng = np.random.default_rng(1)
    group, x = rng.integers(0, n_groups, rows), rng.normal(size=rows)
    levels, spreads = 0.5 * rng.normal(size=n_groups), 0.2 * rng.normal(size=n_groups)
    noise = np.exp(-0.5 + 0.2 * x + spreads[group]) * rng.normal(size=rows)
    with pm.Model() as model:
        b, c = pm.Normal("b", 0, 1, shape=2), pm.Normal("c", 0, 1, shape=2)
        level = pm.Normal("level", 0, pm.HalfNormal("of_levels", 1), shape=n_groups)
        spread = pm.Normal("spread", 0, pm.HalfNormal("of_spreads", 1), shape=n_groups)
        mean, log_sd = b[0] + b[1] * x + level[group], c[0] + c[1] * x + spread[group]
        y = 1.0 + 0.5 * x + levels[group] + noise
        pm.Normal("y", mean, pm.math.exp(log_sd), observed=y)
    return model, levels, spreads


def test_steps_that_overflow_are_damped():
    """After a first step, the effects of some groups have hardly any curvature."""
    model, levels, spreads = distributional()
    target = target_of(model)
    found = find_grouped(target, target.factorization.ravel(model.initial_point()))
    point = target.factorization.unravel(found.centre, {})
    # Both within some posterior standard deviations, of .06 and .07, and shrunk a little.
    assert np.std(point["level"] - levels) < 0.09
    assert np.std(point["spread"] - spreads) < 0.09


def test_means_that_third_derivatives_place_far_off_are_not_gone_to():
    rng = np.random.default_rng(16)
    g = rng.integers(0, 60, 1_200)
    seen = (rng.random(g.size) < expit(np.abs(rng.standard_cauchy(60))[g])).astype(int)
    with pm.Model() as model:
        effect = pm.HalfCauchy("effect", pm.HalfNormal("tau", 1.0), shape=60)
        pm.Bernoulli("y", logit_p=effect[g], observed=seen)
    target = target_of(model)
    found = find_grouped(target, target.factorization.ravel(model.initial_point()))
    assert np.abs(found.centre).max() < 20.0


def test_a_scale_with_a_log_normal_prior_is_no_location():
    """Without effects at the start, its prior is quadratic there.

    Nor may another start tell otherwise: chains keep a tally for each scale that moves.
    """
    group = np.repeat(np.arange(24), 50)
    with pm.Model() as model:
        tau = pm.LogNormal("tau", -0.3, 0.4)
        effect = pm.Normal("effect", 0.0, tau, shape=24)
        pm.Bernoulli("y", logit_p=effect[group], observed=np.arange(group.size) % 2)
    target = target_of(model)
    found = find_grouped(target, target.factorization.ravel(model.initial_point()))
    assert found.scale_factor.tolist() == [0]


def test_a_centre_with_other_scales_is_not_moved_to(monkeypatch):
    """Chains have a tally and a κ for each scale that moves with elements."""
    target, found = expanded("logistic")
    known = {
        "other scales": found._replace(scale_factor=np.full(found.scales.size, -1)),
        "the same": found._replace(centre=found.centre + 0.1),
    }
    for name, other in known.items():
        monkeypatch.setattr(grouped, "find_grouped", lambda *_, other=other: other)
        assert (centre_around(found, target, found.centre) is found) == (name == "other scales")
