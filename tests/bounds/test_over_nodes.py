"""No derivative of a log-sum-exp over nodes exceeds its bound within a ball."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest

from bounds.node_families import Family, find_largest
from pymc_minibatch_mh.native.library import function

RADII = (1e-9, 0.5, 2.0, 5.0)


def states(constants, slopes, bends=None):
    """Return nodes without rows."""
    slopes = np.asarray(slopes, float)
    n, d = slopes.shape
    bends = np.zeros((n, d, d)) if bends is None else np.asarray(bends, float)
    return Family(
        np.asarray(constants, float), slopes, bends, np.zeros((n, 0)), np.zeros((n, 0, d)),
        np.zeros(0),
    )  # fmt: skip


def rows_of(kind, size, rng, n=6, n_nodes=9, spread=0.5):
    """Return Gauss points of the effect of a group; the last coordinate is its scale."""
    z, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    x = rng.normal(size=(n, size)) / np.sqrt(8.0 * size)
    directions = np.repeat(x[None], n_nodes, axis=0)
    directions[:, :, -1] = 0.15 * z[:, None]
    offsets = rng.normal(0.0, 0.5, n) + spread * z[:, None]
    data = {"logistic": rng.integers(0, 2, n), "poisson": rng.poisson(1.0, n)}
    y = data.get(kind, rng.normal(size=n)).astype(float)
    none = np.zeros((n_nodes, size))
    return Family(
        np.log(weights), none, np.zeros((n_nodes, size, size)), offsets, directions, y, kind
    )


def discrete(size, rng):
    """Return states of which the log-probabilities are linear, and one that is impossible."""
    return states([0.3, -1.0, -np.inf, 0.5], 0.6 * rng.normal(size=(4, size)))


def curved(size, rng):
    """Return states of which the least probable one is curved upwards."""
    bends = rng.normal(size=(3, size, size))
    bends = bends + bends.transpose(0, 2, 1)
    bends[0] += 2.0 * np.eye(size)
    return states([-5.0, 0.0, 0.0], 0.1 * rng.normal(size=(3, size)), bends)


def first_axis(size, *steps):
    """Return lines along the first axis."""
    return np.outer(steps, np.eye(size)[0])


def rare(size, rng):
    """Return states of which a steep one of little weight takes over within the ball."""
    slopes = first_axis(size, 3.0, 4.0, 0.0, 0.0) + 0.1 * rng.normal(size=(4, size))
    return states([-9.0, -20.0, 0.0, -1.0], slopes)


def hidden(size, rng):
    """Return states of which one, without a share in floating point, takes over."""
    return states([-900.0, 0.0, 0.5], first_axis(size, 400.0, 0.1, 0.0))


def rising(size, rng):
    """Return states of which one of little weight takes over by its slope and its curvature."""
    bends = np.multiply.outer([0.0, 0.4], np.eye(size))
    return states([0.0, -10.0], first_axis(size, 0.0, 1.0), bends)


def falling(size, rng):
    """Return states of which the one with all weight loses it by its curvature."""
    bends = np.multiply.outer([-1.0, 0.0], np.eye(size))
    return states([0.0, -10.0], first_axis(size, 0.0, 0.0), bends)


def with_row(kind, slope, size, rng):
    """Return states of which one of little weight has a row, and takes over."""
    plain, axes = states([0.0, -10.0], first_axis(size, 0.0, slope)), first_axis(size, 0.0, 1.0)
    return plain._replace(
        offsets=np.zeros((2, 1)), directions=axes[:, None], data=np.zeros(1), kind=kind
    )


FAMILIES = {kind: partial(rows_of, kind) for kind in ("logistic", "poisson", "normal")}
FAMILIES |= {x.__name__: x for x in (discrete, curved, rare, hidden, rising, falling)}
FAMILIES["twisted"] = partial(with_row, "cubic", 0.0)
FAMILIES["rippled"] = partial(with_row, "ripples", 2.5)


def bounds_of(nodes, suprema, radius, most_paired=32):
    """Return the library's bounds of the third and the fourth derivative."""
    out = np.empty((2, 1))
    assert function("mh_bound_over_nodes")(nodes, suprema, radius, most_paired, *out) == 0
    return out[:, 0]


