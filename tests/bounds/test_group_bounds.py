"""No remainder of a group exceeds its bound in the ball that it is given for."""

from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pymc as pm
import pytest
from scipy.special import chdtri

from helpers.group_families import FAMILIES, made, without_long
from helpers.small_groups import target_of
from pymc_minibatch_mh.bounds import bound_check, over_nodes
from pymc_minibatch_mh.bounds.bound_check import BoundedPosterior
from pymc_minibatch_mh.bounds.over_nodes import (
    ACROSS,
    ALL_PAIRED,
    ENDS_OF_SLABS,
    INNER,
    MANY_TAILS,
    NO_BOUND,
    PAIRED,
    TAILS,
    NodeBoundsPass,
)
from pymc_minibatch_mh.compiled.group_rows import Nodes
from pymc_minibatch_mh.errors import BoundsError
from pymc_minibatch_mh.functions.interval import Interval
from pymc_minibatch_mh.native.library import function
from pymc_minibatch_mh.native.moves import ENDS
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.reference.effect_nodes import first_moments
from pymc_minibatch_mh.reference.node_rule import GroupTarget, effect_moments, placed_at

N, G = 240, 60
#: Size of regions as a share of the posterior's, their tables that are tried, and the least ratio.
REGIONS = {
    "posterior": (1.0, (0, 1, 2, 3, -1), 0.0),
    "10": (0.1, (0, 2, -4), 0.2),
    "100": (0.01, (0,), 0.5),
}

#: Positions near modes that are searched for in seconds.
NEAR_MODES = {"correlated": [0.337, 0.525, 0.874, 0.0, 0.1]}


def expansion(target: GroupTarget, centre, factor):
    data = target.full_data.likelihood(centre, hessian=True)
    whitener = np.ascontiguousarray(np.linalg.inv(factor))
    return Reference(centre, factor, whitener, data.gradient, data.hessian, 2, 1.0)


@cache
def posterior(name, root=1):
    """Return a posterior with 11 nodes for each group near the mode, and its expansion."""
    model, target = made(name, N, G, root)[3:]
    start, rng = target.factorization.ravel(model.initial_point()), np.random.default_rng(1)
    near = NEAR_MODES.get(name)
    mode = target.mode(start, rng, 0.3).position if near is None else np.array(near)
    groups = target.compiled.layout.groups
    target = placed_at(target, mode, first_moments(groups))[0]
    moments = effect_moments(target.group_rows, mode)
    target = target.at_nodes(moments.nodes(groups.law, 11))
    return target, target.expand(mode, rng)[0]


