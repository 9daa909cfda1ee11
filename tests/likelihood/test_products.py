"""Rows are linear in products of a coefficient with a simplex, and the density is the same."""

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln
from scipy.stats import norm

from bounds.certified import Rows
from bounds.certified import evaluate as values_of
from every import every
from likelihood.evaluation import evaluate, rows_of_whole, split_of
from likelihood.mapped import (
    check_free_variables,
    check_that_parts_add_up,
    check_that_the_map_leads_back,
    check_the_jacobian,
)
from likelihood.monotonic import ALPHA, SPELLINGS, K, N, level, y
from pymc_minibatch_mh.likelihood.function import row_functions
from pymc_minibatch_mh.likelihood.products import in_products, linear_pairs, pairs_of

SPELLED = every("spelling", SPELLINGS)
SIGNS = every("sign", [1.0, -1.0])


@cache
def built(spelling):
    return SPELLINGS[spelling].build()


@cache
def mapped(model, sign):
    parts = split_of(model)
    pairs, refused = linear_pairs(parts, parts, pairs_of(parts)[0])
    assert refused == []
    return in_products(parts, parts, pairs, [sign] * len(pairs))


def values_near_start(model, parts, sign, seed=3):
    """Return values of the model's own variables, with coefficients of a sign."""
    start = parts.ravel_values(model.initial_point())
    values = start + 0.3 * np.random.default_rng(seed).standard_normal(start.size)
    for one in parts.coordinates.maps:
        values[one.places[-1]] = sign * (0.2 + np.abs(values[one.places[-1]]))
    return values


@SPELLED
def test_every_spelling_is_found(spelling):
    parts = mapped(built(spelling), 1.0)
    assert tuple(one.words for one in parts.coordinates.maps) == SPELLINGS[spelling].words


@SPELLED
def test_rows_depend_on_one_form_and_their_noise(spelling):
    parts = mapped(built(spelling), -1.0)
    (function,) = row_functions(parts)
    assert len(function.arguments) == (1 if spelling == "deterministic" else 2)


@SIGNS
@SPELLED
def test_the_map_is_one_to_one(spelling, sign):
    model = built(spelling)
    parts = mapped(model, sign)
    values = values_near_start(model, parts, sign)
    positions = check_that_the_map_leads_back(parts, values)
    for one in parts.coordinates.maps:
        assert (positions[one.places] > 0.0).all()
        assert positions[one.places].sum() == pytest.approx(abs(values[one.places[-1]]))


@SIGNS
@SPELLED
def test_the_jacobian_is_the_numerical_one(spelling, sign):
    model = built(spelling)
    parts = mapped(model, sign)
    check_the_jacobian(parts, values_near_start(model, parts, sign))


@SIGNS
@SPELLED
def test_the_parts_add_up_to_the_model(spelling, sign):
    model = built(spelling)
    parts = mapped(model, sign)
    values = (values_near_start(model, parts, sign, seed) for seed in (3, 4))
    check_that_parts_add_up(model, parts, *values)


@SIGNS
@SPELLED
def test_rows_have_their_density(spelling, sign):
    """What rows are taken apart into, against the graph of the model in its own variables."""
    model = built(spelling)
    parts, plain = mapped(model, sign), split_of(model)
    values = values_near_start(model, parts, sign)
    (function,) = row_functions(parts)
    rows = Rows(function, np.arange(N), parts.size)
    found, _ = values_of(function, rows.data, rows.arguments(parts.positions(values)))
    expected = rows_of_whole(model, plain, "y", values)
    np.testing.assert_allclose(np.broadcast_to(found, N), expected, rtol=1e-10)


@SIGNS
@SPELLED
def test_free_variables_are_those_of_the_model(spelling, sign):
    model = built(spelling)
    parts = mapped(model, sign)
    check_free_variables(model, parts, values_near_start(model, parts, sign))


