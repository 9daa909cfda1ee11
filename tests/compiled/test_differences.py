"""Compiled derivatives and differences of rows, against those in fifty digits.

Differences are without cancellation, and own up to their rounding errors.
"""

from itertools import combinations_with_replacement, pairwise, product
from math import factorial, prod

import mpmath as mp
import numpy as np
import pymc as pm
import pytest
from pymc.distributions.dist_math import i0e_scalar
from pytensor.scalar import basic as scalar

from compiled.fitted import arguments_of, leaves_of_rows, rows_of, run
from helpers.in_library import ULPS
from helpers.models import FAMILIES
from helpers.tiers import QUICK, fast
from pymc_minibatch_mh.compiled import form_rows
from pymc_minibatch_mh.compiled.differences import PartialDerivatives, undefined_operation
from pymc_minibatch_mh.compiled.form_rows import FormRows
from pymc_minibatch_mh.compiled.scalar_functions import (
    compiled_rowwise,
    data_leaves,
    make_composite,
)
from pymc_minibatch_mh.expressions.graph import ExprGraph
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions
from structure.exact import DIGITS, exact_row

ROWS = np.array([0, 1, 7, 500])
SCALES = (1.0, 1e-2, 1e-5, 1e-8)
FAST = [*product(QUICK, (2,)), ("student_free", 0)]
#: A kink has no derivatives that differences were of.
ONE_ARGUMENT = ("bernoulli_logit", "bernoulli_probit", "poisson_exposure")
SMOOTH = [name for name in FAMILIES if name != "laplace"]


def moves(found, term, rows, rng, scale):
    """Return û, u - û and u' - û of some rows, in a move of a given size."""
    centre = arguments_of(found, term, rows)
    return [centre, *(scale * rng.standard_normal((2, *centre.shape)))]


def exact_difference(row, centre, here, there, order):
    """Return r(u') - r(u) in fifty digits, r = f less its polynomial around the centre."""
    slopes = {i: row.derivative(centre, i) for i in indices(len(centre), range(1, order + 1))}
    with mp.workdps(DIGITS):
        at = [
            [mp.mpf(float(c)) + mp.mpf(float(x)) for c, x in zip(centre, end, strict=True)]
            for end in (here, there)
        ]
        total = row(*at[1]) - row(*at[0])
        for index, slope in slopes.items():
            repeated = prod(factorial(index.count(k)) for k in set(index))
            before, after = (
                mp.fprod(mp.mpf(float(end[k])) for k in index) for end in (here, there)
            )
            total -= slope * (after - before) / repeated
        return total


def largest_excess(found, term, order, scale, seed=3):
    """Return the largest error in units of the error that is owned up to, and of the change."""
    rng = np.random.default_rng(seed)
    centre, here, there = moves(found, term, ROWS, rng, scale)
    leaves = leaves_of_rows(found, term, ROWS)
    function = found.compiled.differences(order)[term]
    ours = run(function, centre, here, there, leaves, width=2)
    worst = 0.0
    for k, (row, (change, doubt)) in enumerate(zip(ROWS, ours, strict=True)):
        own = exact_row(found.functions[term], row)
        exact = exact_difference(own, centre[k], here[k], there[k], order)
        error = abs(mp.mpf(change) - exact)
        worst = max(worst, float(error / (ULPS * doubt)) if error > 0 else 0.0)
    return worst


@pytest.mark.parametrize(("name", "order"), fast([*product(SMOOTH, (0, 1, 2))], FAST))
def test_errors_are_below_what_is_owned_up_to(name, order):
    found = rows_of(name)
    for term in range(len(found.functions)):
        for scale in SCALES:
            assert largest_excess(found, term, order, scale) < 1.0


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_errors_of_cubic_remainders_are_below_what_is_owned_up_to(name):
    for scale in SCALES:
        assert largest_excess(rows_of(name), 0, 3, scale) < 1.0


@pytest.mark.parametrize(("name", "order"), fast([*product(FAMILIES, (0, 1, 2))], FAST))
def test_the_way_back_has_the_opposite_difference_to_the_last_bit(name, order):
    found = rows_of(name)
    rows = np.arange(400)
    for term in range(len(found.functions)):
        function, leaves = (
            found.compiled.differences(order)[term],
            leaves_of_rows(found, term, rows),
        )
        for scale in SCALES:
            centre, here, there = moves(found, term, rows, np.random.default_rng(5), scale)
            forth = run(function, centre, here, there, leaves, width=2)[:, 0]
            back = run(function, centre, there, here, leaves, width=2)[:, 0]
            np.testing.assert_array_equal(forth, -back)


CHECKED = [0, 1, 7, 500]


def indices(m, orders):
    return [i for order in orders for i in combinations_with_replacement(range(m), order)]


def exact_derivatives(row, arguments, orders):
    """Return the partial derivatives in the order in which they are compiled."""
    return np.array([float(row.derivative(arguments, i)) for i in indices(len(arguments), orders)])


def compiled_derivatives(found, term, rows, orders):
    m = len(found.functions[term].arguments)
    arguments, leaves = arguments_of(found, term, rows), leaves_of_rows(found, term, rows)
    roles = found.compiled.thirds() if orders == (3,) else found.compiled.slopes()
    return run(roles[term], arguments, leaves, width=len(indices(m, orders)))