class Remainders:
    """Remainders of groups at whitened positions w, as shares of their bounds.

    Tables over slabs bound the change between any two positions of a region, so twice |r|.
    """

    def __init__(self, target, reference, tables):
        self.tables, self.reference, self.size = tables, reference, reference.centre.size
        self.record = target.group_rows.record(2)

    def ratios(self, table, w, groups):
        """Return 6 |r(w)| / (c |w|³) or 2 |r(w)| / c of some groups, (groups,)."""
        ends = np.zeros((3, self.size))
        ends[0], ends[2] = self.reference.centre, self.reference.factor @ w
        r, sizes = np.empty((2, groups.size))
        arguments = self.record, ends, groups, groups.size, r, sizes
        assert function("mh_differences_of_groups")(*arguments) == 0
        unit = np.linalg.norm(w) ** 3 / 6.0 if self.tables.along is None else 0.5
        # What a remainder is not better known than.
        rounding = 1e-14 * sizes
        c = self.tables.c[table, groups].astype(float)
        return np.maximum(np.abs(r) - rounding, 0.0) / (c * unit)

    def inside(self, table, w):
        """Return the nearest position of a table's region, on the line in its two parts."""
        radius, along = self.tables.headers[table, 0], self.tables.along
        if along is None:
            return w * min(1.0, radius / np.linalg.norm(w))
        # The square of a scale is positive, whatever is rounded.
        z = np.clip(along @ w, *(1.0 - 1e-12) * self.tables.intervals[table])
        rest = w - along * (along @ w)
        return along * z + rest * min(1.0, radius / np.linalg.norm(rest))

    def largest(self, table, rng, count=50, n_climbed=3, rounds=25):
        """Return the largest ratio that a random search finds, over all groups."""
        radius, everybody = self.tables.headers[table, 0], np.arange(self.tables.c.shape[1])
        lines = rng.standard_normal((count, self.size))
        axes = np.eye(self.size)
        lines[: 2 * self.size] = np.concatenate([axes, -axes])[:count]
        lines *= radius / np.linalg.norm(lines, axis=1, keepdims=True)
        lines *= np.resize([1.0, 0.25, 0.6], count)[:, None]
        if self.tables.along is not None:
            ends = np.linspace(*self.tables.intervals[table], 10)
            lines += np.outer(np.resize(ends, count), self.tables.along)
        lines = np.array([self.inside(table, w) for w in lines])
        found = np.array([self.ratios(table, w, everybody) for w in lines])
        best = found.max(axis=0)
        for g in np.argsort(-best)[:n_climbed]:
            w = lines[np.argmax(found[:, g])]
            for step in np.geomspace(1.0, 0.02, rounds):
                noise = rng.standard_normal((3, self.size)) / np.sqrt(self.size)
                for tried in w + step * np.linalg.norm(w) * noise:
                    inside = self.inside(table, tried)
                    ratio = self.ratios(table, inside, np.array([g]))[0]
                    if ratio > best[g]:
                        w, best[g] = inside, ratio
        return best.max()


def bounded_to(reference, scale):
    """Return the reference of a smaller ball."""
    factor = np.ascontiguousarray(scale * reference.factor)
    return reference._replace(factor=factor, whitener=reference.whitener / scale)


def bounded(target, reference, scale=1.0):
    """Return the reference of a smaller ball, and its tables."""
    smaller = bounded_to(reference, scale)
    return smaller, NodeBoundsPass(target.group_rows, smaller).tables()


#: Families, with the power of the scale that is the coordinate.
CASES = [(name, 1) for name in FAMILIES]
CASES += [(name, 2) for name in ("bernoulli", "poisson", "student", "slopes")]


@pytest.mark.parametrize("region", list(REGIONS))
@pytest.mark.parametrize(("name", "root"), without_long(CASES))
def test_no_remainder_exceeds_its_bound(name, root, region):
    """Nor are bounds loose in small regions: some remainder is near its own."""
    target, reference = posterior(name, root)
    scale, tried, least = REGIONS[region]
    smaller, tables = bounded(target, reference, scale)
    # Two effects have slabs along an entry of their factor where balls draw many groups.
    assert (tables.along is None) is (root == 1) or target.group_rows.nodes.z.shape[1] > 1
    remainders, rng = Remainders(target, smaller, tables), np.random.default_rng(3)
    # Two effects of a few rows may have no bounds in the larger balls.
    found = [remainders.largest(k, rng) for k in tried if k < len(tables.c)]
    assert max(found) <= 1.0
    assert found[0] > least


@cache
def of_items():
    """Return a posterior of items with two parameters, of which persons answer some, likewise."""
    rng = np.random.default_rng(8)
    person = np.repeat(np.arange(G), 5)
    item = np.concatenate([rng.choice(9, 5, replace=False) for _ in range(G)])
    disc, beta = np.exp(0.3 * rng.standard_normal(9)), rng.standard_normal(9)
    line = disc[item] * (rng.standard_normal(G)[person] - beta[item])
    with pm.Model() as model:
        theta = pm.Normal("theta", 0.0, 1.0, shape=G)
        beta, disc = pm.Normal("beta", shape=9), pm.LogNormal("disc", 0.0, 0.3, shape=9)
        answers = (rng.random(line.size) < 1.0 / (1.0 + np.exp(-line))).astype(int)
        pm.Bernoulli("y", logit_p=disc[item] * (theta[person] - beta[item]), observed=answers)
    target = target_of(model)
    mode = target.mode(target.factorization.ravel(model.initial_point()), rng, 0.3).position
    groups = target.compiled.layout.groups
    target = placed_at(target, mode, first_moments(groups))[0]
    moments = effect_moments(target.group_rows, mode)
    target = target.at_nodes(moments.nodes(groups.law, 11))
    return target, target.expand(mode, rng)[0]


