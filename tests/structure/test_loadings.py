"""Parameters that multiply effects: rows in coordinates in which they are linear at nodes."""

import numpy as np
import pymc as pm
import pytest

from helpers.small_groups import read, target_of
from pymc_minibatch_mh.reparametrize.integrated import ScaleRoot, Shifts
from pymc_minibatch_mh.structure.loadings import loadings_of

PERSONS, ITEMS = 7, 4
_RNG = np.random.default_rng(6)
PERSON, ITEM = np.repeat(np.arange(PERSONS), ITEMS), np.tile(np.arange(ITEMS), PERSONS)
ANSWERS, SCORES = _RNG.integers(0, 2, PERSON.size), _RNG.normal(size=PERSON.size)


def ability(**settings):
    return pm.Normal("theta", 0.0, 1.0, **{"shape": PERSONS, **settings})


def difficulty():
    return pm.Normal("beta", 0.0, 1.0, shape=ITEMS)


def bernoulli(line):
    pm.Bernoulli("y", logit_p=line, observed=ANSWERS)


def of_probability(link):
    def write():
        disc = pm.HalfNormal("disc", 1.0, shape=ITEMS)
        p = link(disc[ITEM] * (ability()[PERSON] - difficulty()[ITEM]))
        pm.Bernoulli("y", p=p, observed=ANSWERS)

    return write


def difference():
    disc = pm.LogNormal("disc", 0.0, 0.5, shape=ITEMS)
    bernoulli(disc[ITEM] * (ability()[PERSON] - difficulty()[ITEM]))


def intercept():
    disc = pm.TruncatedNormal("disc", 1.0, 0.5, lower=0.0, shape=ITEMS)
    bernoulli(disc[ITEM] * ability()[PERSON] - difficulty()[ITEM])


def spread():
    """Discriminations with a free spread, whose logarithms are variables."""
    sd = pm.HalfNormal("sd", 0.5)
    disc = pm.math.exp(pm.Normal("log disc", 0.0, sd, shape=ITEMS))
    bernoulli(disc[ITEM] * (ability()[PERSON] - difficulty()[ITEM]))


def factors():
    loading, sigma = pm.HalfNormal("loading", 1.0, shape=ITEMS), pm.HalfNormal("sigma", shape=ITEMS)
    line = difficulty()[ITEM] + loading[ITEM] * ability()[PERSON]
    pm.Normal("y", line, sigma[ITEM], observed=SCORES)


#: Models, with the kinds of maps that they get.
LINEAR = {
    "difference": (difference, [ScaleRoot, Shifts]),
    "intercept": (intercept, [ScaleRoot]),
    "inverse logit": (of_probability(pm.math.invlogit), [ScaleRoot, Shifts]),
    "probit": (of_probability(pm.math.invprobit), [ScaleRoot, Shifts]),
    "free spread": (spread, [ScaleRoot, Shifts]),
    "one factor": (factors, [ScaleRoot]),
}


def made(write):
    with pm.Model() as model:
        write()
    return model


@pytest.mark.parametrize("in_logs", [False, True])
@pytest.mark.parametrize("name", LINEAR)
def test_densities_are_those_of_the_model(name, in_logs, monkeypatch):
    """Up to the Jacobian, at positions that have the same values of the variables."""
    write, kinds = LINEAR[name]
    model = made(write)
    target = target_of(model, in_logs=in_logs)
    kinds = [kind for kind in kinds if kind is Shifts or not in_logs]
    assert [type(one) for one in target.factorization.maps] == kinds
    monkeypatch.setattr("helpers.small_groups.loadings_of", lambda *_: None)
    plain = target_of(model)
    rng = np.random.default_rng(7)
    for _ in range(3):
        x = 0.5 * rng.standard_normal(plain.factorization.size)
        point = plain.factorization.unravel(x, {})
        position = target.factorization.ravel(point)
        again = target.factorization.unravel(position, {})
        assert all(np.allclose(again[k], point[k], rtol=1e-12) for k in point)
        assert target.log_likelihood(position) == pytest.approx(plain.log_likelihood(x), rel=1e-12)
        log_jacobian = target.factorization.log_jacobian(position)
        expected = plain.log_prior(x) + log_jacobian
        assert target.log_prior(position) == pytest.approx(expected, rel=1e-10)
        columns = [target.factorization.values(p) for p in position + 1e-6 * np.eye(x.size)]
        jacobian = (np.array(columns) - x) / 1e-6
        assert np.linalg.slogdet(jacobian)[1] == pytest.approx(log_jacobian, abs=1e-3)


@pytest.mark.parametrize("name", LINEAR)
def test_an_effect_is_a_predictor_by_itself(name):
    """Its predictor is a number at a node, so that rows are linear in factors of the effect."""
    layout = target_of(made(LINEAR[name][0])).compiled.layout
    (function,) = layout.functions
    predictors = [[term.place for term in form.terms] for form in function.arguments]
    # The own effect comes after all coordinates.
    assert predictors.count([layout.size]) == 1
    assert sum(layout.size in places for places in predictors) == 1


def alone():
    """Discriminations that are in observations by themselves as well."""
    disc = pm.LogNormal("disc", 0.0, 0.5, shape=ITEMS)
    bernoulli(disc[ITEM] * ability()[PERSON] - disc[ITEM])


def other_index():
    disc = pm.LogNormal("disc", 0.0, 0.5, shape=ITEMS)
    bernoulli(disc[ITEM] * (ability()[PERSON] - difficulty()[ITEM[::-1].copy()]))


def free_scale():
    disc = pm.LogNormal("disc", 0.0, 0.5, shape=ITEMS)
    theta = pm.Normal("theta", 0.0, pm.HalfNormal("tau"), shape=PERSONS)
    bernoulli(disc[ITEM] * (theta[PERSON] - difficulty()[ITEM]))


def any_sign():
    disc = pm.Normal("disc", 1.0, 0.5, shape=ITEMS)
    bernoulli(disc[ITEM] * (ability()[PERSON] - difficulty()[ITEM]))


@pytest.mark.parametrize("write", [alone, other_index, free_scale, any_sign])
def test_other_products_keep_their_coordinates(write):
    model = made(write)
    whole, functions, groups = read(model)
    assert loadings_of(whole, functions, groups) is None
