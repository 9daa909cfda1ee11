"""Cells: one object per expression, in the types of the model."""

import numpy as np
import pytest
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from expressions.values import value_of
from pymc_minibatch_mh.expressions.graph import ExprGraph, Gather, Monomial, rounded_sum
from pymc_minibatch_mh.expressions.patterns import is_finite, is_positive, provably_varies


@pytest.fixture
def exprs():
    return ExprGraph()


def test_equal_cells_are_one(exprs):
    u, v, x = exprs.coordinate(0), exprs.coordinate(1), exprs.data(0, ())
    assert exprs.coordinate(0) is u
    assert exprs.constant(2.0) is exprs.constant(np.array(2.0))
    assert exprs.constant(2.0) is not exprs.constant(2)
    assert exprs.total([u, v], [x]) is exprs.total([v, u], [x])
    assert exprs.times_data(exprs.times_data(u, x), exprs.constant(3.0)) is exprs.times_data(
        u, exprs.times(exprs.constant(3.0), x)
    )
    assert exprs.times(x, exprs.times(exprs.minus_one, exprs.minus_one)) is x


def test_affine_cells_add_up(exprs):
    u, v, x = exprs.coordinate(0), exprs.coordinate(1), exprs.data(0, ())
    total = exprs.total([u, exprs.times_data(v, x), u], [x, exprs.constant(2.0)])
    assert total.terms == (Monomial(2.0, (), 0), Monomial(1.0, (x,), 1))
    assert exprs.without_offset(total).offset is exprs.zero
    assert exprs.total([u, exprs.times_data(u, exprs.minus_one)], [x]) is x
    assert exprs.times_data(u, exprs.zero) is exprs.zero


def test_what_rounding_leaves_of_a_sum_is_nothing(exprs):
    assert rounded_sum([0.1, 0.2, -0.3]) == 0.0 != 0.1 + 0.2 - 0.3
    assert rounded_sum([1.0, -1.0 + 1e-13]) != 0.0
    assert rounded_sum([1e-300]) == 1e-300
    u = exprs.coordinate(0)
    parts = [exprs.times_data(u, exprs.constant(k)) for k in (0.1, 0.2, -0.3)]
    assert exprs.total(parts, []) is exprs.zero


def test_products_that_the_model_keeps_apart_are_real(exprs):
    few = np.array([100, -128], dtype=np.int8)
    x, y = (exprs.data(k, (), np.dtype("int8")) for k in range(2))
    for combined, expected in (
        (exprs.times(x, y), few.astype(float) ** 2),
        (exprs.plus([x, y, x]), 3.0 * few),
    ):
        assert combined.dtype == np.float64
        np.testing.assert_array_equal(value_of(combined, (), (few, few)), expected)
    own = exprs.node(scalar.mul, (x, y))
    assert own.dtype == np.int8
    assert exprs.times(own, exprs.constant(2.0)).inputs[1] is own


def test_positive_and_finite_cells_are_known(exprs):
    u, x = exprs.coordinate(0), exprs.data(0, ())
    exp, softplus = exprs.node(scalar.exp, (u,)), exprs.node(scalar_math.softplus, (u,))
    product = exprs.node(scalar.mul, (x, exp))
    assert is_positive(exprs.node(scalar.reciprocal, (exprs.node(scalar.add, (exp, softplus)),)))
    assert is_positive(exprs.constant(2))
    assert not any(map(is_positive, (u, x, product, exprs.zero, exprs.constant(np.nan))))
    assert is_finite(exprs.node(scalar.mul, (exprs.minus_one, softplus)))
    assert is_finite(exprs.data(1, (), np.dtype("int64")))
    offset = exprs.total([u], [x])
    assert not any(map(is_finite, (x, product, offset, exprs.constant(-np.inf))))
    assert not is_finite(exprs.node(scalar.log, (exp,)))


def test_what_varies_in_every_row_is_known(exprs):
    u, v, x = exprs.coordinate(0), exprs.coordinate(1), exprs.data(0, ())
    gathered = exprs.coordinate(Gather(0, 1, 2, exprs.data(1, (), np.dtype("int64"))))
    sloped = exprs.times_data(u, x)
    exp = exprs.node(scalar.exp, (v,))
    assert provably_varies(u)
    assert provably_varies(gathered)
    assert provably_varies(exp, sloped)
    assert provably_varies(
        exprs.node(scalar.mul, (exprs.constant(-2.0), exprs.node(scalar.exp, (u,)), exp))
    )
    assert provably_varies(exprs.total([sloped, v], [x]))
    assert not provably_varies(sloped)
    assert not provably_varies(x)
    assert not provably_varies(exp, exprs.node(scalar.sqr, (v,)))
    assert not provably_varies(gathered, u)
    assert not provably_varies(exprs.node(scalar.mul, (x, exp)))
    assert not provably_varies(exprs.node(scalar.abs, (u,)))
