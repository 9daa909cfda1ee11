"""The examples of the docstrings run, and print what they say."""

import ast
import doctest
import inspect
import re
from functools import cache
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

import pymc_minibatch_mh
from docs.taken import taken
from helpers.tiers import fast
from pymc_minibatch_mh import PoissonMH, TunaMH, draw_effects, group_log_likelihood, sample
from pymc_minibatch_mh.diagnostics import forecast as nuts

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
    # What NUTS needs is compiled for seconds.
    monkeypatch.setattr(nuts, "seconds_per_call", lambda *_: (30.0, 1e-3))


def uniform_model():
    with pm.Model() as model:
        p = pm.Uniform("p", **BOUNDED)
        pm.Bernoulli("seen", p=p, observed=np.arange(2_000) % 2)
    return model


@cache
def panel_step():
    rng = np.random.default_rng(1)
    person = rng.integers(0, 300, 1_500)
    with pm.Model() as model:
        effect = pm.Normal("effect", 0.0, pm.HalfNormal("scale", 1.0), shape=300)
        pm.Bernoulli("late", logit_p=effect[person], observed=rng.random(1_500) < 0.4)
    return TunaMH(model=model, blocks="groups", rng=1)


PACKAGE = Path(pymc_minibatch_mh.__file__).parent
#: Packages whose names docstrings refer to in full.
OTHERS = ("arviz.", "pymc.", "pytensor.", "scipy.")


def _defined(tree, prefix):
    """Yield the full names of what a module or a class defines."""
    for node in tree.body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        for name in [getattr(node, "name", None), *(getattr(one, "id", None) for one in targets)]:
            if name is not None:
                yield f"{prefix}.{name}"
        if isinstance(node, ast.ClassDef):
            yield from _defined(node, f"{prefix}.{node.name}")


def dead_references(sources):
    """Return references of docstrings to what is nowhere defined; `sources`: module -> source."""
    known = set()
    for module, source in sources.items():
        known |= {module, *_defined(ast.parse(source), module)}
    ends = {name[k:] for name in known for k in range(len(name)) if name[k - 1] == "." or not k}
    named = {
        f"{module}: {name}"
        for module, source in sources.items()
        for name in re.findall(r":(?:mod|class|func|meth|attr|data):`~?([\w.]+)`", source)
        if name not in ends and not name.startswith(OTHERS)
    }
    return sorted(named)


def sources():
    """Return the source of every module of the package."""
    return {
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file.read_text("utf-8")
        for file in PACKAGE.rglob("*.py")
    }


def test_docstrings_refer_to_what_there_is():
    assert dead_references(sources()) == []
    old = {"package.steps.settings": '"""See :mod:`package.steps.elements` and :func:`gone`."""'}
    assert len(dead_references(sources() | old)) == 2


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
    if public in (draw_effects, group_log_likelihood):
        globs["step"] = panel_step()
    example = doctest.DocTestParser().get_doctest(public.__doc__, globs, public.__name__, None, 0)
    said: list[str] = []
    results = doctest.DocTestRunner(verbose=False).run(example, out=said.append)
    assert results.failed == 0, "".join(said)
