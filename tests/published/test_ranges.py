"""Ranges of log-likelihoods hold everywhere in the support, and are hardly wider than need be."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import Ranges
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.moves import CONSTANT
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.published.ranges import (
    NO_MOVE_RADIUS,
    DerivedRanges,
    RangesPass,
    table_of_ranges,
)
from pymc_minibatch_mh.structure.row_function import row_functions

RNG = np.random.default_rng(91)
X = RNG.normal(0.5, 1.6, 1_000)
SEEN = (RNG.random(1_000) < 0.4).astype(np.int8)
GRID = np.linspace(-3.0, 3.0, 61)


def tables_of(model, centre, beta=1.0):
    parts = factorize(model, model.value_vars)
    one = np.eye(len(centre))
    zero = np.zeros(len(centre))
    s = Reference(np.asarray(centre, dtype=float), one, one, zero, 0.0 * one, 0, beta)
    return RangesPass(row_functions(parts), s, (parts.lower, parts.upper)).tables()


def mixture(**transform):
    with pm.Model() as model:
        a, b = pm.Uniform("a", -3, 3, **transform), pm.Uniform("b", -3, 3, **transform)
        mu = pm.math.stack([a, a + b])
        pm.NormalMixture("x", w=np.array([0.5, 0.5]), mu=mu, sigma=2**0.5, observed=X)
    return model


def log_likelihood_of_mixture(a, b):
    return np.logaddexp(-((X - a) ** 2) / 4.0, -((X - a - b) ** 2) / 4.0)


@pytest.mark.parametrize("beta", [1.0, 0.01])
@pytest.mark.parametrize("transform", [{}, {"default_transform": None}], ids=["line", "box"])
def test_the_range_of_a_mixture(transform, beta):
    # 0 is the middle of the interval on either scale.
    found = tables_of(mixture(**transform), [0.0, 0.0], beta)
    middle = log_likelihood_of_mixture(0.0, 0.0)
    levels = np.array([log_likelihood_of_mixture(a, b) - middle for a in GRID for b in GRID])
    low, high = beta * levels.min(axis=0), beta * levels.max(axis=0)
    width, below = found.c.astype(np.float64)
    assert (-below <= low).all()
    assert (width - below >= high).all()
    assert width.sum() < 1.05 * (high - low).sum()
    assert found.verified
    assert DerivedRanges().has_made(found)


@pytest.mark.parametrize(("low", "high"), [(0.45, 0.55), (0.02, 0.9), (0.97, 0.99)])
def test_an_interval_that_is_transformed_has_the_range_of_one_that_is_not(low, high):
    found = []
    for transform, centre in (({}, 0.0), ({"default_transform": None}, 0.5 * (low + high))):
        with pm.Model() as model:
            p = pm.Uniform("p", low, high, **transform)
            pm.Bernoulli("seen", p=p, observed=SEEN)
        found.append(tables_of(model, [centre]).c.astype(np.float64))
    np.testing.assert_allclose(*found, rtol=1e-6)
    grid = np.linspace(low, high, 101)[:, None]
    levels = np.log(np.where(SEEN, grid, 1.0 - grid))
    levels -= levels[50]
    width, below = found[0]
    assert (-below <= levels.min(axis=0)).all()
    assert (width - below >= levels.max(axis=0)).all()


def test_ranges_are_rounded_up_and_hold_the_centre():
    low, high = np.array([-0.1, 0.0, -1e-9, 3e-9]), np.array([0.3, 0.2, 1e-12, 0.7])
    found = table_of_ranges(low, high, verified=False)
    width, below = found.c.astype(np.float64)
    assert (-below <= low).all()
    assert (width - below >= high).all()
    assert (below >= 0.0).all()
    np.testing.assert_allclose(width, high - np.minimum(low, 0.0), rtol=1e-6)
    np.testing.assert_array_equal(
        found.headers[:, :2], [[np.inf, CONSTANT], [NO_MOVE_RADIUS, CONSTANT]]
    )
    np.testing.assert_allclose(found.headers[:, 2], found.c.sum(axis=1, dtype=float))


def test_ranges_without_the_centre_are_refused():
    with pytest.raises(
        SettingError, match=r"low\[1\]=0.5 and high\[1\]=1.0, but the range has to contain 0"
    ):
        Ranges([-1.0, 0.5], [1.0, 1.0]).tables(2, 1.0)
