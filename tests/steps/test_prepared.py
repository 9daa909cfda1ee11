"""A prepared step survives in a file, and only for the model that it belongs to."""

import json
import tempfile

import numpy as np
import pymc as pm
import pytest

from helpers.models import FAMILIES, poisson, slopes, student
from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.bounds.bounds_pass import BoundsPass
from pymc_minibatch_mh.compiled.model import CompiledModel
from pymc_minibatch_mh.errors import SettingError, StaleDataError
from pymc_minibatch_mh.model.factorization import factorize
from pymc_minibatch_mh.plan import prepare as sharing
from pymc_minibatch_mh.plan.identity import key_of, split_digests
from pymc_minibatch_mh.reference.target import Target
from robustness.conformance.harness import same_draws


@pytest.fixture(scope="module")
def model(model_of):
    return model_of("poisson")


@pytest.fixture(scope="module")
def saved(prepared, tmp_path_factory):
    path = tmp_path_factory.mktemp("prepared") / "step.npz"
    prepared("poisson", "TunaMH").save(path)
    return path


def nothing_is_searched(monkeypatch):
    def refuse(*_):
        raise AssertionError("a pass that the file should spare")

    monkeypatch.setattr(Target, "expand", refuse)
    monkeypatch.setattr(BoundsPass, "tables", refuse)


def test_a_saved_step_draws_what_a_new_one_draws(model, prepared, saved, monkeypatch):
    new = sample(model, prepared("poisson", "TunaMH"), 100, 100, random_seed=91)
    nothing_is_searched(monkeypatch)
    with model:
        step = TunaMH(prepared=saved)
    same_draws(new, sample(model, step, 100, 100, random_seed=91))


def test_what_a_centre_is_sought_by_is_saved():
    step = TunaMH(model=student())
    assert [step.target.factorization.coordinate_names[k] for k in step.plan.marginal] == [
        "tau_log__"
    ]
    with tempfile.TemporaryDirectory() as folder:
        step.save(f"{folder}/step.npz")
        again = TunaMH(model=student(), prepared=f"{folder}/step.npz")
    assert again.plan.marginal == step.plan.marginal


def test_bounds_are_derived_and_calibrations_left_where_a_file_is_of_another_step(
    model, prepared, tmp_path
):
    prepared("poisson", "PenaltyMH").save(tmp_path / "step.npz")
    step, alone = TunaMH(model=model, prepared=tmp_path / "step.npz"), prepared("poisson", "TunaMH")
    np.testing.assert_array_equal(step.tables.c, alone.tables.c)
    assert step.plan.calibration is alone.plan.calibration is None


def test_the_file_holds_no_pickle(saved):
    with np.load(saved, allow_pickle=False) as archive:
        assert {"key", "reference_centre", "headers", "c"} <= set(archive.files)
        assert all(archive[name].dtype.kind != "O" for name in archive.files)


def other(rows=5_000, *, sd=2.0, mu=pm.math.exp, name="slope"):
    """Return the model of the zoo, changed in one respect."""
    rng = np.random.default_rng(14)
    x = rng.uniform(-1.0, 1.0, 5_000)
    counts = rng.poisson(np.exp(0.4 + 0.6 * x))
    with pm.Model() as model:
        level = pm.Normal("level", 0.0, sd)
        slope = pm.Normal(name, 0.0, 2.0)
        pm.Poisson("counts", mu=mu(level + slope * x[:rows]), observed=counts[:rows])
    return model


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"rows": 4_999}, ""),
        ({"sd": 2.5}, "the prior part"),
        ({"name": "tilt"}, "the variables"),
        ({"mu": lambda u: pm.math.exp(u) + 1e-3}, "the likelihood of 'counts'"),
    ],
)
def test_another_model_is_refused(saved, change, what):
    with pytest.raises(
        StaleDataError, match=rf"^prepared='.*' was saved for a model that differs in {what}"
    ):
        TunaMH(model=other(**change), prepared=saved)


def spline(width=1.0):
    """A prior whose operation holds an object."""
    grid = np.linspace(-3.0, 3.0, 21)
    with pm.Model() as model:
        level = pm.Interpolated("level", grid, np.exp(-((grid / width) ** 2)))
        pm.Normal("y", level, observed=np.zeros(1_000))
    return model


def keys():
    """Return what a file of a step would belong to, on some models: the same in every process."""
    models = [spline(), FAMILIES["normal_mixture"]()]
    parts = [factorize(model, model.value_vars) for model in models]
    return [key_of(Target(CompiledModel(part))) for part in parts]


def test_other_objects_in_an_operation_make_another_key():
    one, same, other = (
        split_digests(factorize(model, model.value_vars))["the prior part"]
        for model in (spline(), spline(), spline(1.5))
    )
    assert one == same != other


def test_a_key_tells_order_and_temperature():
    model = poisson()
    parts = factorize(model, model.value_vars)
    settings = [(2, 1.0), (1, 1.0), (2, 0.5)]
    keys = [key_of(Target(CompiledModel(parts), order, beta)) for order, beta in settings]
    assert len({json.dumps(key) for key in keys}) == len(settings)
    assert keys[0] == key_of(Target(CompiledModel(parts)))


def test_a_file_holds_effects_that_move_each_by_itself(tmp_path, monkeypatch):
    model = slopes()
    new = TunaMH(model=model, blocks=True)
    new.save(tmp_path / "step.npz")
    nothing_is_searched(monkeypatch)
    monkeypatch.setattr(sharing, "find_grouped", None)
    step = TunaMH(model=model, prepared=tmp_path / "step.npz", blocks=True)
    same_draws(*(sample(model, one, 50, 50, random_seed=93) for one in (new, step)))
    with pytest.raises(SettingError, match="effects in 'y' one at a time, but this one cannot"):
        PenaltyMH(model=model, prepared=tmp_path / "step.npz")
