"""Steps by their bare names, in PyMC's own loop at its defaults, converge on several models."""

import logging
from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytest

from helpers.tiers import fast
from pymc_minibatch_mh import AustereMH, BarkerMinibatchMH, TunaMH

N = 20_000


def logistic(rng):
    """Add late trains by one predictor."""
    x = rng.normal(size=N)
    intercept, slope = pm.Normal("intercept", 0, 2.5), pm.Normal("slope", 0, 2.5)
    late = rng.random(N) < 1 / (1 + np.exp(1 - 0.5 * x))
    pm.Bernoulli("late", logit_p=intercept + slope * x, observed=late)


def linear(rng):
    """Add a response of unknown noise by three predictors."""
    x = rng.normal(size=(N, 3))
    b, sigma = pm.Normal("b", 0, 10, shape=3), pm.HalfNormal("sigma", 5)
    y = 1 + x @ [0.5, -0.2, 0.1] + 2 * rng.normal(size=N)
    pm.Normal("y", pm.Normal("level", 0, 10) + x @ b, sigma, observed=y)


def counts(rng):
    """Add counts by five predictors."""
    x = rng.normal(size=(N, 5))
    b = pm.Normal("b", 0, 1, shape=5)
    pm.Poisson("n", pm.math.exp(0.5 + x @ b), observed=rng.poisson(np.exp(0.5 + 0.2 * x.sum(1))))


STEPS = AustereMH, BarkerMinibatchMH, TunaMH
CASES = [*product((logistic, linear, counts), STEPS)]


@pytest.mark.parametrize(("write", "method"), fast(CASES, [(logistic, BarkerMinibatchMH)]))
def test_a_step_by_its_name_converges(write, method, caplog):
    """Four chains, as PyMC makes on four cores or more."""
    with caplog.at_level(logging.WARNING), pm.Model():
        write(np.random.default_rng(8))
        trace = pm.sample(step=method(), chains=4, random_seed=1, progressbar=False)
    for key in trace.posterior.data_vars:
        assert float(az.rhat(trace)[key].max()) <= 1.01, key
        assert float(az.ess(trace)[key].min()) >= 1_000, key
    assert caplog.messages == []
