"""A few groups with many rows beside small ones: their effects are parameters, row by row."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from helpers.small_groups import placed_at, read, target_of
from helpers.tiers import fast
from pymc_minibatch_mh import TunaMH, draw_effects, group_log_likelihood, sample
from pymc_minibatch_mh.bounds import effects
from pymc_minibatch_mh.bounds.over_nodes import NodeBoundsPass
from pymc_minibatch_mh.compiled.group_rows import Nodes
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.plan.groups import GroupsPlan
from pymc_minibatch_mh.structure import small_groups

QUIET = {"quiet": True, "compute_convergence_checks": False}
#: Groups, of which some are large, and rows of these.
G, LARGE, ROWS = 240, (3, 17), 90


def data(n_groups=G, large=LARGE, rows=ROWS, seed=1):
    """Return groups, covariates and outcomes of rows in no order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, n_groups)
    sizes[list(large)] = rows + np.arange(len(large))
    group = rng.permutation(np.repeat(np.arange(n_groups), sizes))
    x = rng.standard_normal(group.size)
    effects = 0.8 * rng.standard_normal((2, n_groups))
    level = -0.3 + 0.5 * x + effects[0, group] + 0.4 * effects[1, group] * x
    return group, x, (rng.random(group.size) < 1.0 / (1.0 + np.exp(-level))).astype(int)


def centred(group, x, y, n):
    effect = pm.Normal("effect", pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), shape=n)
    pm.Bernoulli("y", logit_p=effect[group] + pm.Normal("b") * x, observed=y)


def products(group, x, y, n):
    effect = pm.HalfNormal("tau", 1) * pm.Normal("effect", 0, 1, shape=n)
    level = pm.Normal("mu", 0, 2) + effect[group] + pm.Normal("b") * x
    pm.Bernoulli("y", logit_p=level, observed=y)


def two_terms(group, x, y, n):
    effect = pm.Normal("effect", pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), shape=n)
    first, second = np.arange(y.size) % 3 > 0, np.arange(y.size) % 3 == 0
    pm.Bernoulli("y", logit_p=effect[group[first]] + pm.Normal("b") * x[first], observed=y[first])
    pm.Normal("more", effect[group[second]], 2.0, observed=x[second])


def two_effects(group, x, y, n):
    level = pm.HalfNormal("tau", 1) * pm.Normal("effect", 0, 1, shape=n)
    slope = pm.Normal("slope", pm.Normal("mu"), pm.HalfNormal("sd", 1), shape=n)
    pm.Bernoulli("y", logit_p=level[group] + slope[group] * x, observed=y)


def correlated(group, x, y, n):
    factor, _, _ = pm.LKJCholeskyCov("cov", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0, shape=2))
    effect = pm.MvNormal("effect", pm.Normal("mu", shape=2), chol=factor, shape=(n, 2))
    pm.Bernoulli("y", logit_p=effect[group, 0] + effect[group, 1] * x, observed=y)


MODELS = {f.__name__: f for f in (centred, products, two_terms, two_effects, correlated)}


def model_of(name, **settings):
    group, x, y = data(**settings)
    with pm.Model() as model:
        MODELS[name](group, x, y, settings.get("n_groups", G))
    return model


def log_integral(model, point, reading):
    """Return the log-density with the effects of small groups integrated over, by a grid."""
    density, places = model.compile_logp(), reading.groups.coordinates
    line = np.linspace(-9.0, 9.0, 121 if places.shape[1] == 1 else 41)
    grid = np.array(np.meshgrid(*[line] * places.shape[1])).reshape(places.shape[1], -1)
    values = reading.whole.unmapped or reading.whole
    start = values.ravel_values(point)

    def at(position):
        return density(values.split_by_name(position))

    total = at(start)
    for place in places:
        logs = []
        for z in grid.T:
            moved = start.copy()
            moved[place] = z
            logs.append(at(moved))
        logs = np.array(logs) - at(start)
        total += np.logaddexp.reduce(logs) + places.shape[1] * np.log(line[1] - line[0])
    return total


