"""A row of weight w counts as w rows would: for integers that is a fact to be tested."""

from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

from helpers.zoo import drawn
from law.compound.models import data, expectation, grid
from law.statistical.budget import FAR
from model.evaluation import positions, rows_of_batch, rows_of_whole, split_of
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.native.bound_tables import TOTAL
from pymc_minibatch_mh.native.posterior import Reference
from pymc_minibatch_mh.structure.row_function import row_functions

ROWS = 3_000
METHODS = {"TunaMH": TunaMH, "PenaltyMH": PenaltyMH}


def counts():
    return np.random.default_rng(81).integers(1, 5, ROWS).astype(np.int8)


def model_of(x, y):
    with pm.Model() as model:
        level, slope = pm.Normal("level"), pm.Normal("slope")
        pm.Bernoulli("y", logit_p=level + slope * x, observed=y)
    return model


@cache
def weighted():
    return model_of(*data(82, 0.3, -0.5, rows=ROWS))


def repeated():
    return model_of(*(np.repeat(values, counts()) for values in data(82, 0.3, -0.5, rows=ROWS)))


@pytest.mark.parametrize("dtype", ["int8", "float64", "float32", "float16", "bool", ">f8"])
def test_rows_are_multiplied_by_their_weights(dtype):
    model = weighted()
    weights = (np.arange(ROWS) % 3 != 0).astype(dtype)
    parts = split_of(model, weights=weights)
    (term,) = parts.terms
    rows = np.array([5, 0, 2_999, 1])
    for position in positions(parts):
        plain = rows_of_whole(model, parts, "y", position)
        found = rows_of_batch(parts, term, position, rows)
        np.testing.assert_allclose(found, plain[rows] * weights[rows].astype(float), rtol=1e-12)


def bounds_of(order, weights):
    parts = split_of(weighted(), weights=weights)
    one, zero = np.eye(parts.size), np.zeros(parts.size)
    reference = Reference(zero, 0.1 * one, 10.0 * one, zero, one, order, 1.0)
    return BoundsPass(row_functions(parts), reference, (parts.lower, parts.upper)).tables().c


@pytest.mark.parametrize("order", [0, 1, 2])
def test_bounds_of_weighted_rows_are_bounds_times_weights(order):
    plain, heavy = (bounds_of(order, w) for w in (np.ones(ROWS), counts()))
    np.testing.assert_allclose(heavy[0], counts() * plain[0], rtol=1e-6)


def test_integer_weights_have_the_mode_the_sums_and_the_bounds_of_repeated_rows():
    once = TunaMH(model=weighted(), weights={"y": counts()})
    often = TunaMH(model=repeated())
    one, other = once.reference, often.reference
    np.testing.assert_allclose(one.centre, other.centre, atol=2e-3)
    np.testing.assert_allclose(one.hessian, other.hessian, rtol=2e-3)
    kinds = once.tables.headers[:, TOTAL] / often.tables.headers[:, TOTAL]
    np.testing.assert_allclose(kinds, 1.0, rtol=0.02)


def posterior(x, y):
    levels, slopes, values = grid(x, y)
    a, b = levels[:, None], slopes[None]
    weights = norm.pdf(a) * norm.pdf(b) * np.exp(values - values.max())
    return {
        name: (mean := expectation(weights, v), np.sqrt(expectation(weights, v**2) - mean**2))
        for name, v in (("level", a), ("slope", b))
    }


def largest_errors(trace, reference):
    """Return the largest distance of a mean in its standard errors, and of a relative sd."""
    means, scales = [], []
    for name, (mean, sd) in reference.items():
        draws = trace.posterior[name].to_numpy()
        means.append(abs(draws.mean() - mean) / (sd / np.sqrt(float(az.ess(draws)))))
        scales.append(abs(draws.std() / sd - 1.0))
    return max(means), max(scales)


@pytest.mark.parametrize("method", METHODS)
def test_posterior_is_that_of_repeated_rows(method):
    model = weighted()
    reference = posterior(*(np.repeat(v, counts()) for v in data(82, 0.3, -0.5, rows=ROWS)))
    step = METHODS[method](model=model, weights=counts())
    mean, scale = largest_errors(drawn(model, step, 4_000, 500, random_seed=83), reference)
    assert mean < FAR
    assert scale < 0.06
    plain = METHODS[method](model=model)
    _, scale = largest_errors(drawn(model, plain, 4_000, 500, random_seed=83), reference)
    assert scale > 0.3


def test_two_likelihoods_take_weights_by_name():
    x, y = data(84, 0.2, 0.1, rows=ROWS)
    with pm.Model() as model:
        level = pm.Normal("level")
        pm.Bernoulli("y", logit_p=level, observed=y)
        pm.Normal("x", level, 1.0, observed=x)
    parts = split_of(model, weights={"x": np.full(ROWS, 0.5)})
    assert [term.weights is None for term in parts.terms] == [True, False]
    with pytest.raises(
        SettingError, match=r"^weights= is one array for 2 observed .* \['x', 'y'\]"
    ):
        split_of(model, weights=np.ones(ROWS))
