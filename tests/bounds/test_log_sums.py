"""Joint bounds of logarithms of sums of exponentials, against searches for what exceeds them."""

from functools import reduce
from itertools import permutations, product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import optimize, special

from bounds.certified import Rows, derivatives, evaluate, fit, hunt
from bounds.exponentials import EXPONENTIALS, classes
from helpers.tiers import fast
from pymc_minibatch_mh.bounds.exponential_sums import (
    Exponents,
    Region,
    moment_bounds,
    pair_by_parts,
    softmax_units,
    use_sum_bound,
)
from pymc_minibatch_mh.bounds.geometry import Geometry
from pymc_minibatch_mh.bounds.remainder import branches_by_data, derivative_suprema, pair_of
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.expressions.log_sums import nonlinear_parts
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.structure.row_function import RowData, row_functions

ROWS = 2_000


def exponents_of(rng, n_classes, size, scale):
    """Return exponents of one row, linear in a position of some size, and their gradients."""
    z = scale * rng.normal(size=(n_classes, size)) * rng.random((n_classes, 1)) ** 2
    values = 2.0 * rng.normal(size=n_classes)
    one = Exponents(
        Interval.point(values[None]), z[None], np.ones((1, size)), np.eye(size)[None],
        np.zeros((1, n_classes)),
    )  # fmt: skip
    return values, z, one


def moments_at(values, z, place, direction):
    """Return the second and the third central moment, and the mean of cubed distances."""
    p, v = special.softmax(values + z @ place), z @ direction
    gap = v - p @ v
    far = np.linalg.norm(z - p @ z, axis=1)
    return np.array([p @ gap**2, abs(p @ gap**3), p @ far**3])


def largest_moments(rng, values, z, radius):
    """Search the region, and all directions, for the largest moments."""
    size = z.shape[1]
    most = radius if radius < np.inf else 30.0

    def at(x):
        place, direction = x[:size], x[size:]
        place = place * most / max(np.linalg.norm(place), 1.0)
        return moments_at(values, z, place, direction / np.linalg.norm(direction))

    found = np.zeros(3)
    starts = rng.normal(size=(200, 2 * size))
    tried = np.array([at(x) for x in starts])
    for k in range(3):
        for start in starts[np.argsort(tried[:, k])[-2:]]:
            end = optimize.minimize(
                lambda x, k=k: -at(x)[k], start, method="Nelder-Mead", options={"maxfev": 600}
            )
            found[k] = max(found[k], -end.fun)
    return np.maximum(found, tried.max(axis=0))


@pytest.mark.parametrize("radius", [0.0, 0.5, 3.0, np.inf])
def test_moments_are_bounded_and_closely(radius):
    rng = np.random.default_rng(11)
    ratios = []
    for n_classes, size in [(2, 1), (2, 2), (3, 2), (4, 3), (7, 3)]:
        for scale in (0.1, 1.0):
            values, z, one = exponents_of(rng, n_classes, size, scale)
            bound = moment_bounds(one, radius)
            largest = largest_moments(rng, values, z, radius)
            ratios.append(largest / [bound.variance[0], bound.third[0], bound.cubes[0]])
    assert np.max(ratios) <= 1.0 + 1e-9
    closest = np.max(ratios, axis=0)
    assert closest[0] > 0.9
    assert closest[1] > (0.99 if radius == np.inf else 0.5)
    assert closest[2] > 0.5 or radius > 1.0


def test_curved_exponents_are_bounded():
    rng = np.random.default_rng(12)
    ratios = []
    for _ in range(20):
        values, z, one = exponents_of(rng, 3, 2, 0.5)
        bends = 0.2 * rng.normal(size=(3, 2, 2))
        bends = bends + bends.transpose(0, 2, 1)
        sizes = np.abs(np.linalg.eigvalsh(bends)).max(axis=1)
        turned = Exponents(one.values, one.weights, one.norms, one.gram, sizes[None])
        bound = moment_bounds(turned, 1.0)
        for _ in range(300):
            place, direction = rng.normal(size=(2, 2))
            direction /= np.linalg.norm(direction)
            place /= max(np.linalg.norm(place), 1.0)
            curved = values + 0.5 * np.einsum("kab,a,b->k", bends, place, place)
            p = special.softmax(curved + z @ place)
            v = (z + bends @ place) @ direction
            gap = v - p @ v
            found = np.array([p @ gap**2, abs(p @ gap**3)])
            ratios.append(found / [bound.variance[0], bound.third[0]])
    assert 0.3 < np.max(ratios) <= 1.0


