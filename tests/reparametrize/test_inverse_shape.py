"""Reciprocals of shapes: which shapes have some, the map, the density and its limits."""

import pickle
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
from pytensor.scalar import exp
from scipy import stats

from bounds.certified import Rows, evaluate
from helpers.shapes import (
    PLACED,
    gamma,
    negative_binomial,
    own,
    reciprocal,
    shapes_of_groups,
    student,
)
from pymc_minibatch_mh.reparametrize.base import reparametrize_by
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape, shape_variables
from pymc_minibatch_mh.reparametrize.non_centred import NonCentred
from pymc_minibatch_mh.structure.products import PositionFactor
from pymc_minibatch_mh.structure.row_function import row_functions
from reparametrize.mapped import check_the_map

MODELS = {"counts": negative_binomial, "noise": student, "groups": shapes_of_groups}


def some(parts):
    """Return values of the model's own variables."""
    return np.random.default_rng(3).normal(size=parts.size)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("name", list(MODELS))
def test_positions_are_reciprocals_and_the_density_is_the_models(name, power):
    model = MODELS[name]()
    parts, values = reciprocal(model, power), some(own(model))
    positions = parts.positions(values)
    assert positions[parts.boundary] == pytest.approx(
        np.exp(values[parts.boundary]) ** (-1.0 / power)
    )
    others = np.setdiff1d(np.arange(parts.size), parts.boundary)
    assert np.array_equal(positions[others], values[others])
    check_the_map(model, parts, values)


def test_the_support_begins_at_zero():
    parts, there = own(negative_binomial()), reciprocal(negative_binomial())
    (place,) = there.boundary
    assert np.isneginf(parts.lower).all()
    assert there.lower[place] == 0.0
    assert np.isneginf(np.delete(there.lower, place)).all()
    assert np.isposinf(there.upper).all()
    assert np.isneginf(there.support_of_values[0]).all()
    outside = np.full(there.size, -0.5)
    assert np.array_equal(there.in_support(outside) > 0.0, there.lower == 0.0)
    assert np.array_equal(parts.in_support(outside), outside)


def beside(scale, location=-1):
    """Return noise in b exp(scale) + location, given by coordinates, and in 1/nu."""
    parts = own(student())
    factor = PositionFactor(("apply", exp, ("linear", ((1.0, scale),), ("number", 0.0))), True)
    block = NonCentred("b", np.array([[0], [1]]), "b", ((Counter([factor]),),), (location,))
    return in_inverse_shape(reparametrize_by(parts, [block]), "nu_log__", 1)


def test_a_shape_is_mapped_beside_others_that_do_not_depend_on_it():
    both, values = beside(scale=2), some(own(student()))
    positions = both.positions(values)
    assert positions[0] == pytest.approx(values[0] * np.exp(values[2]))
    assert positions[3] == pytest.approx(np.exp(-values[3]))
    assert both.values(positions) == pytest.approx(values)
    copied = replace(both, maps=pickle.loads(pickle.dumps(both.maps)))
    assert np.array_equal(copied.positions(values), positions)
    assert beside(scale=3) is None
    assert beside(scale=2, location=3) is None


def test_shapes_are_found_by_the_functions_that_they_go_into():
    assert shape_variables(own(negative_binomial())) == ["alpha_log__"]
    assert shape_variables(own(student())) == ["nu_log__"]
    assert shape_variables(own(shapes_of_groups())) == ["alpha_log__"]
    # Of a gamma density with a large shape, all that is left is how precise the data are.
    assert shape_variables(own(gamma())) == []


def test_rows_that_are_not_smooth_stay_in_logarithms():
    """The two shapes of a beta binomial tell a share as well."""
    y = np.random.default_rng(5).binomial(20, 0.3, 40)
    with pm.Model() as model:
        a, b = pm.HalfNormal("a", 10.0), pm.HalfNormal("b", 10.0)
        pm.BetaBinomial("y", alpha=a, beta=b, n=20, observed=y)
    shapes = shape_variables(own(model))
    assert shapes
    assert all(in_inverse_shape(own(model), name, 1) is None for name in shapes)


