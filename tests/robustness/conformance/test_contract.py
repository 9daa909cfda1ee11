"""What PyMC expects of a step method, asked of every method."""

import html

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.sampling.mcmc import assign_step_methods
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import Competence

from helpers.tiers import fast
from helpers.zoo import METHODS, RANGED, SOME_METHODS, coordinates, sample
from pymc_minibatch_mh import overdispersed_initvals
from pymc_minibatch_mh.errors import StaleDataError
from robustness.conformance.harness import same_draws

#: All methods, and the model that tests ask them on: one with variables "beta" and "X".
MODELS = dict.fromkeys(METHODS, "logistic") | dict.fromkeys(RANGED, "bounded")
CLASSES = METHODS | RANGED
every_method = pytest.mark.parametrize("method", MODELS)


@pytest.fixture
def model(model_of, method):
    return model_of(MODELS[method])


@pytest.fixture
def step(prepared, method):
    return prepared(MODELS[method], method)


@every_method
def test_constructs_without_arguments_inside_a_model_and_samples(model, method):
    with model:
        step = CLASSES[method]()
    trace = sample(model, step, 20, 20)
    assert trace.posterior["beta"].shape == (2, 20, 3)


@every_method
def test_a_random_variable_becomes_its_value_variable(model, method):
    step = CLASSES[method](model["beta"], model=model)
    assert step.vars == [model.rvs_to_values[model["beta"]]]


@every_method
def test_a_draw_returns_one_dictionary_with_the_declared_stats(model, step):
    step.setup_chain(np.random.default_rng(1), 10, 10)
    point, stats = step.step(model.initial_point())
    assert set(point) == {*model.initial_point()}
    (only,) = stats
    own = step.program.statistics
    assert set(only) == {*own, "warning"} == set(step.stats_dtypes_shapes)
    for name, (dtype, *_) in own.items():
        assert step.stats_dtypes_shapes[name] == (dtype, [])
        assert np.shape(only[name]) == ()
        assert np.can_cast(type(only[name]), dtype)


@pytest.mark.parametrize("method", fast(MODELS, ("TunaMH", "PenaltyMH")))
def test_stats_reach_a_netcdf_file_with_their_types(model, step, tmp_path):
    trace = sample(model, step, 30, 20, discard_tuned_samples=False)
    assert {"warmup_posterior", "warmup_sample_stats"} <= set(trace.children)
    assert trace.warmup_posterior.sizes["draw"] == 20
    trace.to_netcdf(tmp_path / "trace.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "trace.nc", engine="h5netcdf") as stored:
        stats = stored.sample_stats
        assert set(stats.data_vars) == set(step.program.statistics)
        for name, (dtype, *_) in step.program.statistics.items():
            assert stats[name].dims == ("chain", "draw")
            assert stats[name].dtype == dtype


@every_method
def test_earlier_chains_leave_no_trace(model, step):
    both = sample(model, step, 60, 50, random_seed=5)
    seeds = np.random.default_rng(5)
    seeds.spawn(1)
    alone = sample(model, step, 60, 50, chains=1, random_seed=seeds)
    same_draws(both.isel(chain=[1]), alone)


@every_method
def test_progress_functions_report_rows_and_acceptance(model, step):
    columns, initial = step._progressbar_config(3)
    assert len(columns) == len(initial) == 2
    assert all(len(values) == 3 for values in initial.values())
    (update,) = step._make_progressbar_update_functions()
    assert update({"n_obs": 7, "accept": 0.5, "full_pass": 1}) == {"n_obs": 7, "accept": 0.5}


def test_completion_shows_what_users_need_and_a_notebook_the_facts(prepared):
    step = prepared("logistic", "TunaMH", taylor_order=1)
    public = [name for name in dir(step) if not name.startswith("_")]
    assert len(public) <= 15
    assert all(hasattr(step, name) for name in public)
    shown = step._repr_html_()
    name, facts = repr(step)[:-1].split("(", 1)
    assert f"<b>{name}</b>" in shown
    for fact in [*facts.split(", "), "settings: taylor_order=1", "prepared in"]:
        assert html.escape(fact) in shown


@every_method
def test_is_never_chosen_by_pymc(model, method):
    cls = CLASSES[method]
    assert cls not in STEP_METHODS
    (value,) = model.value_vars
    assert cls._competence([value], [True]) == [Competence.INCOMPATIBLE]
    _, selected = assign_step_methods(model, None, methods=[*STEP_METHODS, cls])
    assert list(selected) == [pm.NUTS]


@every_method
def test_data_set_after_construction_are_noticed_before_sampling(model, method):
    step = CLASSES[method](model=model)
    X = model["X"].get_value()
    try:
        with model:
            pm.set_data({"X": X + 0.1})
        with pytest.raises(StaleDataError, match=rf"'X' changed .* Build {method}\(\) again"):
            sample(model, step, 10, 10)
    finally:
        with model:
            pm.set_data({"X": X})
    assert sample(model, step, 10, 10).posterior.sizes["draw"] == 10


@pytest.mark.parametrize("method", SOME_METHODS)
def test_starting_points_are_spread_and_accepted(model_of, prepared, method, references):
    step = prepared("student", method)
    points = overdispersed_initvals(step, 400, scale=2.0, random_seed=4)
    assert set(points[0]) == {rv.name for rv in model_of("student").free_RVs}
    spread = np.std([np.log(point["sigma"]) for point in points])
    assert spread == pytest.approx(2.0 * references["student"]["sigma[0]"]["sd"], rel=0.15)
    trace = sample(model_of("student"), step, 5, 0, chains=3, initvals=points[:3])
    assert len(np.unique(coordinates(trace)["sigma[0]"][:, 0])) == 3


@pytest.mark.parametrize("method", SOME_METHODS)
def test_settings_of_sample_are_honoured(model_of, prepared, method):
    model, step = model_of("student"), prepared("student", method)
    start = {"sigma": 1.4, "tau": 0.6}
    settings = {"var_names": ["tau"], "initvals": start, "random_seed": 8}
    one, other = (sample(model, step, 20, 0, **settings) for _ in range(2))
    assert list(one.posterior.data_vars) == ["tau"]
    same_draws(one, other)
    elsewhere = sample(model, step, 20, 0, **settings | {"initvals": start | {"tau": 0.7}})
    assert not np.array_equal(one.posterior["tau"], elsewhere.posterior["tau"])
    another = sample(model, step, 20, 0, **settings | {"random_seed": 9})
    assert not np.array_equal(one.posterior["tau"], another.posterior["tau"])


@every_method
def test_full_passes_are_warned_of_once_a_chain(model, step, method):
    step.setup_chain(np.random.default_rng(6), 0, 700)
    point, warnings = model.initial_point(), []
    for draw in range(700):
        # As if a third of the updates had read all rows.
        step.chain.state.n_full = step.chain.state.n_updates // 3
        point, (stats,) = step.step(point)
        warnings += [(draw, stats["warning"])] if stats["warning"] is not None else []
    ((draw, warning),) = warnings
    assert draw == 499
    assert warning.level == "warn"
    words = "33% of the updates evaluate all observations"
    assert warning.message.startswith(f"{type(step).__name__}: {words}")