@pytest.mark.parametrize("root", [1, 2])
@pytest.mark.parametrize("name", fast(MODELS, ["centred", "two_terms"]))
def test_the_density_is_the_models_with_small_groups_integrated_out(name, root, monkeypatch):
    monkeypatch.setattr(small_groups, "LARGE_ROWS", 6)
    model = model_of(name, n_groups=20, large=(0, 8), rows=9)
    reading = read(model)
    assert reading.groups.large.tolist() == [0, 8]
    target = target_of(model, root)
    rng, differences = np.random.default_rng(2), []
    for _ in range(2):
        point = {
            k: v + 0.3 * rng.standard_normal(np.shape(v)) for k, v in model.initial_point().items()
        }
        position = target.factorization.ravel(point)
        found = target.log_prior(position) - target.factorization.log_jacobian(position)
        found += placed_at(target, position).full_data.values(position).sum()
        differences.append(found - log_integral(model, point, reading))
    np.testing.assert_allclose(differences, 0.0, atol=2e-6)


@pytest.fixture(scope="module", autouse=True)
def large_groups_are_parameters():
    """Groups of some hundred rows, which are quick to evaluate, are treated as larger ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_groups, "MANY_BESIDE", 0)
        yield


@cache
def large_step():
    """Return a step on a model with two large groups."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_groups, "MANY_BESIDE", 0)
        return TunaMH(model=model_of("products"), blocks="groups")


@pytest.mark.parametrize(("n_rows", "integrated"), [(76, 501), (5_000, 500)])
def test_a_group_that_is_a_little_larger_is_integrated_out(n_rows, integrated, monkeypatch):
    monkeypatch.setattr(small_groups, "MANY_BESIDE", 70)
    counts = np.array([[*np.full(500, 5), n_rows]])
    levels = [np.repeat(np.arange(501), counts[0])]
    assert small_groups._small(levels, counts).size == integrated


@pytest.mark.slow
def test_large_groups_are_parameters_and_their_rows_observations():
    step = large_step()
    assert isinstance(step.plan, GroupsPlan)
    groups = step.plan.groups
    assert groups.large.tolist() == list(LARGE)
    assert step.plan.n_rows == G - 2 + groups.counts[:, groups.large].sum()
    assert step.plan.reference.size == 5
    names = step.target.factorization.coordinate_names
    assert names == ["tau_log__", "effect[3]", "effect[17]", "mu", "b"]
    assert "all but those of 2 larger groups" in repr(step)
    counts = groups.counts[:, groups.small]
    assert counts.max() < small_groups.LARGE_ROWS < groups.counts[:, groups.large].min()


def test_many_large_groups_are_integrated_out_or_moved_one_at_a_time():
    many = read(model_of("centred", large=range(25))).groups
    assert many.large.size == 0
    assert many.n_observations == many.n_groups == G


@pytest.mark.slow
def test_large_groups_have_the_effects_that_others_have():
    step = large_step()
    """The draws of all effects are those of elements, within their noise."""
    both = step, TunaMH(model=model_of("products"), blocks=True)
    places = [*LARGE, 0, 100]
    means, sds = [], []
    for one in both:
        trace = sample(one, 4_000, tune=500, chains=1, random_seed=2, **QUIET).posterior
        alpha = (trace["tau"] * trace["effect"] + trace["mu"])[0].values[..., places]
        assert np.isfinite(trace["effect"]).all()
        means.append([*alpha.mean(axis=0), float(trace["tau"].mean())])
        sds.append([*alpha.std(axis=0), float(trace["tau"].std())])
    np.testing.assert_allclose(*means, rtol=0, atol=0.15 * max(sds[0]))
    np.testing.assert_allclose(*sds, rtol=0.2)


def test_traces_without_effects_have_those_of_large_groups():
    step = large_step()
    """They are parameters, given which all other effects are drawn afterwards."""
    shared = sample(step, 20, tune=50, chains=1, random_seed=1, effects=False, **QUIET)
    assert set(shared.posterior.data_vars) == {"tau", "mu", "b", "effect_of_large_groups"}
    whole = draw_effects(shared, step)
    assert set(whole.posterior.data_vars) == {"tau", "mu", "b", "effect"}
    large = shared.posterior["effect_of_large_groups"].to_numpy()
    np.testing.assert_allclose(whole.posterior["effect"].to_numpy()[..., LARGE], large)
    assert large.std() > 0.0
    lacking = shared["posterior"].to_dataset().drop_vars("effect_of_large_groups")
    with pytest.raises(SettingError, match="'effect' is not in the trace"):
        draw_effects(xr.DataTree.from_dict({"posterior": lacking}), step)