@pytest.mark.parametrize("orders", [(0, 1, 2), (3,)], ids=["to the second", "the third"])
@pytest.mark.parametrize("name", fast(SMOOTH))
def test_derivatives_are_those_of_the_exact_function(name, orders):
    found = rows_of(name)
    for term, function in enumerate(found.functions):
        ours = compiled_derivatives(found, term, CHECKED, orders)
        for row, values in zip(CHECKED, ours, strict=True):
            point = arguments_of(found, term, [row])[0]
            exact = exact_derivatives(exact_row(function, row), point, orders)
            scale = np.abs(exact).max()
            np.testing.assert_allclose(values, exact, rtol=1e-9, atol=1e-11 * scale)


@pytest.mark.parametrize("name", ["student_free", "negative_binomial", "poisson_exposure"])
def test_third_derivatives_of_long_functions_are_differences_of_hessians(name, monkeypatch):
    found = rows_of(name)
    found.compiled.thirds()
    monkeypatch.setattr(form_rows, "MAX_THIRDS", 0)
    long = FormRows(found.functions, found.parts.size)
    for term, function in enumerate(found.functions):
        exact = compiled_derivatives(found, term, CHECKED, (3,))
        inputs = arguments_of(found, term, CHECKED), leaves_of_rows(found, term, CHECKED)
        ours = run(long.thirds()[term], *inputs, width=exact.shape[1])
        assert (len(function.arguments) == 1) == ((ours - exact) == 0.0).all()
        np.testing.assert_allclose(ours, exact, rtol=1e-7, atol=1e-7 * np.abs(exact).max())


@pytest.mark.parametrize("x", [0.02, 0.7, 3.0, 40.0, 2_000.0])
def test_derivatives_of_the_von_mises_normaliser_are_exact(x):
    exprs = ExprGraph()
    root = exprs.node(scalar.log, (exprs.node(i0e_scalar, (exprs.argument(0),)),))
    slopes = PartialDerivatives(exprs)
    outputs = [slopes.of(root, *[0] * order) for order in (1, 2)]
    function = compiled_rowwise(make_composite(outputs, 1, data_leaves(outputs)))
    ours = run(function, np.array([[x]]), width=2)
    with mp.workdps(DIGITS):
        ratio = mp.besseli(1, x) / mp.besseli(0, x)
        exact = [float(ratio - 1), float(1 - ratio / x - ratio**2)]
    np.testing.assert_allclose(ours[0], exact, rtol=1e-12, atol=1e-15)


def test_a_part_without_probability_changes_nothing():
    """A count above 0 has none to be one of too many zeros, of which the share is known."""
    with pm.Model() as model:
        mu = pm.math.exp(pm.Normal("level"))
        pm.ZeroInflatedPoisson("y", 0.7, mu, observed=np.array([0, 0, 1, 3]))
    parts = factorize(model, model.value_vars, min_rows=1)
    compiled = FormRows(row_functions(parts), parts.size)
    moved = np.tile([0.1, 0.2, 0.5], (2, 1))
    leaves = np.array([[0.0], [3.0]])
    (change, doubt), (other, none) = run(compiled.differences(0)[0], moved, leaves, width=2)
    assert np.isfinite([change, doubt, other, none]).all()
    exact = 3.0 * 0.3 - np.exp(0.6) + np.exp(0.3)
    assert other == pytest.approx(exact, rel=1e-12)


def brackets(mu, low, high):
    """Return log(Φ(b) - Φ(a)), as a bracket of a normal variable is written."""
    below, above = (pm.logcdf(pm.Normal.dist(mu, 0.7), end) for end in (low, high))
    return above + pm.math.log1mexp(below - above)


@pytest.mark.parametrize("end", [30.0, 1e3, 1e8])
def test_open_brackets_have_all_derivatives(end):
    ends = np.array([-end, -0.5, 0.5, 1.5, end])
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.CustomDist(
            "y",
            mu,
            ends[:-1],
            ends[1:],
            observed=np.zeros(4),
            logp=lambda v, *given: brackets(*given),
        )
    functions = row_functions(factorize(model, model.value_vars, min_rows=1))
    rows, data = FormRows(functions, 1), RowData(functions[0], np.arange(4))
    leaves = np.stack([np.broadcast_to(data.value(x), 4) for x in rows.leaves[0]], axis=1)
    ours = run(rows.slopes()[0], np.full((4, 1), 0.8), leaves, width=3)
    thirds = run(rows.thirds()[0], np.full((4, 1), 0.8), leaves, width=1)

    def exact(u, low, high):
        return mp.log(
            mp.ncdf((mp.mpf(high) - u) / mp.mpf(0.7)) - mp.ncdf((mp.mpf(low) - u) / mp.mpf(0.7))
        )

    with mp.workdps(DIGITS):
        values = [
            [
                float(mp.diff(lambda u, *pair: exact(u, *pair), (0.8, *pair), (n, 0, 0)))
                for n in range(4)
            ]
            for pair in pairwise(ends)
        ]
    np.testing.assert_allclose(np.hstack([ours, thirds]), values, rtol=1e-9, atol=1e-13)


def test_the_operation_without_curvature_is_that_of_the_branch_that_is_taken():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        known, given = (np.array(column) for column in ([0.0, 0.0, 1.0], [1.0, 0.0, 0.0]))
        pm.CustomDist(
            "y", mu, given, observed=known,
            logp=lambda v, mu, g: pm.math.switch(
                g > 0.5, -((v * pm.math.exp(mu)) ** 1.5), -pm.math.sqrt(v * (mu + 3.0))
            ),
        )  # fmt: skip
    (function,) = row_functions(factorize(model, model.value_vars, min_rows=1))
    found = [undefined_operation(function, row, np.array([0.3])) for row in range(3)]
    assert [str(op) for op in found] == ["pow", "sqrt", "None"]
