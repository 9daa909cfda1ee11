"""A second step on the same model asks for nothing that the first has found."""

import gc
import weakref

import numpy as np
import pymc as pm
import pytest

from helpers.zoo import sample
from pymc_minibatch_mh import PenaltyMH, RandomWalk, TunaMH
from pymc_minibatch_mh.compiled import form_rows
from pymc_minibatch_mh.reference.target import Target

N = 3_000


def logistic(seed=5):
    """A model whose data can be set."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, N)
    y = (rng.random(N) < 1.0 / (1.0 + np.exp(-(0.3 + x)))).astype(float)
    with pm.Model() as model:
        b = pm.Normal("b", 0.0, 3.0, shape=2)
        pm.Bernoulli("y", logit_p=b[0] + b[1] * pm.Data("x", x), observed=y)
    return model


@pytest.fixture
def expansions(monkeypatch):
    """Orders and temperatures at which a model was expanded."""
    found = []
    expand = Target.expand

    def counted(self, *arguments):
        found.append((self.taylor_order, self.inverse_temperature))
        return expand(self, *arguments)

    monkeypatch.setattr(Target, "expand", counted)
    return found


def draws_of(model, step):
    return sample(model, step, 50, 50, chains=1, random_seed=3).posterior["b"].values


def test_a_second_step_is_the_first_one_over_again(expansions):
    model = logistic()
    first, second = TunaMH(model=model), TunaMH(model=model, proposal=RandomWalk())
    assert len(expansions) == 1
    assert second.target.compiled is first.target.compiled
    assert second.tables is first.tables
    np.testing.assert_array_equal(draws_of(model, first), draws_of(model, TunaMH(model=model)))


def test_order_and_temperature_share_only_what_is_compiled(expansions):
    model = logistic()
    first, warm = TunaMH(model=model), TunaMH(model=model, temperature=2.0)
    low = TunaMH(model=model, taylor_order=1)
    assert expansions == [(2, 1.0), (2, 0.5), (1, 1.0)]
    assert first.target.compiled is warm.target.compiled is low.target.compiled
    assert warm.tables is not first.tables


@pytest.mark.parametrize(
    "setting",
    [
        {"weights": np.linspace(0.5, 1.5, N)},
        {"initial_point": {"b": np.array([0.4, 0.9])}},
        {"observed": ["y"]},
    ],
    ids=["weights", "start", "observed"],
)
def test_other_requests_are_read_anew(expansions, setting):
    model = logistic()
    first = TunaMH(model=model)
    assert TunaMH(model=model, **setting).target.compiled is not first.target.compiled
    assert len(expansions) == 2


def test_weights_that_were_edited_are_other_weights(expansions):
    model, weights = logistic(), np.linspace(0.5, 1.5, N)
    first = TunaMH(model=model, weights=weights)
    TunaMH(model=model, weights=weights.copy())
    assert len(expansions) == 1
    weights[:10] = 3.0
    second = TunaMH(model=model, weights=weights)
    assert len(expansions) == 2
    assert not np.array_equal(second.reference.centre, first.reference.centre)


def test_other_data_are_read_anew(expansions):
    model = logistic()
    first = TunaMH(model=model)
    with model:
        pm.set_data({"x": 0.5 * model["x"].get_value()})
    second = TunaMH(model=model)
    assert len(expansions) == 2
    assert second.reference.centre[1] == pytest.approx(2.0 * first.reference.centre[1], rel=0.1)


def test_a_changed_model_is_read_anew(expansions):
    model = logistic()
    first = TunaMH(model=model)
    with model:
        pm.Potential("more", -50.0 * (model["b"][0] - 1.0) ** 2)
    second = TunaMH(model=model)
    assert len(expansions) == 2
    assert abs(second.reference.centre[0] - first.reference.centre[0]) > 0.05


def test_what_is_shared_goes_with_the_model():
    model = logistic()
    watch = weakref.ref(model), weakref.ref(TunaMH(model=model).target.compiled)
    assert watch[1]() is not None
    del model
    gc.collect()
    assert [known() for known in watch] == [None, None]


def test_what_is_computed_from_data_is_kept_once():
    rng = np.random.default_rng(8)
    x = rng.uniform(1.0, 2.0, N)
    with pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.Normal("y", b[0] + b[1] * pm.math.log(pm.Data("x", x)), 1.0, observed=x)
    steps = [TunaMH(model=model), PenaltyMH(model=model)]
    (function,) = steps[0].target.row_functions
    (array,) = form_rows._computed[function].values()
    layouts = [layout for step in steps for layout in step.target.rows._layouts]
    assert all(any(kept is array for kept in layout._kept) for layout in layouts)
    watch = weakref.ref(array)
    del model, steps, function, array, layouts
    gc.collect()
    assert watch() is None
