"""Positions in reciprocals of shapes: the map, its Jacobian, and the density."""

import pickle
from dataclasses import replace

import numpy as np
import pytensor
import pytest
from pytensor.graph.replace import clone_replace

from every import every
from likelihood.evaluation import function_of
from pymc_minibatch_mh.likelihood.factorization import Reparametrization, reparametrized
from pymc_minibatch_mh.likelihood.maps import InverseShape, NonCentred
from shapes import negative_binomial, own, reciprocal, shapes_of_groups, student

MODELS = {"counts": negative_binomial, "noise": student, "groups": shapes_of_groups}
powers = every("power", [1, 2])
models = every("name", list(MODELS))


def some(parts, count=5):
    """Return values of the model's own variables."""
    return np.random.default_rng(3).normal(size=(count, parts.size))


@powers
@models
def test_positions_are_reciprocals_and_lead_back(name, power):
    parts = reciprocal(MODELS[name](), power)
    places = sorted(parts.reparametrization.ends)
    values = some(parts)
    positions = parts.positions(values)
    assert positions[:, places] == pytest.approx(np.exp(values[:, places]) ** (-1.0 / power))
    others = np.setdiff1d(np.arange(parts.size), places)
    assert np.array_equal(positions[:, others], values[:, others])
    assert parts.values(positions) == pytest.approx(values)


@powers
@models
def test_graph_and_jacobian_are_those_of_the_map(name, power):
    parts = reciprocal(MODELS[name](), power)
    coordinates = parts.reparametrization
    at = parts.position.type("at")
    function = function_of([at], [coordinates.graph(at), coordinates.log_jacobian(at)])
    for values in some(parts):
        position = parts.positions(values)
        there, log_jacobian = function(position)
        assert there == pytest.approx(values)
        steps = 1e-6 * np.diag(np.abs(position))
        ends = parts.values(position + steps), parts.values(position - steps)
        slopes = (ends[0] - ends[1]) / (2.0 * np.diag(steps)[:, None])
        numeric = np.linalg.slogdet(slopes).logabsdet
        assert log_jacobian == pytest.approx(numeric, abs=1e-6)
        assert parts.log_jacobian(position) == pytest.approx(numeric, abs=1e-6)


@powers
@models
def test_the_density_is_that_of_the_model_times_the_jacobian(name, power):
    parts = own(MODELS[name]())
    there = reciprocal(MODELS[name](), power)

    def density(of):
        total = of.prior + sum(term.logp.sum() for term in of.terms)
        batches = [pair for term in of.terms for pair in term.batches]
        given = {batch: pytensor.tensor.constant(column.values) for column, batch in batches}
        lengths = {term.length: pytensor.tensor.constant(term.n_rows) for term in of.terms}
        (total,) = clone_replace([total], {**given, **lengths}, rebuild_strict=False)
        return function_of([of.position], total)

    one, other = density(parts), density(there)
    for values in some(parts):
        position = there.positions(values)
        expected = one(values) + there.log_jacobian(position)
        assert other(position) == pytest.approx(expected, rel=1e-9)


def test_the_support_begins_at_zero():
    parts, there = own(negative_binomial()), reciprocal(negative_binomial())
    (place,) = there.reparametrization.ends
    assert np.isneginf(parts.lower).all()
    assert there.lower[place] == 0.0
    assert np.isneginf(np.delete(there.lower, place)).all()
    assert np.isposinf(there.upper).all()
    assert np.isneginf(there.support_of_values[0]).all()
    outside = np.full(there.size, -0.5)
    assert np.array_equal(there.mirrored(outside) > 0.0, there.lower == 0.0)
    assert parts.mirrored(outside) is outside


def test_coordinates_are_pickled():
    there = reciprocal(student(), 2)
    values = some(there)
    copied = pickle.loads(pickle.dumps(there.reparametrization))
    assert np.array_equal(copied.positions(values), there.reparametrization.positions(values))


def test_maps_of_blocks_tell_what_they_depend_on():
    parts = own(student())
    scale = pytensor.tensor.exp(parts.position[2])
    block = NonCentred("b", np.array([[0], [1]]), "b", parts.position, ((scale,),), (3,))
    coordinates = Reparametrization((block,))
    assert [coordinates.depend_on(k) for k in range(4)] == [True] * 4
    free = Reparametrization((replace(block, locations=(-1,)),))
    assert [free.depend_on(k) for k in range(4)] == [True, True, True, False]
    shape = InverseShape("nu_log__", np.array([3]), "1/nu", 1)
    both = reparametrized(parts, Reparametrization((*free.maps, shape)))
    values = some(parts)
    positions = both.positions(values)
    assert positions[:, 0] == pytest.approx(values[:, 0] * np.exp(values[:, 2]))
    assert positions[:, 3] == pytest.approx(np.exp(-values[:, 3]))
    assert both.values(positions) == pytest.approx(values)
