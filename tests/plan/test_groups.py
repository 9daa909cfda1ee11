"""Plans whose observations are groups: when they are chosen, in which coordinate, and how told."""

from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytest

from helpers.small_groups import panel
from pymc_minibatch_mh import FireflyMH, PenaltyMH, TunaMH, explain, sample
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import ModeError, SettingError, StaleDataError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.native.bound_tables import KIND
from pymc_minibatch_mh.native.moves import CONSTANT, ENDS
from pymc_minibatch_mh.plan import groups, prepare
from pymc_minibatch_mh.plan.bound_sources import functions_of
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.reference import node_rule
from pymc_minibatch_mh.reference.target import Target
from pymc_minibatch_mh.reparametrize.non_centred import in_linear_coordinates
from pymc_minibatch_mh.structure.random_effects import NotSeparableError
from pymc_minibatch_mh.structure.small_groups import find_small_groups


@pytest.fixture(scope="module")
def model():
    """Return a model with small groups."""
    return panel()


@pytest.fixture(scope="module")
def step(model):
    """Return a step that treats groups as observations."""
    return TunaMH(model=model)


def test_small_groups_are_observations(step):
    assert isinstance(step.plan, GroupsPlan)
    assert step.plan.n_rows == 300
    assert step.plan.reference.size == 3
    assert np.isin(step.tables.headers[:, KIND], (CONSTANT, ENDS)).all()
    assert "300 effects 'effect' of 5 rows each integrated out by" in repr(step)


def test_all_methods_share_the_plan(model, step):
    assert PenaltyMH(model=model).plan.reference is step.plan.reference


@pytest.mark.parametrize("blocks", [True, False])
def test_other_ways_are_kept(model, blocks):
    plan = TunaMH(model=model, blocks=blocks).plan
    assert not isinstance(plan, GroupsPlan)
    assert (plan.blocks is not None) is blocks


@pytest.mark.slow
def test_large_groups_are_forecast_to_be_slower(caplog):
    caplog.set_level("INFO", logger="pymc")
    plan = TunaMH(model=panel(200, each=80)).plan
    assert plan.blocks is not None
    assert "'effect' would then take" in plan.reason
    assert plan.reason in caplog.text


def test_slower_groups_are_taken_where_effects_have_no_other_way(monkeypatch):
    def without_a_centre(*_):
        raise ModeError("no centre")

    monkeypatch.setattr(groups, "ERROR_OF_FORECASTS", 0.0)
    monkeypatch.setattr(prepare, "find_grouped", without_a_centre)
    plan = TunaMH(model=panel()).plan
    assert isinstance(plan, GroupsPlan)
    assert "they cannot be updated otherwise" in plan.reason


def test_thousands_of_effects_without_a_centre_do_not_move_together(monkeypatch):
    def without_a_centre(*_):
        raise ModeError("no centre")

    monkeypatch.setattr(prepare, "MAX_TOGETHER", 302)
    monkeypatch.setattr(prepare, "find_grouped", without_a_centre)
    with pytest.raises(ModeError, match=r"^no centre$"):
        TunaMH(model=panel(prior=pm.Laplace))


def media_mix(rows=1_000, places=20, channels=3, weeks=4):
    """Return sales by place: saturated sums of earlier spending, of three channels."""
    rng = np.random.default_rng(4)
    spent, y = rng.gamma(1.5, 0.6, (rows, channels, weeks)), rng.normal(size=rows)
    with pm.Model() as model:
        kept, rate = pm.Beta("kept", 2, 3, shape=channels), pm.Gamma("rate", 3, 2, shape=channels)
        gain, s = pm.HalfNormal("gain", 1.0, shape=channels), pm.HalfNormal("s", 1.0)
        sd, place = pm.HalfNormal("sd", 0.5), pm.Normal("place", 0.0, 1.0, shape=places)
        adstock = (spent * kept[:, None] ** np.arange(weeks)).sum(axis=-1)
        sales = (pm.math.tanh(rate * adstock) * gain).sum(axis=1)
        pm.Normal("y", (sd * place)[rng.integers(0, places, rows)] + sales, s, observed=y)
    return model


