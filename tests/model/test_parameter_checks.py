"""Parameter checks become conditions of single rows."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor import scalar
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.traversal import ancestors, walk
from pytensor.tensor.rewriting.basic import topo_unconditional_constant_folding
from pytensor.tensor.shape import Shape

from model.evaluation import evaluate, split_of
from pymc_minibatch_mh.model.parameter_checks import always_holds

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


def test_a_row_outside_the_bounds_of_its_parameter_is_impossible():
    probability = 0.9 * SHARE
    with np.errstate(invalid="ignore"):
        rows = rows_at(linear_probability(), [0.9])
        expected = np.where(OUTCOME == 1, np.log(probability), np.log1p(-probability))
    expected[probability > 1.0] = -np.inf
    np.testing.assert_allclose(rows, expected)


def test_a_condition_on_shared_parameters_guards_every_row():
    with pm.Model() as model:
        scale = pm.Normal("scale", 0.0, 1.0)
        pm.Normal("y", 0.0, scale, observed=OUTCOME.astype(float))
    assert np.isneginf(rows_at(model, [-1.0])).all()
    assert np.isfinite(rows_at(model, [1.0])).all()


def folded(condition):
    """Return a condition with its constants computed, as PyMC hands it over."""
    graph = FunctionGraph(outputs=[condition], clone=True)
    topo_unconditional_constant_folding.apply(graph)
    return graph.outputs[0]


def shares(u, axis=1):
    parts = pt.exp(u[:, None] + u[None, :] if u.ndim == 1 else u)
    return parts / parts.sum(axis=axis, keepdims=True)


def transposed_shares(u):
    parts = pt.exp(u[:, None] - u[None, :])
    return parts / parts.sum(axis=1)


def lapsing(lapse, p):
    return lapse + (1.0 - 2.0 * lapse) * p


def side_by_side(*columns):
    return pt.stack(columns, axis=1)


s, w = pt.sigmoid, pt.special.softmax
GUESS = np.array([0.1, 0.2, 0.5])


@pytest.mark.parametrize(
    "condition",
    [
        lambda u: pt.le(lapsing(s(u[0]), s(u)), 1.0) & pt.gt(lapsing(s(u[0]), s(u)), 0.0),
        lambda u: pt.lt(lapsing(s(u)[np.array([0, 1, 0, 3])], s(2.0 * u)), 1.0),
        lambda u: pt.le(s(u[1]) + (1.0 - s(u[1]) - s(u[0])) * s(u), 1.0),
        lambda u: pt.ge(s(u[1]) + (1.0 - s(u[1]) - s(u[0])) * s(u), 0.0),
        lambda u: pt.le(w(u[:3])[0] + w(u[:3])[1] * s(u), 1.0),
        lambda u: pt.le(w(u[:3])[-1] + w(u[:3])[0], 1.0),
        lambda u: pt.le(2.0 * s(u) * (1.0 - s(u)), 1.0),
        lambda u: pt.le(side_by_side(s(u) ** 2, 2.0 * s(u) * (1.0 - s(u)), (1.0 - s(u)) ** 2), 1.0),
        lambda u: pt.isclose(
            side_by_side(s(u) ** 2, 2.0 * s(u) * (1.0 - s(u)), (1.0 - s(u)) ** 2).sum(axis=1), 1.0
        ),
        lambda u: pt.le(s(u) + s(2.0 * u) - s(u) * s(2.0 * u), 1.0),
        lambda u: pt.le(w(u) * s(u[0]) + (1.0 - s(u[0])) * w(2.0 * u), 1.0),
        lambda u: pt.le((w(u) * s(3.0 * u)).sum(), 1.0),
        lambda u: pt.le(pt.dot(w(u[None, :] * u[:, None], axis=1), s(u)), 1.0),
        lambda u: pt.le(pt.dot(np.full((2, 4), 0.25), s(u)), 1.0),
        lambda u: pt.isclose((s(u[0]) / 4.0 + (1.0 - s(u[0])) * w(u)).sum(), 1.0),
        lambda u: pt.gt(1.0 - pt.exp(-pt.exp(u)), 0.0),
        lambda u: pt.le(lapsing(s(u[0]), 1.0 - pt.exp(-pt.exp(u))), 1.0),
        lambda u: pt.le(0.5 + pt.arctan(u) / np.pi, 1.0),
        lambda u: pt.le(0.5 * (1.0 + pt.tanh(u)), 1.0),
        lambda u: pt.lt(1.0 / (1.0 + pt.exp(-u)), 1.0),
        lambda u: pt.lt(pt.exp(u) / (pt.exp(u) + pt.exp(u[0])), 1.0),
        lambda u: pt.le(s(u[0]) + (1.0 - s(u[0])) * pt.exp(u) / (2.0 + pt.exp(u)), 1.0),
        lambda u: pt.le(s(u[0]) + (1.0 - s(u[0])) * pt.clip(u, 0.1, 0.9), 1.0),
        lambda u: pt.le(GUESS + (1.0 - GUESS) * s(u[:3]), 1.0),
        lambda u: pt.le(pytensor.shared(GUESS) + (1.0 - GUESS) * s(u[:3]), 1.0),
        lambda u: pt.le(1.0 - pt.prod(1.0 - s(u)), 1.0),
        lambda u: pt.le(pt.cumsum(w(u)), 1.0),
        lambda u: pt.le(pt.cumprod(1.0 - s(u)), 1.0),
        lambda u: pt.le(pt.concatenate([s(u), w(u)]), 1.0),
        lambda u: pt.le(pt.switch(u > 0.0, s(u), 1.0), 1.0),
        lambda u: pt.le(sum(s(k * u) for k in range(1, 21)) / 20.0, 1.0),
        lambda u: pt.le(s(u) ** pt.exp(u[0]), 1.0),
        lambda u: pt.le(pt.gammainc(2.0, pt.exp(u)), 1.0),
    ],
)
def test_shares_are_seen_to_stay_shares(condition):
    assert always_holds(folded(condition(pt.vector("u", shape=(4,)))))


@pytest.mark.parametrize(
    "condition",
    [
        lambda u: pt.le(s(u[0]) + (1.0 - s(u[0])) * 1.1 * s(u), 1.0),
        lambda u: pt.le(s(u[0]) + s(u), 1.0),
        lambda u: pt.ge(s(u[0]) - s(u), 0.0),
        lambda u: pt.le(s(u[0]) + s(u) - 0.9 * s(u[0]) * s(u), 1.0),
        lambda u: pt.le(3.0 * s(u) * (1.0 - s(u)), 0.7),
        # The same entry twice, and different entries of one tensor.
        lambda u: pt.le(w(u[:3])[-1] + w(u[:3])[2], 1.0),
        lambda u: pt.le(w(u)[u.shape[0] - 1] + w(u)[3], 1.0),
        lambda u: pt.le(2.0 * s(u)[:, None] * (1.0 - s(u)[None, :]), 1.0),
        lambda u: pt.le(2.0 * s(u)[::-1] * (1.0 - s(u)), 1.0),
        lambda u: pt.gt(1.0 - w(u[:3])[0] - w(u[:3])[1] - w(u[:3])[2], 0.0),
        lambda u: pt.lt(w(u)[0], 1.0),
        lambda u: pt.le((w(u[None, :] * u[:, None], axis=0) * s(u)).sum(axis=1), 1.0),
        lambda u: pt.le(pt.dot(s(u[None, :] * u[:, None]), w(2.0 * u)) + 0.01, 1.0),
        lambda u: pt.le(pt.dot(s(u[None, :] * u[:, None]), s(u)), 1.0),
        lambda u: pt.le(pt.dot(np.full((2, 4), 0.3), s(u)), 1.0),
        lambda u: pt.le(pt.exp(u) / (pt.exp(u) + u), 1.0),
        lambda u: pt.lt(pt.exp(u) / (pt.exp(u) + pt.sqr(u)), 1.0),
        lambda u: pt.le(pt.exp(u) / (1.0 + pt.exp(2.0 * u)), 0.1),
        lambda u: pt.le(pt.sqr(pt.exp(u)) * 1.0 * pt.exp(u) / (1.0 + pt.exp(u)), 1.0),
        lambda u: pt.le((2.0 + s(u)) * (2.0 + s(u)) / (3.0 + s(u)), 1.0),
        lambda u: pt.le(1.0 / (1.0 - s(u)), 1.0),
        lambda u: pt.le(GUESS + (1.1 - GUESS) * s(u[:3]), 1.0),
        lambda u: pt.le(GUESS + (1.0 - GUESS[::-1]) * s(u[:3]), 1.0),
        lambda u: pt.ge(pt.log(s(u)), -1.0),
        lambda u: pt.le(pt.log(pt.sqr(u)), 1.0),
        lambda u: pt.le(pt.switch(u > 0.0, s(u), 1.1), 1.0),
        lambda u: pt.ge(pt.sqrt(u), 0.0),
        lambda u: pt.le(pt.exp(-u), 1.0),
        lambda u: pt.ge(pt.cos(u), -0.9),
        lambda u: pt.lt(pt.cumsum(w(u)), 1.0),
    ],
)
def test_what_may_be_no_share_is_kept(condition):
    assert not always_holds(folded(condition(pt.vector("u", shape=(4,)))))


@pytest.mark.parametrize(
    "condition",
    [
        lambda u: pt.ge(pt.sigmoid(u), 0.0),
        lambda u: pt.le(pt.sigmoid(u), 1.0),
        lambda u: pt.gt(pt.exp(u), 0.0),
        lambda u: pt.gt(pt.exp(u) ** -2.0 * pt.sign(pt.exp(u)), 0.0),
        lambda u: pt.ge(pt.sqr(u) + pt.exp(u), 0.0),
        lambda u: pt.gt(pt.exp(u[0]), 0.0),
        lambda u: pt.gt(pt.erfc(u), 0.0),
        lambda u: pt.le(0.5 * pt.erfc(u), 1.0),
        lambda u: pt.le(3.0 * (0.25 * pt.sigmoid(u)), 1.0),
        lambda u: pt.gt(1.0 - pt.sigmoid(u), 0.0),
        lambda u: pt.le(1.0 - pt.sigmoid(u), 1.0),
        lambda u: pt.gt((1.0 - pt.sigmoid(u)) * pt.exp(u) / 3.0, 0.0),
        lambda u: pt.gt(1.0 - 0.5 * pt.erfc(u), 0.0),
        lambda u: pt.ge(1.0 - pt.stack([pt.sigmoid(u[0]), 1.0]), 0.0),
        lambda u: pt.gt(pt.stack([pt.sigmoid(u[0]), 1.0 - pt.sigmoid(u[0])]), 0.0),
        lambda u: pt.le(pt.stack([pt.sigmoid(u[0]), 1.0 - pt.sigmoid(u[0])]), 1.0),
        lambda u: pt.gt(pt.cast(pt.exp(u), "float32"), 0.0),
        lambda u: pt.and_(pt.exp(u) > 0.0, pt.or_(u > 0.0, pt.sigmoid(u) <= 1.0)),
        lambda u: pt.isclose(pt.special.softmax(u).sum(), 1.0),
        lambda u: pt.isclose(pt.special.softmax(u[None, :], axis=1).sum(axis=1), 1.0),
        lambda u: pt.isclose(shares(u[:1, None], axis=0).sum(axis=0), 1.0),
        lambda u: pt.all(pt.gt(shares(u), 0.0)) & pt.all(pt.le(shares(u), 1.0), axis=0),
        lambda u: pt.all(pt.le(pt.special.softmax(u), 1.0)),
        lambda u: pt.ge(1.0 - pt.special.softmax(u), 0.0),
        lambda u: pt.isclose(shares(u).sum(axis=1), 1.0),
        lambda u: pt.isclose(shares(u).T.sum(axis=0), 1.0),
        lambda u: pt.isclose(pt.special.softmax(u)[None, :].sum(axis=1), 1.0),
        lambda u: pt.isclose(shares(u)[np.array([0, 0, 1])].sum(axis=1), 1.0),
        lambda u: pt.isclose(shares(u)[np.array([[0, 1], [1, 1]])].sum(axis=2), 1.0),
    ],
)
def test_a_condition_that_always_holds_is_seen(condition):
    assert always_holds(folded(condition(pt.vector("u"))))


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
        lambda u: pt.le(pt.erfc(u), 1.0),
        lambda u: pt.le(0.6 * pt.erfc(u), 1.0),
        lambda u: pt.le(-0.5 * pt.erfc(u), -0.1),
        lambda u: pt.le(pt.exp(u) * pt.sigmoid(u), 1.0),
        lambda u: pt.gt(1.0 - pt.exp(u), 0.0),
        lambda u: pt.gt(0.9 - pt.sigmoid(u), 0.0),
        lambda u: pt.gt(1.0 - pt.erfc(u), 0.0),
        lambda u: pt.gt(1.0 - pt.stack([pt.sigmoid(u[0]), 1.0]), 0.0),
        lambda u: pt.gt(pt.sigmoid(u) - 1.0, 0.0),
        lambda u: pt.le(1.0 - u, 1.0),
        lambda u: pt.le(2.0 - pt.sigmoid(u), 1.0),
        lambda u: pt.gt(pt.stack([pt.exp(u[0]), u[1]]), 0.0),
        lambda u: pt.le(pt.stack([pt.sigmoid(u[0]), pt.exp(u[1])]), 1.0),
        lambda u: pt.gt(pt.cast(pt.exp(u), "int64"), 0),
        lambda u: pt.ge(pt.cast(pt.exp(u), "int8"), 0),
        lambda u: pt.ge(pt.sqr(u) / pt.sqr(u), 0.0),
        lambda u: pt.and_(pt.exp(u) > 0.0, u > 0.0),
        lambda u: pt.or_(u > 0.0, u < 1.0),
        lambda u: ~pt.isnan(u),
        lambda u: pt.isclose(u.sum(), 1.0),
        lambda u: pt.isclose(pt.special.softmax(u).sum(), 0.9),
        lambda u: pt.isclose(pt.special.softmax(u).sum(), 1.0, rtol=0.0, atol=0.0),
        lambda u: pt.isclose(pt.special.softmax(u[None, :], axis=1).sum(axis=0), 1.0),
        lambda u: pt.isclose(pt.exp(u).sum(), 1.0),
        lambda u: pt.isclose((u / u.sum(keepdims=True)).sum(), 1.0),
        lambda u: pt.le(u / u.sum(keepdims=True), 1.0),
        lambda u: pt.isclose((pt.exp(u) / pt.exp(2.0 * u).sum(keepdims=True)).sum(), 1.0),
        lambda u: pt.isclose(shares(u).sum(axis=0), 1.0),
        lambda u: pt.isclose(shares(u).sum(), 1.0),
        lambda u: pt.isclose(2.0 * shares(u).sum(axis=1), 1.0),
        lambda u: pt.isclose(shares(u).T.sum(axis=1), 1.0),
        lambda u: pt.isclose(pt.special.softmax(u)[None, :].sum(axis=0), 1.0),
        lambda u: pt.isclose(shares(u)[np.array([0, 0, 1])].sum(axis=0), 1.0),
        lambda u: pt.isclose(shares(u)[:, np.array([0, 0, 1])].sum(axis=1), 1.0),
        lambda u: pt.isclose(shares(u)[np.array([[0, 1], [1, 1]])].sum(axis=1), 1.0),
        lambda u: pt.isclose(pt.special.softmax(u)[np.array([0, 0, 1])].sum(), 1.0),
        lambda u: pt.isclose((u[None, :] * shares(u)).sum(axis=1), 1.0),
        lambda u: pt.isclose(transposed_shares(u).sum(axis=1), 1.0),
        lambda u: pt.gt(1.0 - pt.special.softmax(u), 0.0),
        lambda u: pt.le(pt.special.softmax(u), 0.9),
        lambda u: pt.all(pt.le(u, 1.0)),
    ],
)
def test_a_condition_that_can_fail_is_kept(condition):
    assert not always_holds(folded(condition(pt.vector("u"))))


CHECKED = {
    "softmax": lambda: pm.Categorical(
        "y", logit_p=SHARE[:, None] * pm.Normal("b", shape=3), observed=OUTCOME
    ),
    "simplex": lambda: pm.NormalMixture(
        "y", w=pm.Dirichlet("w", np.ones(3)), mu=np.arange(3.0), sigma=1.0, observed=SHARE
    ),
    "complement": lambda: pm.Bernoulli(
        "y", p=1.0 - pm.math.sigmoid(pm.Normal("b") * SHARE), observed=OUTCOME
    ),
    "probit": lambda: pm.Bernoulli(
        "y", p=pm.math.invprobit(pm.Normal("b") * SHARE), observed=OUTCOME
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_parameters_that_are_made_to_be_right_are_not_checked(name):
    with pm.Model() as model:
        CHECKED[name]()
    parts = split_of(model)
    (term,) = parts.terms
    asked = [
        v.owner.inputs[0]
        for v in ancestors([term.logp])
        if v.owner is not None and getattr(v.owner.op, "scalar_op", None) == scalar.switch
    ]
    assert parts.position in set(walk([term.logp], values_of))
    assert parts.position not in set(walk(asked, values_of))


def values_of(variable):
    shape = variable.owner is not None and isinstance(variable.owner.op, Shape)
    return () if shape or variable.owner is None else variable.owner.inputs
