"""Positions in reciprocals of shapes: which shapes have some, the map, and the density."""

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from pytensor.scalar import exp

from every import every
from pymc_minibatch_mh.likelihood.factorization import factorize, reparametrized
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape, shapes_of
from pymc_minibatch_mh.reparametrize.non_centred import NonCentred
from pymc_minibatch_mh.reparametrize.occurrences import Factor
from reparametrize.mapped import check_the_map
from shapes import gamma, negative_binomial, own, reciprocal, shapes_of_groups, student

MODELS = {"counts": negative_binomial, "noise": student, "groups": shapes_of_groups}


def some(parts):
    """Return values of the model's own variables."""
    return np.random.default_rng(3).normal(size=parts.size)


@every("power", [1, 2])
@every("name", list(MODELS))
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
    assert np.array_equal(there.mirrored(outside) > 0.0, there.lower == 0.0)
    assert np.array_equal(parts.mirrored(outside), outside)


def beside(scale, location=-1):
    """Return noise in b exp(scale) + location, given by coordinates, and in 1/nu."""
    parts = own(student())
    factor = Factor(("apply", exp, ("linear", ((1.0, scale),), ("number", 0.0))), True)
    block = NonCentred("b", np.array([[0], [1]]), "b", ((Counter([factor]),),), (location,))
    return in_inverse_shape(reparametrized(parts, [block]), "nu_log__", 1)


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
    assert shapes_of(own(negative_binomial())) == ["alpha_log__"]
    assert shapes_of(own(student())) == ["nu_log__"]
    assert shapes_of(own(shapes_of_groups())) == ["alpha_log__"]
    # Of a gamma density with a large shape, all that is left is how precise the data are.
    assert shapes_of(own(gamma())) == []


def test_a_shape_that_another_step_moves_stays():
    model = negative_binomial()
    coefficients = [v for v in model.value_vars if v.name == "b"]
    assert shapes_of(factorize(model, coefficients, min_rows=1)) == []


def test_rows_that_are_not_smooth_stay_in_logarithms():
    """The two shapes of a beta binomial tell a share as well."""
    y = np.random.default_rng(5).binomial(20, 0.3, 40)
    with pm.Model() as model:
        a, b = pm.HalfNormal("a", 10.0), pm.HalfNormal("b", 10.0)
        pm.BetaBinomial("y", alpha=a, beta=b, n=20, observed=y)
    shapes = shapes_of(own(model))
    assert shapes
    assert all(in_inverse_shape(own(model), name, 1) is None for name in shapes)
