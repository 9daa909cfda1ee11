"""The density of scales with the rest integrated over."""

from dataclasses import replace

import numpy as np
import pytest

from every import every
from pymc_minibatch_mh.reference.marginal import Marginal
from reference import hierarchies as models

SPOTS = np.array([-2.0, -1.0, -0.3, 0.4, 1.5])


def frozen(define, place=None):
    """Freeze the rows at a place, and return V with the best x for the scales there."""
    target, start = models.target_of(define)
    place = start if place is None else place(start.size)
    rows = target.full_data.likelihood(place, hessian=True)
    marginal = Marginal.frozen(target.full_data.prior, target.scales(start), place, rows)
    return marginal, marginal.given(place[marginal.scales])


def off_centre(size):
    return 0.3 * np.random.default_rng(4).standard_normal(size)


def value(marginal, scales):
    return marginal.value_and_gradient(marginal.given(np.atleast_1d(scales)))[0]


def test_v_is_the_log_density_of_the_scale_for_normal_rows():
    marginal, _ = frozen(models.normal)
    found = np.array([value(marginal, spot) for spot in SPOTS])
    exact = np.array([models.exact_log_density(spot) for spot in SPOTS])
    np.testing.assert_allclose(np.diff(found), np.diff(exact), rtol=1e-9)


@every(
    "define",
    [models.normal, models.crossed, models.nested, models.robust_effects, models.horseshoe],
    ids=lambda define: define.__name__,
)
def test_slopes_and_curvature_are_those_of_v(define):
    marginal, given = frozen(define, off_centre)
    scales, h = given.position[marginal.scales], 1e-4
    _, gradient = marginal.value_and_gradient(given)
    ends = [
        [marginal.value_and_gradient(marginal.given(scales + side * h * unit)) for side in (1, -1)]
        for unit in np.eye(scales.size)
    ]
    slopes = [(up[0] - down[0]) / (2 * h) for up, down in ends]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)
    curvature = -np.array([(up[1] - down[1]) / (2 * h) for up, down in ends])
    # Where the prior is not quadratic in x, the response is taken as linear.
    loose = 0.2 if define is models.robust_effects else 2e-3
    np.testing.assert_allclose(marginal.curvature_at(given), curvature, rtol=loose, atol=loose)


def test_the_best_scale_is_that_of_the_exact_density():
    marginal, given = frozen(models.normal)
    best = marginal.best(given, np.array([5.0]))
    grid = np.linspace(-3.0, 2.0, 20_001)
    exact = grid[np.argmax([models.exact_log_density(spot) for spot in grid])]
    assert best.position[marginal.scales].item() == pytest.approx(exact, abs=2e-3)
    near = marginal.best(given, np.array([0.1]))
    start = given.position[marginal.scales].item()
    assert near.position[marginal.scales].item() == pytest.approx(start - 0.1)


def test_the_precision_is_that_of_scales_and_of_the_rest_given_them():
    marginal, given = frozen(models.crossed, off_centre)
    curvature = np.array([[9.0, 2.0], [2.0, 4.0]])
    covariance = np.linalg.inv(marginal.precision(given, curvature))
    scales, rest = marginal.scales, marginal.rest
    np.testing.assert_allclose(covariance[np.ix_(scales, scales)], np.linalg.inv(curvature))
    slopes = covariance[np.ix_(rest, scales)] @ curvature
    np.testing.assert_allclose(slopes, marginal.response(given), atol=1e-10)
    own = np.linalg.inv(given.precision)
    spread = own + slopes @ np.linalg.solve(curvature, slopes.T)
    np.testing.assert_allclose(covariance[np.ix_(rest, rest)], spread, atol=1e-10)


def test_the_rest_responds_to_the_scales():
    marginal, given = frozen(models.robust_effects, off_centre)
    scales, h = given.position[marginal.scales], 1e-5
    for k, response in enumerate(marginal.response(given).T):
        step = h * np.eye(scales.size)[k]
        up, down = (marginal.given(scales + side * step).position for side in (1, -1))
        moved = (up - down)[marginal.rest] / (2 * h)
        np.testing.assert_allclose(response, moved, rtol=1e-3, atol=1e-5)


def test_a_curvature_that_is_not_that_of_a_mode_leaves_v_finite():
    marginal, given = frozen(models.logistic)
    saddle = Marginal(
        marginal.prior, marginal.scales, marginal.rest, marginal.anchor, marginal.slope,
        marginal.curvature - 1e4 * np.eye(marginal.rest.size),
    )  # fmt: skip
    found, gradient = saddle.value_and_gradient(saddle.at(given.position))
    assert np.isfinite(found)
    assert np.isfinite(gradient).all()


def test_there_is_no_best_where_the_prior_has_no_density():
    marginal, _ = frozen(models.logistic)
    assert marginal.given(np.array([np.nan])) is None


def test_scales_are_not_sought_where_the_prior_has_no_curvature():
    marginal, given = frozen(models.normal)
    end = given.position[marginal.scales].item() + 0.5

    def cut(position, *, hessian):
        found = marginal.prior(position, hessian=hessian)
        known = position[marginal.scales].item() <= end
        return found if known else replace(found, hessian=np.full_like(found.hessian, np.nan))

    bounded = replace(marginal, prior=cut)
    best = bounded.best(bounded.given(given.position[marginal.scales]), np.array([5.0]))
    assert np.isfinite(best.value)
    assert best.position[marginal.scales].item() < end
    at_the_end = bounded.given(np.array([end]))
    assert bounded.value_and_gradient(at_the_end)[0] == -np.inf
