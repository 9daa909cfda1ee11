"""Models that Bambi builds, with its default priors, are sampled as they stand."""

import logging
from functools import cache

import numpy as np
import pandas as pd
import pytest

from helpers.tiers import fast
from helpers.zoo import drawn
from models.bambi_models import groups
from models.bambi_models.groups import (
    FARTHEST,
    LEVEL,
    NOISE,
    RESPONSES,
    Run,
    built,
    distances_from_zero,
    gradients,
    responses,
)
from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.steps.deterministics import large_deterministics, names_without_large

# Said by pandas of what Bambi asks it.
pytestmark = pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes")
#: Enough for what is a large deterministic, and little else.
ROWS = 5_000
SLOPES = 0.6, -0.4


#: Family -> the deterministic with one value per row; of the four categories Bambi stores three.
BY_ROW = dict.fromkeys(RESPONSES, "'mu', 5,000 values")
BY_ROW |= dict.fromkeys(("bernoulli", "binomial"), "'p', 5,000 values")
BY_ROW["cumulative"] = "'p', 5,000 × 3 values"


@cache
def table():
    """Return two predictors and a response for every family."""
    rng = np.random.default_rng(301)
    x, z = rng.uniform(-1.0, 1.0, (2, ROWS))
    return pd.DataFrame({"x": x, "z": z, **responses(rng, LEVEL + SLOPES[0] * x + SLOPES[1] * z)})


def flat(family):
    return built(family, "x + z", table())


def names_of(model):
    return [rv.name for rv in model.free_RVs]


@pytest.mark.parametrize("family", fast(BY_ROW, ("bernoulli", "poisson")))
def test_a_flat_model_is_sampled_as_it_is_built(family, caplog):
    model = flat(family).backend.model
    with caplog.at_level(logging.WARNING, logger="pymc_minibatch_mh"):
        step = TunaMH(model=model)
    assert BY_ROW[family] in caplog.text
    large = large_deterministics(model, model.initial_point())
    assert list(names_without_large(model, large)) == names_of(model)
    trace = drawn(model, step, 1_500, 500, random_seed=301, var_names=names_of(model))
    stats = trace.sample_stats
    assert bool(stats["certified"].all())
    assert float(stats["n_obs"].mean()) < 0.05 * ROWS
    distances, noise = distances_from_zero(gradients(Run(model, step, trace)))
    assert (distances <= FARTHEST).all()
    assert (noise <= NOISE).all()


def test_effects_of_groups_are_bounded():
    data = groups.table(ROWS)
    model = built("bernoulli", "x + (1|group)", data, noncentered=False).backend.model
    step = TunaMH(model=model)
    assert np.isfinite(step.tables.c).all()
