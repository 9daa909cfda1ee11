"""Loops over states in the library, against jets of the nested expression, and without loops."""

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest

from bounds.certified import derivatives, evaluate
from bounds.state_sums import STATE_SUMS
from pymc_minibatch_mh.compiled import state_rows
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS = 30


NAMES = ["conway_maxwell", "animals", "sites"]


@cache
def rows_of(name):
    model = STATE_SUMS[name]()
    parts = factorize(model, model.value_vars, min_rows=1)
    (function,) = row_functions(parts)
    compiled, data = FormRows([function], parts.size), RowData(function, np.arange(ROWS))
    arguments = 0.4 * np.random.default_rng(5).normal(size=(ROWS, len(function.arguments)))
    return function, data, compiled, arguments


def called(rows, compiled, *vectors):
    """Return the outputs of a compiled function of rows."""
    _, data, (leaves,) = rows[0], rows[1], rows[2].leaves
    taken = [np.broadcast_to(np.asarray(data.value(x), float), ROWS)[:, None] for x in leaves]
    lines = np.ascontiguousarray(np.hstack([*vectors, *taken]))
    out = np.full((ROWS, 100), np.nan)
    compiled(lines, out.ravel(), ROWS)
    return out.ravel()[~np.isnan(out.ravel())].reshape(ROWS, -1)


def in_order(jet, m, *orders):
    indices = [k for n in orders for k in combinations_with_replacement(range(m), n)]
    return np.stack([np.broadcast_to(jet.get(k, 0.0), ROWS) for k in indices], axis=1)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_those_of_the_expression(name):
    function, data, compiled, u = rows = rows_of(name)
    jet = derivatives(function, data, list(u.T), 3)
    values, slopes, thirds = (
        called(rows, role()[0], u) for role in (compiled.values, compiled.slopes, compiled.thirds)
    )
    m = u.shape[1]
    np.testing.assert_allclose(values, in_order(jet, m, 0), rtol=1e-12)
    np.testing.assert_allclose(slopes, in_order(jet, m, 0, 1, 2), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(thirds, in_order(jet, m, 3), rtol=1e-9, atol=1e-9)


def test_third_derivatives_of_long_features_are_differences_of_hessians(monkeypatch):
    _, _, compiled, u = rows = rows_of("animals")
    exact = called(rows, compiled.thirds()[0], u)
    monkeypatch.setattr(state_rows, "MAX_THIRDS", 0)
    long = FormRows(compiled.functions, compiled.size)
    ours = called((*rows[:2], long, u), long.thirds()[0], u)
    assert (ours != exact).any()
    np.testing.assert_allclose(ours, exact, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_differences_are_those_of_remainders(name, order):
    function, data, compiled, u = rows = rows_of(name)
    m = u.shape[1]
    moves = 0.1 * np.random.default_rng(6).normal(size=(2, ROWS, m))
    found = called(rows, compiled.differences(order)[0], u, *moves)
    jet = derivatives(function, data, list(u.T), 2)
    slopes = in_order(jet, m, 1)
    bends = np.array([[np.broadcast_to(jet.get((min(a, b), max(a, b)), 0.0), ROWS)
                       for a in range(m)] for b in range(m)])  # fmt: skip
    remainders = []
    for move in moves:
        value = evaluate(function, data, list((u + move).T))[0]
        value = value - (order > 0) * (slopes * move).sum(axis=1)
        remainders.append(value - (order > 1) * 0.5 * np.einsum("na,abn,nb->n", move, bends, move))
    np.testing.assert_allclose(found[:, 0], remainders[1] - remainders[0], atol=1e-12)
    assert (np.abs(found[:, 1]) > np.abs(found[:, 0])).all()
