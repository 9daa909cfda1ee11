"""Linear forms as the kernels read them, against matrices of coefficients."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from compiled.fitted import run
from model.evaluation import split_of
from pymc_minibatch_mh.compiled.form_rows import (
    DataLeaves,
    FormRows,
    TermLayout,
    evaluate_predictors,
)
from pymc_minibatch_mh.compiled.graphs import row_source
from pymc_minibatch_mh.native import library
from pymc_minibatch_mh.native.row_sums import differences_of
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

N = 60
RNG = np.random.default_rng(17)
X = RNG.normal(size=(N, 5))
g = RNG.integers(-4, 4, N)
z = RNG.normal(size=N)


def scale(b, a, s):
    """A second argument, which shares coordinates with the first."""
    return 0.3 * s + 0.1 * b[0]


def parts_of(mean, scale=None):
    """Return a normal regression whose mean is written by `mean`."""
    with pm.Model() as model:
        b = pm.Normal("b", shape=5)
        a = pm.Normal("a", shape=4)
        s = pm.Normal("s")
        sigma = 1.0 if scale is None else pm.math.exp(scale(b, a, s))
        pm.Normal("y", mean(b, a, s), sigma, observed=RNG.normal(size=N))
    return split_of(model)


def by_one_column_each(b, a, s):
    return sum(b[k] * X[:, k].copy() for k in range(5))


WRITINGS = {
    "a product with a matrix": lambda b, a, s: X @ b,
    "single precision, transposed": lambda b, a, s: b @ np.asfortranarray(X.astype("f4")).T,
    "every other row and column": lambda b, a, s: np.repeat(X, 2, axis=0)[::2] @ b,
    "rows and columns from the end": lambda b, a, s: pm.math.dot(X[::-1, ::-1], b),
    "one column each": by_one_column_each,
    "small integers": lambda b, a, s: (X * 10).astype("i1") @ b,
    "truth values": lambda b, a, s: (X > 0) @ b,
    "a product of columns": lambda b, a, s: s * z * X[:, 1] + X[:, 0] * b[2],
    "the same coordinate twice": lambda b, a, s: X @ b + z * b[1] + 3.0 * b[1],
    "two matrices": lambda b, a, s: X @ b + (2.0 * X[:, ::-1]) @ b,
    "a constant": lambda b, a, s: s + X @ b,
    "a product times a number": lambda b, a, s: X[:, :4] @ a - 2.5 * (X @ b),
    "a choice": lambda b, a, s: a[g] + X @ b,
    "a product with a choice": lambda b, a, s: z * a[g] + X @ b,
    "two choices of one vector": lambda b, a, s: a[g] - a[(g + 1) % 4],
    "a choice by what is computed": lambda b, a, s: a[pm.Data("k", np.abs(g)) // 2],
    "a factor that is computed": lambda b, a, s: s * pm.math.exp(pm.Data("w", z)) + X @ b,
    "every second coordinate": lambda b, a, s: a[::2][pm.Data("i", np.abs(g) % 2)],
    "a reversed vector": lambda b, a, s: X @ b[::-1],
}


@cache
def with_scale(writing):
    """Return a model with two arguments, and the function of its rows."""
    parts = parts_of(WRITINGS[writing], scale)
    (function,) = row_functions(parts)
    return parts, function


@pytest.mark.parametrize("writing", WRITINGS)
def test_forms_are_those_of_the_coefficients(writing):
    _, function = with_scale(writing)
    assert len(function.arguments) == 2
    centre, factor = RNG.normal(size=10), np.tril(RNG.normal(size=(10, 10)))
    rows = np.array([0, 3, N - 1, 3, 17])
    data = RowData(function, rows)
    found = evaluate_predictors(function, rows, centre, factor, directions=True)
    for k, form in enumerate(function.arguments):
        matrix = np.broadcast_to(data.coefficients(form, 10), (rows.size, 10))
        np.testing.assert_allclose(found.values[:, k], matrix @ centre, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(found.whitened[:, k], matrix @ factor, rtol=1e-12, atol=1e-12)
        white = np.linalg.norm(matrix @ factor, axis=1)
        np.testing.assert_allclose(found.norms[:, k], white, rtol=1e-12)
        sizes = np.abs(matrix * centre).sum(axis=1)
        assert (found.sizes[:, k] >= sizes * (1.0 - 1e-12)).all()


def pieces(function):
    found = TermLayout(function.arguments, DataLeaves(function), ()).term.pieces
    return [piece.kind for piece in found], [piece.count for piece in found]


def derived(parts, theta, rows):
    """Return value, gradient and Hessian of some rows, as passes add them up."""
    placed_rows = FormRows(row_functions(parts), parts.size).at(row_source(parts))
    sums, hessian = np.zeros(1 + theta.size), np.zeros((theta.size, theta.size))
    space = placed_rows.space(derivatives=True)
    library.function("mh_add_derivatives")(space, theta, rows, rows.size, 1, sums, hessian)
    return sums[0], sums[1:], hessian


@pytest.mark.parametrize("writing", WRITINGS)
def test_gradient_and_hessian_are_products_with_the_coefficients(writing):
    parts, function = with_scale(writing)
    theta, rows = 0.3 * RNG.normal(size=10), np.arange(N - 1)
    data = RowData(function, rows)
    matrices = [
        np.broadcast_to(data.coefficients(form, 10), (rows.size, 10)) for form in function.arguments
    ]
    compiled = FormRows([function], parts.size)
    arguments = np.stack([matrix @ theta for matrix in matrices], axis=1)
    leaves = np.stack([data.value(leaf) for leaf in compiled.leaves[0]], axis=1)
    slopes = run(compiled.slopes()[0], arguments, leaves, width=6)
    value, gradient, hessian = derived(parts, theta, rows)
    np.testing.assert_allclose(value, slopes[:, 0].sum(), rtol=1e-12)
    expected = sum(slopes[:, 1 + k] @ matrix for k, matrix in enumerate(matrices))
    np.testing.assert_allclose(gradient, expected, rtol=1e-10, atol=1e-10)
    second = {(0, 0): 3, (0, 1): 4, (1, 0): 4, (1, 1): 5}
    expected = sum(
        matrices[i].T @ (slopes[:, place, None] * matrices[j]) for (i, j), place in second.items()
    )
    np.testing.assert_allclose(hessian, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "writing", ["a product with a matrix", "a choice", "the same coordinate twice"]
)
def test_averages_of_slopes_are_those_of_the_curvature_nearby(writing):
    """A normal distribution changes slopes by half the gradient of tr(H C), C its covariance."""
    parts, function = with_scale(writing)
    rng, rows = np.random.default_rng(4), np.arange(N)
    theta, factor = 0.3 * rng.normal(size=10), np.tril(rng.normal(size=(10, 10)))
    placed_rows = FormRows([function], parts.size).at(row_source(parts))
    found = np.ones(10)
    space = placed_rows.space(skewness=True)
    library.function("mh_add_skewness")(space, theta, factor, rows, rows.size, found)

    def curvature(away):
        return (derived(parts, theta + away, rows)[2] * (factor @ factor.T)).sum()

    steps = 1e-4 * np.eye(10)
    exact = np.array([(curvature(step) - curvature(-step)) / 4e-4 for step in steps])
    np.testing.assert_allclose(found - 1.0, exact, rtol=1e-5, atol=1e-6 * np.abs(exact).max())


def test_a_difference_that_is_no_number_refuses_a_move():
    parts, function = with_scale("a choice")
    space = FormRows([function], parts.size).at(row_source(parts)).space(0)
    here, rows = np.zeros(10), np.arange(N)
    differences, scales = np.zeros((2, N))
    differences_of(space, (here, np.full(10, np.nan), here), rows, differences, scales)
    assert (differences == -np.inf).all()