@pytest.mark.parametrize("region", ["10", "100"])
def test_no_remainder_of_groups_that_read_some_coordinates_exceeds_its_bound(region):
    """Effects are multiplied by coordinates, of which each group has 10 out of 18."""
    scale, tried, least = REGIONS[region]
    smaller, tables = bounded(*of_items(), scale)
    remainders, rng = Remainders(of_items()[0], smaller, tables), np.random.default_rng(3)
    found = [remainders.largest(k, rng) for k in tried]
    assert max(found) <= 1.0
    assert found[0] > least


# ---- Slabs between two values of a scale. ----


@pytest.mark.parametrize("name", ["bernoulli", "slopes"])
def test_ellipsoids_hold_all_positions_of_their_slab(name):
    """And touch some of them."""
    target, reference = posterior(name, 2)
    (scale,) = target.compiled.layout.scales
    k, size, rng = scale.coordinate, reference.centre.size, np.random.default_rng(2)
    bounding = NodeBoundsPass(target.group_rows, reference)
    edges = []
    for regions, *_ in bounding._slabs(bounding._along):
        assert {region.n_kinds for region in regions} <= {1, len(ACROSS)}
        edges.append([region.interval for region in regions])
        for region in regions:
            w = rng.standard_normal((4_000, size))
            along = bounding._along
            w -= np.outer(w @ along, along)
            w /= np.linalg.norm(w, axis=1, keepdims=True)
            z = rng.choice([*region.interval, np.mean(region.interval)], 4_000)
            for length, radius in zip(region.lengths, region.radii, strict=True):
                theta = reference.centre + (length * w + np.outer(z, along)) @ reference.factor.T
                theta[:, k] = np.sqrt(np.maximum(theta[:, k], 0.0))
                y = np.linalg.solve(region.factor, (theta - region.theta).T)
                largest = np.linalg.norm(y, axis=0).max()
                assert 0.9 * radius < largest <= (1.0 + 1e-9) * radius
    for slabs in edges:
        ends = np.array(slabs)
        np.testing.assert_allclose(ends[1:, 0], ends[:-1, 1])
        first = -reference.centre[k] / np.linalg.norm(reference.factor[k])
        assert ends[0, 0] == pytest.approx(max(ENDS_OF_SLABS[0], first))
        assert ends[-1, 1] == pytest.approx(ENDS_OF_SLABS[1])


@pytest.mark.parametrize(("entry", "least"), [(0, 0.0), (1, -np.inf), (2, 0.0)])
def test_slabs_along_an_entry_end_where_it_does(entry, least):
    """Entries on the diagonal are positive; others have both signs."""
    target, reference = posterior("correlated")
    scale = target.group_rows.layout.scales[entry]
    line = reference.factor[scale.coordinate]
    for times in (0.01, 100.0):
        wider = reference._replace(factor=times * reference.factor)
        cover = NodeBoundsPass(target.group_rows, wider)._slabs_along(scale)
        ends = np.array([region.interval for region in cover.regions])
        lowest = reference.centre[scale.coordinate] + times * np.linalg.norm(line) * ends[0, 0]
        assert lowest == pytest.approx(max(least, lowest), abs=1e-9)
        assert (ends[0, 0] == over_nodes.ENDS_ALONG[0]) == (times < 1.0 or least < 0.0)
        assert ends[-1, 1] == over_nodes.ENDS_ALONG[-1]
        np.testing.assert_array_equal(ends[1:, 0], ends[:-1, 1])