def bounds_within(family, radius):
    return bounds_of(family.nodes(), family.suprema(radius), radius)


def tensor_of(nodes):
    tensor = np.empty((nodes.size,) * 3)
    assert function("mh_tensor_of_nodes")(nodes, tensor) == 0
    return tensor


def norm_of(tensor):
    out = np.empty(1)
    assert function("mh_norm_of_tensor")(tensor, len(tensor), out) == 0
    return out[0]


for_each_family = pytest.mark.parametrize("name", FAMILIES)


@pytest.mark.parametrize("size", [1, 2, 5])
@for_each_family
def test_the_tensor_is_the_third_derivative(name, size):
    rng = np.random.default_rng(size)
    family = FAMILIES[name](size, rng)
    tensor, lines = tensor_of(family.nodes()), rng.normal(size=(80, size))
    for axes in permutations(range(3)):
        assert np.array_equal(tensor, tensor.transpose(axes))
    third = family.derivatives(np.zeros_like(lines), lines)[0]
    along = np.einsum("ijk,mi,mj,mk->m", tensor, lines, lines, lines)
    np.testing.assert_allclose(along, third, rtol=1e-10, atol=1e-12 * np.abs(third).max())


@for_each_family
def test_the_norm_of_the_tensor_is_near_its_largest_value(name):
    for size in (1, 2, 3, 5):
        rng = np.random.default_rng(size)
        family = FAMILIES[name](size, rng)
        largest = find_largest(family, 0.0, 3, rng)
        norm = norm_of(tensor_of(family.nodes()))
        assert 0.6 * norm <= largest <= norm


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@for_each_family
def test_no_derivative_in_a_ball_exceeds_its_bound(name, size):
    rng = np.random.default_rng(size)
    family = FAMILIES[name](size, rng)
    for radius in RADII:
        bounds = bounds_within(family, radius)
        largest = [find_largest(family, radius, order, rng) for order in (3, 4)]
        assert np.all(largest <= bounds)


def test_pairs_of_many_nodes_count_up_to_a_number_of_nodes():
    """Bounds by pairs are smaller, and are exceeded no more."""
    rng = np.random.default_rng(4)
    family = rows_of("logistic", 3, rng, n_nodes=49)
    for radius in (1.0, 3.0):
        by_nodes, by_pairs = (
            bounds_of(family.nodes(), family.suprema(radius), radius, most) for most in (48, 49)
        )
        assert np.all(by_pairs < 0.9 * by_nodes)
        assert np.all([find_largest(family, radius, k, rng) for k in (3, 4)] <= by_pairs)


@pytest.mark.parametrize(
    ("name", "size", "third", "fourth"),
    [
        ("logistic", 3, 0.3, 0.2), ("poisson", 2, 0.2, 0.05), ("normal", 3, 0.15, 0.05),
        ("discrete", 3, 0.5, 0.8), ("curved", 1, 0.75, 0.95), ("rare", 3, 0.5, 0.4),
    ],
)  # fmt: skip
def test_bounds_at_the_centre_are_not_loose(name, size, third, fourth):
    rng = np.random.default_rng(size)
    family = FAMILIES[name](size, rng)
    bounds = bounds_within(family, 1e-9)
    largest = [find_largest(family, 0.0, order, rng) for order in (3, 4)]
    assert np.all(largest > np.array([third, fourth]) * bounds)


def test_bounds_of_a_node_are_its_suprema():
    family = FAMILIES["poisson"](3, np.random.default_rng(1))
    alone = family.of_nodes([4])
    for radius in (0.5, 3.0):
        suprema = alone.suprema(radius)
        expected = np.concatenate([suprema.third, suprema.fourth])
        np.testing.assert_allclose(bounds_within(alone, radius), expected, rtol=1e-8)


