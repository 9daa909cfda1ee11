"""Which observed variables are read, and along which of their axes."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_minibatch_mh import TunaMH
from pymc_minibatch_mh.errors import SettingError, StaleDataError, UnsupportedModelError
from pymc_minibatch_mh.model.inputs import ModelArrays
from pymc_minibatch_mh.model.terms import observation_axis, read_term, subsampled_variables

TIMES, PERSONS = 4, 9
PANEL = np.random.default_rng(2).normal(size=(TIMES, PERSONS))


def panel():
    coords = {"time": range(TIMES), "person": range(PERSONS), "other": range(PERSONS)}
    with pm.Model(coords=coords) as model:
        level = pm.Normal("level", dims="time")
        pm.Normal("y", level[0], 1.0, dims=("time", "person"), observed=PANEL)
        pm.Normal("z", level.sum(), 1.0, dims="time", observed=PANEL[:, 0])
        pm.MvNormal("v", level, np.eye(TIMES), dims=("person", "time"), observed=PANEL.T)
        pm.Normal("square", 0.0, 1.0, dims=("person", "other"), observed=PANEL.T @ PANEL)
    return model


def read(model, observed, dims=()):
    return [
        read_term(model, rv, names_of(model), dims)
        for rv in subsampled_variables(model, observed, 1, dims)
    ]


def names_of(model):
    return {v: model.values_to_rvs[v].name for v in model.value_vars}


@pytest.mark.parametrize(
    ("name", "dims", "axis"),
    [
        ("y", [], 0),
        ("y", ["person"], 1),
        ("y", ["time"], 0),
        ("z", ["person"], 0),
        ("square", ["other"], 1),
        ("square", ["person"], 0),
    ],
)
def test_rows_lie_along_the_named_dim(name, dims, axis):
    model = panel()
    assert observation_axis(model, model[name], dims) == axis


@pytest.mark.parametrize("length", [TIMES, PERSONS])
def test_a_term_has_the_rows_of_its_axis(length):
    model = panel()
    dims = {TIMES: ["time"], PERSONS: ["person"]}[length]
    term = read_term(model, model["y"], names_of(model), dims)
    assert term.n_rows == length
    assert all(column.rows_first.shape[0] == length for column, _ in term.batches)


def test_an_axis_that_is_drawn_together_has_no_rows():
    model = panel()
    message = r"^'v' is a MultivariateNormal, whose axis 1 holds the entries of one observation, so"
    with pytest.raises(UnsupportedModelError, match=message):
        read_term(model, model["v"], names_of(model), ["time"])


@pytest.mark.parametrize(
    ("observed", "dims", "message"),
    [
        (
            None,
            ["persons"],
            r"names 'persons', which is not a dim of this model\. Choose from \['oth",
        ),
        (["z"], ["person"], r"^'z' has none of observation_dims=\['person'\]: .* Name the one"),
        (None, ["person", "other"], r"^'square' has more than one of observation_dims="),
        (["square"], ["person", "other"], r"^'square' has more than one of observation_dims="),
    ],
)
def test_dims_that_cannot_be_meant_are_refused(observed, dims, message):
    model = panel()
    with pytest.raises(SettingError, match=message):
        read(model, observed, dims)


def test_an_observed_expression_is_evaluated_and_what_it_reads_is_watched():
    y, scale = np.arange(1.0, 7.0), np.full(6, 4.0)
    with pm.Model() as model:
        data, scale_of_rows = pm.Data("sales", y), pm.Data("scale", scale)
        pm.Normal("y", pm.Normal("level"), observed=data / scale_of_rows)
    arrays = ModelArrays()
    term = read_term(model, model["y"], names_of(model), arrays=arrays)
    ((column, _),) = term.batches
    np.testing.assert_array_equal(column.rows_first, y / scale)
    assert {"sales", "scale"} <= {name for name, _ in arrays.named_arrays()}
    with model:
        step = TunaMH(observed="y")
        pm.set_data({"scale": np.full(6, 5.0)})
        with pytest.raises(StaleDataError, match=r"^'scale' changed after this step was built"):
            pm.sample(2, tune=2, chains=1, step=step, progressbar=False)


def differences(value, a):
    return -((value - pt.roll(value, 1) - a) ** 2)


def test_an_observed_expression_may_not_mix_its_values():
    y = np.arange(1.0, 7.0)
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.CustomDist("y", a, logp=differences, observed=pm.Data("d", y) / 2.0)
    with pytest.raises(UnsupportedModelError, match="'y' cannot be split into observations"):
        read_term(model, model["y"], names_of(model))
