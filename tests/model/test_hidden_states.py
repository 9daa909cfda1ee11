"""Hidden states that are summed over, one for the rows of each observation."""

import importlib
from importlib.util import find_spec

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from pytensor.scan.basic import scan

from helpers.hidden_states import STATES, summed_over
from model.evaluation import assert_read_rightly, evaluate, split_of
from pymc_minibatch_mh.errors import UnsupportedModelError


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("groups", [41, 7])  # 7 are as many as there are states of a count
def test_a_group_with_one_state_is_an_observation(name, groups):
    most = {"most": 6} if name == "counts" else {}
    model = STATES[name](np.random.default_rng(3), groups, **most)
    parts = split_of(model)
    assert_read_rightly(model, parts)
    assert [term.n_rows for term in parts.terms] == [groups]


def two_scales(rng, rows=7):
    """Two states of which one may have an impossible scale."""
    values = rng.normal(size=(rows, 3))
    logp = summed_over(
        lambda size, first, second: pm.Bernoulli.dist(0.5, size=size),
        lambda z, first, second: pm.Normal.dist(
            0.0, pm.math.switch(z, first, second)[:, None] + np.zeros(3)
        ),
        2,
    )
    with pm.Model() as model:
        first, second = pm.Normal("first"), pm.Normal("second")
        pm.CustomDist("y", first, second, logp=logp, signature="(),()->(3)", observed=values)
    return model


def test_an_impossible_parameter_of_one_state_makes_rows_impossible():
    parts = split_of(two_scales(np.random.default_rng(5)))
    (term,) = parts.terms
    inputs = [parts.position, term.length, *(batch for _, batch in term.batches)]
    data = [column.rows_first for column, _ in term.batches]
    for first, second in [(1.0, 2.0), (1.0, -2.0), (-1.0, 2.0)]:
        rows = evaluate(inputs, term.logp, [np.array([first, second]), 7, *data])
        assert np.isfinite(rows).all() == (min(first, second) > 0.0)
        assert np.isneginf(rows).all() == (min(first, second) < 0.0)


def test_what_depends_on_one_state_is_one_term():
    """As pymc_extras writes it: one variable has the log-density of both, the other one 0."""
    rng = np.random.default_rng(6)
    others = rng.normal(size=40)
    with pm.Model() as model:
        b = pm.Normal("b")
        pm.CustomDist("both", b, logp=lambda y, b: -((y - b) ** 2) - (others - b) ** 2,
                      observed=rng.normal(size=40))  # fmt: skip
        pm.CustomDist("rest", b, logp=lambda y, b: pt.constant(0), observed=others)
    parts = split_of(model)
    assert [term.name for term in parts.terms] == ["both"]
    assert_read_rightly(model, parts)


def chain_logp(value, p):
    step = lambda y, before, p: pt.logaddexp(before + pt.log(p), y)  # noqa: E731
    return scan(step, [value.T], [value[:, 0]], [p], return_updates=False)[-1]


def nested_logp(value, p):
    inner = pt.matrix("inner")
    total = pt.logsumexp(inner, axis=0)
    return pt.logsumexp(vectorize_graph(total, {inner: value.T[None] * pt.ones((2, 1, 1)) * p}), 0)


@pytest.mark.parametrize(
    ("logp", "reason"),
    [
        (chain_logp, r"a scan runs along an axis, as over the coupled states of a hidden Markov"),
        (nested_logp, r"sums over several hidden states, one inside another.*all combinations"),
    ],
)
def test_coupled_and_nested_states_are_refused_by_name(logp, reason):
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        pm.CustomDist("y", p, logp=logp, signature="()->(3)", observed=np.ones((20, 3)))
    with pytest.raises(UnsupportedModelError, match=rf"^'y' cannot be split.*{reason}"):
        split_of(model)


def marginalized(rng, dependents):
    seen = rng.integers(0, 2, size=(30, 5))
    with pm.Model() as model:
        p, psi = pm.Beta("p", 1, 1), pm.Beta("psi", 1, 1)
        z = pm.Bernoulli("z", psi, shape=30)
        pm.Bernoulli("y", (z * p)[:, None] * np.ones((1, 5)), observed=seen)
        if dependents == 2:
            pm.Normal("v", z[:, None] * p, observed=rng.normal(size=(30, 2)))
    return importlib.import_module("pymc_extras").marginalize(model, ["z"])


# pymc_extras asks for another release of PyMC than most environments have.
if find_spec("pymc_extras"):

    @pytest.mark.parametrize("dependents", [1, 2])
    def test_states_that_pymc_extras_sums_over_are_read(dependents):
        model = marginalized(np.random.default_rng(8), dependents)
        parts = split_of(model)
        assert len(parts.terms) == 1
        assert_read_rightly(model, parts)
