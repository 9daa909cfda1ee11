"""Bambi's models and the traces of its ``fit`` are taken where PyMC's are."""

import gc
import logging
import warnings

import bambi
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

from helpers.tiers import fast
from models.adversary.subject import STABLE
from pymc_minibatch_mh import (
    PenaltyMH,
    TunaMH,
    audit,
    explain,
    factorize,
    log_likelihood,
    loo_subsample,
    overdispersed_initvals,
    posterior_predictive,
    sample,
)
from pymc_minibatch_mh.diagnostics.draws import posterior_draws
from pymc_minibatch_mh.diagnostics.model_summary import subsampled_terms
from pymc_minibatch_mh.errors import SettingError
from pymc_minibatch_mh.model.bambi import clean_trace, response_parameters
from pymc_minibatch_mh.sampling.trace import bambi_trace

ROWS = 1_200
QUIET = {"progressbar": False, "compute_convergence_checks": False}


def table():
    """Return predictors whose means are far from 0, groups, and responses."""
    rng = np.random.default_rng(321)
    x, z = 3.0 + rng.standard_normal((2, ROWS))
    g, h, c = rng.integers(0, (4, 5, 5), (ROWS, 3)).T
    eta = 0.5 * x - 0.4 * z + np.array([-0.6, 0.2, 0.5, -0.1])[g]
    return pd.DataFrame(
        {"x": x, "z": z, "g": g.astype(str), "h": h.astype(str), "c": c.astype(str),
         "event": (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
         "real": eta + rng.standard_normal(ROWS),
         "kind": rng.integers(0, 3, ROWS).astype(str)}
    )  # fmt: skip


#: Models with intercepts, offsets and effects of groups of every kind that Bambi has.
MODELS = {
    "flat": ("event ~ x + z", "bernoulli", {}),
    "offset": ("event ~ x + offset(z)", "bernoulli", {}),
    "groups": ("event ~ x + (1|g)", "bernoulli", {}),
    "not centred": ("event ~ x + z", "bernoulli", {"center_predictors": False}),
    "categorical": ("kind ~ x", "categorical", {}),
    "distributional": (bambi.Formula("real ~ x + z", "sigma ~ z"), "gaussian", {}),
    "slopes": ("event ~ x + (x|g)", "bernoulli", {}),
    "levels of slopes": ("event ~ x + (c|h)", "bernoulli", {}),
    "crossed": ("event ~ x + (1|g) + (z|h)", "bernoulli", {}),
    "nested": ("event ~ x + (1|g/h)", "bernoulli", {}),
    "centred effects": ("event ~ x + (0 + c|g)", "bernoulli", {"noncentered": False}),
    "groups of two": (bambi.Formula("real ~ x + (1|g)", "sigma ~ z + (1|h)"), "gaussian", {}),
    "categorical groups": ("kind ~ x + (1|g)", "categorical", {}),
    "horseshoe": ("real ~ x + z", "gaussian", {"priors": {"x": bambi.Prior("Horseshoe")}}),
}  # fmt: skip


def bambi_model(case):
    formula, family, settings = MODELS[case]
    return written(formula, table(), family=family, **settings)


def written(*arguments, **settings):
    """Return a model; without a word of pandas of what Bambi asks it, also where mutants run."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "For backward compatibility, 'str' dtypes")
        return bambi.Model(*arguments, **settings)


def prior_draws(model):
    """Return draws of all variables, as a trace of the PyMC model, without sampling."""
    behind, computed = model.backend.model, response_parameters(model)
    names = [v.name for v in behind.unobserved_RVs if v.name not in computed]
    with behind:
        drawn = pm.sample_prior_predictive(
            8, var_names=names, random_seed=1, compile_kwargs={"mode": STABLE}
        )
    return drawn["prior"].to_dataset()


@pytest.mark.parametrize("case", MODELS)
def test_what_fit_has_changed_is_undone(case):
    model = bambi_model(case)
    model.build()
    drawn = prior_draws(model)
    fitted = clean_trace(model.backend, xr.DataTree.from_dict({"posterior": drawn}))
    found = posterior_draws(fitted, model.backend.model)
    for rv in model.backend.model.free_RVs:
        dims = model.backend.model.named_vars_to_dims.get(rv.name) or ()
        expected = drawn[rv.name].transpose("chain", "draw", *dims, ...)
        np.testing.assert_allclose(found[rv.name], expected, rtol=1e-9, atol=1e-12)


def test_chosen_variables_of_a_bambi_model_are_refused_before_sampling():
    """Bambi's code would fail on a trace without some of them, after all draws are made."""
    with pytest.raises(SettingError, match="var_names= does not go with a Bambi model"):
        sample(bambi_model("flat"), 50, tune=50, var_names=["x"], progressbar=False)


@pytest.mark.parametrize("case", fast([*MODELS][:6], ("flat", "not centred", "groups")))
def test_draws_of_sample_become_those_of_fit(case):
    model = bambi_model(case)
    step = TunaMH(model=model)
    starts = overdispersed_initvals(step, 2, 3)
    settings = {"tune": 60, "chains": 2, "cores": 1, "random_seed": 1, "initvals": starts}
    fitted = model.fit(draws=40, step=step, **settings, **QUIET)
    drawn = sample(TunaMH(model=model), 40, **settings, **QUIET)
    found = bambi_trace(model, drawn)
    assert list(found.posterior.data_vars) == list(fitted.posterior.data_vars)
    xr.testing.assert_allclose(
        found.posterior.to_dataset(), fitted.posterior.to_dataset(), rtol=1e-12
    )
    for name, values in fitted.posterior.data_vars.items():
        assert values.dims == found.posterior[name].dims
    assert found.posterior.attrs.items() >= drawn.posterior.attrs.items()
    assert found.sample_stats.data_vars.keys() == drawn.sample_stats.data_vars.keys()
    assert found.posterior.attrs["modeling_interface"] == "bambi"


@pytest.mark.slow
def test_a_model_goes_from_fit_to_loo():
    model = bambi_model("groups")
    step = TunaMH(model=model)
    trace = model.fit(draws=300, tune=300, chains=2, cores=1, step=step, random_seed=1, **QUIET)
    rows, data, draws = [0, 7, 1_000], model.data, trace.posterior
    effects = draws["1|g"].to_numpy()[..., data["g"].astype(int).iloc[rows]]
    eta = draws["Intercept"].to_numpy()[..., None] + effects
    eta = eta + draws["x"].to_numpy()[..., None] * data["x"].to_numpy()[rows]
    signs = 2.0 * data["event"].to_numpy()[rows] - 1.0
    values = log_likelihood(trace, rows, model=model)
    if isinstance(values, xr.DataTree):
        values = values["log_likelihood"]["event"]
    np.testing.assert_allclose(values, -np.log1p(np.exp(-signs * eta)), rtol=1e-9)
    assert loo_subsample(trace, 100, model=model).n_samples == 600
    assert posterior_predictive(trace, rows, model=model) is not None
    found = audit(trace, step, 20, random_seed=1)
    verdicts = dict(zip(found["check"].values, found["verdict"].values, strict=True))
    assert verdicts["bounds"] == verdicts["drift"] == "ok"


def test_without_the_bambi_model_intercepts_are_not_guessed():
    model = bambi_model("flat")
    model.build()
    fitted = clean_trace(model.backend, xr.DataTree.from_dict({"posterior": prior_draws(model)}))
    behind = model.backend.model
    del model
    gc.collect()
    with pytest.raises(SettingError, match=r"Pass the bambi.Model as model="):
        posterior_draws(fitted, behind)
    # Of the same data and formula, another will do.
    other = bambi_model("flat")
    other.build()
    posterior_draws(fitted, other.backend.model)


def test_a_coefficient_that_fit_has_dropped_is_named():
    data = table().rename(columns={"x": "x_offset"})
    model = written("event ~ x_offset", data, family="bernoulli", center_predictors=False)
    model.build()
    fitted = clean_trace(model.backend, xr.DataTree.from_dict({"posterior": prior_draws(model)}))
    with pytest.raises(SettingError, match=r"'x_offset' is a free variable .* omit_offsets=False"):
        posterior_draws(fitted, model.backend.model)


ENTRIES = {
    "TunaMH": lambda model: TunaMH(model=model).target.factorization.size,
    "PenaltyMH": lambda model: PenaltyMH(model=model).target.factorization.size,
    "explain": lambda model: explain(model, draws=100, tune=50, nuts=False, random_seed=1).size,
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_model_is_taken_and_built(entry):
    model = bambi_model("flat")
    assert ENTRIES[entry](model) == 3
    behind = model.backend.model
    ENTRIES[entry](model)
    assert model.backend.model is behind


def test_nothing_is_said_of_deterministics_that_fit_leaves_out(caplog):
    model = written("event ~ x", pd.concat([table()] * 4, ignore_index=True), family="bernoulli")
    with caplog.at_level(logging.WARNING):
        TunaMH(model=model)
        assert "deterministics" not in caplog.text
        TunaMH(model=model.backend.model)
    assert "'p', 4,800 values" in caplog.text


def test_a_prepared_step_does_not_ask_how_the_model_is_passed(tmp_path):
    TunaMH(model=bambi_model("flat")).save(tmp_path / "step.npz")
    model = bambi_model("flat")
    model.build()
    TunaMH(model=model.backend.model, prepared=tmp_path / "step.npz")


def words_of(case):
    model = bambi_model(case)
    model.build()
    behind = model.backend.model
    (term,) = subsampled_terms(factorize(behind, behind.value_vars))
    return term.arguments


def test_data_arrays_have_the_names_of_the_formula():
    assert words_of("flat") == ("Intercept + design_matrix[0] × x + design_matrix[1] × z",)
    assert words_of("slopes") == (
        "1|g_sigma_log__", "1|g_offset[g]", "x|g_sigma_log__", "x|g_offset[g]",
        "Intercept + design_matrix × x",
    )  # fmt: skip
    assert "sigma_Intercept + design_matrix_sigma × sigma_z" in words_of("distributional")
