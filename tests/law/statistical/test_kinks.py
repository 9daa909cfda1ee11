"""Posteriors of rows with kinks are those of PyMC's own densities, by importance sampling."""

import numpy as np
import pymc as pm
import pytest

from benchmarks.kinks import (
    change_point,
    hinge,
    laplace_errors,
    large_change,
    quantile_regression,
)
from law.statistical.importance import assert_draws_follow
from pymc_minibatch_mh import BarkerMinibatchMH, TunaMH

EXACT = {f.__name__: (f, TunaMH) for f in (quantile_regression, laplace_errors, hinge)}
CASES = {
    **EXACT,
    "small change": (lambda rows, rng: change_point(rows, rng, 0.1), TunaMH),
    "large change": (large_change, TunaMH),
    "by Barker's test": (quantile_regression, BarkerMinibatchMH),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_posterior_is_that_of_the_density(name):
    declare, method = CASES[name]
    with pm.Model() as model:
        declare(20_000, np.random.default_rng(7))
    assert_draws_follow(model, method(model=model))
