"""Which models have moves that are drawn given scales, and how near these are to the posterior."""

import numpy as np
import pymc as pm
import pytest

from pymc_minibatch_mh import Laplace, Mixture, TunaMH, explain
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.kernels.scale_conditional import place_given_scales, size_of_work
from pymc_minibatch_mh.proposals.mixture import ByScalesNumbers, MixtureNumbers

ROWS, GROUPS = 1_200, 8


def hierarchy(*, scale=True, noise=1.0):
    """Return normal rows with known noise, whose effects are normal given their scale."""
    rng = np.random.default_rng(5)
    group = rng.integers(0, GROUPS, ROWS)
    y = 0.4 + 0.3 * rng.standard_normal(GROUPS)[group] + noise * rng.standard_normal(ROWS)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        tau = pm.HalfNormal("tau", 1.0) if scale else 0.3
        alpha = pm.Normal("alpha", mu, tau, shape=GROUPS)
        pm.Normal("y", alpha[group], noise, observed=y)
    return model


@pytest.fixture(scope="module")
def step():
    with hierarchy(noise=2.0):
        return TunaMH()


def test_draws_are_those_of_the_posterior_where_effects_are_normal():
    """The posterior of the effects given their scale is normal, and only the scale is tabled."""
    with hierarchy(noise=2.0):
        step = TunaMH()
    tables, target = step.plan.scale_conditional, step.target
    assert tables is not None
    work, place, ratios = np.empty(size_of_work(tables)), np.empty(GROUPS + 2), []
    for white in np.random.default_rng(6).standard_normal((300, GROUPS + 2)):
        log_q = place_given_scales(tables, white, place, work) - 0.5 * white @ white
        ratios.append(target.log_prior(place) + target.log_likelihood(place) - log_q)
    assert np.std(ratios) < 0.05


def test_moves_are_drawn_by_the_tables_where_there_are_some(step):
    record = Mixture().record(GROUPS + 2)
    assert isinstance(Mixture().linked(record, step.plan), ByScalesNumbers)
    for plain in (Mixture(scale_conditional=False), Laplace()):
        assert isinstance(plain.linked(record, step.plan), MixtureNumbers)
        assert plain.scales(step.plan) == ()


def test_scales_are_named(step):
    found = explain(step, draws=100, tune=100, random_seed=1)
    assert found.given_scales == ("tau",)


def test_models_without_scales_have_no_tables():
    with hierarchy(scale=False):
        assert TunaMH().plan.scale_conditional is None


@pytest.mark.parametrize("settings", [{"taylor_order": 1}, {"centre": "start"}])
def test_there_are_no_tables_without_a_quadratic_of_the_rows(settings):
    with hierarchy():
        assert TunaMH(**settings).plan.scale_conditional is None


def test_by_scales_is_true_or_false():
    with pytest.raises(SettingError, match="scale_conditional='yes' is neither True nor False"):
        Mixture(scale_conditional="yes")
