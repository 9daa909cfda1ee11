import json
from functools import cache
from pathlib import Path

import pytensor
import pytest

from zoo import METHODS, MODELS

REFERENCES = Path(__file__).parent / "statistical" / "references.json"


@pytest.fixture(scope="session")
def model_of():
    """Name of a model of the zoo -> the model, one object per session."""
    return cache(lambda name: MODELS[name]())


@pytest.fixture(scope="session")
def step_of(model_of):
    """Names of a model and of a method -> the step, built once per session and settings.

    Sampling starts every chain of a step anew, so tests may share it; a test that changes more
    than a chain's state works on a copy.
    """

    @cache
    def build(model, method, **settings):
        return METHODS[method](model=model_of(model), **settings)

    return build


@pytest.fixture(scope="session")
def references():
    """Figures of the long NUTS runs: model -> coordinate -> figures."""
    return json.loads(REFERENCES.read_text())["models"]


@pytest.fixture
def no_compilation(monkeypatch):
    """Fail on the first function that PyTensor is asked for."""

    def compiled(*_args, **_kwargs):
        raise AssertionError("something was compiled")

    monkeypatch.setattr(pytensor, "function", compiled)