def test_the_prior_of_effects_is_the_one_worked_out_by_hand():
    with pm.Model() as model:
        b, chi = pm.Normal("b", 0.5, 2.0), pm.Dirichlet("chi", ALPHA)
        pm.Normal("y", (b * chi.cumsum())[level], 1.0, observed=y)
    for sign in (1.0, -1.0):
        parts = mapped(model, sign)
        t = np.random.default_rng(5).gamma(1.0, size=(3, K))
        for row in t:
            position = np.empty(K)
            position[parts.coordinates.maps[0].places] = row
            # Of (b, χ), and |∂(b, χ)/∂t| = b^(1 - K).
            total = row.sum()
            of_chi = (ALPHA - 1.0) @ np.log(row / total) + gammaln(ALPHA.sum())
            expected = norm.logpdf(sign * total, 0.5, 2.0) + of_chi - gammaln(ALPHA).sum()
            expected += (1 - K) * np.log(total)
            found = evaluate([parts.position], parts.prior, [position])
            assert found == pytest.approx(expected, rel=1e-12)


def test_a_start_at_zero_or_of_the_other_sign_lies_inside():
    model = SPELLINGS["weighted"].build()
    parts = mapped(model, -1.0)
    (one,) = parts.coordinates.maps
    values = values_near_start(model, parts, 1.0)
    other = parts.values(parts.positions(values))
    assert other[one.places[-1]] == pytest.approx(-values[one.places[-1]])
    np.testing.assert_allclose(other[one.places[:-1]], values[one.places[:-1]])
    values[one.places[-1]] = 0.0
    assert parts.positions(values)[one.places].sum() == pytest.approx(1.0)


def test_the_support_begins_at_zero():
    parts = mapped(SPELLINGS["two"].build(), 1.0)
    ends = sorted(parts.coordinates.ends)
    assert len(ends) == 2 * K
    assert (parts.lower[ends] == 0.0).all()
    assert np.isneginf(np.delete(parts.lower, ends)).all()
    assert np.isneginf(parts.support_of_values[0]).all()


def test_coordinates_are_pickled():
    model = SPELLINGS["two"].build()
    parts = mapped(model, -1.0)
    values = values_near_start(model, parts, -1.0)[None]
    copied = pickle.loads(pickle.dumps(parts.coordinates))
    np.testing.assert_array_equal(copied.positions(values), parts.coordinates.positions(values))


def _refused(declare):
    with pm.Model() as model:
        declare()
    parts = split_of(model)
    pairs, refused = pairs_of(parts)
    kept, more = linear_pairs(parts, parts, pairs)
    assert kept == []
    return dict(refused + more).get("chi", "")


def two_coefficients():
    chi = pm.Dirichlet("chi", ALPHA)
    effect = pm.Normal("b") * chi[level] + pm.Normal("c") * chi.cumsum()[level]
    pm.Normal("y", effect, 1.0, observed=y)


def one_coefficient_of_two():
    chi, psi, b = pm.Dirichlet("chi", ALPHA), pm.Dirichlet("psi", ALPHA), pm.Normal("b")
    pm.Normal("y", b * chi[level] + b * psi[level - 1], 1.0, observed=y)


def by_itself_too():
    chi, b = pm.Dirichlet("chi", ALPHA), pm.Normal("b")
    pm.Normal("y", b * chi[level] + chi[0], 1.0, observed=y)


REFUSALS = {
    "two coefficients": (two_coefficients, "by several coefficients, 'b', 'c'"),
    "one of two": (one_coefficient_of_two, "'b', which multiplies another simplex too"),
    "by itself": (by_itself_too, "depend on 'b' and on it in other ways than by products"),
}


@every("case", REFUSALS)
def test_what_stands_against_a_map_is_named(case):
    declare, reason = REFUSALS[case]
    assert reason in _refused(declare)


def test_models_without_products_have_no_pairs():
    with pm.Model() as model:
        w = pm.Dirichlet("w", ALPHA)
        pm.Normal("y", pm.Normal("b") + w[level], 1.0, observed=y)
    assert pairs_of(split_of(model)) == ([], [])
