"""Posteriors without the effects of groups: the prior of all else is the model's own."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy import special

from helpers.small_groups import read
from helpers.tiers import fast
from model.evaluation import at_points, evaluate
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.model.constant_data import with_double_constants
from pymc_minibatch_mh.reparametrize.integrated import without_effects

N, G = 30, 4
_RNG = np.random.default_rng(3)
GROUP, OTHER = _RNG.integers(0, G, N), _RNG.integers(0, 3, N)
X, Y = _RNG.normal(size=(N, 2)), _RNG.normal(size=N)


def plain():
    effect = pm.Normal("a", pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.5), shape=G)
    pm.Normal("y", effect[GROUP], 1.0, observed=Y)


def hierarchy():
    """Write parameters before and after the effects, and priors above their mean and scale."""
    first = pm.Dirichlet("first", np.ones(3))
    mean = pm.Normal("mu", pm.Normal("top", 0.0, 1.0), pm.HalfCauchy("sd of mu", 1.0))
    tau = pm.Gamma("tau", 2.0, pm.Exponential("rate", 1.0))
    effect = pm.StudentT("a", nu=5, mu=2.0 * mean - 1.0, sigma=3.0 * tau, shape=G)
    slopes = pm.Normal("slopes", mean, tau, shape=2)
    noise = pm.Uniform("noise", 0.5, 2.0)
    pm.Potential("p", -(slopes[0] ** 4) * first[1])
    pm.Normal("y", X @ slopes + effect[GROUP] + first[OTHER], noise, observed=Y)


def products():
    z = pm.Normal("z", 0.0, 0.5, shape=G)
    last = pm.Normal("last", 0.0, 1.0, shape=2)
    predictor = pm.Normal("mu", 0.0, 1.0) + pm.LogNormal("tau", 0.0, 1.0) * z
    pm.Normal("y", predictor[GROUP] + X @ last, 1.0, observed=Y)


def crossed():
    """Write a second factor, whose prior has the same scale, and of which rows read one level."""
    tau = pm.HalfNormal("tau", 1.0)
    other = pm.Normal("other", 0.0, tau, shape=3)
    effect = pm.Normal("a", other[2], tau, shape=G)
    matrix = pm.Normal("matrix", 0.0, 1.0, shape=(2, 2))
    pm.Normal("y", effect[GROUP] + other[OTHER] + X @ matrix[1], 1.0, observed=Y)


def from_logarithm():
    effect = pm.Logistic("a", 0.0, pm.math.exp(pm.Normal("log tau", 0.0, 1.0)), shape=G)
    pm.Normal("y", effect[GROUP], pm.HalfNormal("noise", 1.0), observed=Y)


def interval():
    effect = pm.Normal("a", pm.Normal("mu", 0.0, 2.0), pm.Uniform("tau", 0.0, 5.0), shape=G)
    pm.Normal("y", effect[GROUP], 1.0, observed=Y)


def interval_without_zero():
    effect = pm.Normal("a", 0.0, pm.Uniform("tau", 0.5, 5.0), shape=G)
    pm.Normal("y", pm.Normal("mu", 0.0, 2.0) + effect[GROUP], 1.0, observed=Y)


def precision():
    effect = pm.Normal("a", 0.0, tau=pm.Gamma("tau", 2.0, 0.5), shape=G)
    pm.Normal("y", pm.Normal("mu", 0.0, 2.0) + effect[GROUP], 1.0, observed=Y)


def variance():
    """Write the root of a variance in an interval times a standardised effect."""
    scale = pm.math.sqrt(pm.Uniform("tau", 0.0, 4.0))
    effect = scale * pm.Normal("z", 0.0, 1.0, shape=G)
    pm.Normal("y", pm.Normal("mu", 0.0, 2.0) + effect[GROUP], 1.0, observed=Y)


def softplus():
    scale = pm.math.softplus(pm.Normal("tau", 0.0, 1.0)) + 0.1
    pm.Normal("y", pm.Normal("a", 0.0, scale, shape=G)[GROUP], 1.0, observed=Y)
    pm.Normal("mu", 0.0, 1.0)


MODELS = {
    "interval": (interval, "a", "tau"),
    "interval without 0": (interval_without_zero, "a", "tau"),
    "precision": (precision, "a", "tau"),
    "variance": (variance, "z", "tau"),
    "softplus": (softplus, "a", "tau"),
    "plain": (plain, "a", "tau"),
    "hierarchy": (hierarchy, "a", "tau"),
    "products": (products, "z", "tau"),
    "crossed": (crossed, "a", "tau"),
    "logarithm": (from_logarithm, "a", "log tau"),
}
#: Functions of their coordinate that scales are, up to a number, and their ends; else exp.
SCALES = {
    "interval": (special.expit, 0.0, 1.0),
    "interval without 0": (lambda v: 0.5 + 4.5 * special.expit(v), 0.5, 5.0),
    "precision": (lambda v: np.exp(-0.5 * v), 0.0, np.inf),
    "variance": (lambda v: np.sqrt(special.expit(v)), 0.0, 1.0),
    "softplus": (lambda v: np.logaddexp(0.0, v) + 0.1, 0.1, np.inf),
}
PLAIN = (np.exp, 0.0, np.inf)
for_each_model = pytest.mark.parametrize("name", fast(MODELS, MODELS.keys() - {"hierarchy"}))


@cache
def reading_of(name):
    """Return a model as it is written, and as it is read."""
    with pm.Model() as model:
        MODELS[name][0]()
    return model, read(model)


def points_of(model, count=3):
    rng = np.random.default_rng(11)
    start = model.initial_point()
    return [
        {k: v + 0.5 * rng.standard_normal(np.shape(v)) for k, v in start.items()}
        for _ in range(count)
    ]


def reduced_of(name, root):
    model, (whole, _, groups) = reading_of(name)
    return model, groups, without_effects(whole, groups, [root])


@pytest.mark.parametrize("root", [1, 2])
@for_each_model
def test_the_prior_is_the_models_without_the_effects(name, root):
    model, _, reduced = reduced_of(name, root)
    effect = MODELS[name][1]
    others = [v for v in model.free_RVs + model.potentials if v.name != effect]
    points = points_of(model)
    expected = at_points(model, with_double_constants(model.logp(vars=others)), points)
    for point, logp in zip(points, expected, strict=True):
        position = reduced.ravel(point)
        (place,) = reduced.boundary
        scale = SCALES.get(name, PLAIN)[0]
        v = np.concatenate([np.ravel(x) for k, x in point.items() if k != effect])[place]
        slope = (scale(v + 1e-6) ** root - scale(v - 1e-6) ** root) / 2e-6
        jacobian = pytest.approx(-np.log(abs(slope)), rel=1e-8, abs=1e-8)
        assert reduced.log_jacobian(position) == jacobian
        found = evaluate([reduced.position], reduced.prior, [position])
        assert found == pytest.approx(logp + reduced.log_jacobian(position), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("root", fast([1, 2], [1]))
@for_each_model
def test_the_prior_is_zero_beyond_the_ends_of_the_scale(name, root):
    """Rows are evaluated at positive scales outside of an interval as well."""
    model, _, reduced = reduced_of(name, root)
    (place,), (_, low, high) = reduced.boundary, SCALES.get(name, PLAIN)
    assert reduced.lower[place] == pytest.approx(low**root, abs=1e-15)
    assert reduced.upper[place] == pytest.approx(high**root, rel=1e-15)
    prior = CompiledModel(reduced).prior.compiled()
    inside = [reduced.ravel(point) for point in points_of(model)]
    near, far = (np.array(inside) for _ in range(2))
    near[:, place] = reduced.lower[place] - np.array([1e-9, 0.01, 0.4])
    beyond = [near]
    if np.isfinite(high):
        far[:, place] = reduced.upper[place] + np.array([1e-9, 0.01, 0.4])
        beyond.append(far)
    context = np.zeros(1, np.int64)
    for x in inside:
        assert np.isfinite(prior(x, context))
    for x in np.concatenate(beyond):
        assert not prior(x, context) > -np.inf
        assert prior(reduced.in_support(x), context) > -np.inf


@pytest.mark.parametrize("root", [1, 2])
@for_each_model
def test_positions_are_the_other_variables_with_the_scale(name, root):
    model, _, reduced = reduced_of(name, root)
    effect, scale = MODELS[name][1:]
    (place,) = reduced.boundary
    for point in points_of(model):
        position = reduced.ravel(point)
        others = {k: v for k, v in point.items() if k != effect}
        own = np.concatenate([np.ravel(v) for v in others.values()])
        assert position.size == reduced.size == own.size
        tau = SCALES.get(name, PLAIN)[0](own[place])
        assert position[place] == pytest.approx(tau**root, rel=1e-14)
        assert np.array_equal(np.delete(position, place), np.delete(own, place))
        back = reduced.split_by_name(reduced.values(position))
        assert list(back) == list(others)
        for key, value in others.items():
            np.testing.assert_allclose(back[key], value, rtol=1e-13, atol=1e-15)
    assert reduced.name_at(place) == scale
    label = f"exp({scale})" if name == "logarithm" else scale
    label = f"scale by {scale}" if name in SCALES else label
    assert [x.label for x in reduced.maps] == [label if root == 1 else f"{label}²"]


@for_each_model
def test_the_scale_has_ends_and_all_else_is_as_it_was(name):
    _, groups, reduced = reduced_of(name, 1)
    (place,) = reduced.boundary
    assert np.isneginf(np.delete(reduced.lower, place)).all()
    assert np.isposinf(np.delete(reduced.upper, place)).all()
    below = np.full(reduced.size, -0.5)
    inside = reduced.in_support(below)
    assert reduced.lower[place] < inside[place] < reduced.upper[place]
    assert np.array_equal(np.delete(inside, place), np.delete(below, place))
    (block,) = reduced.integrated
    assert block is groups.effects[0].block
    assert block.name not in [block.name for block in reduced.blocks]


@for_each_model
def test_the_other_variables_are_those_of_the_model(name):
    model, _, reduced = reduced_of(name, 2)
    effect = MODELS[name][1]
    others = [v for v in model.free_RVs if v.name != effect]
    assert list(reduced.natural) == [v.name for v in others]
    (point,) = points_of(model, 1)
    graphs = list(reduced.natural.values())
    found = evaluate([reduced.position], graphs, [reduced.ravel(point)])
    graphs = model.replace_rvs_by_values(others)
    values = [point[v.name] for v in model.value_vars]
    expected = evaluate(model.value_vars, graphs, values)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("first", [True, False])
def test_other_products_keep_their_maps(first):
    """The second factor stands before or behind the effects that are left out."""
    sizes = (G, 3) if first else (3, G)
    with pm.Model() as model:
        z = {k: pm.Normal(f"z{k}", 0.0, 1.0, shape=k) for k in sizes}
        tau = {k: pm.HalfNormal(f"tau{k}", 1.0) for k in sizes}
        predictor = (tau[G] * z[G])[GROUP] + (tau[3] * z[3])[OTHER]
        pm.Normal("y", predictor, 1.0, observed=Y)
    whole, _, groups = read(model)
    reduced = without_effects(whole, groups, [1])
    others = [v for v in model.free_RVs if v.name != f"z{G}"]
    for point in points_of(model, 2):
        position = reduced.ravel(point)
        (expected,) = at_points(model, with_double_constants(model.logp(vars=others)), [point])
        expected += reduced.log_jacobian(position)
        found = evaluate([reduced.position], reduced.prior, [position])
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)
        (block,) = (b for b in reduced.blocks if b.name == "z3")
        moved = position[block.start : block.stop]
        np.testing.assert_allclose(moved, np.exp(point["tau3_log__"]) * point["z3"], rtol=1e-14)
