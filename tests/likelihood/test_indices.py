"""Rows that choose what is not there are refused before anything compiled reads it."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from every import every
from pymc_minibatch_mh import PenaltyMH, TunaMH
from pymc_minibatch_mh.errors import UnsupportedModelError
from pymc_minibatch_mh.likelihood.factorization import factorize

N, GROUPS = 2_000, 8
RNG = np.random.default_rng(4)
Y = RNG.normal(size=N)
X = RNG.normal(size=(N, 3))


def groups(row=None, index=None):
    chosen = np.arange(N) % GROUPS
    if row is not None:
        chosen[row] = index
    return chosen


def intercepts(chosen):
    a = pm.Normal("a", shape=GROUPS)
    return a[chosen]


def slopes(chosen):
    b = pm.Normal("b", shape=(GROUPS, 3))
    return (b[chosen] * X).sum(axis=1)


def from_one(chosen):
    return intercepts(pm.Data("g", chosen + 1) - 1)


def table(chosen):
    return pm.math.exp(pm.Normal("s")) * pm.Data("t", np.linspace(0.0, 1.0, GROUPS))[chosen]


def through_a_factor(chosen):
    z = pm.Normal("z", shape=GROUPS)
    # At zero there is no factor.
    factor = pt.linalg.cholesky(pt.outer(z, z) + pt.exp(z[0]) * z[1] * np.eye(GROUPS))
    return (factor @ z)[chosen]


def as_a_graph(chosen):
    a = pm.Normal("a", shape=GROUPS)
    b = pm.Normal("b", shape=10)
    return a[chosen] + pm.math.tanh(np.outer(Y, np.ones(10)) * b).sum(axis=1)


WAYS = {f.__name__: f for f in (intercepts, slopes, from_one, table, through_a_factor, as_a_graph)}


def model_of(way, chosen):
    with pm.Model() as model:
        pm.Normal("y", WAYS[way](chosen), 1.0, observed=Y)
    return model


@every("way", WAYS)
@every("index", [GROUPS, -GROUPS - 1, 100_000_000])
def test_an_index_out_of_range_is_refused_with_its_row(way, index):
    model = model_of(way, groups(17, index))
    with pytest.raises(UnsupportedModelError, match=rf"^'y' chooses entry {index} in row 17 of"):
        factorize(model, model.value_vars)


@every("way", WAYS)
def test_indices_in_range_are_read(way):
    model = model_of(way, groups(17, -GROUPS))
    assert factorize(model, model.value_vars).terms[0].n_rows == N


@every("method", [TunaMH, PenaltyMH])
def test_a_step_on_groups_that_were_set_out_of_range_is_refused(method):
    model = model_of("from_one", groups())
    method(model=model)
    with model:
        pm.set_data({"g": groups(3, 200) + 1})
        with pytest.raises(UnsupportedModelError, match="chooses entry 200 in row 3 of something"):
            method()
