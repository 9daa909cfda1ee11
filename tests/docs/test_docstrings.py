"""The examples of the docstrings run, and print what they say."""

import doctest
import inspect
import re

import numpy as np
import pymc as pm
import pytest

import pymc_minibatch_mh
from docs.taken import taken
from pymc_minibatch_mh import PoissonMH, TunaMH, sample
from tiers import fast

PUBLIC = [getattr(pymc_minibatch_mh, name) for name in pymc_minibatch_mh.__all__]
SHOWN = [one for one in PUBLIC if ">>>" in (one.__doc__ or "")]
#: Examples of steps are written by one function: that of one step runs in the fast tier.
FEW = [one for one in SHOWN if one is TunaMH or not one.__name__.endswith("MH")]
#: Where log-likelihoods have ranges, as `PoissonMH` needs them.
BOUNDED = {"lower": 0.45, "upper": 0.55, "default_transform": None}


@pytest.fixture(scope="module")
def given():
    """What the examples take as given, and short runs in the place of those that they show."""
    names = taken()
    step = TunaMH(model=names["model"], rng=1)
    trace = sample(step, 600, tune=200, chains=2, random_seed=1, progressbar=False, quiet=True)
    return names | {"step": step, "trace": trace}


@pytest.fixture
def short_chains(monkeypatch):
    sampled = pm.sample

    def short(draws, step):
        return sampled(10, tune=5, step=step, chains=1, cores=1, progressbar=False, quiet=True)

    monkeypatch.setattr(pm, "sample", short)


def uniform_model():
    with pm.Model() as model:
        p = pm.Uniform("p", **BOUNDED)
        pm.Bernoulli("seen", p=p, observed=np.arange(2_000) % 2)
    return model


def test_parameters_have_the_names_that_they_are_given_by():
    parts = {one: re.split(r"\n(.+)\n-+\n", inspect.getdoc(one) or "") for one in PUBLIC}
    found = {one: p[p.index("Parameters") + 1] for one, p in parts.items() if "Parameters" in p}
    assert len(found) >= 24
    for one, section in found.items():
        lines = re.findall(r"^(\S.*)$", section, flags=re.MULTILINE)
        names = ", ".join(line.partition(" : ")[0] for line in lines).split(", ")
        known = inspect.signature(one).parameters.keys()
        assert {name.lstrip("*") for name in names} <= known, one.__name__


def test_examples_are_in_nearly_all_docstrings():
    assert len(SHOWN) >= 24


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("short_chains")
@pytest.mark.parametrize("public", fast(SHOWN, FEW), ids=lambda one: one.__name__)
def test_the_example_runs(public, given):
    model = uniform_model() if public is PoissonMH else given["model"]
    globs = {**given, "model": model}
    example = doctest.DocTestParser().get_doctest(public.__doc__, globs, public.__name__, None, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert results.failed == 0, "".join(said)
