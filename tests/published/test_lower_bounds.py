"""Quadratic lower bounds of rows: never above them, and quadratic."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from bounds.certified import evaluate
from helpers import models
from helpers.in_library import expansion_change
from helpers.models import FAMILIES
from pymc_minibatch_mh import FireflyMH
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.published.lower_bounds import gap_at_centre, lower_bound_gap
from pymc_minibatch_mh.reference.full_data import FullData
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS, SCALE, NU = 2_000, 1.3, 4.0
TOUCHING = (0.4, 1.5, 6.0)


def student():
    """Errors with heavy tails of a known scale, and an offset."""
    rng = np.random.default_rng(141)
    X, y = rng.standard_normal((ROWS, 2)), rng.standard_t(NU, ROWS)
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=2)
        pm.StudentT("y", nu=NU, mu=X @ slopes + 0.3, sigma=SCALE, observed=y)
    return model


def logistic():
    return FAMILIES["bernoulli_logit"](ROWS)


MODELS = {f.__name__: f for f in (logistic, student)}


def functions_of(name, xi):
    """Return a model's row function and its gap."""
    model = MODELS[name]()
    (function,) = row_functions(factorize(model, model.value_vars))
    assert len(function.arguments) == 1
    return function, lower_bound_gap(function, xi)


def values(function, u, row=0):
    """Return a row at some values of its argument."""
    data = RowData(function, np.full(len(u), row))
    return np.broadcast_to(evaluate(function, data, [u])[0], u.shape)


@pytest.mark.parametrize("xi", TOUCHING)
@pytest.mark.parametrize("name", MODELS)
def test_no_row_lies_below_its_lower_bound_and_what_remains_is_quadratic(name, xi):
    function, gap = functions_of(name, xi)
    u = np.linspace(-30.0, 30.0, 6_001)
    for row in range(20):
        above = values(gap, u, row)
        assert above.min() > -1e-12
        # Within the spacing of the points, both places are met.
        assert np.sort(above)[0] < 1e-4
        bound = values(function, u, row) - above
        fitted = np.polynomial.Polynomial.fit(u, bound, 2)
        assert np.abs(bound - fitted(u)).max() < 1e-9 * np.abs(bound).max()


@pytest.mark.parametrize("xi", TOUCHING)
def test_the_bound_of_a_logistic_row_is_the_published_one(xi):
    function, gap = functions_of("logistic", xi)
    u = np.linspace(-8.0, 8.0, 41)
    for row in range(20):
        signed = u if values(function, np.array([50.0]), row)[0] > -1.0 else -u
        # log σ(s) >= log σ(ξ) + (s - ξ)/2 - tanh(ξ/2)/(4ξ) (s² - ξ²)
        bound = -np.log1p(np.exp(-xi)) + 0.5 * (signed - xi)
        bound -= np.tanh(0.5 * xi) / (4.0 * xi) * (signed**2 - xi**2)
        np.testing.assert_allclose(
            values(function, u, row) - values(gap, u, row), bound, atol=1e-12
        )
        ends = values(gap, np.array([-xi, xi]), row)
        np.testing.assert_allclose(ends, 0.0, atol=1e-12)


def binomial():
    """Trials that differ from row to row, which are data in the weight of the softplus."""
    return FAMILIES["binomial"](ROWS)


@pytest.mark.parametrize("name", {**MODELS, "binomial": binomial})
def test_bounds_that_touch_in_the_centre_do_so_in_every_row(name):
    model = {**MODELS, "binomial": binomial}[name]()
    (function,) = row_functions(factorize(model, model.value_vars))
    centre = np.random.default_rng(142).normal(0.0, 2.0, (ROWS, 1))
    # A row in the middle of the softplus, where the slope of its bound is a limit.
    centre[0] = 0.0
    gap = gap_at_centre(function, centre)
    u = np.linspace(-30.0, 30.0, 6_001)
    for row in range(20):
        above, (here,) = values(gap, u, row), centre[row]
        assert above.min() > -1e-11
        bound = values(function, u, row) - above
        fitted = np.polynomial.Polynomial.fit(u, bound, 2)
        assert np.abs(bound - fitted(u)).max() < 1e-9 * np.abs(bound).max()
        # It touches: no gap and no slope of it, whose third order is 1e-9 at most here; the gap
        # opens on both sides, with the fourth order alone in the middle of the softplus.
        near = values(gap, here + np.array([-0.1, -1e-3, 0.0, 1e-3, 0.1]), row)
        assert abs(near[2]) < 1e-11
        assert abs(near[3] - near[1]) < 2e-9
        assert (near[[0, 4]] > 1e-7).all()


@cache
def model():
    return models.logistic(2_000)


@cache
def step_at(temperature):
    return FireflyMH(model=model(), bound="untuned", temperature=temperature)


@pytest.fixture
def step():
    return step_at(1.0)


def below_of(program):
    """Return the lower bounds that a program's chains evaluate."""
    return program._compiled_functions[1].owner


def positions(reference):
    noise = np.random.default_rng(151).standard_normal((6, reference.centre.size))
    return reference.centre + 3.0 * noise @ reference.factor.T


def gaps(below, position):
    passes = FullData(below.rows, below.target.compiled.prior, below.target.source)
    return passes.values(position)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_lower_bounds_and_gaps_add_up(temperature):
    step = step_at(temperature)
    below, target = below_of(step.program), step.target
    centre, beta = below.reference.centre, below.reference.inverse_temperature

    def whole(position):
        return target.log_likelihood(position) - gaps(below, position).sum()

    for position in positions(below.reference):
        expected = beta * (whole(position) - whole(centre))
        assert expansion_change(below.reference, centre, position) == pytest.approx(
            expected, abs=1e-8
        )