@pytest.mark.parametrize("entry", [0, 1])
def test_slabs_along_an_entry_hold_what_they_bound(entry, monkeypatch):
    """All positions lie in their ellipsoids, and no remainder off the centre exceeds its bound."""
    target, reference = posterior("correlated")
    reference = bounded_to(reference, 0.1)
    rows, (rng, size) = target.group_rows, (np.random.default_rng(2), reference.centre.size)
    scale = rows.layout.scales[entry]
    cover = NodeBoundsPass(rows, reference)._slabs_along(scale)
    assert cover.along == pytest.approx(
        reference.factor[scale.coordinate] / np.linalg.norm(reference.factor[scale.coordinate])
    )
    for region in cover.regions:
        w = rng.standard_normal((2_000, size))
        w -= np.outer(w @ cover.along, cover.along)
        w *= region.lengths[0] / np.linalg.norm(w, axis=1, keepdims=True)
        w += np.outer(rng.choice(region.interval, 2_000), cover.along)
        positions = reference.centre + w @ reference.factor.T
        y = np.linalg.solve(region.factor, (positions - region.theta).T)
        assert np.linalg.norm(y, axis=0) == pytest.approx(region.radii[0])
    monkeypatch.setattr(NodeBoundsPass, "_best_cover", lambda *_: (cover, 0.0))
    tables = NodeBoundsPass(rows, reference).tables()
    remainders = Remainders(target, reference, tables)
    found = [remainders.largest(k, rng) for k in (0, 4, -4) if k < len(tables.c)]
    assert max(found) <= 1.0
    assert max(found) > 0.05


def test_bounds_of_an_interval_are_those_of_its_worst_slab():
    """Intervals grow from the slab with the least sum to the side with the lesser one."""
    bounds = np.array([[3.0, 9.0], [2.0, 1.0], [1.0, 1.0], [4.0, 0.5], [2.0, 2.0]])[:, None]
    intervals = np.array([[k, k + 1.0] for k in range(5)])
    hulls, together = over_nodes._nested(bounds, intervals)
    assert hulls.tolist() == [[2, 3], [1, 3], [1, 4], [1, 5], [0, 5]]
    expected = [[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [4.0, 2.0], [4.0, 9.0]]
    assert together.tolist() == expected


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "student", "slopes"])
def test_bounds_near_a_position_are_the_remainder_and_its_derivatives(name):
    """By differences of remainders along the axes of the ellipsoid."""
    target, reference = posterior(name, 2)
    bounding = NodeBoundsPass(target.group_rows, reference)
    regions, *_ = next(bounding._slabs(bounding._along))
    region, size = regions[-1], reference.centre.size
    (scale,) = target.compiled.layout.scales
    everybody, record = np.arange(G), target.group_rows.record(2)

    def remainders(y):
        ends, scales = np.zeros((3, size)), np.empty(G)
        theta = region.theta + region.factor @ y
        theta[scale.coordinate] **= 2
        ends[0], ends[2], out = reference.centre, theta - reference.centre, np.empty(G)
        arguments = record, ends, everybody, G, out, scales
        assert function("mh_differences_of_groups")(*arguments) == 0
        return out

    steps = np.array([1e-12, 1e-3, 2e-3])
    near = bounding._bound_in(region._replace(radii=steps), target.group_rows, 0, G)
    h, axes, middle = 1e-2, np.eye(size), remainders(np.zeros(size))
    slopes = np.array([remainders(h * x) - remainders(-h * x) for x in axes]) / (2.0 * h)
    bends = [
        remainders(h * (x + y)) - remainders(h * (x - y)) - remainders(h * (y - x))
        + remainders(-h * (x + y))
        for x in axes
        for y in axes
    ]  # fmt: skip
    slope, bend = np.linalg.norm(slopes, axis=0), np.linalg.norm(bends, axis=0) / (4.0 * h**2)
    some = np.abs(middle) > 1e-4
    assert some.mean() > 0.5
    np.testing.assert_allclose(near[0, some], np.abs(middle)[some], rtol=1e-5)
    found = (near[1] - near[0]) / 1e-3
    np.testing.assert_allclose(found, slope + 0.5e-3 * bend, rtol=2e-3, atol=1e-5)
    found = (near[2] - 2.0 * near[1] + near[0]) / 1e-6
    np.testing.assert_allclose(found, bend, rtol=0.05, atol=1e-3)


