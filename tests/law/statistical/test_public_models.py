"""Posteriors of models that people asked about are those of PyMC's own densities."""

import numpy as np
import pytest

from benchmarks.public_models.catalogue import MODELS
from law.statistical.importance import assert_draws_follow
from pymc_minibatch_mh import TunaMH

#: Models of few unknowns, whose density is near a normal one.
FEW = [
    "tweedie", "bgnbd", "hurdle_gamma", "com_poisson", "occupancy", "ordered_beta",
    "aft_potential", "quantile",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_posterior_is_that_of_the_density(name):
    model = MODELS[name].build(np.random.default_rng(7), 10_000)
    assert_draws_follow(model, TunaMH(model=model))
