"""Rows of hierarchies are linear in the coordinates that are found, and the density is the same."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from every import every
from likelihood.evaluation import evaluate, split_of
from likelihood.hierarchies import SPELLINGS, G, g, h, ones, x, y
from likelihood.mapped import (
    check_free_variables,
    check_that_parts_add_up,
    check_that_the_map_leads_back,
    check_the_jacobian,
)
from pymc_minibatch_mh.likelihood.exprs import Gather
from pymc_minibatch_mh.likelihood.function import lowered_rows
from pymc_minibatch_mh.likelihood.non_centred import in_linear_coordinates
from tiers import fast

# Said by PyTensor where no BLAS is installed, of the start of correlated effects.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")
#: Spellings that between them have every kind of map.
FEW = (
    "chosen, then scaled", "student rows", "crossed", "uniform scale", "nested", "correlated",
    "horseshoe", "Matérn process", "precision", "location scaled too", "sum of zero",
    "scale of each",
)  # fmt: skip
SPELLED = every("spelling", fast(SPELLINGS, FEW))


@cache
def mapped(name):
    model = SPELLINGS[name].build()
    return model, in_linear_coordinates(split_of(model))


def values_near_start(model, parts, seed=3):
    start = parts.ravel_values(model.initial_point())
    return start + 0.3 * np.random.default_rng(seed).standard_normal(start.size)


def places_of(parts, name):
    """Return the coordinates of a variable."""
    (block,) = (b for b, n in zip(parts.blocks, parts.natural, strict=True) if n == name)
    return set(range(block.start, block.stop))


def places_in_rows(parts):
    found = set()
    for row in lowered_rows(parts):
        for form in row.arguments.forms:
            for term in form.terms:
                place = term.place
                if isinstance(place, Gather):
                    found |= {place.first + k * place.step for k in range(place.size)}
                else:
                    found.add(place)
    return found


@SPELLED
def test_every_spelling_is_found(spelling):
    _, parts = mapped(spelling)
    assert tuple(one.words for one in parts.reparametrization.maps) == SPELLINGS[spelling].words
    assert parts.reparametrization.refused == ()


@SPELLED
def test_rows_are_free_of_the_scales(spelling):
    _, parts = mapped(spelling)
    scales = {"tau", "upper", "spread", "chol", "lam", "eta", "ell", "kappa"}
    hidden = set().union(*(places_of(parts, name) for name in scales & set(parts.natural)))
    assert hidden
    assert hidden.isdisjoint(places_in_rows(parts))
    moved = [one for one in parts.reparametrization.maps if max(one.locations) >= 0]
    assert {k for one in moved for k in one.locations}.isdisjoint(places_in_rows(parts))


@SPELLED
def test_the_map_is_one_to_one(spelling):
    model, parts = mapped(spelling)
    check_that_the_map_leads_back(parts, values_near_start(model, parts))


@SPELLED
def test_the_jacobian_is_the_numerical_one(spelling):
    model, parts = mapped(spelling)
    check_the_jacobian(parts, values_near_start(model, parts))


@SPELLED
def test_the_parts_add_up_to_the_model(spelling):
    model, parts = mapped(spelling)
    check_that_parts_add_up(model, parts, *(values_near_start(model, parts, k) for k in (3, 4)))


@SPELLED
def test_free_variables_are_those_of_the_model(spelling):
    model, parts = mapped(spelling)
    values = values_near_start(model, parts)
    check_free_variables(model, parts, values)
    assert set(parts.cut(values)) == {b.name for b in parts.blocks}


def test_a_centred_spelling_stays_as_it_is():
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mu"), pm.HalfNormal("tau"), shape=G)
        sigma = pm.HalfNormal("sigma")
        pm.StudentT("y", nu=4, mu=effect[g] + pm.Normal("b") * x, sigma=sigma, observed=y)
    parts = split_of(model)
    assert in_linear_coordinates(parts) is parts


def test_both_spellings_have_the_same_prior_part():
    _, parts = mapped("chosen, then scaled")
    with pm.Model() as model:
        mu, tau, b = pm.Normal("mu"), pm.HalfNormal("tau"), pm.Normal("b")
        effect = pm.Normal("effect", mu, tau, shape=G)
        pm.Bernoulli("y", logit_p=effect[g] + b * x, observed=ones)
    centred = split_of(model)
    for seed in range(3):
        position = np.random.default_rng(seed).standard_normal(parts.size)
        one, other = (evaluate([p.position], p.prior, [position]) for p in (parts, centred))
        assert one == pytest.approx(other, rel=1e-13)


def _refused(build):
    with pm.Model() as model:
        build()
    coordinates = in_linear_coordinates(split_of(model)).reparametrization
    assert coordinates.maps == ()
    return dict(coordinates.refused).get("z", "")


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


REFUSALS = {
    "also noise": (scale_is_noise_too, "also depend on 'sigma' by itself"),
    "of either sign": (scale_has_a_sign, "'size' that is not known to be positive"),
    "two scales": (two_scales, "in some places of the rows and not in others"),
    "bounded": (bounded, "is bounded and multiplied by 'tau' in rows"),
    "scale of others": (scale_of_others, "entries of 'size' that data choose, which is undone"),
    "scale of more": (scale_of_more, "entries of 'size' that data choose, which is undone"),
    "scales of many": (scales_of_many, "for 25 entries at most"),
}


@every("case", REFUSALS)
def test_a_model_that_is_refused_stays_in_its_own_variables(case):
    build, _ = REFUSALS[case]
    with pm.Model() as model:
        build()
    parts = in_linear_coordinates(split_of(model))
    values = values_near_start(model, parts)
    np.testing.assert_array_equal(parts.positions(values), values)
    np.testing.assert_array_equal(parts.values(values), values)
    assert parts.log_jacobian(values) == 0.0


@every("case", REFUSALS)
def test_what_stands_against_a_map_is_named(case):
    build, reason = REFUSALS[case]
    assert reason in _refused(build)


def test_a_scale_that_another_step_moves_is_named():
    model = SPELLINGS["chosen, then scaled"].build()
    own = [v for v in model.value_vars if v.name != "tau_log__"]
    coordinates = in_linear_coordinates(split_of(model, vars=own)).reparametrization
    assert "by 'tau', which another step moves" in dict(coordinates.refused).get("z", "")


def test_a_function_of_a_noise_is_no_reason():
    """Squares of what rows are about are multiplied by a precision, and nothing is refused."""
    with pm.Model() as model:
        lam, sigma = pm.HalfNormal("lam", shape=G), pm.HalfNormal("sigma")
        pm.Normal("y", lam[g], sigma, observed=y)
    parts = split_of(model)
    assert in_linear_coordinates(parts) is parts
