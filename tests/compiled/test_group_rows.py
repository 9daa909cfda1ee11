"""Log-likelihoods of groups: integrals by SciPy, differences, and remainders by their formula."""

from functools import cache

import numpy as np
import pytest

from helpers.group_families import (
    FAMILIES,
    data_of,
    exact_log_likelihood,
    made,
    model_of,
    without_long,
)
from helpers.small_groups import placed_at, target_of
from pymc_minibatch_mh.native.library import function

N, G = 70, 9
#: Effects with heavy tails, which polynomials follow less well.
HEAVY = {"t effects": 5e-5}
#: Families, with the power of the scale that is the coordinate.
CASES = [(name, 1) for name in FAMILIES]
CASES += [(name, 2) for name in ("bernoulli", "slopes", "two terms", "products")]
for_each_case = pytest.mark.parametrize(("name", "root"), without_long(CASES))


def values_of(model, point):
    """Return the values of the model's variables at a point of its value variables."""
    natural = {}
    for rv, value in model.rvs_to_values.items():
        transform = model.rvs_to_transforms[rv]
        if value.name in point:
            natural[rv.name] = np.exp(point[value.name]) if transform else point[value.name]
    return natural


def position_near(target, model, seed=1, spread=0.3):
    rng = np.random.default_rng(seed)
    point = {
        k: np.asarray(v + spread * rng.standard_normal(np.shape(v)))
        for k, v in model.initial_point().items()
    }
    return target.factorization.ravel(point), values_of(model, point)


@for_each_case
def test_values_are_integrals_over_the_effects(name, root):
    family, d, y, model, target = made(name, N, G, root)
    position, values = position_near(target, model)
    target = placed_at(target, position)
    numbers = np.array([0, 1, 2, G - 1])
    found = target.full_data.values(position, numbers)
    expected = [exact_log_likelihood(family, d, y, values, g) for g in numbers]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=HEAVY.get(name, 1e-9))


def derivative(function, x, step=2e-3):
    """Return central differences of order six along all coordinates, along the last axis."""

    def side(k):
        return np.stack([function(x + k * step * line) for line in np.eye(x.size)], axis=-1)

    rises = [side(k) - side(-k) for k in (1, 2, 3)]
    return (45.0 * rises[0] - 9.0 * rises[1] + rises[2]) / (60.0 * step)


def assert_near(found, expected, rtol):
    """Compare arrays, with errors as shares of their largest entry."""
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=rtol * (1e-3 + np.abs(found).max()))