@pytest.mark.slow
def test_log_likelihoods_of_large_groups_are_integrals_over_their_effects(monkeypatch):
    monkeypatch.setattr(small_groups, "MANY_BESIDE", 0)
    step = TunaMH(model=model_of("products"), blocks="groups")
    shared = sample(step, 5, tune=50, chains=1, random_seed=1, effects=False, **QUIET)
    values = group_log_likelihood(shared, step)["log_likelihood"]["effect"][0].values
    assert values.shape == (5, G)
    group, x, y = data()
    z = np.linspace(-8.0, 8.0, 20_001)
    for number in (3, 17, 0, 100):
        at = {name: float(shared.posterior[name][0, 2]) for name in ("mu", "tau", "b")}
        of_rows = (at["mu"] + at["b"] * x[group == number])[:, None] + at["tau"] * z
        signs = 1.0 - 2.0 * y[group == number, None]
        logs = -np.logaddexp(0.0, signs * of_rows).sum(axis=0) - 0.5 * z**2
        expected = np.logaddexp.reduce(logs) + np.log(8e-4 / np.sqrt(2.0 * np.pi))
        assert values[2, number] == pytest.approx(expected, abs=1e-6)


def test_rows_of_large_groups_are_evaluated_once_and_not_at_nodes():
    step = large_step()
    target, centre = step.plan.target, step.plan.reference.centre
    nodes, layout = target.group_rows.nodes, target.compiled.layout
    log_weights = nodes.log_weights.copy()
    log_weights[G - 2 :] += 1.0
    other = target.at_nodes(Nodes(nodes.z, log_weights))
    np.testing.assert_array_equal(other.full_data.values(centre), target.full_data.values(centre))
    tables = [NodeBoundsPass(x.group_rows, step.plan.reference).tables() for x in (other, target)]
    np.testing.assert_array_equal(*(x.c for x in tables))
    counts = layout.groups.counts
    large = int(counts[:, list(LARGE)].sum())
    assert layout.n_evaluations(9) == 9 * (counts.sum() - large) + large


def test_chosen_groups_have_their_numbers_in_the_model(monkeypatch):
    step = large_step()
    # Whole ranges of groups are drawn.
    monkeypatch.setattr(effects, "GROUPS_IN_TASK", 4)
    position = step.plan.reference.centre[None, None]
    whole = step.plan.whole_draws(position).values
    some = step.plan.whole_draws(position, chosen=[3, 230]).values
    np.testing.assert_array_equal(some[..., [1 + 3, 1 + 230]], whole[..., [1 + 3, 1 + 230]])


def test_saved_steps_and_pymc_have_the_same_draws(tmp_path):
    step = large_step()
    step.save(tmp_path / "step.npz")
    model = model_of("products")
    again = TunaMH(model=model, blocks="groups", prepared=tmp_path / "step.npz")
    settings = {"tune": 30, "chains": 1, "random_seed": 1}
    both = [sample(one, 30, **settings, **QUIET).posterior["effect"] for one in (step, again)]
    np.testing.assert_array_equal(*both)
    with model:
        trace = pm.sample(
            30, step=again, progressbar=False, compute_convergence_checks=False, **settings
        )
    assert np.isfinite(trace.posterior["effect"]).all()


def counts_with(extreme, n_groups=400):
    """Return a model of counts, three in each group, those of one group far higher."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(n_groups), 3)
    y = rng.poisson(np.exp(0.3 + 0.5 * rng.standard_normal(n_groups)[group]))
    y[group == 7] = extreme
    with pm.Model() as model:
        effect = pm.Normal("effect", pm.Normal("mu", 0, 2), pm.HalfNormal("tau", 1), shape=n_groups)
        pm.Poisson("y", pm.math.exp(effect[group]), observed=y)
    return model


@pytest.mark.slow
def test_an_effect_that_no_nodes_fit_is_a_parameter(tmp_path):
    extreme = 5_000
    step = TunaMH(model=counts_with(extreme), blocks="groups")
    assert step.plan.groups.large.tolist() == [7]
    assert step.plan.choice.n_nodes <= 21
    assert step.plan.choice.error < 1e-6
    step.save(tmp_path / "step.npz")
    model = counts_with(extreme)
    again = TunaMH(model=model, blocks="groups", prepared=tmp_path / "step.npz")
    assert again.plan.groups.large.tolist() == [7]
    draws = sample(step, 100, tune=50, chains=1, random_seed=1, **QUIET).posterior["effect"]
    assert np.log(extreme) == pytest.approx(float(draws[..., 7].mean()), abs=0.3)