@pytest.mark.parametrize("name", ["logistic", "curved", "rare"])
def test_what_nodes_have_in_common_does_not_count(name):
    rng = np.random.default_rng(7)
    family = FAMILIES[name](3, rng)
    nodes, slope, bend = family.nodes(), 3.0 * rng.normal(size=3), rng.normal(size=(3, 3))
    moved = nodes._replace(
        values=nodes.values - 50.0,
        gradients=nodes.gradients + slope,
        hessians=nodes.hessians + bend + bend.T,
    )
    for radius in RADII:
        suprema = family.suprema(radius)
        bounds = bounds_of(nodes, suprema, radius)
        np.testing.assert_allclose(bounds_of(moved, suprema, radius), bounds, rtol=1e-9)


def test_two_states_that_differ_in_curvature_have_an_exact_bound():
    """At 0, log(2 cosh(x^2/2)) has the fourth derivative 3 Var F'', with weights 1/2."""
    third, fourth = bounds_within(states([0.0, 0.0], np.zeros((2, 1)), [[[1.0]], [[-1.0]]]), 1e-9)
    assert third == pytest.approx(0.0, abs=1e-7)
    assert fourth == pytest.approx(3.0, rel=1e-7)


def test_a_state_of_little_weight_has_a_sharp_bound():
    """Of a share p, D^4 = 3 p + 6 p + p up to p^2, if F' and F'' differ by 1."""
    share = 1e-4
    two = states([0.0, np.log(share)], [[0.0], [1.0]], [[[0.0]], [[1.0]]])
    third, fourth = bounds_within(two, 1e-9)
    assert third == pytest.approx(4 * share, rel=0.01)
    assert fourth == pytest.approx(10 * share, rel=0.01)


def test_a_state_of_little_weight_has_sharp_bounds():
    """Of a share p, D^3 = 5 p and D^4 = 14 p, up to p^2, if three derivatives differ by 1."""
    share, rng = 1e-4, np.random.default_rng(1)
    two = FAMILIES["twisted"](1, rng)._replace(
        constants=np.log([1.0, share]),
        slopes=np.array([[0.0], [1.0]]),
        bends=np.array([[[0.0]], [[1.0]]]),
    )
    np.testing.assert_allclose(bounds_within(two, 1e-9), [5 * share, 14 * share], rtol=0.01)


def test_a_steep_state_of_next_to_no_weight_counts():
    """D^3 = p s^3 and D^4 = p s^4, of a share p and a slope s."""
    bounds = bounds_within(states([0.0, np.log(1e-11)], [[0.0], [1e5]]), 1e-12)
    np.testing.assert_allclose(bounds, [1e4, 1e9], rtol=0.01)


@pytest.mark.parametrize("name", ["logistic", "rare"])
def test_impossible_states_contribute_nothing(name):
    """Whatever is said of them."""
    family = FAMILIES[name](3, np.random.default_rng(2))
    nodes, radius = family.nodes(), 2.0
    first = [0, *range(nodes.n_nodes)]
    more = nodes._replace(**{name: getattr(nodes, name)[first] for name in nodes._fields[2:6]})
    more = more._replace(n_nodes=len(first))
    more.values[0], more.shares[0], more.gradients[0], more.hessians[0] = -np.inf, 0, np.nan, np.nan
    suprema = family.suprema(radius)
    unknown = suprema._make(np.concatenate([[np.inf], array]) for array in suprema)
    np.testing.assert_allclose(tensor_of(more), tensor_of(nodes), rtol=1e-12)
    bounds = bounds_of(nodes, suprema, radius)
    np.testing.assert_allclose(bounds_of(more, unknown, radius), bounds, rtol=1e-12)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("name", ["logistic", "rare"])
def test_bounds_are_infinite_where_suprema_are(name, value):
    family = FAMILIES[name](3, np.random.default_rng(2))
    nodes = family.nodes()
    for radius in RADII:
        suprema = family.suprema(radius)
        for field, infinite in {"third": (True, True), "fourth": (False, True)}.items():
            array = getattr(suprema, field).copy()
            array[-1] = value
            bounds = bounds_of(nodes, suprema._replace(**{field: array}), radius)
            assert tuple(bounds == np.inf) == infinite
        everything = suprema._make(np.full_like(array, value) for array in suprema)
        assert np.all(bounds_of(nodes, everything, radius) == np.inf)
    assert norm_of(np.full((3, 3, 3), value)) == np.inf