def test_long_rows_of_many_predictors_are_not_integrated_over():
    model = media_mix()
    parts = in_linear_coordinates(factorize(model, model.value_vars))
    target = Target(CompiledModel(parts))
    functions = functions_of(target)
    found = find_small_groups(model, parts, functions, target.elements)
    groups._require_short(found, functions)
    many = [replace(function, n_rows=100_000) for function in functions]
    with pytest.raises(NotSeparableError, match="rows depend on 11 combinations") as error:
        groups._require_short(found, many)
    assert "operations on intervals" in str(error.value)


def test_groups_of_hundreds_are_not_tried(monkeypatch):
    monkeypatch.setattr(groups, "MAX_ROWS_IN_GROUP", 4.0)
    monkeypatch.setattr(groups, "forecast_groups", None)
    plan = TunaMH(model=panel()).plan
    assert "has 5 rows in the group of a typical row" in plan.reason


@pytest.mark.slow
def test_effects_that_cannot_be_drawn_get_no_nodes(monkeypatch):
    def chosen(*_):
        raise AssertionError("nodes were chosen")

    monkeypatch.setattr(node_rule, "_choose_nodes", chosen)
    rng = np.random.default_rng(1)
    group = np.repeat(np.arange(200), 20)
    with pm.Model() as model:
        level, spread = (
            pm.Normal(name, 0, pm.HalfNormal(f"sd_{name}", 1), shape=200)
            for name in ("level", "spread")
        )
        y = rng.standard_normal(group.size)
        pm.Normal("y", level[group], pm.math.exp(spread[group]), observed=y)
    assert "rows are not log-concave in them" in TunaMH(model=model).plan.reason


def test_a_reason_is_an_error_where_groups_are_asked_for():
    with pytest.raises(SettingError, match="blocks='groups' integrates effects out, but 'effect'"):
        TunaMH(model=panel(prior=pm.Laplace), blocks="groups")
    with pytest.raises(SettingError, match="temperature= is not 1"):
        TunaMH(model=panel(), blocks="groups", temperature=2.0)
    with pytest.raises(SettingError, match="its lower bounds are too loose for groups"):
        FireflyMH(model=panel(), blocks="groups")


@pytest.mark.parametrize(("n", "tau", "root"), [(2_000, 1.5, 1), (2_000, 0.35, 2), (240, 1.0, 1)])
def test_the_coordinate_of_a_weak_scale_is_its_square(n, tau, root):
    """The third scale is as uncertain as the second one, but far from 0."""
    plan = TunaMH(model=panel(n, tau=tau), blocks="groups").plan
    assert [scale.root for scale in plan.target.compiled.layout.scales] == [root]
    assert (plan.tables.along is None) is (root == 1)


def test_explain_counts_groups_and_the_time_of_their_effects(step, monkeypatch):
    told = explain(step, nuts=False)
    assert "groups a draw" in str(told)
    assert "of 300" in str(told)
    assert [one.name for one in told.coordinates] == ["tau"]
    # A stored draw has all effects.
    monkeypatch.setitem(step.plan.__dict__, "seconds_of_effects", 10.0)
    assert "time of effects" in str(told.details)
    assert "with effects one at a time" in str(told.details)
    longer = explain(step, nuts=False).forecast
    assert longer.seconds > 10.0 * 1_000 * longer.draws / longer.ess
    assert longer.ess_per_second_in_blocks < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("other", ["tau", "mu"])
def test_effects_whose_prior_belongs_to_another_step_are_not_integrated_out(model, other, caplog):
    caplog.set_level("INFO", logger="pymc")
    own = [rv for rv in model.free_RVs if rv.name != other]
    plan = TunaMH(own, model=model).plan
    assert not isinstance(plan, GroupsPlan)
    assert "which belongs to another step" in caplog.text