def test_no_remainder_exceeds_its_bound_by_pairs_of_many_nodes(monkeypatch):
    """Of two effects, over many balls; and bounds are smaller than without the pairs."""
    target, reference = posterior("correlated")
    reference, rows = bounded_to(reference, 0.3), target.group_rows
    *_, many = NodeBoundsPass(rows, reference)._balls()
    assert PAIRED < rows.nodes.z.shape[2] <= ALL_PAIRED
    monkeypatch.setattr(NodeBoundsPass, "_best_cover", lambda *_: (many, 0.0))
    tables = NodeBoundsPass(rows, reference).tables()
    without = many._replace(regions=[many.regions[0]._replace(most_paired=PAIRED)])
    by_nodes = NodeBoundsPass(rows, reference)._tables_of(without, [(0, G)])[2]
    assert tables.c[0].sum() < 0.9 * by_nodes[0].sum()
    remainders, rng = Remainders(target, reference, tables), np.random.default_rng(3)
    found = [remainders.largest(k, rng, 20, 1, 10) for k in range(0, len(tables.c), 2)]
    assert max(found) <= 1.0
    assert found[0] > 0.05


def test_many_balls_are_tried_where_many_groups_are_drawn():
    """Not for a few of all groups, which a finer cover would draw as well."""
    target, reference = posterior("bernoulli")
    few, _, many = NodeBoundsPass(target.group_rows, reference)._covers([(0, G)])
    assert few.share == 0.0
    assert many.share == pytest.approx(0.02)
    outer = many.regions[0].lengths
    np.testing.assert_allclose(outer, np.sqrt([chdtri(reference.size, x) for x in MANY_TAILS]))


def test_tables_are_of_ascending_balls(monkeypatch):
    monkeypatch.setattr(over_nodes, "WORTH_MANY", 1.0)
    target, reference = posterior("bernoulli")
    _, tables = bounded(target, reference)
    radii = np.sqrt([chdtri(reference.centre.size, tail) for tail in TAILS])
    np.testing.assert_allclose(tables.headers[:, 0], radii)
    assert (tables.headers[:, 1] == ENDS).all()
    np.testing.assert_allclose(tables.headers[:, 2], tables.c.sum(axis=1, dtype=float))
    assert (np.diff(tables.c, axis=0) >= 0.0).all()
    assert tables.c.dtype == np.float32


def test_groups_without_rows_have_no_remainder():
    target, reference = posterior("bernoulli")
    _, tables = bounded(target, reference)
    (levels,) = target.compiled.layout.groups.levels
    without = np.bincount(levels, minlength=G) == 0
    assert without.any()
    assert tables.c[:, without].max() < 1e-6
    assert tables.c[:, ~without].min() > 1e-6


def test_bounds_of_tasks_are_those_of_all_together(monkeypatch):
    target, reference = posterior("two terms")
    _, together = bounded(target, reference)
    monkeypatch.setattr(over_nodes, "EVALUATIONS_IN_TASK", 200)
    assert np.array_equal(bounded(target, reference)[1].c, together.c)


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_an_audit_evaluates_no_more_rows_of_groups_than_other_rows(moves, monkeypatch):
    """A change of a group is that of its rows, at all nodes."""
    target, reference = posterior("bernoulli")
    _, tables = bounded(target, reference)
    most = moves * N * target.group_rows.nodes.z.shape[2] + 1
    monkeypatch.setattr(bound_check, "MAX_CHANGES", most)
    audited = BoundedPosterior(target, reference, tables).audited_moves(np.random.default_rng(1))
    assert len(list(audited)) == moves


