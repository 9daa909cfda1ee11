"""Parameter checks become conditions of single rows."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from likelihood.reading import evaluate, split_of
from pymc_minibatch_mh.likelihood import axis
from pymc_minibatch_mh.likelihood.parameters import always_holds, conditions

SHARE = np.array([0.5, 1.0, 2.0, 0.25])
OUTCOME = np.array([0, 1, 1, 1], dtype="int8")


def linear_probability():
    with pm.Model() as model:
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli("y", p=slope * SHARE, observed=OUTCOME)
    return model


def rows_at(model, position):
    parts = split_of(model)
    (term,) = parts.terms
    batches = [batch for _, batch in term.batches]
    values = [column.rows_first for column, _ in term.batches]
    return evaluate(
        [parts.position, term.length, *batches],
        term.logp,
        [np.array(position), len(OUTCOME), *values],
    )


def rows_outside_their_bounds_are_impossible(model):
    rows = rows_at(model, [0.9])
    probability = 0.9 * SHARE
    expected = np.where(OUTCOME == 1, np.log(probability), np.log1p(-probability))
    expected[probability > 1.0] = -np.inf
    return np.allclose(rows, expected)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_row_outside_the_bounds_of_its_parameter_is_impossible():
    assert rows_outside_their_bounds_are_impossible(linear_probability())


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_dropping_the_conditions_is_noticed(monkeypatch):
    monkeypatch.setattr(axis, "always_holds", lambda condition: True)
    assert not rows_outside_their_bounds_are_impossible(linear_probability())


def test_a_condition_on_shared_parameters_guards_every_row():
    with pm.Model() as model:
        scale = pm.Normal("scale", 0.0, 1.0)
        pm.Normal("y", 0.0, scale, observed=OUTCOME.astype(float))
    assert np.isneginf(rows_at(model, [-1.0])).all()
    assert np.isfinite(rows_at(model, [1.0])).all()


@pytest.mark.parametrize(
    "condition",
    [
        lambda u: pt.ge(pt.sigmoid(u), 0.0),
        lambda u: pt.le(pt.sigmoid(u), 1.0),
        lambda u: pt.gt(pt.exp(u), 0.0),
        lambda u: pt.gt(pt.exp(u) ** -2.0 * pt.sign(pt.exp(u)), 0.0),
        lambda u: pt.ge(pt.sqr(u) + pt.exp(u), 0.0),
        lambda u: pt.gt(pt.exp(u[0]), 0.0),
    ],
)
def test_a_condition_that_always_holds_is_seen(condition):
    assert always_holds(condition(pt.vector("u")))


@pytest.mark.parametrize(
    "condition",
    [
        lambda u: pt.gt(u, 0.0),
        lambda u: pt.ge(pt.exp(u), 1.0),
        lambda u: pt.le(pt.sigmoid(u), 0.5),
        lambda u: pt.gt(u**2, 0.0),
        lambda u: pt.gt(pt.exp(u) - pt.exp(2.0 * u), 0.0),
        lambda u: pt.gt(pt.exp(u) * u, 0.0),
        lambda u: pt.lt(pt.exp(u), 0.0),
    ],
)
def test_a_condition_that_can_fail_is_kept(condition):
    assert not always_holds(condition(pt.vector("u")))


def test_a_joint_check_is_taken_apart():
    u = pt.vector("u")
    leaves = conditions(pt.all([pt.all(u > 0.0), pt.all(u < 1.0)]))
    assert len(leaves) == 2
    assert all(leaf.type.ndim == 1 for leaf in leaves)