@pytest.mark.slow
def test_values_of_other_steps_reach_the_prior():
    with panel() as model:
        sharp = pm.Bernoulli("sharp", 0.5)
        pm.Potential(
            "near", pm.logp(pm.Normal.dist(0, pm.math.switch(sharp, 0.01, 9.0)), model["slope"])
        )
    own = [rv for rv in model.free_RVs if rv.name != "sharp"]
    for value in (0, 1):
        point = {**model.initial_point(), "sharp": np.array(value)}
        plan = TunaMH(own, model=model, initial_point=point).plan
        assert isinstance(plan, GroupsPlan)
        assert (abs(plan.reference.centre[1]) < 0.1) == (value == 1)


def test_a_saved_step_has_the_same_draws(tmp_path):
    settings = {"chains": 1, "random_seed": 4, "progressbar": False, "tune": 40}
    settings["compute_convergence_checks"] = False
    step = TunaMH(model=panel(tau=0.3))
    assert step.plan.tables.along is not None
    step.save(tmp_path / "step.npz")
    other = TunaMH(model=panel(tau=0.3), prepared=tmp_path / "step.npz")
    assert other.plan.choice == step.plan.choice
    expected, found = (sample(x, 40, **settings).posterior for x in (step, other))
    for name in expected.data_vars:
        assert np.array_equal(found[name], expected[name]), name


def test_a_saved_step_is_of_its_model_alone(step, tmp_path):
    step.save(tmp_path / "step.npz")
    with pytest.raises(StaleDataError, match="differs in"):
        TunaMH(model=panel(n_groups=310), prepared=tmp_path / "step.npz")
    with pytest.raises(SettingError, match="by integrating them out, but this one does not"):
        TunaMH(model=panel(), prepared=tmp_path / "step.npz", blocks=True)


@pytest.mark.slow
def test_a_scale_in_an_interval_stays_there():
    """The mode of the scale is close to the end of the interval."""
    rng = np.random.default_rng(3)
    person = np.repeat(np.arange(400), 5)
    chance = 1.0 / (1.0 + np.exp(-0.9 * rng.standard_normal(400)[person]))
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, pm.Uniform("tau", 0.0, 1.1), shape=400)
        y = (rng.random(person.size) < chance).astype(int)
        pm.Bernoulli("y", logit_p=effect[person], observed=y)
    step = TunaMH(model=model, blocks="groups")
    target = step.plan.target
    trace = sample(step, 4_000, chains=1, random_seed=4, effects=False, progressbar=False)
    draws = trace.posterior["tau"].to_numpy().ravel()
    grid = np.linspace(0.5, 1.1, 602)[1:-1]
    logs = np.array([target.log_likelihood(np.array([x / 1.1])) for x in grid])
    weights = np.exp(logs - logs.max())
    mean, square = (weights @ grid**k / weights.sum() for k in (1, 2))
    sd, error = np.sqrt(square - mean**2), 4.0 / np.sqrt(float(az.ess(draws[None])))
    assert 1.09 < draws.max() < 1.1
    assert draws.mean() == pytest.approx(mean, abs=error * sd)
    assert draws.std() == pytest.approx(sd, rel=error)


def test_far_starts_are_replaced_in_warm_up_alone(step, caplog):
    """Nodes are frozen around the mode: far off they are in the wrong places."""
    far, near = {"tau": 8.0}, {"tau": 1.0}
    settings = {"chains": 1, "random_seed": 2, "effects": False, "progressbar": False}
    kept = {"discard_tuned_samples": False, **settings}
    for start, is_replaced in ((near, False), (far, True)):
        caplog.clear()
        trace = sample(step, 10, tune=60, initvals=start, **kept)
        assert ("instead of initvals=" in caplog.text) is is_replaced
        assert trace.warmup_posterior["tau"].to_numpy().max() < 3.0
    caplog.clear()
    trace = sample(step, 3, tune=0, initvals=far, **settings)
    assert "instead of initvals=" not in caplog.text
    assert trace.posterior["tau"].to_numpy()[0, 0] > 6.0
