"""Effects that add up to zero are chosen by one coordinate, and the density is the same."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from model.evaluation import split_of
from pymc_minibatch_mh.expressions.graph import Gather
from pymc_minibatch_mh.reparametrize.non_centred import in_linear_coordinates
from pymc_minibatch_mh.reparametrize.zero_sum import ReferenceLevel, in_differences
from pymc_minibatch_mh.structure.row_function import lowered_rows
from reparametrize.mapped import check_the_map

N, G, K = 60, 7, 3
rng = np.random.default_rng(0)
home, away, kind = rng.integers(0, G, N), rng.integers(0, G, N), rng.integers(0, K, N)
one_hot, y = np.eye(G)[home], rng.integers(0, 2, N)


def logit(write):
    with pm.Model() as model:
        pm.Bernoulli("y", logit_p=pm.Normal("level") + write(), observed=y)
    return model


def differences():
    skill = pm.ZeroSumNormal("skill", shape=G)
    return skill[home] - skill[away]


def scaled_differences():
    skill = pm.HalfNormal("tau") * pm.ZeroSumNormal("skill", shape=G)
    return skill[home] - skill[away]


def one_a_row():
    return pm.ZeroSumNormal("skill", sigma=2.0, shape=G)[home]


def by_kind():
    return pm.ZeroSumNormal("skill", shape=(K, G))[kind, home]


MAPPED = {
    "differences": (differences, 3),
    "scaled differences": (scaled_differences, 3),
    "one a row": (one_a_row, 2 + G - 1),
    "of several kinds": (by_kind, 1 + K * G),
}


def terms_of(parts):
    return [t for row in lowered_rows(parts) for form in row.arguments.forms for t in form.terms]


def check(name):
    model = logit(MAPPED[name][0])
    parts = in_linear_coordinates(in_differences(split_of(model)))
    assert isinstance(parts.maps[0], ReferenceLevel)
    values = np.random.default_rng(1).standard_normal(parts.size)
    check_the_map(model, parts, values)


@pytest.mark.parametrize("name", MAPPED)
def test_the_density_is_the_same(name):
    check(name)


@pytest.mark.parametrize("name", MAPPED)
def test_data_choose_one_coordinate(name):
    write, most = MAPPED[name]
    terms = terms_of(in_linear_coordinates(in_differences(split_of(logit(write)))))
    assert len(terms) <= most
    assert any(isinstance(term.place, Gather) for term in terms)


@pytest.mark.parametrize(
    "write",
    [
        lambda: pt.dot(one_hot, pm.ZeroSumNormal("skill", shape=G)),
        lambda: pm.ZeroSumNormal("skill", shape=(K, G), n_zerosum_axes=2)[kind, home],
        lambda: pm.Normal("skill", shape=G)[home],
    ],
    ids=["all are read", "along two axes", "any sum"],
)
def test_others_stay(write):
    parts = split_of(logit(write))
    assert in_differences(parts) is parts
