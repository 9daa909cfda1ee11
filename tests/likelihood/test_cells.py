"""Cells: one object per expression, in the types of the model."""

import numpy as np
import pytest
from pytensor.scalar import basic as scalar
from pytensor.scalar import math as scalar_math

from likelihood.expressions import value_of
from pymc_minibatch_mh.likelihood.cells import (
    Affine,
    Cells,
    Constant,
    Gather,
    LoweringError,
    Term,
    sum_of,
)
from pymc_minibatch_mh.likelihood.patterns import is_finite, is_positive, varies
from pymc_minibatch_mh.likelihood.simplify import apply


@pytest.fixture
def cells():
    return Cells()


def test_equal_cells_are_one(cells):
    u, v, x = cells.coordinate(0), cells.coordinate(1), cells.data(0, ())
    assert cells.coordinate(0) is u
    assert cells.constant(2.0) is cells.constant(np.array(2.0))
    assert cells.constant(2.0) is not cells.constant(2)
    assert cells.total([u, v], [x]) is cells.total([v, u], [x])
    assert cells.scaled(cells.scaled(u, x), cells.constant(3.0)) is cells.scaled(
        u, cells.times(cells.constant(3.0), x)
    )
    assert cells.times(x, cells.times(cells.minus_one, cells.minus_one)) is x


def test_affine_cells_add_up(cells):
    u, v, x = cells.coordinate(0), cells.coordinate(1), cells.data(0, ())
    total = cells.total([u, cells.scaled(v, x), u], [x, cells.constant(2.0)])
    assert total.terms == (Term(2.0, (), 0), Term(1.0, (x,), 1))
    assert cells.linear(total).offset is cells.zero
    assert cells.total([u, cells.scaled(u, cells.minus_one)], [x]) is x
    assert cells.scaled(u, cells.zero) is cells.zero


def test_what_rounding_leaves_of_a_sum_is_nothing(cells):
    assert sum_of([0.1, 0.2, -0.3]) == 0.0 != 0.1 + 0.2 - 0.3
    assert sum_of([1.0, -1.0 + 1e-13]) != 0.0
    assert sum_of([1e-300]) == 1e-300
    u = cells.coordinate(0)
    parts = [cells.scaled(u, cells.constant(k)) for k in (0.1, 0.2, -0.3)]
    assert cells.total(parts, []) is cells.zero


def test_products_that_the_model_keeps_apart_are_real(cells):
    few = np.array([100, -128], dtype=np.int8)
    x, y = (cells.data(k, (), np.dtype("int8")) for k in range(2))
    for combined, expected in (
        (cells.times(x, y), few.astype(float) ** 2),
        (cells.plus([x, y, x]), 3.0 * few),
    ):
        assert combined.dtype == np.float64
        np.testing.assert_array_equal(value_of(combined, (), (few, few)), expected)
    own = cells.node(scalar.mul, (x, y))
    assert own.dtype == np.int8
    assert cells.times(own, cells.constant(2.0)).inputs[1] is own


def test_constants_are_folded_without_warnings(cells):
    folded = cells.node(scalar.log, (cells.constant(0.0),))
    assert isinstance(folded, Constant)
    assert folded.value == -np.inf


def test_positive_and_finite_cells_are_known(cells):
    u, x = cells.coordinate(0), cells.data(0, ())
    exp, softplus = cells.node(scalar.exp, (u,)), cells.node(scalar_math.softplus, (u,))
    product = cells.node(scalar.mul, (x, exp))
    assert is_positive(cells.node(scalar.reciprocal, (cells.node(scalar.add, (exp, softplus)),)))
    assert is_positive(cells.constant(2))
    assert not any(map(is_positive, (u, x, product, cells.zero, cells.constant(np.nan))))
    assert is_finite(cells.node(scalar.mul, (cells.minus_one, softplus)))
    assert is_finite(cells.data(1, (), np.dtype("int64")))
    offset = cells.total([u], [x])
    assert not any(map(is_finite, (x, product, offset, cells.constant(-np.inf))))
    assert not is_finite(cells.node(scalar.log, (exp,)))


def test_what_varies_in_every_row_is_known(cells):
    u, v, x = cells.coordinate(0), cells.coordinate(1), cells.data(0, ())
    gathered = cells.coordinate(Gather(0, 1, 2, cells.data(1, (), np.dtype("int64"))))
    sloped = cells.scaled(u, x)
    exp = cells.node(scalar.exp, (v,))
    assert varies(u)
    assert varies(gathered)
    assert varies(exp, sloped)
    assert varies(cells.node(scalar.mul, (cells.constant(-2.0), cells.node(scalar.exp, (u,)), exp)))
    assert varies(cells.total([sloped, v], [x]))
    assert not varies(sloped)
    assert not varies(x)
    assert not varies(exp, cells.node(scalar.sqr, (v,)))
    assert not varies(gathered, u)
    assert not varies(cells.node(scalar.mul, (x, exp)))
    assert not varies(cells.node(scalar.abs, (u,)))


def test_numbers_of_rows_are_no_data(cells):
    with pytest.raises(LoweringError, match="number of rows"):
        apply(cells, scalar.mul, cells.coordinate(0), cells.length())


def test_scaling_by_what_is_not_finite_leaves_no_finite_factor(cells):
    scaled = cells.scaled(cells.coordinate(0), cells.constant(np.nan))
    assert isinstance(scaled, Affine)
    assert not np.isfinite(scaled.terms[0].factor)