def largest_value(forms, whitened, rng):
    """Search unit directions for the largest values of cubic forms of the arguments, by rows."""
    full = np.zeros((len(whitened), *3 * (whitened.shape[1],)))
    for index, values in forms.items():
        for places in set(permutations(index)):
            full[(slice(None), *places)] = values
    full = np.einsum("nabc,nai,nbj,nck->nijk", full, *3 * (whitened,))
    shift = np.sqrt((full**2).sum(axis=(1, 2, 3)))[:, None]
    largest = np.zeros(len(full))
    for _ in range(10):
        x = rng.normal(size=(len(full), full.shape[1]))
        for _ in range(60):
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            slope = np.einsum("nijk,nj,nk->ni", full, x, x)
            value = (slope * x).sum(axis=1, keepdims=True)
            x = slope + np.sign(value) * shift * x
        largest = np.maximum(largest, np.abs(value[:, 0]))
    return largest


def along(function, forms, moved):
    """Return third derivatives of rows along three directions, which move exponents by `moved`."""
    total = np.zeros(moved.shape[2])
    for index, values in forms.items():
        for a, b, c in set(permutations(index)):
            total += values * moved[0, a] * moved[1, b] * moved[2, c]
    return np.abs(total)


def units_of(function, data, moved):
    centre = len(moved) * (Interval.point(np.zeros(())),)
    place = Geometry(centre, tuple(np.abs(moved)), tuple(moved[..., None]))
    return softmax_units(data, place)


def cubic_forms(function, data, arguments):
    found = derivatives(function, data, arguments, 3)
    return {index: values for index, values in found.items() if len(index) == 3}


@pytest.mark.parametrize("name", ["four_classes", "reference_last", "counts"])
def test_third_derivatives_of_a_softmax_are_bounded_along_any_directions(name):
    model, rng = EXPONENTIALS[name](ROWS), np.random.default_rng(7)
    (function,) = row_functions(factorize(model, model.value_vars))
    data, m = RowData(function, np.arange(0, ROWS, 10)), len(function.arguments)
    n = data.rows.size
    for scale in (0.0, 0.5, 2.0, 8.0, 40.0):
        forms = cubic_forms(function, data, scale * rng.normal(size=(m, n)))
        for _ in range(20):
            moved = rng.normal(size=(3, m, n)) * rng.integers(0, 2, (3, m, n))
            units = [units_of(function, data, x) for x in moved]
            assert (along(function, forms, moved) <= np.prod(units, axis=0) + 1e-14).all()
    # Equally likely alternatives, of which each direction moves two, reach the bound.
    steps = np.array(list(product((-1.0, 0.0, 1.0), repeat=m)))
    places = np.array(list(product(range(len(steps)), repeat=3))).T
    one = RowData(function, np.zeros(places.shape[1], np.int64))
    moved = steps[places].transpose(0, 2, 1)
    found = along(function, cubic_forms(function, one, np.zeros((m, one.rows.size))), moved)
    units = np.prod([units_of(function, one, x) for x in moved], axis=0)
    assert 1.0 - 1e-8 < np.max(found[units > 0.0] / units[units > 0.0]) <= 1.0


def largest_thirds(name, n_rows):
    """Return the largest third derivatives of some rows at the centre, their data and geometry."""
    fitted = fit(name, n_rows)
    (function,), reference = fitted.functions, fitted.reference(2)
    rows = Rows(function, np.arange(0, n_rows, 20), fitted.factorization.size)
    exact = derivatives(function, rows.data, rows.arguments(reference.centre), 3)
    forms = {index: values for index, values in exact.items() if len(index) == 3}
    whitened = np.stack(rows.matrices, axis=1) @ reference.factor
    largest = largest_value(forms, whitened, np.random.default_rng(4))
    return largest, rows.data, fitted.bounds(reference).geometry(rows.data)


@pytest.mark.parametrize("name", ["four_classes", "clusters", "normal_mixture"])
def test_third_derivatives_at_the_centre_are_bounded_and_closely(name):
    largest, data, place = largest_thirds(name, ROWS)
    region = Region(1e-9, 3, (1,) * len(data.function.arguments), 1.0)
    _, bound = pair_by_parts(data, place, region)
    ratios = largest / bound
    assert ratios.max() <= 1.0 + 1e-6
    assert ratios.max() > (0.2 if name == "clusters" else 0.3)


def test_what_all_exponents_have_in_common_does_not_matter():
    rng = np.random.default_rng(13)
    _, _, one = exponents_of(rng, 4, 2, 0.3)
    common = 1e6 * np.ones((1, 4, 1))
    shifted = Exponents(
        Interval(one.values.lo + 1e3, one.values.hi + 1e3),
        np.concatenate([one.weights, common], axis=2), np.ones((1, 3)), np.eye(3)[None], one.turns,
    )  # fmt: skip
    for radius in (0.5, np.inf):
        plain, other = moment_bounds(one, radius), moment_bounds(shifted, radius)
        assert plain.variance[0] <= other.variance[0] * (1.0 + 1e-6)
        assert plain.third[0] <= other.third[0] * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("name", "order"),
    fast([*product(EXPONENTIALS, (1, 2))], [("four_classes", 1), ("counts", 2)]),
)
def test_no_row_exceeds_its_bound(name, order):
    fitted = fit(name, ROWS)
    reference = fitted.reference(order)
    # Directions in which rows of twelve classes come close are rare: a short search misses them.
    largest = hunt(fitted, reference, fitted.bounds(reference).tables(), moves=20_000, climbs=150)
    assert largest.max() <= 1.0
    # Rows between clusters may belong to either of them within the region.
    assert largest.max() > 0.3 or name == "clusters"