@for_each_case
def test_gradients_and_hessians_are_those_of_the_values(name, root):
    _, _, _, model, target = made(name, N, G, root)
    position, _ = position_near(target, model, 2)
    data = target.full_data
    for numbers in (np.arange(G), np.array([0]), np.array([2, G - 1])):
        found = data.likelihood(position, hessian=True, rows=numbers)
        assert found.value == pytest.approx(data.values(position, numbers).sum(), rel=1e-13)
        gradient = derivative(lambda x, at=numbers: data.values(x, at).sum(), position)
        assert_near(found.gradient, gradient, 1e-9)
        hessian = derivative(
            lambda x, at=numbers: data.likelihood(x, hessian=False, rows=at).gradient, position
        )
        assert_near(found.hessian, hessian, 1e-8)
        assert np.array_equal(found.hessian, found.hessian.T)
        alone = data.likelihood(position, hessian=False, rows=numbers)
        np.testing.assert_allclose(alone.gradient, found.gradient, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("order", [0, 1, 2])
@for_each_case
def test_differences_are_those_of_remainders(name, root, order):
    """Of a Taylor expansion about the centre, group by group."""
    _, _, _, model, target = made(name, N, G, root)
    centre, _ = position_near(target, model, 3)
    data, rng, numbers = target.full_data, np.random.default_rng(4), np.arange(G)[::-1].copy()
    at_centre = [data.likelihood(centre, hessian=True, rows=np.array([g])) for g in numbers]
    gradients = np.array([x.gradient for x in at_centre])
    hessians = np.array([x.hessian for x in at_centre])

    def remainders(x):
        expansion = (gradients @ (x - centre)) * (order > 0)
        expansion += 0.5 * (hessians @ (x - centre) @ (x - centre)) * (order > 1)
        return data.values(x, numbers) - expansion

    for spread in (0.05, 0.3):
        ends = centre + spread * rng.standard_normal((2, centre.size))
        ends = target.factorization.in_support(ends)
        found = data.differences(order, [tuple(ends)], centre, numbers)
        expected = remainders(ends[1]) - remainders(ends[0])
        np.testing.assert_allclose(found[0], expected, rtol=1e-9, atol=1e-11)


def test_a_group_without_rows_has_the_integral_of_the_law():
    _, d, _, model, target = made("bernoulli", N, G)
    assert not (d.group == 2).any()
    position, _ = position_near(target, model)
    found = target.full_data.likelihood(position, hessian=True, rows=np.array([2]))
    assert found.value == pytest.approx(0.0, abs=1e-13)
    assert not found.gradient.any()
    assert not found.hessian.any()


@cache
def large():
    """Return data with a group of 5,000 rows, and its posterior."""
    d = data_of(5_030, 6)
    d.group[:5_000] = 4
    order = np.random.default_rng(8).permutation(d.u.size)
    d = d._replace(x=d.x[order], group=d.group[order], other=d.other[order], u=d.u[order])
    family = FAMILIES["negative binomial"]
    y = d.counts
    model = model_of(family, d, y)
    return family, d, y, model, target_of(model)


def test_groups_of_many_rows_are_read_in_blocks():
    family, d, y, model, target = large()
    position, values = position_near(target, model, spread=0.05)
    target = placed_at(target, position)
    expected = [exact_log_likelihood(family, d, y, values, g) for g in (4, 5)]
    found = target.full_data.values(position, np.array([4, 5]))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_derivatives_of_many_rows_are_those_of_the_values():
    _, _, _, model, target = large()
    centre, _ = position_near(target, model, spread=0.05)
    target, numbers = placed_at(target, centre, 15), np.array([4])
    data = target.full_data
    found = data.likelihood(centre, hessian=True, rows=numbers)
    gradient = derivative(lambda x: data.values(x, numbers)[0], centre, 1e-3)
    assert_near(found.gradient, gradient, 1e-8)
    ends = centre + 1e-2 * np.random.default_rng(1).standard_normal((2, centre.size))
    moves = ends - centre
    change = data.differences(2, [tuple(ends)], centre, numbers)[0, 0]
    values = [data.values(x, numbers)[0] for x in ends]
    expansion = [found.gradient @ v + 0.5 * v @ found.hessian @ v for v in moves]
    assert change == pytest.approx(np.subtract(*values[::-1]) - np.subtract(*expansion[::-1]),
                                   rel=1e-7, abs=1e-9)  # fmt: skip


@pytest.mark.parametrize("name", ["two terms", "slopes", "negative binomial"])
def test_the_order_of_rows_does_not_matter(name):
    family, d, y, model, target = made(name, N, G)
    position, _ = position_near(target, model)
    # Every third row has a second observation.
    order = np.random.default_rng(9).permutation(N // 3) * 3
    order = np.concatenate([np.stack([order, order + 1, order + 2], axis=1).ravel(), [N - 1]])
    moved = d._replace(x=d.x[order], group=d.group[order], other=d.other[order], u=d.u[order])
    other = target_of(model_of(family, moved, y[order]))
    both = [x.full_data.values(position) for x in (target, other)]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-13, atol=1e-13)
    both = [x.full_data.likelihood(position, hessian=True) for x in (target, other)]
    np.testing.assert_allclose(both[0].hessian, both[1].hessian, rtol=1e-11, atol=1e-12)


def test_values_of_nodes_are_weights_and_rows():
    family, d, y, model, target = made("bernoulli", N, G)
    position, values = position_near(target, model)
    rows, numbers = target.group_rows, np.array([1, 2, 0])
    found = rows.values_at(position, numbers)
    for k, g in enumerate(numbers):
        own = np.flatnonzero(d.group == g)
        effects = values["mu"] + values["tau"] * rows.nodes.z[g, 0]
        expected = [family.logp(d, y, values, a, own).sum() for a in effects]
        np.testing.assert_allclose(found[k], rows.nodes.log_weights[g] + expected, rtol=1e-12)


def test_impossible_nodes_have_no_share():
    """Of nodes without a weight, neither values nor derivatives count."""
    _, _, _, model, target = made("poisson", N, G)
    position, _ = position_near(target, model)
    nodes = target.group_rows.nodes
    few = nodes._replace(
        z=np.ascontiguousarray(nodes.z[:, :, 3:-3]),
        log_weights=np.ascontiguousarray(nodes.log_weights[:, 3:-3]),
    )
    without = nodes._replace(z=nodes.z.copy(), log_weights=nodes.log_weights.copy())
    without.log_weights[:, [0, 1, 2, -3, -2, -1]] = -np.inf
    without.z[:, :, 0] = 1e300
    both = [target.at_nodes(x).full_data for x in (few, without)]
    found = [x.likelihood(position, hessian=True) for x in both]
    for field in ("value", "gradient", "hessian"):
        np.testing.assert_allclose(*(getattr(x, field) for x in found), rtol=1e-13)
    ends = position + 0.1 * np.random.default_rng(2).standard_normal((2, position.size))
    changes = [x.differences(2, [tuple(ends)], position, np.arange(G)) for x in both]
    np.testing.assert_allclose(*changes, rtol=1e-10, atol=1e-13)


def test_groups_beyond_all_numbers_reject():
    _, _, _, model, target = made("poisson", N, G)
    centre, _ = position_near(target, model)
    far = centre.copy()
    far[target.factorization.coordinate_names.index("mu")] = 800.0
    change = target.full_data.differences(2, [(centre, far)], centre, np.arange(G))[0]
    filled = np.delete(np.arange(G), 2)
    assert np.isneginf(change[filled]).all()


def test_sums_of_absolute_values_are_the_scale_of_rounding_errors():
    """The sizes beside differences are means over nodes of sums over weights and rows."""
    family, d, y, model, target = made("bernoulli", N, G)
    centre, values = position_near(target, model)
    rows, numbers = target.group_rows, np.array([0, 3])
    ends = np.stack([centre, np.zeros_like(centre), 0.1 + np.zeros_like(centre)])
    differences, scales = np.empty((2, numbers.size))
    record = rows.record(2)
    assert function("mh_differences_of_groups")(record, ends, numbers, 2, differences, scales) == 0
    for k, g in enumerate(numbers):
        own, nodes = np.flatnonzero(d.group == g), rows.nodes
        logp = np.array([
            family.logp(d, y, values, values["mu"] + values["tau"] * z, own) for z in nodes.z[g, 0]
        ])  # fmt: skip
        total = nodes.log_weights[g] + logp.sum(axis=1)
        shares = np.exp(total - np.logaddexp.reduce(total))
        sizes = np.abs(nodes.log_weights[g]) + np.abs(logp).sum(axis=1)
        assert scales[k] == pytest.approx(shares @ sizes, rel=1e-12)


@pytest.mark.parametrize("name", ["bernoulli", "two terms"])
def test_some_groups_are_those_of_all(name):
    _, _, _, model, target = made(name, N, G)
    position, _ = position_near(target, model)
    rows, numbers = target.group_rows, np.array([4, 0, 8, 4])
    expected = rows.values_at(position, numbers)
    assert np.array_equal(rows.some(numbers).values_at(position, np.arange(4)), expected)
    again = rows.some(np.arange(G)).some(numbers)
    assert np.array_equal(again.values_at(position, np.arange(4)), expected)
