"""Variables near an end of their support: their coordinates, and the tails in these."""

import numpy as np
import pytest
from scipy.special import logsumexp

from helpers.ends import (
    BACKGROUND,
    INFLATION,
    LAPSE,
    MODELS,
    background_data,
    background_rate,
    known_rates,
)
from helpers.shapes import own
from pymc_minibatch_mh import TunaMH, sample
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.plan.parametrization import choose_parametrization
from pymc_minibatch_mh.reference.tails import REACH, STAY, Tails
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape, variables_with_ends
from reparametrize.mapped import check_the_map

WORDS = {BACKGROUND: "u, not log u", INFLATION: "(1 - share)/share", LAPSE: "lapse/(1 - lapse)"}
NAMES = {BACKGROUND: "u_log__", INFLATION: "share_logodds__", LAPSE: "lapse_logodds__"}


def labels_of(model):
    """Return the labels of the coordinates that are chosen."""
    chosen = choose_parametrization(CompiledModel(own(model)), model.initial_point())
    return [one.label for one in chosen.factorization.maps]


@pytest.mark.parametrize("name", list(MODELS))
def test_a_variable_near_an_end_is_sampled_without_its_logarithm(name):
    assert labels_of(MODELS[name]()) == [WORDS[name]]


def test_a_background_that_data_tell_stays_a_logarithm():
    assert labels_of(background_rate(rows=8_000, background=2.0)) == []


@pytest.mark.parametrize("name", list(MODELS))
def test_positions_are_odds_and_the_density_is_the_models(name):
    model, power = MODELS[name](), 1 if name == INFLATION else -1
    parts = in_inverse_shape(own(model), NAMES[name], power)
    values = np.random.default_rng(3).normal(size=parts.size)
    (place,) = parts.boundary
    assert parts.positions(values)[place] == pytest.approx(np.exp(-power * values[place]))
    check_the_map(model, parts, values)


def test_powers_are_those_of_the_ends_of_the_support():
    assert variables_with_ends(own(MODELS[LAPSE]())) == {NAMES[LAPSE]: (-1, 1)}
    assert variables_with_ends(own(MODELS[BACKGROUND]())) == {NAMES[BACKGROUND]: (-1,)}
    # All observations are zeros of an inflated distribution at this end, which has no density.
    assert in_inverse_shape(own(MODELS[INFLATION]()), NAMES[INFLATION], -1) is None


def log_posterior(u):
    """Return the log posterior of backgrounds, whose other rates are known, up to a constant."""
    rates, y = background_data(2_000, 0.02)
    rows = (y * np.log(u[:, None] + rates)).sum(axis=1) - u * rates.size
    return rows - 0.5 * u**2


def tails_of(parts, model):
    """Return the tails around the mode of a model in some coordinates."""
    target = Target(CompiledModel(parts))
    start = target.factorization.ravel(model.initial_point())
    reference = target.expand(start, np.random.default_rng(0))[0]
    return Tails.around(target, reference, np.arange(target.source.n_rows)), reference


def test_efficiency_is_that_of_importance_draws():
    model = known_rates()
    tails, reference = tails_of(own(model), model)
    logs = reference.centre[0] + reference.factor[0, 0] * np.linspace(-REACH, REACH, 4_001)
    posterior = log_posterior(np.exp(logs)) + logs
    normal = -0.5 * ((logs - reference.centre[0]) / reference.factor[0, 0]) ** 2
    posterior, normal = posterior - logsumexp(posterior), normal - logsumexp(normal)
    expected = 1.0 / np.sum(np.exp(posterior + np.minimum(posterior - normal, np.log(STAY))))
    assert expected < 0.2
    assert tails.efficiency_along(np.ones(1)) == pytest.approx(expected, rel=0.1)


def test_without_the_logarithm_the_tail_is_the_proposals():
    model = known_rates()
    tails, _ = tails_of(in_inverse_shape(own(model), "u_log__", -1), model)
    assert tails.efficiency_along(np.ones(1)) > 0.8


def test_some_rows_show_the_tails_of_all():
    model = background_rate()
    tails, reference = tails_of(own(model), model)
    half = np.arange(0, tails.rows.size, 2)
    fewer = Tails.around(tails.target, reference, half, 2.0)
    at = reference.centre
    assert fewer.density_at(at).gradient == pytest.approx(tails.density_at(at).gradient, abs=1e-6)
    near = at + 0.5 * reference.factor[:, 1]
    change, fewer_change = (
        x.density_at(near).value - x.density_at(at).value for x in (tails, fewer)
    )
    assert fewer_change == pytest.approx(change, abs=0.02)
    assert fewer.efficiency_along(np.eye(3)[0]) == pytest.approx(
        tails.efficiency_along(np.eye(3)[0]), rel=0.2
    )


def test_the_lower_tail_of_a_background_is_visited():
    """Its .005 quantile, on which draws in logarithms disagree by a factor of two."""
    model = known_rates()
    with model:
        step = TunaMH()
    trace = sample(step, 20_000, tune=500, chains=1, random_seed=4, quiet=True)
    grid = np.linspace(1e-7, 0.25, 20_001)
    logs = log_posterior(grid)
    masses = np.exp(logs - logs.max())
    below = np.cumsum(masses) / masses.sum()
    u = trace.posterior["u"].to_numpy().ravel()
    for share in (0.005, 0.5, 0.995):
        quantile = grid[np.searchsorted(below, share)]
        # Four standard errors of 20,000 draws with an efficiency of a half.
        assert np.mean(u <= quantile) == pytest.approx(
            share, abs=4.0 * np.sqrt(share * (1 - share) / 10_000)
        )
