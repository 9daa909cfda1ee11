"""Posteriors of real models against long runs of NUTS and against quadrature."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from helpers.models import MODELS
from helpers.tiers import fast
from helpers.zoo import METHODS, drawn
from law.statistical.comparison import distance
from law.statistical.mutants import MUTANTS, TEMPERED_MUTANTS
from pymc_minibatch_mh import overdispersed_initvals

DRAWS, FEW_DRAWS, TUNE, SEED = 8_000, 2_000, 1_000, 31
#: Of the slow tier, in which chains of some methods mix slowly; and of a scale of eight groups,
#: whose tail is reached by local moves only.
MORE_DRAWS, MOST_DRAWS = 16_000, 60_000
#: Methods that every run samples on all models, and the model that it samples by all methods.
MAIN, COMMON = ("TunaMH", "PenaltyMH"), "logistic"
#: Methods that keep so long to one place that their long runs are left to the slow tier.
SLOW = ("AustereMH", "ConfidenceMH")
EVERY_CASE = [
    pytest.param(
        method,
        model,
        marks=()
        if method in MAIN or (model == COMMON and method not in SLOW)
        else pytest.mark.slow,
    )
    for method in METHODS
    for model in MODELS
]


def draws_of(method, model):
    """Return how many draws tell a posterior from another one."""
    if method in MAIN:
        return MORE_DRAWS if model == "student" else DRAWS
    if model == "student":
        return MOST_DRAWS
    return DRAWS if model == COMMON and method != "BarkerMinibatchMH" else MORE_DRAWS


@pytest.mark.parametrize(("method", "model"), EVERY_CASE)
def test_posterior_is_that_of_nuts(model_of, prepared, references, model, method):
    draws = draws_of(method, model)
    step = prepared(model, method)
    # From PyMC's default start the way to this posterior can take all of a warm-up.
    starts = overdispersed_initvals(step, 2, random_seed=SEED)
    trace = drawn(model_of(model), step, draws, TUNE, random_seed=SEED, initvals=starts)
    off = distance(trace, references[model])
    assert off.seen
    assert off.small


@pytest.mark.slow
def test_posterior_under_untuned_lower_bounds_is_that_of_nuts(model_of, prepared, references):
    # Bright rows hold moves back, and are forgotten slowly: here the prior says as much as they do.
    step = prepared("two_likelihoods", "FireflyMH", bound="untuned")
    starts = overdispersed_initvals(step, 2, random_seed=SEED)
    model = model_of("two_likelihoods")
    trace = drawn(model, step, DRAWS, TUNE, random_seed=SEED, initvals=starts)
    off = distance(trace, references["two_likelihoods"])
    assert off.seen
    assert off.small


# A sampler whose expansion lacks its second order reads most rows.
@pytest.mark.parametrize("name", fast(MUTANTS, [n for n in MUTANTS if "second order" not in n]))
def test_posterior_of_a_mutant_is_not(model_of, prepared, references, name):
    model, mutate = MUTANTS[name]
    step = mutate(prepared(model, "PenaltyMH"))
    trace = drawn(model_of(model), step, FEW_DRAWS, TUNE, random_seed=SEED)
    off = distance(trace, references[model])
    assert not off.small


@pytest.fixture(scope="module")
def tempered(model_of):
    """Return figures of the tempered posterior of two_likelihoods at K = 4, by quadrature."""
    model = model_of("two_likelihoods")
    seen = model.rvs_to_values[model["seen"]].data
    measured = model.rvs_to_values[model["measured"]].data
    x = np.random.default_rng(13).standard_normal(len(seen))
    level, slope = np.meshgrid(np.linspace(-0.1, 0.2, 61), np.linspace(-0.18, 0.24, 61))
    rows = np.zeros_like(level)
    for row in range(len(level)):
        p = expit(level[row, :, None] + slope[row, :, None] * x)
        rows[row] = np.log(np.where(seen, p, 1.0 - p)).sum(axis=1)
        rows[row] += norm.logpdf(measured, level[row, :, None], 1.2).sum(axis=1)
    weights = norm.logpdf(level, 0.0, 0.02) + norm.logpdf(slope, 0.0, 0.03) + rows / 4.0
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    figures = {}
    for name, values in (("level[0]", level), ("slope[0]", slope)):
        mean = (weights * values).sum()
        sd = np.sqrt((weights * (values - mean) ** 2).sum())
        figures[name] = {"mean": mean, "sd": sd, "mcse_mean": 0.0, "mcse_sd": 0.0}
    return figures


@pytest.mark.parametrize("method", fast(METHODS, MAIN))
def test_temperature_flattens_the_likelihood_and_only_it(model_of, prepared, tempered, method):
    step = prepared("two_likelihoods", method, temperature=4.0)
    trace = drawn(model_of("two_likelihoods"), step, DRAWS, TUNE, random_seed=SEED)
    assert (trace.sample_stats["temperature"] == 4.0).all()
    off = distance(trace, tempered)
    assert off.seen
    assert off.small


@pytest.mark.parametrize("name", TEMPERED_MUTANTS)
def test_tempering_mutants_are_noticed(model_of, prepared, tempered, name):
    step = TEMPERED_MUTANTS[name](prepared("two_likelihoods", "PenaltyMH", temperature=4.0))
    trace = drawn(model_of("two_likelihoods"), step, FEW_DRAWS, TUNE, random_seed=SEED)
    assert not distance(trace, tempered).small