def test_rows_in_blocks_are_bounded_as_well():
    """A group of many rows, each of which is written several times."""
    family, d, y, model, _ = made("poisson", 40, 4)
    times = 60
    with pm.Model() as repeated:
        order = np.tile(np.arange(d.u.size), times)
        more = d._replace(x=d.x[order], group=d.group[order], other=d.other[order], u=d.u[order])
        family.write(more, y[order])
    target = target_of(repeated)
    position = target.factorization.ravel(model.initial_point())
    target = placed_at(target, position, first_moments(target.compiled.layout.groups))[0]
    factor = 0.0002 * np.eye(position.size)
    reference = expansion(target, position, factor)
    tables = NodeBoundsPass(target.group_rows, reference).tables()
    remainders = Remainders(target, reference, tables)
    found = [remainders.largest(k, np.random.default_rng(5)) for k in range(len(tables.c))]
    assert max(found) <= 1.0
    assert found[0] > 0.2


# ---- The integral along the way from the centre. ----


def integral_of_one_node(rows, u, length, balls):
    """Return the average of a bound of the third derivative on the way to the last ball.

    At s R it has the weight 3 (1 - s)². Of `rows` counts with the logarithm u of their mean, which
    moves by `length`: the derivative rises by the fourth, and has its own bound in each ball.
    """
    s = (np.arange(100_000) + 0.5) / 100_000
    ball = balls[np.searchsorted(balls, s * balls[-1])]
    third = rows * np.exp(u + ball * length) * length**3
    risen = rows * np.exp(u) * length**3 + np.cumsum(third * length) * balls[-1] / s.size
    return np.mean(3.0 * (1.0 - s) ** 2 * np.minimum(risen, third))


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("size", [0.01, 0.1, 0.5])
def test_bounds_of_one_node_are_an_integral(size, inner, monkeypatch):
    """Derivatives of counts are known, and a node alone has no moments."""
    monkeypatch.setattr(over_nodes, "FEW_GROUPS", 0.0 if inner else np.inf)
    monkeypatch.setattr(over_nodes, "WORTH_MANY", 1.0)
    group, rng = np.repeat(np.arange(60), np.arange(60) % 4), np.random.default_rng(2)
    with pm.Model() as model:
        effect = pm.Normal("a", pm.Normal("mu", 0.0, 1.0), pm.HalfNormal("tau"), shape=60)
        pm.Poisson("y", pm.math.exp(effect[group]), observed=rng.poisson(1.0, group.size))
    z = np.linspace(-1.0, 2.0, 60)
    target = target_of(model).at_nodes(Nodes(z[:, None, None], np.zeros((60, 1))))
    reference = expansion(target, np.array([0.3, 0.8]), np.diag([size, 0.7 * size]))
    tables = NodeBoundsPass(target.group_rows, reference).tables()
    radii = np.sqrt(chdtri(2, TAILS))
    within = np.array(INNER) * radii[0] if inner else []
    for k, c in enumerate(tables.c):
        for g in (1, 2, 31, 59):
            length = size * np.hypot(1.0, 0.7 * z[g])
            balls = np.array([*within, *radii[: k + 1]])
            expected = integral_of_one_node(g % 4, 0.3 + 0.8 * z[g], length, balls)
            assert c[g] == pytest.approx(expected, rel=1e-4)


