"""Bounds of functions of sums of many parts, against what they must not be smaller than."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from bounds.certified import Rows, evaluate, fit
from bounds.sums_of_parts import SUMS_OF_PARTS
from helpers.tiers import fast
from pymc_minibatch_mh.bounds.composed_bounds import ComposedBounds
from pymc_minibatch_mh.bounds.geometry import geometry_of_rows
from pymc_minibatch_mh.expressions.graph import Argument
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import row_functions

ROWS = 1_000


def functions_of(name, rows=50):
    """Return the row function of a family."""
    model = SUMS_OF_PARTS[name](rows)
    (function,) = row_functions(factorize(model, model.value_vars, min_rows=1))
    return function


def value_of(composition, function, data, arguments):
    """Return the value of a composition, and all those as exponentials within it."""
    if isinstance(composition, Argument):
        return arguments[composition.number]
    inner = [value_of(x, function, data, arguments) for x in composition.inputs]
    value, _ = evaluate(replace(function, root=composition.outer), data, inner)
    plain, _ = evaluate(replace(function, root=composition.expr), data, arguments)
    np.testing.assert_allclose(value, plain, rtol=1e-9)
    if composition.exponential is not None:
        value_of(composition.exponential, function, data, arguments)
    return value


@pytest.mark.parametrize("name", SUMS_OF_PARTS)
def test_a_composition_and_its_exponentials_are_the_function(name):
    function = functions_of(name)
    size, rng = sum(len(form.terms) for form in function.arguments), np.random.default_rng(1)
    data = Rows(function, np.arange(50), 2 * size).data
    arguments = rng.normal(scale=0.5, size=(len(function.arguments), 50))
    composition = function.composition
    value = value_of(composition, function, data, arguments)
    np.testing.assert_allclose(value, evaluate(function, data, arguments)[0], rtol=1e-9)
    assert composition.n_joint <= 3
    assert max(sum(isinstance(x, Argument) for x in composition.inputs), 1) == 1


def rising_sum(x):
    """Exponentials, whose sum exceeds the observations."""
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 1.0, shape=x.shape[1])
        pm.Normal(
            "y", (pm.math.exp(pm.Data("x", x) * b)).sum(axis=1), 1.0, observed=np.zeros(len(x))
        )
    return model


@pytest.mark.parametrize("radius", [1e-6, 0.5])
def test_bounds_along_one_direction_are_those_of_the_worst_place(radius):
    x = np.random.default_rng(4).uniform(0.5, 1.0, (200, 6))
    model = rising_sum(x)
    (function,) = row_functions(factorize(model, model.value_vars, min_rows=1))
    rows = Rows(function, np.arange(200), 6)
    factor = 1e-9 * np.eye(6)
    factor[:, 0] = 0.3
    geometry = geometry_of_rows(rows.data, np.zeros(6), factor)
    bounds = ComposedBounds(rows.data, geometry, geometry.argument_boxes(radius), radius)
    # Along the direction, all derivatives of s = Σ exp(b x) and the residual s are positive.
    slopes = 0.3 * x
    s, d1, d2, d3 = ((slopes**k * np.exp(radius * slopes)).sum(axis=1) for k in range(4))
    for order, exact in ((2, d1**2 + s * d2), (3, 3.0 * d1 * d2 + s * d3)):
        bound = bounds.size(function.composition, order)
        assert (bound >= exact * (1.0 - 1e-9)).all()
        assert (bound <= exact * (1.02 if radius < 0.1 else 1.5)).all()


def differences(rows, position, step, order):
    """Return the derivative of every row along a line, by central differences of values."""
    weights = {2: [0.0, 1.0, -2.0, 1.0, 0.0], 3: [-0.5, 1.0, 0.0, -1.0, 0.5]}[order]
    ends = [rows.arguments(position + k * step) for k in range(-2, 3)]
    values, _ = evaluate(rows.function, rows.data, [np.stack(u) for u in zip(*ends, strict=True)])
    return np.tensordot(weights, values, axes=1)


def falling_parts(x):
    """Parts a (1 - exp(x k)), which are negative for positive a."""
    with pm.Model() as model:
        a, k = (pm.HalfNormal(name, shape=x.shape[1]) for name in "ak")
        mean = (a * (1.0 - pm.math.exp(pm.Data("x", x) * k))).sum(axis=1)
        pm.Normal("y", mean, 1.0, observed=np.zeros(len(x)))
    return model


def test_logarithms_of_factors_that_are_not_positive_are_not_used():
    model = falling_parts(np.random.default_rng(5).uniform(1.0, 3.0, (50, 3)))
    (function,) = row_functions(factorize(model, model.value_vars, min_rows=1))
    rows, factor, h = Rows(function, np.arange(50), 6), 1e-9 * np.eye(6), 0.01
    factor[:, 0] = 0.3
    geometry = geometry_of_rows(rows.data, np.zeros(6), factor)
    bounds = ComposedBounds(rows.data, geometry, geometry.argument_boxes(1e-6), 1e-6)
    change = differences(rows, np.zeros(6), h * factor[:, 0], 3) / h**3
    assert (bounds.size(function.composition, 3) >= 0.99 * np.abs(change)).all()


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", fast([*SUMS_OF_PARTS], ["rise_student"]))
def test_no_derivative_along_a_direction_exceeds_its_bound(name, order):
    radius, h, rng = 2.0, 0.02, np.random.default_rng(3)
    fitted = fit(name, ROWS)
    (function,), reference = fitted.functions, fitted.reference(2)
    rows = Rows(function, np.arange(0, ROWS, 20), fitted.factorization.size)
    geometry = fitted.bounds(reference).geometry(rows.data)
    bounds = ComposedBounds(rows.data, geometry, geometry.argument_boxes(radius), radius)
    bound, largest = bounds.size(function.composition, order), np.zeros(len(rows.data.rows))
    whitened = np.stack(rows.matrices, axis=1) @ reference.factor
    for _ in range(200):
        mixed = rng.normal(size=(2, whitened.shape[1])) @ whitened[rng.integers(len(whitened))]
        w, away = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        position = fitted.mode.position + radius * rng.random() * reference.factor @ away
        change = differences(rows, position, h * (reference.factor @ w), order)
        largest = np.maximum(largest, np.abs(change) / h**order)
    assert (largest <= 1.001 * bound + 1e-9).all()
    assert (largest > 1e-3 * bound).all()
