"""Sums, coordinates and expansions of elements against dense linear algebra."""

import numpy as np
import pytest
from scipy import sparse

from grouped import FAST, MODELS, step_of
from pymc_minibatch_mh.reference.grouped import Arrow
from tiers import fast

every = pytest.mark.parametrize("name", fast(MODELS, FAST))


def _near(step, seed=1, scale=1.0):
    return step.plan.elements.draw(np.random.default_rng(seed), scale)


def _dense(step, position):
    return step.plan.target.full_data.likelihood(position, hessian=True)


@every
def test_sums_are_those_of_all_rows(name):
    step = step_of(name)
    found, position = step.plan.elements, _near(step)
    fixed, places = found.fixed, found.places
    rows = step.plan.target.element_rows
    sums, dense = rows.sums(position[fixed], position[places]), _dense(step, position)
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
    step = step_of(name)
    found, dense = step.plan.elements, _dense(step, step.plan.elements.centre)
    scales = found.centre[found.scales]
    for seed in range(3):
        w, e = found.coordinates(_near(step, seed))
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
    """Border and elements are uncorrelated at the centre's scales, and the border is standard."""
    step = step_of(name)
    found, target = step.plan.elements, step.plan.target
    prior = target.full_data.prior(found.centre, hessian=True)
    precision = -_dense(step, found.centre).hessian - prior.hessian
    both = np.concatenate([found.border, found.places])
    precision = precision[np.ix_(both, both)]
    n, size = found.border.size, both.size
    ways = np.zeros((size, size))
    ways[:n, :n], ways[n:, :n] = found.border_factor, found.response
    ways[n:, n:] = np.eye(size - n)
    white = ways.T @ precision @ ways
    assert np.allclose(white[:n, :n], np.eye(n), atol=1e-4)
    assert np.allclose(white[n:, :n], 0.0, atol=1e-4 * np.abs(precision).max() ** 0.5)
    variances = np.diag(np.linalg.inv(white[n:, n:]))
    assert np.allclose(found.sd, np.sqrt(variances), rtol=1e-4)


@every
def test_prior_of_elements_moves_with_the_border_along_their_directions(name):
    step = step_of(name)
    found, target = step.plan.elements, step.plan.target
    scales, e = found.centre[found.scales], np.zeros(found.sd.size)

    def slopes(w):
        place = found.position(w, e, scales)
        return target.full_data.prior(place, hessian=False).gradient[found.places]

    zero = np.zeros(found.border.size)
    for j, way in enumerate(1e-4 * np.eye(zero.size)):
        turned = (slopes(way) - slopes(-way)) / 2e-4
        expected = -found.prior_curvature * found.prior_direction[:, j]
        assert np.allclose(turned, expected, atol=1e-4 * np.abs(found.prior_curvature).max())


@pytest.mark.parametrize("sizes", [(9,), (9, 4), (9, 5, 3)])
def test_arrow_solves_as_the_whole_matrix_does(sizes):
    rng, n, size = np.random.default_rng(2), 3, sum(sizes)
    whole = rng.normal(size=(size + n, size + n))
    whole = whole @ whole.T + 5.0 * np.eye(size + n)
    for start, stop in zip(np.cumsum([0, *sizes[:-1]]), np.cumsum(sizes), strict=True):
        own = np.diag(whole[start:stop, start:stop])
        whole[start:stop, start:stop] = np.diag(own + 30.0)
    within = sparse.csr_array(whole[:size, :size])
    arrow = Arrow(whole[size:, size:], whole[:size, size:], within, sizes[0])
    slope = rng.normal(size=size + n)
    border, elements = arrow.step(slope[size:], slope[:size])
    assert np.allclose(np.concatenate([elements, border]), np.linalg.solve(whole, slope))
    inverse = np.linalg.inv(whole[:size, :size])
    assert np.allclose(arrow.variances, np.diag(inverse))
    assert np.allclose(arrow.response, -inverse @ whole[:size, size:])
    schur = np.linalg.inv(whole)[size:, size:]
    assert np.allclose(arrow.border_factor @ arrow.border_factor.T, schur)


@pytest.mark.parametrize("name", ["logistic", "normal", "slopes"])
def test_averaged_slopes_are_those_of_points_around(name):
    step = step_of(name)
    found, rng = step.plan.elements, np.random.default_rng(8)
    rows = step.plan.target.element_rows
    fixed, places = found.fixed, found.places
    factor = 0.02 * np.eye(found.border.size)
    response, sd = 0.02 * rng.normal(size=found.response.shape), 0.02 * np.ones(places.size)
    middle = found.centre

    def slopes(w, e):
        b, a = middle[fixed] + (factor @ w)[: fixed.size], middle[places] + response @ w + e
        sums = rows.sums(b, a)
        return np.concatenate([sums.border, sums.elements])

    zero, nothing = np.zeros(found.border.size), np.zeros(places.size)
    here, total = slopes(zero, nothing), 0.0
    for way in np.eye(zero.size):
        total += 0.5 * (slopes(way, nothing) + slopes(-way, nothing)) - here
    for way in np.diag(sd):
        total += 0.5 * (slopes(zero, way) + slopes(zero, -way)) - here
    own = rows.skewness(middle[fixed], middle[places], factor[: fixed.size], response, sd**2)
    assert np.allclose(np.concatenate(own), total, rtol=2e-2, atol=2e-3 * np.abs(total).max())
