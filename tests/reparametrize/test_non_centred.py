"""Rows of hierarchies are linear in the coordinates that are found, and the density is the same."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from helpers.tiers import fast
from model.evaluation import split_of
from pymc_minibatch_mh.expressions.graph import coordinates_at
from pymc_minibatch_mh.model import factorization
from pymc_minibatch_mh.reparametrize.non_centred import in_linear_coordinates
from pymc_minibatch_mh.structure.row_function import lowered_rows
from reparametrize.hierarchies import SPELLINGS, G, g, h, x, y
from reparametrize.mapped import check_the_map

# Said by PyTensor where no BLAS is installed, of the start of correlated effects.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
#: Spellings that between them have every kind of map.
FEW = (
    "chosen, then scaled", "student rows", "crossed", "uniform scale", "nested", "correlated",
    "horseshoe", "Matérn process", "precision", "location scaled too", "sum of zero",
    "scale of each",
)  # fmt: skip
SPELLED = pytest.mark.parametrize("spelling", fast(SPELLINGS, FEW))


@cache
def mapped(name):
    model = SPELLINGS[name].build()
    return model, in_linear_coordinates(split_of(model))


def places_of_variable(parts, name):
    (block,) = (b for b, n in zip(parts.blocks, parts.natural, strict=True) if n == name)
    return set(range(block.start, block.stop))


def places_in_rows(parts):
    forms = [form for row in lowered_rows(parts) for form in row.arguments.forms]
    return {k for form in forms for term in form.terms for k in coordinates_at(term.place)}


@SPELLED
def test_every_spelling_is_found(spelling):
    _, parts = mapped(spelling)
    assert tuple(one.label for one in parts.maps) == SPELLINGS[spelling].words
    assert parts.refused == ()


@SPELLED
def test_rows_are_free_of_the_scales(spelling):
    _, parts = mapped(spelling)
    scales = {"tau", "upper", "spread", "chol", "lam", "eta", "ell", "kappa"}
    hidden = set().union(*(places_of_variable(parts, name) for name in scales & set(parts.natural)))
    assert hidden
    assert hidden.isdisjoint(places_in_rows(parts))
    locations = {k for one in parts.maps for k in one.locations}
    assert locations.isdisjoint(places_in_rows(parts))


@SPELLED
def test_the_map_is_one_to_one_and_keeps_the_density(spelling):
    model, parts = mapped(spelling)
    values = parts.ravel_values(model.initial_point())
    values += 0.3 * np.random.default_rng(3).standard_normal(values.size)
    check_the_map(model, parts, values)


@SPELLED
def test_many_draws_are_mapped_as_each_by_itself(monkeypatch, spelling):
    _, parts = mapped(spelling)
    positions = 0.3 * np.random.default_rng(4).standard_normal((2, 3, parts.size))
    monkeypatch.setattr(factorization, "_CACHED", 2 * parts.size)
    for change in (parts.values, parts.positions):
        alone = [[change(one) for one in chain] for chain in positions]
        np.testing.assert_array_equal(change(positions), alone)
    values = parts.values(positions)
    np.testing.assert_array_equal(parts.values(positions, overwritten=True), values)
    np.testing.assert_array_equal(positions, values)


def test_a_centred_spelling_stays_as_it_is():
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mu"), pm.HalfNormal("tau"), shape=G)
        sigma = pm.HalfNormal("sigma")
        pm.StudentT("y", nu=4, mu=effect[g] + pm.Normal("b") * x, sigma=sigma, observed=y)
    parts = split_of(model)
    assert in_linear_coordinates(parts) is parts
    draws = np.zeros((5, parts.size))
    assert parts.values(draws) is draws


def scale_is_noise_too():
    sigma, z = pm.HalfNormal("sigma"), pm.Normal("z", shape=G)
    pm.Normal("y", sigma * z[g], sigma, observed=y)


def scale_has_a_sign():
    size, z = pm.Normal("size"), pm.Normal("z", shape=G)
    pm.Normal("y", size * z[g], 1.0, observed=y)


def two_scales():
    size, other, z = pm.HalfNormal("size"), pm.HalfNormal("other"), pm.Normal("z", shape=G)
    pm.Normal("y", size * z[g] + other * z[g] * x, 1.0, observed=y)


def bounded():
    tau, z = pm.HalfNormal("tau"), pm.Uniform("z", -1.0, 1.0, shape=G)
    pm.Normal("y", tau * z[g], 1.0, observed=y)


def scale_of_others():
    size, z = pm.HalfNormal("size", shape=3), pm.Normal("z", shape=G)
    pm.Normal("y", size[h] * z[g], 1.0, observed=y)


def scale_of_more():
    size, z, v = pm.HalfNormal("size", shape=G), pm.Normal("z", shape=G), pm.Normal("v", shape=3)
    pm.Normal("y", size[g] * (z[g] + v[h]), 1.0, observed=y)


def scales_of_many():
    size, z = pm.HalfNormal("size", shape=26), pm.Normal("z", shape=26)
    pm.Normal("y", size[g] * z[g], 1.0, observed=y)


def function_of_data():
    rate, z = pm.Normal("rate"), pm.Normal("z", shape=1)
    pm.Normal("y", z[0] * (1.0 + pm.math.exp(rate * x)), 1.0, observed=y)


REFUSALS = {
    "function of data": (
        function_of_data,
        "by functions of 'rate' that differ between observations",
    ),
    "also noise": (scale_is_noise_too, "also depend on 'sigma' alone"),
    "of either sign": (scale_has_a_sign, "'size' that is not known to be positive"),
    "two scales": (two_scales, "in some places of the likelihood and not in others"),
    "bounded": (bounded, "is bounded and multiplied by 'tau' in observations"),
    "scale of others": (scale_of_others, "entries of 'size' that data choose; this is supported"),
    "scale of more": (scale_of_more, "entries of 'size' that data choose; this is supported"),
    "scales of many": (scales_of_many, "for at most 25 entries"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_model_that_is_refused_stays_in_its_own_variables(case):
    build, reason = REFUSALS[case]
    with pm.Model() as model:
        build()
    parts = in_linear_coordinates(split_of(model))
    assert parts.maps == ()
    assert reason in dict(parts.refused).get("z", "")


def test_a_scale_that_another_step_moves_is_named():
    model = SPELLINGS["chosen, then scaled"].build()
    own = [v for v in model.value_vars if v.name != "tau_log__"]
    parts = in_linear_coordinates(split_of(model, vars=own))
    assert "by 'tau', which belongs to another step" in dict(parts.refused).get("z", "")