# ---- Several predictors. ----


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_weights_of_predictors_bound_symmetric_forms(size, order):
    """Of derivatives over all indices, by squares; and are reached where all signs agree."""
    rng = np.random.default_rng(order)
    norms = rng.uniform(0.1, 2.0, (1, size))
    derivatives = {
        index: rng.exponential() for index in combinations_with_replacement(range(size), order)
    }
    jet = {k: Interval.rounded(np.array([-d]), np.array([d])) for k, d in derivatives.items()}
    (weights,) = over_nodes._by_predictor(jet, order, norms)

    def form(x, signs):
        indices = product(range(size), repeat=order)
        return sum(
            derivatives[tuple(sorted(k))] * signs[tuple(sorted(k))] * np.prod(x[list(k)])
            for k in indices
        )

    for _ in range(200):
        x = norms[0] * rng.uniform(-1.0, 1.0, size)
        signs = {k: rng.choice([-1.0, 1.0]) for k in derivatives}
        assert abs(form(x, signs)) <= weights @ x**2
    reached = form(norms[0], dict.fromkeys(derivatives, 1.0))
    assert weights @ norms[0] ** 2 == pytest.approx(reached, rel=1e-9)


# ---- Nodes at which rows are impossible. ----


def counts_with_a_mean(zero, n_groups=60):
    """Return counts of which the mean itself has effects; one group has zeros alone."""
    rng = np.random.default_rng(2)
    group = np.tile(np.arange(n_groups), 6)
    y = np.where(group == zero, 0, rng.poisson(3.0, group.size))
    with pm.Model() as model:
        effect = pm.Normal("a", pm.Normal("mu", 3.0, 1.0), pm.HalfNormal("tau"), shape=n_groups)
        pm.Poisson("y", effect[group], observed=y)
    return target_of(model)


def at_hand(target, z, size=0.02):
    """Return a posterior with nodes of equal weights, and an expansion about a mean of 3."""
    nodes = Nodes(np.ascontiguousarray(z)[:, None], np.zeros_like(z))
    target, centre = target.at_nodes(nodes), np.array([3.0, 1.0])
    return target, expansion(target, centre, size * np.eye(2))


def test_groups_whose_nodes_appear_in_the_ball_have_no_bound():
    """A mean below zero is impossible, and may be above zero nearby: the likelihood jumps."""
    target, z = counts_with_a_mean(7), np.tile([-1.0, 0.0, 1.0], (60, 1))
    z[7, 0] = -3.01
    target, reference = at_hand(target, z)
    assert np.isneginf(target.group_rows.values_at(reference.centre, np.array([7]))[0, 0])
    tables = NodeBoundsPass(target.group_rows, reference).tables()
    assert (tables.c[:, 7] >= NO_BOUND).all()
    others = np.delete(np.arange(60), 7)
    assert tables.c[:, others].max() < 1.0
    remainders = Remainders(target, reference, tables)
    found = [remainders.largest(k, np.random.default_rng(4)) for k in range(len(tables.c))]
    assert max(found) <= 1.0


def test_nodes_that_vanish_in_the_ball_leave_no_bound():
    target, z = counts_with_a_mean(7), np.tile([-1.0, 0.0, 1.0], (60, 1))
    z[3, 0] = -2.97
    tables = NodeBoundsPass(*(x if k else x.group_rows for k, x in enumerate(at_hand(target, z))))
    found = tables.tables()
    assert (found.c[:, 3] >= NO_BOUND).all()


def test_nodes_without_a_weight_do_not_matter():
    target, z = counts_with_a_mean(7), np.tile([-3.0, -1.0, 0.0, 1.0], (60, 1))
    with_four, reference = at_hand(target, z)
    nodes = with_four.group_rows.nodes
    weightless = nodes._replace(log_weights=np.where(z == -3.0, -np.inf, 0.0))
    with_four = with_four.at_nodes(weightless)
    with_three, _ = at_hand(target, z[:, 1:])
    both = [NodeBoundsPass(x.group_rows, reference).tables().c for x in (with_four, with_three)]
    np.testing.assert_allclose(*both, rtol=1e-6)


def test_many_groups_without_a_bound_are_refused():
    target, z = counts_with_a_mean(7), np.tile([-1.0, 0.0, 1.0], (60, 1))
    z[3:6, 0] = -2.97
    target, reference = at_hand(target, z)
    with pytest.raises(BoundsError, match="group 3 of 'a' has no bound over the trust region"):
        NodeBoundsPass(target.group_rows, reference).tables()
