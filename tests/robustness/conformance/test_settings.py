"""Invalid settings are refused by name, with the cause and the fix."""

import inspect
import math

import numpy as np
import pymc as pm
import pytensor
import pytest

from helpers.zoo import METHODS, RANGED
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.errors import BoundsError, SettingError, UnsupportedModelError
from pymc_minibatch_mh.steps import base

EVERY = {
    "temperature": [0, -1, math.nan, math.inf, "a", True, [], [(0, 2.0), (0, 1.0)], [(1, 2.0)]],
    "taylor_order": [4, -1, 1.5, "second", True],
    "proposal": ["x", None, 3],
    "updates_per_draw": [0, -1, 2.5, "a", True],
    "observed": [["unknown"], []],
    "compile_kwargs": [{"mode": "JAX"}, {"mode": "CVM"}],
}
BATCHES = {"batch_size": [0, 1, 1.5, -3, "a", math.nan]}
VIOLATIONS = {"on_violation": ["ignore", None, True]}
BOUNDED = VIOLATIONS | {"bounds": [3.0, np.ones(5)]}
DELAYED = {"delayed_acceptance": [1, None, "yes"]}
OWN = {
    "BarkerMinibatchMH": BATCHES
    | {
        "sigma": [0, 0.5, 1.8, math.nan, "a"],
        "max_error": [0, -1, math.nan, 1e-9, "a"],
    },
    "ConfidenceMH": BATCHES
    | {
        "gamma": [0, 1.0, math.inf, math.nan, "a"],
        "p": [0, 1.0, math.inf, math.nan, "a"],
        "delta": [0, 1.0, -1, math.nan, "a"],
        "range": ["x", None, 1.0],
    },
    "AustereMH": BATCHES
    | {
        "epsilon": [-0.1, 0.6, -1, math.nan, "a", True],
        "boundary": [0.4, 1.1, math.nan, "a"],
        "design": ["per_update", 0.1],
    },
    "PenaltyMH": BATCHES,
    "TunaMH": BOUNDED
    | DELAYED
    | {
        "chi": [-1, math.nan, math.inf, "x", True],
        "form": ["x", None, "factorized"],
        "spectral_gap_ratio": [0.0, 1.0, -1.0, math.nan, "a"],
    },
    "ScalableSubsamplingMH": BOUNDED | DELAYED,
    "FactorizedMH": BOUNDED | DELAYED,
    "PoissonMH": VIOLATIONS,
    "FireflyMH": BOUNDED | {"q": [0, -0.1, 1.1, math.nan, "a", True], "bound": ["x", None]},
}
#: Settings that are checked again once the rows are known.
AT_ONCE = [("taylor_order", 4), ("taylor_order", "second")]


@pytest.mark.parametrize(("name", "value"), AT_ONCE)
def test_what_no_model_allows_is_refused_before_rows_are_read(model_of, monkeypatch, name, value):
    def never(*_):
        raise AssertionError("the model was read")

    monkeypatch.setattr(base, "read_model", never)
    with pytest.raises(SettingError, match=f"^{name}="):
        PenaltyMH(model=model_of("poisson"), **{name: value})


@pytest.fixture(scope="module")
def start(model_of):
    # PyMC compiles a function to find its own.
    return model_of("poisson").initial_point()


@pytest.mark.parametrize("method", METHODS | RANGED)
def test_bad_settings_are_refused_before_anything_is_compiled(
    model_of, start, no_compilation, method
):
    known = {"model": model_of("poisson"), "initial_point": start}
    own = OWN[method] | (EVERY if method == "TunaMH" else {})
    for name, value in [(key, value) for key in own for value in own[key]]:
        with pytest.raises(SettingError) as refusal:
            (METHODS | RANGED)[method](**known, **{name: value})
        message = str(refusal.value)
        assert message.startswith(f"{name}="), message
        sentences = message.removesuffix(".").split(". ")
        assert len(sentences) == 2, message
        assert all(sentence[0].isupper() for sentence in sentences[1:]), message


def test_settings_that_methods_share_are_taken_alike():
    taken = {method: inspect.signature(cls).parameters for method, cls in METHODS.items()}
    for name in EVERY:
        assert len({str(parameters[name]) for parameters in taken.values()}) == 1, name
    for name in BATCHES | BOUNDED | DELAYED:
        shared = [parameters[name] for parameters in taken.values() if name in parameters]
        assert len({parameter.annotation for parameter in shared}) == 1 < len(shared), name


def on_a_discrete_variable():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("level") + pm.Bernoulli("k", 0.5), observed=np.zeros(1_000))
    return model


def test_discrete_variables_are_refused_before_anything_is_compiled(monkeypatch):
    def never(*_, **__):
        raise AssertionError("something was compiled")

    model = on_a_discrete_variable()
    start = model.initial_point()
    monkeypatch.setattr(pytensor, "function", never)
    monkeypatch.setattr(pm.Model, "initial_point", lambda _: start)
    with pytest.raises(BoundsError, match="'y' depends on the discrete variable 'k'"):
        TunaMH(model=model)
    monkeypatch.setattr(pm.Model, "initial_point", never)
    with pytest.raises(UnsupportedModelError, match="'k' is discrete"):
        PenaltyMH([model["k"]], model=model)
