"""Models in other coordinates: the map leads back, and the density is the model's own."""

import numpy as np
import pytensor.tensor as pt
import pytest

from model.evaluation import evaluate, function_of, split_of
from pymc_minibatch_mh.model.check import ModelDensity


def check_the_map(model, parts, values, seed=4):
    """Check a map at some values of the model's own variables, and the density nearby."""
    check_that_it_leads_back(parts, values)
    check_the_jacobian(parts, values)
    check_free_variables(model, parts, values)
    nearby = values + 0.3 * np.random.default_rng(seed).standard_normal(values.size)
    check_that_parts_add_up(model, parts, values, nearby)


def check_that_it_leads_back(parts, values):
    positions = parts.positions(values)
    np.testing.assert_allclose(parts.values(positions), values, rtol=1e-12, atol=1e-13)
    many = np.stack([values, 1.1 * values])
    np.testing.assert_array_equal(parts.positions(many)[0], positions)
    assert np.abs(positions - values).max() > 0.01


def check_the_jacobian(parts, values):
    """Compare the Jacobian with the numerical one, and with the one of the graph."""
    position = parts.positions(values)
    step = 1e-6 * np.eye(parts.size)
    slopes = (parts.values(position + step) - parts.values(position - step)) / 2e-6
    _, log_size = np.linalg.slogdet(slopes)
    assert parts.log_jacobian(position) == pytest.approx(log_size, abs=1e-6)
    there = parts.position.type("there")
    size = pt.as_tensor(sum(one.log_jacobian(there) for one in parts.maps))
    graph = evaluate([there], size, [position])
    assert graph == pytest.approx(log_size, abs=1e-6)


def check_that_parts_add_up(model, parts, *points):
    """Compare the prior part and all rows with the model's own log-density, at some values."""
    density, inputs, data = ModelDensity(model, parts), [parts.position], []
    for term in parts.terms:
        inputs += [term.length, *(batch for _, batch in term.batches)]
        data += [term.n_rows, *(c.rows_first.astype(batch.dtype) for c, batch in term.batches)]
    total = function_of(inputs, parts.prior + sum(term.logp.sum() for term in parts.terms))
    for values in points:
        position = parts.positions(values)
        found = total(position, *data) - parts.log_jacobian(position)
        whole = density.as_written(position, np.empty(0)).value
        assert found == pytest.approx(whole, rel=1e-11)


def check_free_variables(model, parts, values):
    """Compare the model's variables with those of the model in its own coordinates."""
    own, position = split_of(model), parts.positions(values)
    names = list(parts.natural)
    found = evaluate([parts.position], [parts.natural[name] for name in names], [position])
    expected = evaluate([own.position], [own.natural[name] for name in names], [values])
    for name, one, other in zip(names, found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12, err_msg=name)
