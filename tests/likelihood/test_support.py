"""Where untransformed variables can lie."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from every import every
from likelihood.evaluation import split_of
from pymc_minibatch_mh.likelihood.factorization import support

INFINITE = (-np.inf, np.inf)


def support_of(build, **settings):
    with pm.Model() as model:
        variable = build("x", **settings)
    return tuple(end.tolist() for end in support(model, model.rvs_to_values[variable]))


BOUNDED = {
    "uniform": (lambda *a, **k: pm.Uniform(*a, -3.0, 2.0, **k), (-3.0, 2.0)),
    "uniform vector": (
        lambda *a, **k: pm.Uniform(*a, [-1.0, 0.0], 2.0, shape=2, **k),
        ([-1.0, 0.0], [2.0]),
    ),
    "computed ends": (
        lambda *a, **k: pm.Uniform(*a, -pt.sqrt(4.0), pt.exp(0.0) + 1, **k),
        (-2.0, 2.0),
    ),
    "half-normal": (lambda *a, **k: pm.HalfNormal(*a, 1.0, **k), (0.0, np.inf)),
    "gamma": (lambda *a, **k: pm.Gamma(*a, 2.0, 1.0, **k), (0.0, np.inf)),
    "beta": (lambda *a, **k: pm.Beta(*a, 2.0, 2.0, **k), (0.0, 1.0)),
    "truncated normal": (
        lambda *a, **k: pm.TruncatedNormal(*a, 0.0, 1.0, lower=-1.0, upper=4.0, **k),
        (-1.0, 4.0),
    ),
    "truncated normal on one side": (
        lambda *a, **k: pm.TruncatedNormal(*a, 0.0, 1.0, lower=-1.0, **k),
        (-1.0, np.inf),
    ),
    "truncated": (
        lambda *a, **k: pm.Truncated(*a, pm.Normal.dist(0.0, 1.0), lower=-1.0, upper=2.0, **k),
        (-1.0, 2.0),
    ),
    "triangular": (lambda *a, **k: pm.Triangular(*a, lower=1.0, c=2.0, upper=3.0, **k), (1.0, 3.0)),
}


@pytest.mark.usefixtures("no_compilation")
@every("name", BOUNDED)
def test_an_untransformed_variable_keeps_its_support(name):
    build, expected = BOUNDED[name]
    assert support_of(build, default_transform=None) == expected


@every("name", BOUNDED)
def test_a_transformed_variable_has_the_whole_line(name):
    build, _ = BOUNDED[name]
    assert support_of(build) == INFINITE


def test_a_variable_on_the_whole_line_has_no_ends():
    assert support_of(pm.Normal, default_transform=None) == INFINITE


def test_an_end_that_is_random_or_may_be_set_anew_is_unknown():
    with pm.Model() as model:
        top = pm.HalfNormal("top")
        bottom = pm.Data("bottom", -1.0)
        one = pm.Uniform("one", -1.0, top, default_transform=None)
        other = pm.Uniform("other", bottom, 5.0, default_transform=None)
    assert support(model, model.rvs_to_values[one]) == (-1.0, np.inf)
    assert support(model, model.rvs_to_values[other]) == (-np.inf, 5.0)


def test_the_split_lays_the_ends_along_the_position():
    with pm.Model() as model:
        a = pm.Uniform("a", [-1.0, -2.0], [3.0, 4.0], shape=2, default_transform=None)
        s = pm.HalfNormal("s", default_transform=None)
        t = pm.HalfNormal("t")
        pm.Normal("y", a[0] + a[1] + t, s, observed=np.zeros(5))
    parts = split_of(model)
    assert parts.lower.tolist() == [-1.0, -2.0, 0.0, -np.inf]
    assert parts.upper.tolist() == [3.0, 4.0, np.inf, np.inf]
