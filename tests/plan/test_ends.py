"""Variables near an end of their support: their coordinates, and the tails in these."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr
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
from pymc_minibatch_mh import Laplace, Mixture, TunaMH, explain, sample
from pymc_minibatch_mh.chain.chain import Chain
from pymc_minibatch_mh.compiled.graphs import PRIOR_ADDRESSES
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.compiled.prior import ScalarPrior
from pymc_minibatch_mh.plan.parametrization import (
    MIN_TAIL_EFFICIENCY,
    _TrialPrior,
    _Trials,
    choose_parametrization,
)
from pymc_minibatch_mh.proposals import mixture
from pymc_minibatch_mh.proposals.mixture import (
    TAIL_WEIGHT,
    LowerBoundedNumbers,
    MixtureNumbers,
    TailedNumbers,
)
from pymc_minibatch_mh.reference.tails import REACH, STAY, Tails, heavy_tails
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.inverse_shape import in_inverse_shape, variables_with_ends
from pymc_minibatch_mh.steps import report
from pymc_minibatch_mh.steps.report import LONG_STAY
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


def regression(rows=500):
    """Return a regression of three positive numbers that data tell."""
    x = np.linspace(0.0, 1.0, rows)
    y = 3.0 + 2.0 * x + np.random.default_rng(5).normal(size=rows)
    with pm.Model() as model:
        a, b, c = (pm.HalfNormal(name, 1.0) for name in "abc")
        pm.Normal("y", a + b * x, c, observed=y)
    return model


def test_the_mode_of_each_model_is_searched_once(monkeypatch):
    """Three variables are tried in coordinates of a model with one mode."""
    searched, search = [], Target.mode_of_few

    def mode_of_few(target, *arguments):
        searched.append(target.compiled)
        return search(target, *arguments)

    monkeypatch.setattr(Target, "mode_of_few", mode_of_few)
    assert labels_of(regression()) == []
    assert len(searched) == 1


@pytest.mark.slow
def test_a_shape_near_infinity_is_a_reciprocal_also_beside_a_scale_near_zero():
    """Groups do not differ, and the joint density of effects and their scale has no mode."""
    rng, rows, groups = np.random.default_rng(7), 2_000, 8
    group, y = rng.integers(0, groups, rows), rng.poisson(1.5, rows)
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
        effects = pm.Normal("a", mu, tau, shape=groups)
        alpha = pm.HalfCauchy("alpha", 2.5)
        pm.NegativeBinomial("y", mu=pm.math.exp(effects[group]), alpha=alpha, observed=y)
    assert labels_of(model) == ["1/alpha"]


@pytest.mark.parametrize(("name", "power"), [(INFLATION, 1), (LAPSE, -1)])
def test_priors_of_trials_are_those_of_their_coordinates(name, power):
    parts = own(MODELS[name]())
    there = in_inverse_shape(parts, NAMES[name], power)
    trial, exact = _TrialPrior(ScalarPrior(parts), there.maps[-1]), ScalarPrior(there)
    position = there.positions(np.random.default_rng(2).normal(size=parts.size))
    derivatives = trial.derivatives(position, np.empty(0), hessian=True)
    pairs = zip(derivatives, exact.derivatives(position, np.empty(0), hessian=True), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    value = trial.compiled()(position, np.zeros(PRIOR_ADDRESSES, np.int64))
    assert value == pytest.approx(derivatives[0], rel=1e-12)


def test_coordinates_that_are_tried_compile_no_prior(monkeypatch):
    made = []

    def counted(parts):
        made.append(parts)
        return ScalarPrior(parts)

    monkeypatch.setattr("pymc_minibatch_mh.compiled.model.ScalarPrior", counted)
    assert labels_of(MODELS[BACKGROUND]()) == [WORDS[BACKGROUND]]
    assert len(made) == 1


def test_tails_are_measured_only_where_few_rows_suspect_one(monkeypatch):
    def measured(*_):
        raise AssertionError("tails are measured with many rows")

    monkeypatch.setattr(Tails, "efficiency_along", measured)
    assert labels_of(regression(8_000)) == []


def test_factors_that_data_hardly_tell_apart_stay_logarithms():
    """Data tell the product of two numbers, and the ridge is straighter in their logarithms."""
    model = saturation()
    parts = CompiledModel(own(model))
    trials = _Trials(model.initial_point())
    for name in ("lam_log__", "beta_log__"):
        (other,) = trials.models_in(parts, name, (-1,))
        before, after = (trials.least_tail_efficiency(x, name) for x in (parts, other))
        assert after < before < MIN_TAIL_EFFICIENCY
    assert labels_of(model) == []


def saturation(rows=1_000):
    """Return a saturating response of which data tell little beside its slope."""
    rng = np.random.default_rng(3)
    x = rng.gamma(1.5, 0.6, rows)
    y = 0.4 * np.tanh(0.35 * x) + 0.3 * rng.normal(size=rows)
    with pm.Model() as model:
        lam, beta = pm.Gamma("lam", 3.0, 2.0), pm.HalfNormal("beta", 1.0)
        pm.Normal("y", beta * pm.math.tanh(0.5 * lam * x), 0.3, observed=y)
    return model


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


def log_posterior(u, background=0.02):
    """Return the log posterior of backgrounds, whose other rates are known, up to a constant."""
    rates, y = background_data(2_000, background)
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
    near = reference.centre + 1e-3 * reference.factor[:, 0]
    slopes = [x.density_at(reference.centre).gradient for x in (tails, fewer)]
    changes = [x.density_at(near).gradient - y for x, y in zip((tails, fewer), slopes, strict=True)]
    assert slopes[1] == pytest.approx(slopes[0], abs=1e-6)
    assert changes[1] == pytest.approx(changes[0], abs=0.02 * np.abs(changes[0]).max())


def test_infinite_slopes_of_either_sign_are_outside_of_the_support():
    model = known_rates()
    tails, _ = tails_of(own(model), model)
    steep = replace(tails, slope=np.array([np.inf]))
    assert steep.density_at(np.array([800.0])).value == -np.inf


@pytest.mark.parametrize("heavy", [{}, {"u_log__": 0.1}], ids=["truncated", "with a tail"])
def test_the_lower_tail_of_a_background_is_visited(heavy, monkeypatch):
    """Its .005 quantile, on which draws in logarithms disagree by a factor of two."""
    monkeypatch.setattr(mixture, "TAIL_WEIGHT", 0.3)
    model = known_rates()
    with model:
        step = TunaMH()
    step.plan.__dict__["heavy_tails"] = heavy
    proposal = Mixture().linked(Mixture().record(1), step.plan)
    assert isinstance(proposal, TailedNumbers if heavy else LowerBoundedNumbers)
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


@cache
def separated(prior=None, rows=2_000):
    """Return a logistic regression in which all rows of a rare kind are ones."""
    rng = np.random.default_rng(6)
    x, rare = rng.standard_normal(rows), np.arange(rows) % 400 == 0
    y = np.where(rare, 1, rng.binomial(1, 0.5, rows))
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0, shape=2), (prior or pm.Normal)("b", 0.0, 2.5)
        pm.Bernoulli("y", logit_p=a[0] + a[1] * x + b * rare, observed=y)
    return model


def heavy_in(model):
    """Return the plan of a model, and its heavy tails, which are measured anew."""
    with model:
        plan = TunaMH().plan
    return plan, heavy_tails(plan.target, plan.reference, (None, None))


def test_a_tail_without_a_better_coordinate_is_measured():
    _, heavy = heavy_in(separated(pm.Cauchy))
    assert list(heavy) == ["b"]
    assert heavy["b"] < 0.2


def test_a_tail_without_a_better_coordinate_is_named_before_sampling(caplog):
    with separated(pm.Cauchy):
        step = TunaMH()
    assert list(step.plan.heavy_tails) == ["b"]
    (line,) = [x.getMessage() for x in caplog.records if "normal proposals lack" in x.message]
    assert "'b'" in line
    assert "pm.NUTS()" in line


def test_a_tail_without_a_better_coordinate_has_a_component():
    with separated(pm.Cauchy):
        plan = TunaMH().plan
    tailed, normal = (p.linked(p.record(3), plan) for p in (Mixture(), Laplace()))
    assert isinstance(normal, MixtureNumbers)
    assert tailed.weight == TAIL_WEIGHT
    (direction,) = tailed.directions
    covariance = plan.reference.factor @ direction
    expected = plan.reference.factor[2] @ plan.reference.factor.T
    np.testing.assert_allclose(covariance, expected / np.sqrt(expected[2]))


def test_a_saved_step_has_the_same_tails(tmp_path):
    model, records = separated(pm.Cauchy), []
    with model:
        step = TunaMH()
        step.save(tmp_path / "step.npz")
        steps = step, TunaMH(prepared=tmp_path / "step.npz")
    for one in steps:
        records.append(Mixture().linked(Mixture().record(3), one.plan))
        assert isinstance(records[-1], TailedNumbers)
    np.testing.assert_array_equal(records[0].directions, records[1].directions)
    assert records[0].weight == records[1].weight


def test_many_observations_lower_the_weight_of_a_tail(monkeypatch):
    """Of proposals of which some evaluate all observations."""
    with separated(pm.Cauchy):
        plan = TunaMH().plan
    monkeypatch.setattr(mixture, "ROWS_OF_TAILS", plan.n_rows // 4)
    proposal = Mixture()
    assert proposal.linked(proposal.record(3), plan).weight == TAIL_WEIGHT / 4


def test_proposals_outside_of_the_support_do_not_count():
    plan, heavy = heavy_in(background_rate())
    # The mean of the truncated normal distribution is not positive.
    tails = Tails.around(plan.target, plan.reference, np.arange(2_000))
    assert tails.mean[0] < 0.0
    assert heavy == {}


def test_posteriors_with_the_tails_of_proposals_cause_no_warning(caplog):
    with separated():
        step = TunaMH()
    assert step.plan.heavy_tails == {}
    with known_rates():
        assert TunaMH().plan.heavy_tails == {}
    assert not [x for x in caplog.records if "normal proposals lack" in x.message]


def test_a_long_stay_is_found():
    accepted = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    assert report.longest_stay(accepted) == (2, 2)
    assert report.longest_stay(np.zeros(5)) == (5, 0)
    assert report.longest_stay(np.ones(5))[0] == 0


def tree_of(accepted):
    """Return a trace of one chain, with "far" far away while it stays."""
    rng = np.random.default_rng(7)
    near, far = rng.standard_normal((2, 1, accepted.size))
    far[0, accepted == 0.0] = 8.0
    dims = ("chain", "draw")
    posterior = xr.Dataset({"near": (dims, near), "far": (dims, far)}, {"chain": [0]})
    stats = xr.Dataset({"accepted_share": (dims, accepted[None])}, {"chain": [0]})
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})


def test_a_chain_that_stays_in_a_tail_is_told_with_the_variable(caplog):
    accepted = np.ones(2_000)
    report.warn_of_stays("TunaMH", tree_of(accepted))
    assert not caplog.records
    report.warn_of_stays("TunaMH", tree_of(np.zeros(0)))
    assert not caplog.records
    accepted[500:580] = 0.0
    report.warn_of_stays("TunaMH", tree_of(accepted))
    (line,) = [x.getMessage() for x in caplog.records]
    assert "stayed at one position for 80 draws from draw 500" in line
    assert "'far'" in line


def staying(monkeypatch):
    """Return a step whose chain no longer moves, 8 posterior sds from the centre, and its point."""
    with separated() as model:
        step = TunaMH()
    step.setup_chain(np.random.default_rng(1), 0, 1_000)
    chain, reference = step.chain, step.plan.reference
    chain.position[:] = reference.centre + 8.0 * reference.factor[:, -1]
    chain.state.started, chain.state.adapting = True, False
    chain.state.n_updates, chain.state.n_accepted, chain.state.n_stayed = 1_000, 800, LONG_STAY + 1
    monkeypatch.setattr(type(chain), "advance", lambda self, draws: self.repeat_draw())
    point = step.plan.unravel(chain.position, model.initial_point())
    return step, point


def test_pymc_is_told_once_of_a_chain_that_stays(monkeypatch):
    step, point = staying(monkeypatch)
    warnings = [step.step(point)[1][0]["warning"] for _ in range(2)]
    assert f"stayed at one position for {LONG_STAY + 1} draws, where 'b' is" in warnings[0].message
    assert warnings[1] is None


def test_pymc_is_told_of_no_stay_that_independent_decisions_explain(monkeypatch):
    step, point = staying(monkeypatch)
    step.chain.state.n_accepted = 100
    assert step.step(point)[1][0]["warning"] is None


def test_stays_are_counted_across_calls(prepared):
    step = prepared("poisson", "TunaMH")
    chains = [Chain(step.program, np.random.default_rng(2), adapting=False) for _ in range(3)]
    n_stayed, first = report.longest_stay(chains[0].advance(300).counts["accepted"])
    chains[1].advance(first + n_stayed)
    for draws in (first + 1, *[1] * (n_stayed - 1)):
        chains[2].advance(draws)
    assert n_stayed > 1
    assert [chain.state.n_stayed for chain in chains[1:]] == [n_stayed, n_stayed]
    assert chains[1].state == chains[2].state


def explained(model):
    """Return what is said about the tails of a model."""
    with model:
        return dict(explain(TunaMH(), nuts=False, draws=100, tune=100, random_seed=1).tails)


def test_explain_says_where_bounds_end_and_how_skewed_the_posterior_is():
    found = explained(separated(pm.Cauchy))
    assert found["bounds end"] == "nowhere"
    assert "'b'" in found["largest skewness"]
    assert "proposals lack" in found["b"]
    found = explained(background_rate())
    assert "beyond" in found["bounds end"]
    assert set(found) == {"bounds end", "largest skewness"}


def test_skewness_is_the_third_derivative():
    model = known_rates(background=1.0)
    tails, reference = tails_of(own(model), model)
    h = 0.01
    at = reference.centre[0] + reference.factor[0, 0] * h * np.array([-2.0, -1.0, 1.0, 2.0])
    f = log_posterior(np.exp(at), 1.0) + at
    expected = (f[3] - 2.0 * f[2] + 2.0 * f[1] - f[0]) / (2.0 * h**3)
    assert tails.skewness_along(np.ones(1)) == pytest.approx(expected, rel=0.05)
