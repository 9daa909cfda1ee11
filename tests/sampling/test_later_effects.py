"""Effects of small groups that are drawn for a trace of all other parameters."""

from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import integrate, stats

from pymc_minibatch_mh import TunaMH, audit, draw_effects, explain, group_log_likelihood, sample
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.steps.base import model_behind

GROUPS = 250


@cache
def built():
    """Return a step on a model with small groups and a deterministic of the effects."""
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(GROUPS), 4)
    y = rng.poisson(np.exp(0.5 + 0.6 * rng.standard_normal(GROUPS))[group])
    with pm.Model(coords={"person": np.arange(GROUPS)}):
        tau = pm.HalfNormal("tau", 1)
        z = pm.Normal("z", dims="person")
        rate = pm.Deterministic("rate", pm.math.exp(pm.Normal("mu") + tau * z), dims="person")
        pm.Poisson("y", rate[group], observed=y)
        return TunaMH()


@pytest.fixture(scope="module")
def step():
    """Return the step, for tests that no mistake is made for."""
    return built()


@pytest.fixture(scope="module")
def shared(step):
    """Return a trace without effects."""
    return sample(step, 40, tune=50, chains=2, random_seed=1, quiet=True, effects=False)


@pytest.mark.slow
def test_a_trace_without_effects_has_what_does_not_depend_on_them(shared):
    assert set(shared.posterior.data_vars) == {"mu", "tau"}


@pytest.mark.parametrize(
    "asked", [{"effects": False}, {"var_names": ["mu"]}], ids=["no effects", "names"]
)
def test_effects_that_are_not_asked_for_are_not_drawn(asked, monkeypatch):
    monkeypatch.setattr(GroupsPlan, "_effects_by_name", lambda *_: pytest.fail("drawn"))
    trace = sample(built(), 4, tune=10, chains=1, random_seed=1, quiet=True, **asked)
    assert "z" not in trace.posterior


def test_forecasts_draw_effects_of_few_draws(monkeypatch):
    drawn, honest = [], GroupsPlan._effects_by_name

    def counted(plan, positions, *others):
        drawn.append(len(positions))
        return honest(plan, positions, *others)

    monkeypatch.setattr(GroupsPlan, "_effects_by_name", counted)
    explain(built(), draws=200, tune=20, nuts=False)
    assert sum(drawn) < 20


def test_an_audit_needs_no_effects():
    longer = sample(built(), 60, tune=50, chains=2, random_seed=1, quiet=True, effects=False)
    result = audit(longer, built(), pairs=20)
    assert result.attrs["rows"] == GROUPS
    assert {"mu", "tau_log__"} == set(result["moments"]["coordinate"].to_numpy())


def test_convergence_is_that_of_what_chains_move(monkeypatch):
    """Effects are drawn anew: they mix as what they depend on, and there may be thousands."""
    checked, honest = [], az.rhat

    def noted(tree, var_names):
        checked.append(var_names)
        return honest(tree, var_names=var_names)

    monkeypatch.setattr("arviz_stats.rhat", noted)
    for names in (None, ["z"]):
        sample(built(), 100, tune=10, chains=2, random_seed=1, quiet=True, var_names=names)
    assert [sorted(names) for names in checked] == [["mu", "tau"], ["z"]]


def test_effects_and_their_deterministics_are_added(step, shared):
    trace = draw_effects(shared, step)
    posterior = trace.posterior
    assert set(posterior.data_vars) == {"mu", "tau", "z", "rate"}
    assert posterior["z"].dims == ("chain", "draw", "person")
    rate = np.exp(posterior["mu"] + posterior["tau"] * posterior["z"])
    xr.testing.assert_allclose(posterior["rate"], rate.transpose("chain", "draw", "person"))
    assert set(shared.posterior.data_vars) == {"mu", "tau"}
    assert set(trace.children) == set(shared.children)


def test_the_effects_belong_to_their_draw(step, shared):
    """The scale of a draw is that of its effects, up to the noise of their number."""
    posterior = draw_effects(shared, step).posterior
    again = sample(step, 40, tune=50, chains=2, random_seed=1, quiet=True).posterior
    xr.testing.assert_allclose(posterior["tau"], again["tau"])
    errors = (posterior["z"] - again["z"]).mean(("chain", "draw"))
    assert float(abs(errors).max()) < 5.0 * np.sqrt(2.0 / 80.0)


def test_some_groups_are_kept(step, shared):
    posterior = draw_effects(shared, step, groups=[3, 249]).posterior
    assert posterior["z"].sizes["person"] == 2
    assert posterior["person"].to_numpy().tolist() == [3, 249]
    assert "rate" not in posterior


def test_wrong_arguments_are_named(step, shared):
    with pytest.raises(SettingError, match="groups= has 250"):
        draw_effects(shared, step, groups=[250])
    lacking = shared.copy()
    lacking["posterior"] = xr.DataTree(shared.posterior.to_dataset().drop_vars("mu"))
    with pytest.raises(SettingError, match="'mu' is not in the trace"):
        draw_effects(lacking, step)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), 1, observed=np.zeros(1_500))
    other = TunaMH(model=model)
    with pytest.raises(SettingError, match="integrates no effects out"):
        draw_effects(shared, other)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_log_likelihoods_of_groups_are_integrals_over_their_effects(step, shared):
    tree = group_log_likelihood(shared, step)
    values = tree["log_likelihood"]["z"]
    assert values.dims == ("chain", "draw", "person")
    model = model_behind(step)
    y = model.rvs_to_values[model["y"]].data.reshape(GROUPS, 4)
    for person, draw in ((0, 3), (17, 39), (249, 20)):
        at = {name: float(shared.posterior[name][1, draw]) for name in ("mu", "tau")}

        def density(z, own=y[person], mu=at["mu"], tau=at["tau"]):
            return stats.norm.pdf(z) * stats.poisson.pmf(own, np.exp(mu + tau * z)).prod()

        expected = np.log(
            integrate.quad(density, -9.0, 9.0, epsabs=0.0, epsrel=1e-10, limit=500)[0]
        )
        assert float(values[1, draw, person]) == pytest.approx(expected, abs=1e-6)
    loo = az.loo(tree)
    assert loo.n_data_points == GROUPS
    assert set(tree.children) == {*shared.children, "log_likelihood"}


@pytest.mark.slow
def test_two_effects_of_some_groups_are_those_of_all():
    """Of a vector and of a matrix with a column for each group."""
    rng = np.random.default_rng(4)
    group, x = np.repeat(np.arange(40), 30), rng.standard_normal(1_200)
    with pm.Model() as model:
        scales = pm.HalfNormal("tau", 1.0, shape=(2, 1))
        effect = pm.Normal("a", 0.0, scales, shape=(2, 40))
        line = effect[0, group] + effect[1, group] * x
        pm.Normal("y", line, 1.0, observed=x + rng.standard_normal(1_200))
    step = TunaMH(model=model, blocks="groups")
    shared = sample(step, 4, tune=10, chains=1, random_seed=1, effects=False, progressbar=False)
    whole, some = (draw_effects(shared, step, groups=g).posterior["a"] for g in (None, [3, 30]))
    assert whole.shape == (1, 4, 2, 40)
    np.testing.assert_array_equal(whole[..., [3, 30]], some)