powers = pytest.mark.parametrize("power", [1, 2])
KAPPAS = [3.0, 0.4, 1e-2, 1e-5, 1e-9, 1e-13, 0.0]
COEFFICIENTS = np.array([0.9, 0.25])


@cache
def function_of(parts):
    (function,) = row_functions(parts)
    return function


def rows_at(parts, position):
    """Return the log-likelihoods of all rows at a position."""
    function = function_of(parts)
    rows = Rows(function, np.arange(function.n_rows), parts.size)
    found, _ = evaluate(function, rows.data, rows.arguments(position))
    return np.broadcast_to(found, function.n_rows)


def counts_and_means(model):
    y = model["y"].owner and model.rvs_to_values[model["y"]].data
    x = np.random.default_rng(1).standard_normal(y.size)
    return y, np.exp(COEFFICIENTS[0] + COEFFICIENTS[1] * x)


@powers
@pytest.mark.parametrize("kappa", KAPPAS)
def test_counts_have_their_density(kappa, power):
    model = negative_binomial()
    y, mu = counts_and_means(model)
    position = np.array([kappa ** (1.0 / power), *COEFFICIENTS])
    found = rows_at(reciprocal(model, power), position)
    if kappa > 1e-4:
        alpha = 1.0 / kappa
        expected = stats.nbinom.logpmf(y, alpha, alpha / (alpha + mu))
    else:
        # To first order in kappa.
        expected = stats.poisson.logpmf(y, mu) + 0.5 * kappa * ((y - mu) ** 2 - y)
    assert found == pytest.approx(expected, rel=1e-7 if kappa else 1e-13)


@powers
@pytest.mark.parametrize("kappa", KAPPAS)
def test_noise_has_its_density(kappa, power):
    model = student()
    parts = reciprocal(model, power)
    y = model.rvs_to_values[model["y"]].data
    x = np.random.default_rng(2).standard_normal(y.size)
    mu, sigma = COEFFICIENTS[0] + COEFFICIENTS[1] * x, 1.3
    position = np.array([*COEFFICIENTS, np.log(sigma), kappa ** (1.0 / power)])
    found = rows_at(parts, position)
    nu = 1.0 / kappa if kappa else np.inf
    expected = stats.t.logpdf(y, nu, mu, sigma) if kappa > 1e-4 else stats.norm.logpdf(y, mu, sigma)
    assert found == pytest.approx(expected, rel=1e-10 if kappa > 1e-4 else 1e-3 if kappa else 1e-13)


@powers
@pytest.mark.parametrize("placed", list(PLACED))
def test_shapes_with_a_shift_or_an_interval_have_their_densities(placed, power):
    prior, shape_of, words = PLACED[placed]
    counts, noise = negative_binomial(prior=prior), student(prior=prior)
    in_counts, in_noise = reciprocal(counts, power), reciprocal(noise, power)
    (known,) = in_counts.maps
    assert known.label == words[power - 1]
    (y, mu), t = counts_and_means(counts), noise.rvs_to_values[noise["y"]].data
    level = COEFFICIENTS[0] + COEFFICIENTS[1] * np.random.default_rng(2).standard_normal(t.size)
    for kappa in (3.0, 0.4, 1e-2, 1e-5, 1e-14):
        shape, root = shape_of(kappa), kappa ** (1.0 / power)
        found = rows_at(in_counts, np.array([root, *COEFFICIENTS]))
        finite = stats.nbinom.logpmf(y, shape, shape / (shape + mu))
        expected = finite if shape < 1e9 else stats.poisson.logpmf(y, mu)
        assert found == pytest.approx(expected, rel=1e-7), kappa
        position = np.array([*COEFFICIENTS, np.log(1.3), root])
        expected = stats.t.logpdf(t, shape if shape < 1e9 else np.inf, level, 1.3)
        assert rows_at(in_noise, position) == pytest.approx(expected, rel=1e-9), kappa