@pytest.mark.parametrize(
    "name",
    fast(
        [*EXPONENTIALS, "softmax", "normal_mixture", "zero_inflated_poisson"],
        ["four_classes", "reference_last", "counts", "clusters", "zero_inflated_poisson"],
    ),
)
def test_parts_add_up_to_the_log_likelihood_but_for_what_is_linear(name):
    fitted = fit(name, ROWS)
    (function,) = fitted.functions
    rows = Rows(function, np.arange(0, ROWS, 40), fitted.factorization.size)
    step = 0.05 * np.random.default_rng(1).normal(size=fitted.factorization.size)
    assert use_sum_bound(function, 3)
    left = []
    for k in (-1.0, 0.0, 1.0):
        arguments = rows.arguments(fitted.mode.position + k * step)
        whole, _ = evaluate(function, rows.data, arguments)
        left.append(whole - nonlinear(function, rows.data, arguments))
    np.testing.assert_allclose(left[0] + left[2], 2.0 * left[1], atol=1e-9)


def nonlinear(function, data, arguments):
    """Return the sum of the parts of rows."""
    total = np.zeros(len(data.rows))
    for places, some, branch in branches_by_data(function.root, data):
        parts = nonlinear_parts(function.exprs, branch)
        here = [np.broadcast_to(u, len(data.rows))[places] for u in arguments]
        for log_sum in parts.log_sums:
            raised = np.broadcast_arrays(
                *(value(x, some, here) for x in log_sum.terms), np.zeros(len(places))
            )
            factor = sum(times(x, some) for x in log_sum.factor)
            total[places] += factor * special.logsumexp(raised[:-1], axis=0)
        for exprs in (parts.mixture, *((x,) for x in parts.others)):
            if exprs:
                raised = [evaluate(with_root(function, x), some, here)[0] for x in exprs]
                raised = np.broadcast_arrays(*raised, np.zeros(len(places)))
                total[places] += special.logsumexp(raised[:-1], axis=0)
    return total


def with_root(function, root):
    return type(function)(
        function.name, function.n_rows, function.columns, root, function.arguments, function.exprs
    )


def value(linear, data, arguments):
    total = sum((times(x, data) for x in linear.offset), 0.0)
    for a, weights in linear.weights.items():
        total = total + arguments[a] * sum(times(x, data) for x in weights)
    return total


def times(exprs, data):
    return reduce(np.multiply, [data.value(x) for x in exprs], 1.0)


def bounds_without_and_with_parts(name, order, radius, fitted_rows, some):
    """Return c_i and c̃_i of some rows by partial derivatives alone, and as they are."""
    fitted = fit(name, fitted_rows)
    (function,) = fitted.functions
    bounds, data = fitted.bounds(fitted.reference(order)), RowData(function, np.arange(some))
    place, whole = bounds.geometry(data), (1,) * len(function.arguments)
    found = derivative_suprema(data, place.argument_boxes(radius), order + 1, whole)
    return pair_of(found, place, order + 1, 1.0), bounds.kind.bounds(data, place, radius, whole)


@pytest.mark.parametrize("name", ["four_classes", "seven_classes", "counts", "normal_mixture"])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("radius", [1.0, 5.0])
def test_bounds_are_not_larger_than_those_of_partial_derivatives(name, order, radius):
    before, after = bounds_without_and_with_parts(name, order, radius, ROWS, some=100)
    assert all((new <= old).all() for new, old in zip(after, before, strict=True))


def test_many_arguments_of_a_function_that_is_not_of_sums_are_refused():
    x = np.random.default_rng(2).normal(size=(2, 1_000, 11))
    with pm.Model() as model:
        b, y = pm.Normal("b", shape=(2, 11)), np.zeros(1_000)
        pm.Normal("y", pt.tanh(x[0] * b[0] + x[1] * b[1]).prod(axis=1), observed=y)
    with pytest.raises(BoundsError, match=r"11 different linear combinations .* 11 of them in one"):
        row_functions(factorize(model, model.value_vars))


def test_more_arguments_than_are_compiled_are_refused():
    model = classes(30, 1_000)
    with pytest.raises(BoundsError, match=r"29 different linear combinations .* up to 24"):
        row_functions(factorize(model, model.value_vars))
